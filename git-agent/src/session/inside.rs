//! Commands that an agent gives: which session one was started in, and what is not done from there.
//!
//! Whatever an agent makes of its environment, the processes above the command were started with what they were started with.

use super::context::Context;
use super::{Session, SessionId, launch, setup};
use crate::error::{Error, Result};
use crate::guard;
use crate::process::tree;

/// The variable that marks everything a session's agent starts.
pub const MARK: &str = "GIT_AGENT_SESSION";

/// Returns the sessions that this process says it is in, and those that the processes above it were started in.
pub fn marks(context: &Context<'_>) -> Vec<String> {
    let said = context.env.var(MARK).map(str::to_owned);
    let mut marks: Vec<String> = said.into_iter().collect();
    marks.extend(tree::inherited(MARK));
    marks
}

/// Returns whether the command was started in this session.
pub fn is_in(context: &Context<'_>, sid: SessionId) -> bool {
    marks(context).iter().any(|mark| mark == sid.as_str())
}

/// Returns the session of this repository that the command was started in.
pub fn session(context: &Context<'_>) -> Result<Option<Session>> {
    Ok(sessions(context)?.into_iter().next())
}

/// Returns all of them, the nearest first: one that was started from another is in both.
fn sessions(context: &Context<'_>) -> Result<Vec<Session>> {
    let mut found: Vec<Session> = Vec::new();
    for mark in marks(context) {
        let Ok(sid) = mark.parse::<SessionId>() else {
            continue;
        };
        if found.iter().any(|known| known.sid == sid) {
            continue;
        }
        let session = context.store.session(sid)?;
        found.extend(session.filter(|session| !session.name.is_empty()));
    }
    Ok(found)
}

/// Refuses to make a session for an agent under guard: it may make no branch, and would leave half of one behind. A person who
/// works in a session's worktree is under none.
pub fn forbid_making(context: &Context<'_>) -> Result<()> {
    match session(context)?.filter(|_| is_guarded(context)) {
        None => Ok(()),
        Some(own) => Err(Error::fatal(format!(
            "this runs in session '{}', whose agent may start no other",
            own.name
        ))
        .hint("a person does outside of it, or it is made with --no-guard")),
    }
}

/// Returns whether a guard is around this command, or was around those above it.
fn is_guarded(context: &Context<'_>) -> bool {
    context.env.var(guard::OWN_VARIABLE).is_some()
        || !tree::inherited(guard::OWN_VARIABLE).is_empty()
}

/// Returns whether a command is below a session's supervisor.
fn is_supervised(context: &Context<'_>, sid: SessionId) -> Result<bool> {
    let run = launch::running(&context.store, sid)?;
    Ok(run.is_some_and(|run| tree::is_below(run.supervisor.pid)))
}

/// Refuses a prompt of an agent to itself: that would never end. A person in its worktree may.
pub fn forbid_prompting(context: &Context<'_>, session: &Session) -> Result<()> {
    let sid = session.sid;
    let own = is_in(context, sid) && (is_guarded(context) || is_supervised(context, sid)?);
    match own {
        false => Ok(()),
        true => Err(Error::fatal(format!(
            "session '{}' cannot prompt itself",
            session.name
        ))),
    }
}

/// A session that is no judge of some work.
pub struct Biased {
    /// Its name.
    pub name: String,
    /// Why, where it is not the one that made the work.
    pub why: Option<&'static str>,
}

/// Returns the session that a command was started in if it is no judge of another's work: it made it, or a part of it, or goes
/// on from the same conversation.
pub fn bias(context: &Context<'_>, judged: &Session) -> Result<Option<Biased>> {
    let biased = |own: &Session, why| {
        let name = own.name.clone();
        Ok(Some(Biased { name, why }))
    };
    if is_in(context, judged.sid) || is_supervised(context, judged.sid)? {
        return biased(judged, None);
    }
    for own in sessions(context)? {
        let together = own.worktree.is_some() && own.worktree == judged.worktree
            || own.branch.is_some() && own.branch == judged.branch;
        if together && !setup::is_read_only(&own) {
            return biased(&own, Some("both work in one worktree"));
        }
        if own.parent_session == Some(judged.sid) {
            return biased(&own, Some("it goes on from the same conversation"));
        }
    }
    Ok(None)
}
