//! The processes in a worktree beside the agent: the user's commands share it, and a command that removes it must be alone.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::FdFlags;

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::model::session::SessionId;
use crate::process::tree;
use crate::session::caller;

/// How often a lock is opened again that its last holder removed meanwhile.
const ATTEMPTS: usize = 100;
/// How many processes are named.
const NAMED: usize = 3;

/// Shared use of a worktree. It ends with the last process that inherited it.
#[derive(Debug)]
pub struct Presence(File);

impl Presence {
    /// Enters the worktree with this admin directory; `None` while another process removes it.
    pub fn enter(context: &Context<'_>, admin_dir: &Path) -> Result<Option<Self>> {
        let path = lock_file(context, admin_dir)?;
        Ok(take(&path, File::try_lock_shared)?.map(Presence))
    }

    /// Lets the program that this process becomes keep the place, and all that it starts.
    pub fn pass_on(&self) -> std::io::Result<()> {
        rustix::io::fcntl_setfd(&self.0, FdFlags::empty())?;
        Ok(())
    }
}

/// Exclusive use of a worktree.
#[derive(Debug)]
pub struct Alone {
    path: PathBuf,
    _file: File,
}

impl Alone {
    /// Takes the worktree with this admin directory; `None` while another process is in it.
    pub fn take(context: &Context<'_>, admin_dir: &Path) -> Result<Option<Self>> {
        let path = lock_file(context, admin_dir)?;
        Ok(take(&path, File::try_lock)?.map(|file| Alone { path, _file: file }))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // Removed while held, so that a process that opened it before sees that it is not the lock any more.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Describes the processes in a session's worktree.
pub fn who(sid: SessionId) -> String {
    let mut found: Vec<String> = tree::marked(caller::MARK, sid.as_str())
        .into_iter()
        .map(|stat| format!("{} (pid {})", stat.name, stat.pid))
        .collect();
    found.truncate(NAMED);
    let words = "a command of 'git agent exec', 'shell' or 'run' is in its worktree";
    if found.is_empty() {
        words.to_owned()
    } else {
        format!("{words}: {}", found.join(", "))
    }
}

fn lock_file(context: &Context<'_>, admin_dir: &Path) -> Result<PathBuf> {
    let id = admin_dir.file_name().unwrap_or_default().to_string_lossy();
    let locks = context.store.require_dir("locks")?;
    Ok(locks.join(format!("worktree-{id}")))
}

/// Takes a lock, shared or exclusive; `None` while another process holds it otherwise.
pub(crate) fn take(
    path: &Path,
    lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
) -> Result<Option<File>> {
    let cannot = || format!("cannot lock '{}'", path.display());
    let no_follow = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    for _ in 0..ATTEMPTS {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(no_follow)
            .open(path)
            .context(cannot)?;
        match lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error).context(cannot),
        }
        let named = std::fs::symlink_metadata(path).ok();
        let held = file.metadata().context(cannot)?;
        if named.is_some_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())) {
            return Ok(Some(file));
        }
    }
    Ok(None)
}
