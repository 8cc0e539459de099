//! Gives a session up in one step: ends it, takes a last snapshot, removes its worktree and its branch.
//!
//! Nothing is lost: `restore` makes branch and worktree again from the snapshot, as long as the record exists.

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::ObjectId;
use crate::git::diff::counts::Changes;
use crate::model::session::{Session, State};
use crate::session::caller::{self, Act};
use crate::session::control::{state, stop};
use crate::session::worktree::clean::{self, Cleaned, Options};
use crate::session::worktree::work;
use crate::store::list::Listed;

/// Discards a session for the user. Fails, and says why, if its worktree has to stay.
pub fn discard(context: &Context<'_>, listed: &Listed) -> Result<Cleaned> {
    let session = &listed.session;
    caller::permit(context, Act::Stop, [session])?;
    caller::permit(context, Act::Clean, [])?;
    stop::end(context, session.sid, "discarded")?;
    let mut cleaned = Cleaned::of(session);
    // A session in the worktree of another one has nothing of its own to remove.
    if session.settings.shares.is_none() {
        let options = Options {
            named: true,
            discard: true,
            ..Options::default()
        };
        let chosen = std::slice::from_ref(listed);
        let done = clean::put_away(context, chosen, options)?;
        if let Some(own) = done.into_iter().find(|one| one.name == session.name) {
            cleaned = own;
        }
        if cleaned.worktree.is_none() && work::checkout(context, session)?.is_some() {
            let why = cleaned
                .kept
                .first()
                .map_or("it has to stay", String::as_str);
            let name = shell_word(&session.name);
            return Err(
                Error::fatal(format!("cannot discard '{}': {why}", session.name))
                    .hint(format!("git agent show {name}")),
            );
        }
    }
    clean::from_outside(context, |context| {
        state::set_state(context, session.sid, State::Discarded, "by the user")
    })?;
    Ok(cleaned)
}

/// Returns whether a branch may go although nothing of it was merged: its parent has every commit of it, or the session
/// is given up and its last snapshot has the tip.
pub fn is_spare(
    context: &Context<'_>,
    session: &Session,
    tip: ObjectId,
    discard: bool,
) -> Result<bool> {
    if is_contained(context, session, tip)? {
        return Ok(true);
    }
    let last = if discard {
        context.store.last_snapshot(session.sid)?
    } else {
        None
    };
    Ok(last.is_some_and(|kept| kept.snapshot.head == Some(tip)))
}

/// Returns whether a session ended well and left nothing to merge: no commit of its own and no changed file.
pub fn left_nothing(context: &Context<'_>, session: &Session) -> Result<bool> {
    let branch = session
        .branch
        .as_deref()
        .filter(|_| session.status == State::Ready);
    let tip = branch.map_or(Ok(None), |branch| context.repo.branch_tip(branch))?;
    let Some(tip) = tip else {
        return Ok(false);
    };
    if !is_contained(context, session, tip)? {
        return Ok(false);
    }
    match work::checkout(context, session)? {
        Some(at) => Ok(context.repo.changes_in(&at, tip, Some(tip))? == Changes::default()),
        None => Ok(true),
    }
}

/// Returns whether a session's parent has every commit of its branch.
fn is_contained(context: &Context<'_>, session: &Session, tip: ObjectId) -> Result<bool> {
    let parent = session.parent.as_deref();
    let Some(parent) = parent.filter(|parent| session.branch.as_deref() != Some(parent)) else {
        return Ok(false);
    };
    match context.repo.branch_tip(parent)? {
        Some(target) => context.repo.is_ancestor(tip, target),
        None => Ok(false),
    }
}
