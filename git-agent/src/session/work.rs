//! What a session has made: its worktree as git knows it, and all of its work as one commit, committed or not.

use std::path::Path;

use super::Session;
use super::context::Context;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::capture::Checkout;
use crate::git::worktree;

/// Returns a session's worktree as git knows it; `None` when it has none (any more).
pub fn checkout(context: &Context<'_>, session: &Session) -> Result<Option<Checkout>> {
    let Some(path) = session.worktree.as_deref().map(Path::new) else {
        return Ok(None);
    };
    let all = worktree::list(context.repo)?;
    let found = all
        .into_iter()
        .find(|worktree| !worktree.is_main() && worktree.path == path);
    Ok(found
        .filter(|worktree| worktree.path.is_dir())
        .map(|worktree| Checkout {
            admin_dir: worktree.admin_dir,
            top: worktree.path,
        }))
}

/// Returns a commit that holds all of a session's work. What it has not committed is put on top of its branch's tip, in a
/// commit that no ref points at.
pub fn as_commit(context: &Context<'_>, session: &Session) -> Result<ObjectId> {
    let repo = context.repo;
    let tip = session
        .branch
        .as_deref()
        .map(|branch| repo.branch_tip(branch))
        .transpose()?
        .flatten();
    let code = session
        .code
        .as_deref()
        .and_then(|hex| repo.parse_id(hex).ok());
    let tip = tip.or(code).ok_or_else(|| {
        Error::fatal(format!("session '{}' has no branch any more", session.name))
    })?;
    let Some(kept) = context.store.last_snapshot(session.sid)? else {
        return Ok(tip);
    };
    if kept.snapshot.head != Some(tip) || kept.snapshot.tree == repo.tree_of(tip)? {
        return Ok(tip);
    }
    let message = format!("{}\n\nAgent-Session: {}\n", subject(session), session.sid);
    repo.commit_tree(kept.snapshot.tree, &[tip], &message)
}

/// Returns a commit subject for a session's work: the first line of its task.
pub fn subject(session: &Session) -> String {
    let line = session
        .task
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty());
    super::fold::shorten(line.unwrap_or(&session.name), 72)
}
