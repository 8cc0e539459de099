//! The caller of a command: the session that it was started in, and the acts that are refused there.
//!
//! An agent can change its environment, but not the environment that its parent processes were started with.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::guard;
use crate::model::session::{Session, SessionId};
use crate::process::tree;
use crate::session::supervisor::launch;
use crate::session::worktree::setup;

/// The variable that marks everything a session's agent starts.
pub const MARK: &str = "GIT_AGENT_SESSION";

/// The suffix of a session's id in the tests of a merge. A supervisor does not take such a process for its own.
const TEST: &str = "/test";

/// Returns the mark of a test of a session's work.
pub fn mark_of_test(sid: SessionId) -> String {
    format!("{sid}{TEST}")
}

/// Returns whether the command was started by a test of a merge.
pub fn is_test(context: &Context<'_>) -> bool {
    marks(context).iter().any(|mark| mark.ends_with(TEST))
}

/// Returns the session that a mark names.
fn marked(mark: &str) -> Option<SessionId> {
    mark.strip_suffix(TEST).unwrap_or(mark).parse().ok()
}

/// Returns the sessions that this process says it is in, and those that the processes above it were started in.
fn marks(context: &Context<'_>) -> Vec<String> {
    let said = context.env.var(MARK).map(str::to_owned);
    let mut marks: Vec<String> = said.into_iter().collect();
    marks.extend(tree::inherited(MARK));
    marks
}

/// Returns whether the command was started in this session.
pub fn is_in(context: &Context<'_>, sid: SessionId) -> bool {
    marks(context).iter().any(|mark| marked(mark) == Some(sid))
}

/// Returns the session of this repository that the command was started in.
pub fn session(context: &Context<'_>) -> Result<Option<Session>> {
    Ok(sessions(context)?.into_iter().next())
}

/// Returns the session that the command was started in if it is none of this repository.
pub fn foreign(context: &Context<'_>) -> Option<SessionId> {
    let marks = marks(context);
    marks.iter().find_map(|mark| marked(mark))
}

/// Returns all of them, the nearest first: one that was started from another is in both.
fn sessions(context: &Context<'_>) -> Result<Vec<Session>> {
    let mut found: Vec<Session> = Vec::new();
    for mark in marks(context) {
        let Some(sid) = marked(&mark) else {
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

/// Returns the session whose agent gives this command, proven by the nearest supervisor above it: variables and arguments
/// do not count. `None` for a person.
pub fn own(context: &Context<'_>) -> Result<Option<Session>> {
    let supervised = launch::supervised(&context.store);
    let pids: Vec<u32> = supervised.iter().map(|(pid, _)| *pid).collect();
    let above = tree::nearest_above(&pids);
    let found = supervised.iter().find(|(pid, _)| Some(*pid) == above);
    match found {
        Some((_, sid)) => context.store.session(*sid),
        None if is_guarded(context) => Err(Error::fatal(
            "cannot tell which session this command belongs to",
        )),
        None => Ok(None),
    }
}

/// Refuses to make a session for an agent under guard: it may make no branch, and would leave half of one behind. A
/// person who works in a session's worktree is under none.
pub fn forbid_making(context: &Context<'_>) -> Result<()> {
    match session(context)?.filter(|_| is_guarded(context)) {
        None => Ok(()),
        Some(own) => Err(Error::fatal(format!(
            "this runs in session '{}', whose agent may not start sessions",
            own.name
        ))
        .hint("run this outside of the session, or create the session with --no-guard")),
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

/// Something that a command does to sessions, or for a person, and that an agent may not always do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Answers a question that an agent asks a person.
    Answer,
    /// Removes worktrees and branches.
    Clean,
    /// Closes and opens threads of a review.
    CloseThreads,
    /// Commits a session's work.
    Commit,
    /// Changes settings.
    Configure,
    /// Runs something in a session's worktree.
    Enter,
    /// Deletes sessions.
    Forget,
    /// Brings work into a branch or a checkout, or takes it out again.
    Land,
    /// Gives an agent something to do.
    Prompt,
    /// Takes secrets out of records.
    Purge,
    /// Repairs the remains of a crash.
    Repair,
    /// Resolves a conflict of a session.
    Resolve,
    /// Lets an agent go on.
    Restart,
    /// Brings a worktree back, or back to an earlier state.
    Restore,
    /// Shares sessions with a remote.
    Share,
    /// Takes a snapshot.
    Snapshot,
    /// Ends an agent.
    Stop,
    /// Brings a session up to date with its parent.
    Update,
}

impl Act {
    /// Describes an act that an agent may not do.
    fn words(self) -> &'static str {
        match self {
            Act::Answer => "answer for a person",
            Act::Clean => "remove worktrees",
            Act::CloseThreads => "close or open threads",
            Act::Commit => "commit the work",
            Act::Configure => "change settings",
            Act::Enter => "run commands in the worktree",
            Act::Forget => "delete sessions",
            Act::Land => "land work",
            Act::Prompt => "send prompts",
            Act::Purge => "purge records",
            Act::Repair => "repair the repository",
            Act::Resolve => "resolve conflicts",
            Act::Restart => "restart sessions",
            Act::Restore => "change the worktree",
            Act::Share => "share sessions",
            Act::Snapshot => "take snapshots",
            Act::Stop => "stop the agent",
            Act::Update => "update the branch",
        }
    }

    /// Returns whether an agent may do it to its own session.
    fn is_free_at_home(self) -> bool {
        matches!(
            self,
            Act::CloseThreads
                | Act::Commit
                | Act::Enter
                | Act::Resolve
                | Act::Restore
                | Act::Snapshot
                | Act::Stop
                | Act::Update
        )
    }
}

/// Refuses an agent that changes other sessions or decides for a person. `on` are the sessions to be changed. Every use
/// case asks here. A person who works in a session's worktree may do everything.
pub fn permit<'s>(
    context: &Context<'_>,
    act: Act,
    on: impl IntoIterator<Item = &'s Session>,
) -> Result<()> {
    let Some(own) = agent(context)? else {
        return Ok(());
    };
    let refused = |of: String| {
        let (name, words) = (&own.name, act.words());
        let error = Error::fatal(format!(
            "this runs in session '{name}', whose agent may not {words}{of}"
        ));
        Err(error.hint("run this outside of the session"))
    };
    if !act.is_free_at_home() && act != Act::Prompt {
        return refused(String::new());
    }
    let mut known = false;
    for session in on {
        known = true;
        // An agent can choose the variables, but not the parent process.
        let home = is_supervised(context, session.sid)?;
        match (home, act) {
            (true, Act::Prompt) => {
                let name = &session.name;
                return Err(Error::fatal(format!(
                    "session '{name}' cannot prompt itself"
                )));
            }
            (true, _) => {}
            (false, Act::Prompt) => return refused(format!(" to session '{}'", session.name)),
            (false, _) => return refused(format!(" of session '{}'", session.name)),
        }
    }
    if known {
        Ok(())
    } else {
        // It belongs to a teammate's clone.
        refused(String::new())
    }
}

/// Returns the session whose agent, setup or test gives this command. A person in its worktree is under no guard, and
/// not below its supervisor.
fn agent(context: &Context<'_>) -> Result<Option<Session>> {
    let guarded = is_guarded(context);
    for session in sessions(context)? {
        if guarded || is_supervised(context, session.sid)? {
            return Ok(Some(session));
        }
    }
    Ok(None)
}

/// A session that may not judge some work.
pub struct Biased {
    /// Its name.
    pub name: String,
    /// Why, where it is not the one that made the work.
    pub why: Option<&'static str>,
}

/// Returns the session that a command was started in if it may not judge another's work: it made the work or a part of
/// it, or continues the same conversation.
pub fn bias(context: &Context<'_>, judged: &Session) -> Result<Option<Biased>> {
    let biased = |own: &Session, why| {
        let name = own.name.clone();
        Ok(Some(Biased { name, why }))
    };
    if is_in(context, judged.sid) || is_supervised(context, judged.sid)? {
        return biased(judged, None);
    }
    for own in sessions(context)? {
        let together = own.local.worktree.is_some() && own.local.worktree == judged.local.worktree
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
