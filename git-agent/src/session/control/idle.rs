//! Tells whether an agent works in a session, and waits until it does not.

use std::time::{Duration, Instant};

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::session::{Session, SessionId};
use crate::process::lock;
use crate::process::wait::{Change, Poll, Watch};
use crate::session::supervisor::inbox::{Inbox, Message};
use crate::session::supervisor::launch;

/// How long a supervisor without work may take to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// Waits until a session's supervisor has ended.
pub fn wait_until_free(context: &Context<'_>, sid: SessionId, patience: Duration) -> Result<bool> {
    let lock = launch::run_lock(&context.store, sid);
    wait_while(context, patience, || lock::is_held(&lock))
}

/// Waits until the process that holds a session now has ended or let go. A later prompt may have started another by then.
pub fn wait_for_holder(context: &Context<'_>, sid: SessionId, patience: Duration) -> Result<bool> {
    let lock = launch::run_lock(&context.store, sid);
    let mut first = None;
    wait_while(context, patience, || {
        let holder = lock::holder(&lock)?;
        if first.is_none() {
            first.clone_from(&holder);
        }
        // One that has just begun may not have written its name.
        let same = holder.is_none() || holder == first;
        Ok(same && lock::is_held(&lock)?)
    })
}

/// Waits while something holds that changes with the files about running processes. Returns whether it ended in time.
fn wait_while(
    context: &Context<'_>,
    patience: Duration,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<bool> {
    let deadline = Instant::now() + patience;
    let mut watch = Watch::new()?;
    watch.add(&context.store.require_dir("run")?, Change::Settled)?;
    loop {
        if !holds()? {
            return Ok(true);
        }
        let mut poll = Poll::new();
        poll.read((), &watch);
        if poll.wait(Some(deadline))?.is_empty() {
            return Ok(!holds()?);
        }
        watch.take();
    }
}

/// Makes sure that a session is idle. A supervisor whose turn is over gets the time it needs to end; one that stays for
/// the next prompt is asked to end.
pub fn require_idle(context: &Context<'_>, session: &Session) -> Result<()> {
    if is_idle(context, session)? && make_free(context, session.sid)? {
        return Ok(());
    }
    let name = &session.name;
    Err(Error::fatal(format!("session '{name}' is at work"))
        .hint(format!("git agent wait {}", shell_word(name)))
        .hint(format!(
            "or end its turn: git agent stop {}",
            shell_word(name)
        )))
}

/// Returns whether no turn runs in a session; its supervisor may stay for the next prompt.
pub fn is_idle(context: &Context<'_>, session: &Session) -> Result<bool> {
    if !lock::is_held(&launch::run_lock(&context.store, session.sid))? {
        return Ok(true);
    }
    let recorded = context.store.session(session.sid)?;
    Ok(recorded.is_none_or(|recorded| !recorded.status.needs_supervisor()))
}

/// Lets a supervisor end that has nothing to do. Returns whether none is left.
fn make_free(context: &Context<'_>, sid: SessionId) -> Result<bool> {
    if wait_until_free(context, sid, Duration::ZERO)? {
        return Ok(true);
    }
    let inbox = Inbox::open(&context.store, sid)?;
    let id = inbox.put(context.env, &Message::Leave)?;
    let free = wait_until_free(context, sid, PATIENCE);
    // One that was about to end anyway has not read it.
    inbox.remove(id)?;
    free
}
