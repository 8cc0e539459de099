//! Accesses the files of a worktree from its top, one directory at a time, without ever following a link on the way.
//!
//! An agent can replace a directory with a link to another place at any time. Every path here is relative to the top,
//! in git's form, and a link anywhere but at its end means that the path does not exist.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// An open worktree. Directories stay open while paths are requested in order.
#[derive(Debug)]
pub(in crate::git) struct Disk {
    top: OwnedFd,
    open: Vec<(Vec<u8>, OwnedFd)>,
}

/// The content of a path that a tree can hold.
#[derive(Debug)]
pub(in crate::git) enum Content {
    /// A file's bytes, and whether its owner may execute it.
    File(Vec<u8>, bool),
    /// A link's target.
    Link(Vec<u8>),
}

impl Disk {
    /// Opens a worktree.
    pub(in crate::git) fn open(top: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Disk {
            top: rustix::fs::open(top, flags, Mode::empty())?,
            open: Vec::new(),
        })
    }

    /// Opens the same worktree again, for another thread.
    pub(in crate::git) fn again(&self) -> io::Result<Self> {
        Ok(Disk {
            top: self.top.try_clone()?,
            open: Vec::new(),
        })
    }

    /// Returns the metadata of a path; `None` if it does not exist, or if a link or a file is in its way.
    pub(in crate::git) fn stat(&mut self, path: &[u8]) -> io::Result<Option<Stat>> {
        let (parent, name) = split(path);
        let Some(dir) = self.dir(parent)? else {
            return Ok(None);
        };
        absent_is_none(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Opens a regular file for reading; returns `None` if there is none.
    pub(in crate::git) fn open_file(&mut self, path: &[u8]) -> io::Result<Option<File>> {
        let (parent, name) = split(path);
        let Some(dir) = self.dir(parent)? else {
            return Ok(None);
        };
        // Without NONBLOCK, a pipe in place of the file would block forever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Some(file) = absent_is_none(rustix::fs::openat(dir, name, flags, Mode::empty()))?
        else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&file)?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(regular.then(|| File::from(file)))
    }

    /// Reads a file or a link; returns `None` if there is neither.
    pub(in crate::git) fn read(&mut self, path: &[u8]) -> io::Result<Option<Content>> {
        let Some(stat) = self.stat(path)? else {
            return Ok(None);
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let (parent, name) = split(path);
                let Some(dir) = self.dir(parent)? else {
                    return Ok(None);
                };
                let target = absent_is_none(rustix::fs::readlinkat(dir, name, Vec::new()))?;
                Ok(target.map(|target| Content::Link(target.into_bytes())))
            }
            FileType::RegularFile => {
                let Some(mut file) = self.open_file(path)? else {
                    return Ok(None);
                };
                let mode = rustix::fs::fstat(&file)?.st_mode;
                let mut data =
                    Vec::with_capacity(usize::try_from(stat.st_size).unwrap_or_default());
                file.read_to_end(&mut data)?;
                Ok(Some(Content::File(data, mode & 0o100 != 0)))
            }
            _ => Ok(None),
        }
    }

    /// Returns the names in a directory, and whether each is a directory.
    pub(in crate::git) fn list(&mut self, path: &[u8]) -> io::Result<Vec<(Vec<u8>, bool)>> {
        let Some(dir) = self.dir(path)? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(dir)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let stat = rustix::fs::statat(dir, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
            let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            found.push((name, is_dir));
        }
        Ok(found)
    }

    /// Replaces a regular file's bytes under the same name and mode, atomically.
    pub(in crate::git) fn replace(&mut self, path: &[u8], data: &[u8]) -> io::Result<()> {
        let Some(file) = self.open_file(path)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&file)?.st_mode & 0o777);
        let (parent, name) = split(path);
        let Some(dir) = self.dir(parent)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let temporary = format!(
            ".tmp-{}-{:x}",
            std::process::id(),
            crate::git::object::jitter()
        );
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(dir, &temporary, flags, mode)?);
        let written = file
            .write_all(data)
            .and_then(|()| Ok(rustix::fs::fchmod(&file, mode)?))
            .and_then(|()| Ok(rustix::fs::renameat(dir, &temporary, dir, name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(dir, &temporary, AtFlags::empty());
        }
        written
    }

    /// Removes a file or a link, and the directories above it that become empty.
    pub(in crate::git) fn remove(&mut self, path: &[u8]) -> io::Result<()> {
        let (mut parent, name) = split(path);
        let Some(dir) = self.dir(parent)? else {
            return Ok(());
        };
        absent_is_none(rustix::fs::unlinkat(dir, name, AtFlags::empty()))?;
        while !parent.is_empty() {
            self.open.clear();
            let (above, name) = split(parent);
            let Some(dir) = self.dir(above)? else { break };
            if rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR).is_err() {
                break;
            }
            parent = above;
        }
        Ok(())
    }

    /// Returns whether a file or link is in the place of one of the directories above a path.
    pub(in crate::git) fn is_blocked(&mut self, path: &[u8]) -> io::Result<bool> {
        for (end, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            match self.stat(&path[..end])? {
                None => return Ok(false),
                Some(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory => {
                    return Ok(true);
                }
                Some(_) => {}
            }
        }
        Ok(false)
    }

    /// Opens the directory at a path; returns `None` if there is none. The empty path is the top.
    fn dir(&mut self, path: &[u8]) -> io::Result<Option<BorrowedFd<'_>>> {
        if path.is_empty() {
            return Ok(Some(self.top.as_fd()));
        }
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let same = self
            .open
            .iter()
            .zip(&parts)
            .take_while(|((name, _), part)| name == *part)
            .count();
        self.open.truncate(same);
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        for part in &parts[same..] {
            let above = self
                .open
                .last()
                .map_or(self.top.as_fd(), |(_, fd)| fd.as_fd());
            match absent_is_none(rustix::fs::openat(above, *part, flags, Mode::empty()))? {
                None => return Ok(None),
                Some(fd) => self.open.push((part.to_vec(), fd)),
            }
        }
        Ok(self.open.last().map(|(_, fd)| fd.as_fd()))
    }
}

/// Returns whether a path from an index or a tree may be used below a worktree's top.
pub(in crate::git) fn is_safe(path: &[u8]) -> bool {
    !path.is_empty()
        && path.split(|byte| *byte == b'/').all(|part| {
            !part.is_empty()
                && part != b"."
                && part != b".."
                && !part.eq_ignore_ascii_case(b".git")
                && !part.contains(&0)
        })
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

fn absent_is_none<T>(result: rustix::io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        // LOOP is the error for opening a link without following it.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG | Errno::NXIO) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_on_the_way_are_never_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (top, outside) = (dir.path().join("top"), dir.path().join("outside"));
        fs::create_dir_all(top.join("real")).expect("directories");
        fs::create_dir(&outside).expect("a directory");
        fs::write(outside.join("secret"), "s").expect("a file");
        fs::write(top.join("real/file"), "f").expect("a file");
        symlink(&outside, top.join("link")).expect("a link");
        symlink(outside.join("secret"), top.join("leaf")).expect("a link");
        let mut disk = Disk::open(&top).expect("the top");
        assert!(disk.stat(b"real/file").expect("no error").is_some());
        assert!(disk.stat(b"link/secret").expect("no error").is_none());
        assert!(disk.read(b"link/secret").expect("no error").is_none());
        assert!(disk.open_file(b"leaf").expect("no error").is_none());
        assert!(matches!(disk.read(b"leaf"), Ok(Some(Content::Link(_)))));
        assert!(disk.replace(b"leaf", b"x").is_err());
        assert!(disk.replace(b"link/secret", b"x").is_err());
        assert_eq!(fs::read(outside.join("secret")).expect("a file"), b"s");
        disk.replace(b"real/file", b"new").expect("replaced");
        assert_eq!(fs::read(top.join("real/file")).expect("a file"), b"new");
    }

    #[test]
    fn paths_that_leave_the_tree_are_not_safe() {
        for path in [
            "", "/a", "a//b", "../a", "a/..", "a/.git/x", ".GIT", "a/", "a\0b",
        ] {
            assert!(!is_safe(path.as_bytes()), "{path:?}");
        }
        for path in ["a", "a/b", ".gitignore", "..a", "a/.github/x"] {
            assert!(is_safe(path.as_bytes()), "{path:?}");
        }
    }
}
