//! The mark of an unfinished restore: durable before the first file changes, removed after the last.
//!
//! It is in the worktree's own git directory, and the restoring process holds it with flock. A mark without a holder
//! means that the process died, and that the files are a mix of two states.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::file::{Temporary, sync_dir};
use crate::git::object::Signature;
use crate::git::snapshot::capture::{Captured, Checkout};
use crate::git::snapshot::scan::Hidden;
use crate::git::{ObjectId, Repo};
use crate::process::files::Pinned;

/// The name of the mark in a worktree's git directory.
const MARK: &str = "agent-restoring";
/// How long to wait for another process that changes the files.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// A restore in progress. The mark stays if this is dropped before [`Restoring::end`].
#[derive(Debug)]
#[must_use]
pub struct Restoring {
    path: PathBuf,
    _held: File,
}

/// The target of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// The snapshot to restore.
    pub to: ObjectId,
    /// The commit of HEAD once the files are complete.
    pub done_at: Option<ObjectId>,
}

impl Restoring {
    /// Ends the restore: the files are complete.
    pub fn end(self) -> Result<()> {
        let cannot = || format!("cannot remove '{}'", self.path.display());
        fs::remove_file(&self.path).context(cannot)?;
        sync_dir(self.path.parent().unwrap_or(&self.path)).context(cannot)
    }
}

impl Repo {
    /// Marks a worktree before its files change. After an interruption the files are restored to `way`.
    pub fn begin_restoring(&self, at: &Checkout, way: Way) -> Result<Restoring> {
        let path = at.admin_dir.join(MARK);
        let cannot = || format!("cannot write '{}'", path.display());
        self.refuse_half(at)?;
        let mut mark = Temporary::create(&at.admin_dir, "agent-", 0o600).context(cannot)?;
        let mut text = format!("to {}\n", way.to);
        if let Some(done_at) = way.done_at {
            text.push_str(&format!("done-at {done_at}\n"));
        }
        mark.file.write_all(text.as_bytes()).context(cannot)?;
        mark.file.sync_all().context(cannot)?;
        let held = mark.file.try_clone().context(cannot)?;
        held.try_lock().context(cannot)?;
        mark.persist(&path).context(cannot)?;
        sync_dir(&at.admin_dir).context(cannot)?;
        fault::point("restoring.marked").context(cannot)?;
        Ok(Restoring { path, _held: held })
    }

    /// Returns whether a restore of a worktree's files is unfinished, running or not.
    pub fn is_half(&self, at: &Checkout) -> bool {
        fs::symlink_metadata(at.admin_dir.join(MARK)).is_ok()
    }

    /// Fails if a restore of a worktree's files is unfinished.
    pub(in crate::git) fn refuse_half(&self, at: &Checkout) -> Result<()> {
        if self.is_half(at) {
            Err(half(&at.top))
        } else {
            Ok(())
        }
    }

    /// Takes over an interrupted restore; returns `None` if there is none. Waits for a running one. A malformed mark has no
    /// way.
    pub fn take_up_restoring(&self, at: &Checkout) -> Result<Option<(Restoring, Option<Way>)>> {
        let path = at.admin_dir.join(MARK);
        let cannot = || format!("cannot read '{}'", path.display());
        let since = Instant::now();
        loop {
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(Error::fatal(cannot()).because(error)),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if since.elapsed() < PATIENCE => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::fatal(format!(
                        "another process is changing the files in '{}'",
                        at.top.display()
                    )));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(Error::fatal(cannot()).because(error));
                }
            }
            if !is_at(&file, &path) {
                continue;
            }
            let way = self.parse_way(&fs::read(&path).context(cannot)?);
            return Ok(Some((Restoring { path, _held: file }, way)));
        }
    }

    /// Returns the mark of a working tree if it does not say where the files were on their way to.
    pub fn malformed_mark(&self, at: &Checkout) -> Option<PathBuf> {
        let path = at.admin_dir.join(MARK);
        let text = fs::read(&path).ok()?;
        self.parse_way(&text).is_none().then_some(path)
    }

    fn parse_way(&self, text: &[u8]) -> Option<Way> {
        let text = std::str::from_utf8(text).ok()?;
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(name, _)| *name == key)?;
            self.parse_id(found.1).ok()
        };
        Some(Way {
            to: value("to")?,
            done_at: value("done-at"),
        })
    }

    /// Removes the index lock that a process left when it died during a restore. Unlike git's own it is empty, and it
    /// is held only briefly.
    pub fn remove_own_index_lock(&self, at: &Checkout) {
        let lock = crate::git::refs::lock_path(&at.admin_dir.join("index"));
        if let Some(lock) = Pinned::at(&lock)
            && lock.meta().len() == 0
            && lock.is_abandoned()
        {
            let _ = lock.remove();
        }
    }

    /// Returns the git directories of the linked worktrees with an unfinished restore.
    pub fn half_worktrees(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.common_dir().join("worktrees"));
        let entries = entries.into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|admin_dir| fs::symlink_metadata(admin_dir.join(MARK)).is_ok())
            .collect()
    }

    /// Records a worktree with an unfinished restore as a snapshot, without a ref. It is kept for the user to inspect,
    /// and never as a session's work.
    pub fn record_half(&self, at: &Checkout, who: &Signature) -> Result<ObjectId> {
        let mut captured: Captured = self.capture_anyway(at, Hidden::Look)?;
        let title = "files of an interrupted restore";
        self.write_snapshot(&mut captured, None, who, title, &[])
    }
}

fn half(top: &Path) -> Error {
    Error::fatal(format!(
        "the files in '{}' are half restored",
        top.display()
    ))
    .hint("git agent doctor --fix")
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(held), Ok(named)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (held.dev(), held.ino()) == (named.dev(), named.ino())
}
