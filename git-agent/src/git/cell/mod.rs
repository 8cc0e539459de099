//! A cell: a git directory of its own for a worktree, over the objects of the repository.
//!
//! While the worktree's `.git` file leads to the cell, everything that git does in the worktree happens there: commits,
//! stashes, configuration, garbage collection. Then the work is brought over: objects after a check, the branch by
//! compare-and-swap, the index as a copy. Nothing else of the cell is ever used outside: it may hold hooks, filters or
//! links to anywhere. So no git of ours runs on the cell, and its files are read without following links, up to a size.
//!
//! | file | owns |
//! |---|---|
//! | `make` | the content of a new cell |
//! | `settings` | the configuration in it |
//! | `link` | where the worktree's `.git` file leads |
//! | `look` | HEAD and refs of a cell |
//! | `objects` | bringing its objects over |
//! | `leave` | bringing index and operations over, and emptying the cell |

mod leave;
mod link;
mod look;
mod make;
mod objects;
mod settings;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};

pub use link::Way;
pub use look::{Seen, Stashed};
pub use make::Contents;

/// The largest file of a cell that is read: an index of a few million files.
const LARGEST: u64 = 1 << 30;
/// The largest file of a cell that is expected to be small: a ref, a message.
const SMALL: u64 = 1 << 20;

/// Operations that git began and did not end, with their own to-do lists. They stay in the cell for the next time: a list
/// may hold commands, which must not run outside.
const OPERATIONS: [&str; 8] = [
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "BISECT_START",
    "BISECT_LOG",
    "BISECT_NAMES",
    "BISECT_TERMS",
    "BISECT_EXPECTED_REV",
];

/// A cell by its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    dir: PathBuf,
}

impl Cell {
    /// Returns the cell in a directory, which may not exist yet.
    pub fn at(dir: &Path) -> Self {
        Cell {
            dir: dir.to_owned(),
        }
    }

    /// Returns its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Opens something in the cell. No part of the way may be a link: its target is outside, or another file.
    fn open_within(&self, name: impl AsRef<Path>, flags: OFlags) -> io::Result<OwnedFd> {
        let root = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.dir, root, Mode::empty())?;
        let way = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = flags | OFlags::CLOEXEC;
        let opened = rustix::fs::openat2(root, name.as_ref(), flags, Mode::empty(), way)?;
        Ok(opened)
    }

    /// Reads a file of the cell: a regular one, not through a link, not larger than allowed.
    fn read(&self, name: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        let name = name.as_ref();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        read_all(self.open_within(name, flags)?.into(), name, most)
    }

    /// Returns the names in a directory of the cell that are of one kind; none if there is no such directory.
    fn entries(&self, dir: impl AsRef<Path>, kind: FileType) -> io::Result<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let Ok(opened) = self.open_within(dir, flags) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&opened)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            let known = match entry.file_type() {
                // Some file systems do not say.
                FileType::Unknown => rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| {
                        FileType::from_raw_mode(stat.st_mode)
                    }),
                known => known,
            };
            if known == kind && name != "." && name != ".." {
                found.push(name.to_owned());
            }
        }
        Ok(found)
    }
}

/// Reads a regular file that another user of this directory may have replaced by anything.
fn read_plain(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Without waiting for the other end of a FIFO.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    read_all(opened.into(), path, most)
}

fn read_all(file: File, name: &Path, most: u64) -> io::Result<Vec<u8>> {
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > most {
        let message = format!("'{}' is not a file of a usual size", name.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the content of a file, or nothing if it is absent.
fn if_there(read: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
