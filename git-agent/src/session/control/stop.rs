//! Stops sessions and every process that their agents started.

use std::time::Duration;

use crate::context::Context;
use crate::error::Result;
use crate::model::session::{Session, SessionId, State};
use crate::process::identity::{Signal, Stat};
use crate::process::lock;
use crate::process::tree::{self, KillCare};
use crate::session::caller::{self, Act};
use crate::session::control::{idle, state};
use crate::session::supervisor::inbox::{Inbox, Message};
use crate::session::supervisor::launch::{self, RunFile};
use crate::store::list::Listed;

/// How long a supervisor may take to end its agent and itself before it is made to.
const PATIENCE: Duration = Duration::from_secs(15);

/// Stops sessions for the user. `tell` is told of each session whether anything was running in it.
pub fn stop(
    context: &Context<'_>,
    chosen: &[Listed],
    reason: &str,
    tell: &mut dyn FnMut(&Session, bool),
) -> Result<()> {
    let sessions = || chosen.iter().map(|listed| &listed.session);
    caller::permit(context, Act::Stop, sessions())?;
    for session in sessions() {
        let was_running = end(context, session.sid, reason)?;
        tell(session, was_running);
    }
    Ok(())
}

/// Ends a session's turn. Returns whether one was running.
pub fn end(context: &Context<'_>, sid: SessionId, reason: &str) -> Result<bool> {
    let store = &context.store;
    let lock = launch::run_lock(store, sid);
    if !lock::is_held(&lock)? {
        let left = end_orphans(context, sid)?;
        state::settle(context, sid, State::Stopped, reason)?;
        return Ok(left);
    }
    let inbox = Inbox::open(store, sid)?;
    let message = Message::Stop {
        reason: reason.to_owned(),
    };
    let id = inbox.put(context.env, &message)?;
    let ended = idle::wait_for_holder(context, sid, PATIENCE)?;
    // One that was about to end anyway has not read it, and the next supervisor must not find it.
    inbox.remove(id)?;
    if ended {
        state::settle(context, sid, State::Stopped, reason)?;
        return Ok(true);
    }
    // It does not even read its messages any more.
    if let Some(RunFile { supervisor, .. }) = launch::running(store, sid)?
        && let Some(handle) = supervisor.open(context.env)?
    {
        handle.signal(Signal::KILL)?;
        handle.wait(Some(PATIENCE))?;
    }
    end_orphans(context, sid)?;
    state::settle(context, sid, State::Stopped, reason)?;
    Ok(true)
}

/// Ends the processes that a dead supervisor left. Returns whether there were any.
pub fn end_orphans(context: &Context<'_>, sid: SessionId) -> Result<bool> {
    let others = launch::supervisors(&context.store);
    let spare = |stat: &Stat| others.contains(&stat.pid);
    let care = KillCare {
        spare: &spare,
        ..KillCare::new(Duration::from_secs(1))
    };
    let ended = tree::end_marked(caller::MARK, sid.as_str(), care)?;
    Ok(!ended.asked.is_empty() || !ended.killed.is_empty())
}
