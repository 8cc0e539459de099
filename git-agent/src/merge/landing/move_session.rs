//! Moves a session's branch and worktree to a new commit together. Uncommitted changes stay uncommitted.

use crate::context::Context;
use crate::error::{Context as _, Error, Result, shell_path, shell_word};
use crate::fault;
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::rebase_dirty::Taken;
use crate::git::snapshot::restore_mark::Way;
use crate::git::worktree::unfinished::unfinished;
use crate::git::{ObjectId, worktree};
use crate::model::session::Session;
use crate::session::worktree::{finish_restore, work};

/// Where a session's branch and worktree are.
#[derive(Debug, Clone)]
pub struct SessionPlace {
    /// Full name of its branch.
    pub branch: String,
    /// Its last commit.
    pub tip: ObjectId,
    /// Its worktree, if it has one.
    pub checkout: Option<Checkout>,
}

/// Returns a session's branch and worktree, or why they cannot be moved.
pub fn place(context: &Context<'_>, session: &Session) -> Result<SessionPlace> {
    let name = &session.name;
    let short = session
        .branch
        .as_deref()
        .ok_or_else(|| Error::fatal(format!("session '{name}' has no branch")))?;
    let branch = format!("refs/heads/{short}");
    let tip = context.repo.branch_tip(short)?.ok_or_else(|| {
        Error::fatal(format!("branch '{short}' of session '{name}' is gone"))
            .hint(format!("git agent restore {}", shell_word(name)))
    })?;
    let checkout = work::checkout(context, session)?;
    if let Some(at) = &checkout {
        let all = worktree::list(context.repo)?;
        let known = all.iter().find(|known| known.path == at.top);
        if known.and_then(|known| known.branch.as_deref()) != Some(branch.as_str()) {
            return Err(Error::fatal(format!(
                "the worktree of '{name}' is not on its branch '{short}'"
            ))
            .hint(format!(
                "git -C {} switch {}",
                shell_path(&at.top),
                shell_word(short)
            )));
        }
        if let Some(what) = unfinished(at) {
            return Err(
                Error::fatal(format!("a {what} is in progress in '{}'", at.top.display()))
                    .hint(format!("finish or abort the {what} first")),
            );
        }
    }
    Ok(SessionPlace {
        branch,
        tip,
        checkout,
    })
}

/// Moves a session's branch and worktree to another commit. `why` names the snapshot that is taken first. If the
/// uncommitted changes conflict with it, nothing is changed.
pub fn advance(
    context: &Context<'_>,
    session: &Session,
    place: &SessionPlace,
    to: ObjectId,
    why: &str,
) -> Result<Taken> {
    let (repo, store) = (context.repo, &context.store);
    if place.tip == to {
        return Ok(Taken::Done);
    }
    let mut before = None;
    if let Some(at) = &place.checkout {
        let taken = store.take_snapshot(session.sid, None, why, at)?;
        let now = repo.read_snapshot(taken.id)?;
        if now.head != Some(place.tip) {
            return Err(Error::fatal(format!(
                "branch '{}' moved just now",
                place.branch
            )));
        }
        // After a crash before the branch moved, recovery restores the files.
        let way = Way {
            to: now.id,
            done_at: Some(to),
        };
        let mark = repo.begin_restoring(at, way)?;
        match repo.take_onto(at, &now, to) {
            Ok(Taken::Done) => before = Some((at, mark)),
            Ok(conflict) => {
                mark.end()?;
                return Ok(conflict);
            }
            Err(error) => {
                drop(mark);
                finish_restore::finish(context, session, at)?;
                return Err(error);
            }
        }
        fault::point("advance.files").context(|| "cannot update the worktree".into())?;
    }
    if !repo.is_ancestor(place.tip, to)? {
        store.keep_lost(&place.branch, place.tip)?;
    }
    let change = RefChange {
        name: place.branch.clone(),
        expected: Expected::At(place.tip),
        new: Some(to),
    };
    let swapped = repo.swap_refs(&[change]);
    // A failure may come after the branch moved; then files and branch agree already.
    let moved = match &swapped {
        Ok(swap) => *swap == Swap::Done,
        Err(_) => repo.find_ref(&place.branch)? == Some(to),
    };
    if moved {
        if let Some((_, mark)) = before {
            mark.end()?;
        }
        return Ok(Taken::Done);
    }
    if let Some((at, mark)) = before {
        drop(mark);
        finish_restore::finish(context, session, at)?;
    }
    // Either a failure, or another process moved the branch first.
    let _ = swapped?;
    Err(Error::fatal(format!(
        "branch '{}' moved just now",
        place.branch
    )))
}
