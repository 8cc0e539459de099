//! Sessions that depend on others: the gate before the start, and the commit that they are cut from.
//!
//! That commit is made when the session starts and contains the work of every dependency; git proves it. A commit made
//! earlier, when the session was planned, would lack that work.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::merge::Merged;
use crate::git::{ObjectId, Repo};
use crate::model::plan::Gate;
use crate::model::session::settings::{BasedOn, ContainedTip};
use crate::model::session::{Session, SessionId, State};
use crate::session::supervisor::launch;
use crate::session::worktree::work;
use crate::store::list::Scope;

/// The state of the sessions that a session depends on.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// All have passed the gate.
    Ready,
    /// These have not passed it yet, with words about them.
    Waiting(Vec<SessionId>, String),
    /// One of them will not pass it by itself, in words.
    Blocked(String),
}

/// The commit that a session can be cut from.
#[derive(Debug)]
pub enum Base {
    /// This one, with the proof that it contains the dependencies.
    Made(ObjectId, Option<BasedOn>),
    /// A dependency went back to work meanwhile.
    NotYet,
    /// The work of two sessions conflicts, in words.
    Conflict(String),
}

/// Returns the sessions that a session depends on.
pub fn waits_for(session: &Session) -> Vec<SessionId> {
    session.settings.after.clone().unwrap_or_default()
}

/// Returns whether the gate still decides about a session: it has not been cut from a commit yet.
pub fn are_open(session: &Session) -> bool {
    session.turns == 0 && session.settings.based_on.is_none() && !waits_for(session).is_empty()
}

/// How a dependency stands before the gate.
enum Standing {
    Passed,
    NotYet,
    /// It will not pass by itself, in words.
    Never(String),
}

fn standing(gate: Gate, needed: &Session) -> Standing {
    let passed = match gate {
        // The tests run before the end of the turn, so a session of such a plan is ready only when they passed.
        Gate::Ready | Gate::Tested => matches!(
            needed.status,
            State::Ready | State::Approved | State::Merged
        ),
        Gate::Approved => matches!(needed.status, State::Approved | State::Merged),
        Gate::Merged => needed.status == State::Merged,
    };
    let waits_for_person = matches!(
        needed.status,
        State::Ready | State::Approved | State::ChangesRequested
    );
    match needed.status {
        _ if passed => Standing::Passed,
        state if state.needs_supervisor() || waits_for_person => Standing::NotYet,
        State::Blocked => Standing::Never(format!("needs {}, which is blocked", needed.name)),
        state => Standing::Never(format!("needs {}, which is {state}", needed.name)),
    }
}

/// Looks at the sessions that a session depends on.
pub fn look(context: &Context<'_>, session: &Session) -> Result<Look> {
    let gate = session.settings.gate.unwrap_or_default();
    let mut waiting = Vec::new();
    let mut words = Vec::new();
    for sid in waits_for(session) {
        let Some(needed) = launch::current(&context.store, sid)? else {
            return Ok(Look::Blocked(format!(
                "needs session {sid}, which does not exist"
            )));
        };
        match standing(gate, &needed) {
            Standing::Passed => {}
            Standing::Never(reason) => return Ok(Look::Blocked(reason)),
            Standing::NotYet => {
                let to_pass = match needed.status {
                    State::Ready | State::Approved => format!(", to be {gate}"),
                    _ => String::new(),
                };
                words.push(format!("{} ({}{to_pass})", needed.name, needed.status));
                waiting.push(sid);
            }
        }
    }
    Ok(if waiting.is_empty() {
        Look::Ready
    } else {
        Look::Waiting(waiting, format!("waits for {}", words.join(", ")))
    })
}

/// Says why a session has not started; nothing if its dependencies are not the reason.
pub fn explain(context: &Context<'_>, session: &Session) -> Result<Option<String>> {
    if session.status != State::Queued || !are_open(session) {
        return Ok(None);
    }
    Ok(match look(context, session)? {
        Look::Ready => None,
        Look::Waiting(_, words) | Look::Blocked(words) => Some(words),
    })
}

/// Returns the commit that a session is cut from: its parent if that contains the dependencies, else both merged in
/// memory.
pub fn base(context: &Context<'_>, session: &Session) -> Result<Base> {
    let repo = context.repo;
    let recorded = session.base.as_deref().unwrap_or_default();
    let needed = waits_for(session);
    if needed.is_empty() {
        return Ok(Base::Made(repo.parse_id(recorded)?, None));
    }
    let parent = match session.parent.as_deref() {
        Some(parent) => repo.branch_tip(parent)?,
        None => None,
    };
    let parent = match parent {
        Some(tip) => tip,
        None => repo.parse_id(recorded)?,
    };
    let gate = session.settings.gate.unwrap_or_default();
    let mut tips = Vec::with_capacity(needed.len());
    for sid in needed {
        let Some(needed) = launch::current(&context.store, sid)? else {
            return Err(Error::fatal(format!("session {sid} does not exist")));
        };
        if !matches!(standing(gate, &needed), Standing::Passed) {
            return Ok(Base::NotYet);
        }
        tips.push((needed.clone(), tip_of(context, &needed)?));
    }
    let parent_name = session
        .parent
        .clone()
        .unwrap_or_else(|| "the parent".into());
    let mut merged = parent;
    let mut names = vec![(parent_name, parent)];
    for (needed, tip) in &tips {
        merged = match join(repo, merged, *tip, &needed.name)? {
            Some(joined) => joined,
            None => return Ok(Base::Conflict(conflict(repo, &names, needed, *tip)?)),
        };
        names.push((needed.name.clone(), *tip));
    }
    let mut sessions = Vec::with_capacity(tips.len());
    for (needed, tip) in tips {
        // The proof, whatever the way to this commit was.
        if !repo.is_ancestor(tip, merged)? {
            let name = &needed.name;
            return Err(Error::fatal(format!(
                "the commit to start from lacks the work of '{name}'"
            )));
        }
        sessions.push(ContainedTip {
            session: needed.sid,
            name: needed.record.name,
            tip: tip.to_string(),
        });
    }
    let based_on = BasedOn {
        commit: merged.to_string(),
        parent: parent.to_string(),
        sessions,
    };
    Ok(Base::Made(merged, Some(based_on)))
}

/// Returns the commit with a dependency's work. A squashed or rebased landing has a commit of its own on the target.
fn tip_of(context: &Context<'_>, needed: &Session) -> Result<ObjectId> {
    if needed.status == State::Merged
        && let Some(landed) = &needed.settings.merged
    {
        return context.repo.parse_id(landed);
    }
    work::as_commit(context, needed)
}

/// Returns a commit that contains both; `None` on a conflict.
fn join(repo: &Repo, merged: ObjectId, tip: ObjectId, name: &str) -> Result<Option<ObjectId>> {
    if repo.is_ancestor(tip, merged)? {
        return Ok(Some(merged));
    }
    if repo.is_ancestor(merged, tip)? {
        return Ok(Some(tip));
    }
    Ok(match repo.merge_commits(merged, tip)? {
        Merged::Clean(tree) => {
            let message = format!("merge the work of {name}\n");
            Some(repo.commit_tree(tree, &[merged, tip], &message)?)
        }
        Merged::Conflict(_) => None,
    })
}

/// Names the pair that conflicts: the first of the earlier tips that does not merge with this one.
fn conflict(
    repo: &Repo,
    earlier: &[(String, ObjectId)],
    needed: &Session,
    tip: ObjectId,
) -> Result<String> {
    for (name, other) in earlier.iter().rev() {
        if let Merged::Conflict(paths) = repo.merge_commits(*other, tip)? {
            let path = paths.first().cloned().unwrap_or_default();
            return Ok(format!("{} and {name} conflict in {path}", needed.name));
        }
    }
    let names: Vec<&str> = earlier.iter().map(|(name, _)| name.as_str()).collect();
    let (last, names) = (&needed.name, names.join(", "));
    Ok(format!("{last} conflicts with the merged work of {names}"))
}

/// Starts the sessions again that were blocked by this one.
pub fn wake_blocked(context: &Context<'_>, sid: SessionId) -> Result<()> {
    for listed in context.store.list(Scope::Mine)?.sessions {
        let session = &listed.session;
        let blocked = session.status == State::Blocked && waits_for(session).contains(&sid);
        if blocked && launch::running(&context.store, session.sid)?.is_none() {
            launch::launch(context, session.sid)?;
        }
    }
    Ok(())
}
