//! Finishes the work of a process that died while it changed a session's worktree: half restored files, and worktrees
//! that were never finished.

use std::path::Path;

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::snapshot::Snapshot;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::restore_mark::{Restoring, Way};
use crate::git::worktree;
use crate::model::session::Session;
use crate::process::lock;
use crate::session::supervisor::launch;
use crate::session::worktree::restore;

/// Finishes a restore of a worktree whose process died. The half restored files are kept for a while, and never count as
/// the session's work. Returns whether there was anything to do.
pub fn finish(context: &Context<'_>, session: &Session, at: &Checkout) -> Result<bool> {
    let (repo, store) = (context.repo, &context.store);
    if !repo.is_half(at) {
        return Ok(false);
    }
    let cannot = |error: Error| {
        let name = &session.name;
        Error::fatal(format!(
            "the files of session '{name}' are half restored: {}",
            error.message()
        ))
        .because(error)
        .hint(format!("git agent show {}", shell_word(name)))
    };
    let Some((mark, way)) = repo.take_up_restoring(at)? else {
        return Ok(false);
    };
    let done_at = way.and_then(|way| way.done_at);
    if done_at.is_some() && repo.head_of(at)? == done_at {
        mark.end()?;
        return Ok(true);
    }
    repo.remove_own_index_lock(at);
    let whole = match way {
        Some(way) => repo.read_snapshot(way.to)?,
        // Every change of the files comes after a snapshot: the newest is the last whole state.
        None => match store.last_snapshot(session.sid)? {
            Some(last) => last.snapshot,
            None => return mark.end().map(|()| true),
        },
    };
    let half = repo.record_half(at, &store.signature()).map_err(cannot)?;
    let half = repo.read_snapshot(half)?;
    let mut kept = String::new();
    if !half.is_same_state(&whole) {
        kept = format!(
            "; the files before are kept under '{}'",
            store.keep_lost(&format!("half/{}", session.sid), half.id)?
        );
        if half.head != whole.head {
            restore::require_on_branch(context, session, half.head)?;
            let branch = session.branch.as_deref().unwrap_or_default();
            restore::move_branch(context, branch, whole.head)?;
        }
        repo.restore(at, &whole, Some(&half)).map_err(cannot)?;
    }
    mark.end()?;
    // Who writes to the session at this moment tells more than this.
    if !lock::is_held(&store.write_lock(session.sid))? {
        let text = format!(
            "a change of the worktree was interrupted; its files are now those of {}{kept}",
            whole.id
        );
        restore::note(context, session.sid, text)?;
    }
    Ok(true)
}

/// Takes the mark away from a worktree whose files could not be changed, if all of them are still as they were.
pub fn give_up(
    context: &Context<'_>,
    at: &Checkout,
    mark: Restoring,
    before: &Snapshot,
) -> Result<()> {
    let there = context.repo.record_half(at, &context.store.signature())?;
    if context.repo.read_snapshot(there)?.is_same_state(before) {
        mark.end()
    } else {
        Ok(())
    }
}

/// Removes the unfinished worktree of a dead process, or finishes it if it has files: returns whether it did that. The
/// caller holds the session, so that no process makes the worktree now.
pub fn sweep(context: &Context<'_>, session: &Session) -> Result<bool> {
    let Some(path) = session.local.worktree.as_deref().map(Path::new) else {
        return Ok(false);
    };
    let remains = worktree::remains(context.repo, path)?;
    if remains.is_empty() {
        return Ok(false);
    }
    if launch::is_starting(&context.store, session.sid)? {
        let name = &session.name;
        return Err(Error::fatal(format!("session '{name}' is being created"))
            .hint(format!("git agent wait {}", shell_word(name))));
    }
    if !remains.half {
        return worktree::sweep(&remains, path).map(|()| false);
    }
    // Files of a checkout that died: it is ended, and then the newest snapshot is brought into it.
    let branch = session.branch.as_deref().unwrap_or_default();
    worktree::finish(context.repo, path, branch, None)?;
    let (Some(admin_dir), Some(last)) = (
        worktree::admin_dir_of(context.repo, path)?,
        context.store.last_snapshot(session.sid)?,
    ) else {
        return Ok(true);
    };
    let at = Checkout {
        admin_dir,
        top: path.to_owned(),
    };
    let way = Way {
        to: last.snapshot.id,
        done_at: None,
    };
    drop(context.repo.begin_restoring(&at, way)?);
    finish(context, session, &at)?;
    Ok(true)
}

/// Returns whether an unfinished worktree is left of a process that died.
pub fn is_left(context: &Context<'_>, session: &Session) -> Result<bool> {
    let Some(path) = session.local.worktree.as_deref().map(Path::new) else {
        return Ok(false);
    };
    if worktree::remains(context.repo, path)?.is_empty() {
        return Ok(false);
    }
    let store = &context.store;
    let shared = store.dir().join("worktrees");
    let shared = shared.join(format!("{}.lock", session.host()));
    Ok(!launch::is_starting(store, session.sid)?
        && !lock::is_held(&launch::run_lock(store, session.sid))?
        && !lock::is_held(&shared)?)
}
