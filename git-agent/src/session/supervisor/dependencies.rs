//! Sessions that wait for other sessions, and start from their merged work.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::merge::Merged;
use crate::model::session::{Session, SessionId, State};
use crate::session::supervisor::launch;

/// The state of the sessions that a session waits for.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// All are done.
    Ready,
    /// These still work.
    Waiting(Vec<SessionId>),
    /// One of them will never be done by itself, in words.
    Failed(String),
}

/// Returns the sessions that a session waits for.
pub fn waits_for(session: &Session) -> Vec<SessionId> {
    session.settings.after.clone().unwrap_or_default()
}

/// Looks at the sessions that a session waits for.
pub fn look(context: &Context<'_>, session: &Session) -> Result<Look> {
    let mut waiting = Vec::new();
    for sid in waits_for(session) {
        let Some(needed) = launch::current(&context.store, sid)? else {
            return Ok(Look::Failed(format!(
                "waits for session {sid}, which does not exist"
            )));
        };
        match needed.status {
            State::Ready | State::Approved | State::Merged => {}
            state if state.needs_supervisor() => waiting.push(sid),
            state => {
                return Ok(Look::Failed(format!(
                    "waits for '{}', which is {state}",
                    needed.name
                )));
            }
        }
    }
    Ok(if waiting.is_empty() {
        Look::Ready
    } else {
        Look::Waiting(waiting)
    })
}

/// Returns the commit that a session starts from: its base, or the merged result of those it waited for.
pub fn starting_point(context: &Context<'_>, session: &Session) -> Result<ObjectId> {
    let repo = context.repo;
    let mut tips = Vec::new();
    for sid in waits_for(session) {
        if let Some(needed) = context.store.session(sid)? {
            tips.push((
                needed.name.clone(),
                crate::session::worktree::work::as_commit(context, &needed)?,
            ));
        }
    }
    let mut tips = tips.into_iter();
    let Some((mut names, mut merged)) = tips.next() else {
        let base = session.base.as_deref().unwrap_or_default();
        return repo.parse_id(base);
    };
    for (name, tip) in tips {
        if repo.is_ancestor(tip, merged)? {
            continue;
        }
        merged = match repo.merge_commits(merged, tip)? {
            Merged::Clean(tree) => {
                let message = format!("merge the work of {names} and {name}\n");
                repo.commit_tree(tree, &[merged, tip], &message)?
            }
            Merged::Conflict(paths) => {
                let first = paths.first().map(String::as_str).unwrap_or_default();
                return Err(Error::fatal(format!(
                    "the work of '{names}' and '{name}' does not merge: conflict in '{first}'"
                )));
            }
        };
        names = format!("{names}, {name}");
    }
    Ok(merged)
}
