//! Files that are replaced as a whole: a reader, or the next process after a crash, sees the old content or the new.
//!
//! Every file of ours that is written again goes through [`replace`], whose caller says what a power cut may take.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::error::{Context, Result};

/// What a power cut may take from a file that was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: content and name are on the disk before the call returns. For records that exist nowhere else.
    Synced,
    /// Everything. For caches, for files that are written again before use, and for files about running processes.
    Volatile,
}

/// Replaces a file of this user, or creates it.
pub fn replace(path: &Path, bytes: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
    replace_with_mode(path, bytes.as_ref(), 0o600, durability)
}

/// Replaces a file by one with exactly this mode, or creates it.
pub fn replace_with_mode(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    durability: Durability,
) -> Result<()> {
    let write = || -> io::Result<()> {
        let new = write_beside(path, bytes, mode, durability)?;
        new.persist(path)?;
        sync_name(path, durability)
    };
    write().context(|| format!("cannot write '{}'", path.display()))
}

/// Creates a file durably, unless it exists: of several processes that try at once, one wins.
pub fn create_once(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        let new = write_beside(path, bytes, 0o600, Durability::Synced)?;
        match fs::hard_link(new.path(), path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            // A file system without hard links.
            Err(_) => new.persist(path)?,
            Ok(()) => {}
        }
        sync_name(path, Durability::Synced)
    };
    write().context(|| format!("cannot write '{}'", path.display()))
}

fn write_beside(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    durability: Durability,
) -> io::Result<Temporary> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut new = Temporary::create(parent(path), &format!(".{name}."), mode)?;
    // The umask must not decide.
    new.file.set_permissions(fs::Permissions::from_mode(mode))?;
    new.file.write_all(bytes)?;
    if durability == Durability::Synced {
        new.file.sync_all()?;
    }
    Ok(new)
}

fn sync_name(path: &Path, durability: Durability) -> io::Result<()> {
    match durability {
        Durability::Synced => sync_dir(parent(path)),
        Durability::Volatile => Ok(()),
    }
}

fn parent(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(path);
    if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    }
}

/// A file that removes itself unless it is given a final name.
#[derive(Debug)]
pub(crate) struct Temporary {
    pub(crate) file: File,
    path: RemovedOnDrop,
}

#[derive(Debug)]
struct RemovedOnDrop(PathBuf);

impl Temporary {
    /// Creates a file with a name of its own.
    pub(crate) fn create(dir: &Path, prefix: &str, mode: u32) -> io::Result<Self> {
        loop {
            let path = dir.join(format!("{prefix}{}-{:x}", std::process::id(), jitter()));
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(mode).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    let path = RemovedOnDrop(path);
                    return Ok(Temporary { file, path });
                }
            }
        }
    }

    /// Returns where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path.0
    }

    /// Gives it its final name, replacing the file that has it.
    pub(crate) fn persist(self, path: &Path) -> io::Result<()> {
        let Temporary {
            file,
            path: mut own,
        } = self;
        // A program that is open for writing cannot be started.
        drop(file);
        fs::rename(&own.0, path)?;
        own.0 = PathBuf::new();
        Ok(())
    }
}

impl Drop for RemovedOnDrop {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// A file that replaces another has its name long before this, unless its writer died.
const WRITTEN_BY_NOW: Duration = Duration::from_secs(60);

/// Returns the files in a directory that were to replace others when their writers died.
pub fn left_by_the_dead(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let name = entry.file_name();
        let writer = name.to_str().and_then(writer_of);
        let dead = writer.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH));
        let written = entry.metadata().and_then(|meta| meta.modified());
        let age = written.ok().and_then(|then| then.elapsed().ok());
        dead && age.is_some_and(|age| age > WRITTEN_BY_NOW)
    });
    left.map(|entry| entry.path()).collect()
}

/// Returns the writer named in `.<name>.<pid>-<hex>`, the name of a file that is to replace `<name>`.
fn writer_of(name: &str) -> Option<Pid> {
    let (name, suffix) = name.strip_prefix('.')?.rsplit_once('.')?;
    let (pid, jitter) = suffix.split_once('-')?;
    let is_ours = !name.is_empty() && u64::from_str_radix(jitter, 16).is_ok();
    Pid::from_raw(pid.parse().ok().filter(|_| is_ours)?)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Returns a number that differs between processes and calls, for file names and waiting times.
pub(crate) fn jitter() -> u64 {
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("readable").flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("record.json");
        for durability in [Durability::Synced, Durability::Volatile] {
            replace(&path, "old, and long", durability).expect("created");
            // An open file keeps its content: it was not written over.
            let open = File::open(&path).expect("opened");
            replace(&path, "new", durability).expect("replaced");
            let old = io::read_to_string(open).expect("readable");
            assert_eq!(old, "old, and long");
            assert_eq!(fs::read_to_string(&path).expect("readable"), "new");
        }
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        replace_with_mode(&path, b"run", 0o755, Durability::Volatile).expect("replaced");
        assert_eq!(mode(&path), 0o755);
        assert_eq!(names(dir.path()), ["record.json"], "nothing else is left");
    }

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("taken");
        fs::create_dir_all(path.join("below")).expect("a directory in the way");
        let error = replace(&path, "new", Durability::Synced).expect_err("cannot replace it");
        assert!(error.message().contains("taken"), "{}", error.message());
        assert!(path.join("below").is_dir());
        assert_eq!(names(dir.path()), ["taken"]);
    }

    #[test]
    fn only_the_names_of_files_that_replace_others_tell_a_writer() {
        let own = Pid::from_raw(4711);
        assert_eq!(writer_of(".record.json.4711-9f3a0c"), own);
        for name in [
            "record.json",
            ".4711-9f",
            ".a.b",
            ".a.4711",
            ".a.x-9f",
            ".a.4711-z",
            ".a.-9f",
        ] {
            assert_eq!(writer_of(name), None, "{name}");
        }
    }

    #[test]
    fn of_many_that_create_once_one_wins() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("writer");
        let contents: Vec<String> = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..8)
                .map(|number| {
                    let path = &path;
                    scope.spawn(move || {
                        create_once(path, number.to_string().as_bytes()).expect("there");
                        fs::read_to_string(path).expect("readable")
                    })
                })
                .collect();
            let ends = tries.into_iter().map(|one| one.join());
            ends.map(|end| end.expect("no panic")).collect()
        });
        assert!(
            contents.windows(2).all(|pair| pair[0] == pair[1]),
            "{contents:?}"
        );
        assert_eq!(names(dir.path()), ["writer"]);
    }
}
