//! Read-only sessions: a reader in a worktree keeps writers out, and changes made meanwhile are undone.
//!
//! This does not stop a process that writes. Its changes are kept in a snapshot, the files are restored to their state
//! before the first reader, and the turn fails. Ignored files are not in a snapshot and stay.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Context as _, Result, shell_word};
use crate::git::ObjectId;
use crate::git::snapshot::Snapshot;
use crate::git::snapshot::capture::Checkout;
use crate::model::session::Session;
use crate::process::lock::Lock;
use crate::session::checks::dead_turns;
use crate::session::worktree::{presence, restore};

/// How many files are named.
const NAMED: usize = 5;

/// A session's hold on its worktree.
#[derive(Debug)]
pub enum Hold {
    /// The session writes, without other writers or readers.
    Writing {
        /// Held as long as it may write.
        _lock: Lock,
    },
    /// It reads, beside others that do.
    Reading(Reader),
}

impl Hold {
    /// Takes hold of a session's worktree; `None` while another session is in the way, which then holds a file in `locks`.
    pub fn take(context: &Context<'_>, session: &Session, locks: &Path) -> Result<Option<Self>> {
        let path = locks.join(format!("{}.lock", session.host()));
        let Some(lock) = Lock::try_acquire(context.env, path)? else {
            return Ok(None);
        };
        // Readers cannot come or go while the lock is held.
        let alone = presence::take(&readers(locks, session), File::try_lock)?;
        if alone.is_some() && !dead_turns::settle_readers(context, session)? {
            return Ok(None);
        }
        if !crate::session::worktree::setup::is_read_only(session) {
            return Ok(alone.map(|_| Hold::Writing { _lock: lock }));
        }
        if alone.is_some() {
            remove(&baseline(locks, session))?;
        }
        drop(alone);
        let shared = presence::take(&readers(locks, session), File::try_lock_shared)?;
        Ok(shared.map(|file| Hold::Reading(Reader(file))))
    }
}

/// Returns whether a session's worktree has no reader. The caller holds the worktree's lock.
pub fn is_unread(session: &Session, locks: &Path) -> Result<bool> {
    Ok(presence::take(&readers(locks, session), File::try_lock)?.is_some())
}

/// A reader's place in a worktree.
#[derive(Debug)]
pub struct Reader(File);

impl Drop for Reader {
    fn drop(&mut self) {
        // Before the close that watchers are told of.
        let _ = self.0.unlock();
    }
}

fn readers(locks: &Path, session: &Session) -> PathBuf {
    locks.join(format!("{}.readers", session.host()))
}

/// Returns the file that names the worktree's snapshot before its first reader.
fn baseline(locks: &Path, session: &Session) -> PathBuf {
    locks.join(format!("{}.unread", session.host()))
}

/// Returns the snapshot of the worktree from before any of its readers came: an earlier reader's, or `own`.
pub fn before(context: &Context<'_>, session: &Session, own: ObjectId) -> Result<ObjectId> {
    let path = baseline(&context.store.require_dir("worktrees")?, session);
    let cannot = || format!("cannot write '{}'", path.display());
    let mut fresh = path.clone().into_os_string();
    fresh.push(format!(".{}", std::process::id()));
    let fresh = PathBuf::from(fresh);
    let write = || -> std::io::Result<()> {
        File::create(&fresh)?.write_all(own.to_string().as_bytes())?;
        // Of several readers who begin at once the first decides: its agent may have begun already.
        let linked = fs::hard_link(&fresh, &path);
        fs::remove_file(&fresh)?;
        match linked {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    };
    write().context(cannot)?;
    let noted = fs::read_to_string(&path).context(cannot)?;
    Ok(noted.trim().parse().unwrap_or(own))
}

/// The changes of a read-only turn.
#[derive(Debug)]
pub struct Broken {
    /// The report for the transcript.
    pub text: String,
    /// Why the turn failed.
    pub reason: String,
}

/// Restores a worktree to its state before its readers, if `now` differs from that.
pub fn put_back(
    context: &Context<'_>,
    session: &Session,
    checkout: &Checkout,
    (start, now, when): (ObjectId, &Snapshot, &str),
) -> Result<Option<Broken>> {
    let start = context.repo.read_snapshot(start)?;
    let state = |of: &Snapshot| (of.head, of.tree, of.index_tree);
    if state(&start) == state(now) {
        return Ok(None);
    }
    let names = context.repo.names_between(start.tree, now.tree)?;
    let what = match names.len() {
        0 => "the index or the branch".to_owned(),
        count => {
            let mut some = names;
            some.truncate(NAMED);
            let more = count - some.len();
            let rest = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("'{}'{rest}", some.join("', '"))
        }
    };
    let done = restore::undo(context, session, checkout, (&start, now));
    let fate = match &done {
        Ok(()) => "it was restored".to_owned(),
        Err(error) => format!("it cannot be restored: {}", error.message()),
    };
    let text = format!(
        "this session is read-only, but {what} changed {when}: {fate}; the changes are kept: \
         git agent rewind {} --to {}",
        shell_word(&session.name),
        now.id
    );
    let reason = match done {
        Ok(()) => format!("it is read-only, but changed {what}, which was restored"),
        Err(_) => format!("it is read-only, but changed {what}"),
    };
    Ok(Some(Broken { text, reason }))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context(|| format!("cannot remove '{}'", path.display()))
        }
        _ => Ok(()),
    }
}
