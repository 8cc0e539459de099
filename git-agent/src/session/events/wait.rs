//! Waits until sessions are in a state, without polling.

use std::time::{Duration, Instant};

use crate::config::settings;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::event::{Body, Event};
use crate::model::session::{Session, SessionId, State};
use crate::process::wait::{Change, Poll, Watch};
use crate::session::control;
use crate::session::control::recover;
use crate::session::events::follow::{self, Follow};
use crate::store::log::spool;

/// How long a supervisor may take to end after its session has come to rest.
const LETTING_GO: Duration = Duration::from_secs(5);

/// The states to wait for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The states that end the wait. Later states in a session's life end it too.
    pub states: Vec<State>,
    /// Whether one session is enough.
    pub any: bool,
    /// Whether the first session that ends otherwise ends the wait.
    pub fail_fast: bool,
    /// When to give up.
    pub deadline: Option<Instant>,
}

/// How a wait ended.
#[derive(Debug)]
pub enum WaitOutcome {
    /// As wished.
    Reached(Vec<Session>),
    /// These will not get there by themselves.
    Ended(Vec<Session>),
    /// These were not there in time.
    TimedOut(Vec<Session>),
}

struct Awaited {
    follow: Follow,
    session: Session,
    /// The state that its last turn or verdict left it in.
    recorded: State,
    /// Whether it has been in a wished state that does not last.
    passed: bool,
    over: bool,
}

impl Awaited {
    fn is_there(&self, wish: &Wish) -> bool {
        let state = self.session.status;
        let lasting = !state.needs_supervisor();
        let wished = wish.states.iter().any(|wished| match wished {
            // A turn that ended well counts, whatever reviewers think of the work.
            State::Ready => reaches(self.recorded, State::Ready),
            wished => reaches(state, *wished),
        });
        // A session that rests here but has a prompt to go on with is not there yet.
        self.passed || (wished && (!lasting || self.over || state == State::Draft))
    }
}

/// Returns whether a session in a state has got as far as another.
fn reaches(state: State, wished: State) -> bool {
    state == wished
        || match wished {
            State::Ready => matches!(state, State::Approved | State::Merged),
            State::Approved => state == State::Merged,
            _ => false,
        }
}

/// Corrects the recorded state of a session that has come to rest by the verdicts on it.
pub type Settle<'a> = &'a dyn Fn(&mut Session);

/// Waits for sessions of this clone. One that has come to rest is free for the next command when this returns.
pub fn wait(
    context: &Context<'_>,
    sessions: &[SessionId],
    wish: &Wish,
    settle: Settle<'_>,
) -> Result<WaitOutcome> {
    let outcome = wait_for_states(context, sessions, wish, settle)?;
    let (WaitOutcome::Reached(there) | WaitOutcome::Ended(there) | WaitOutcome::TimedOut(there)) =
        &outcome;
    if context.config.require(&settings::LINGER)?.is_zero() {
        let left = wish
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let patience = left.map_or(LETTING_GO, |left| left.min(LETTING_GO));
        for session in there.iter().filter(|session| is_at_rest(session)) {
            control::idle::wait_until_free(context, session.sid, patience)?;
        }
    }
    Ok(outcome)
}

fn is_at_rest(session: &Session) -> bool {
    session.status != State::Draft && !session.status.needs_supervisor()
}

fn wait_for_states(
    context: &Context<'_>,
    sessions: &[SessionId],
    wish: &Wish,
    settle: Settle<'_>,
) -> Result<WaitOutcome> {
    let store = &context.store;
    let mut watch = Watch::new()?;
    watch.add(&store.require_dir("run")?, Change::Settled)?;
    let mut all = Vec::with_capacity(sessions.len());
    for sid in sessions {
        let session = require(context, *sid)?;
        let follow = Follow::after(store, *sid, session.seq);
        follow.watch(store, &mut watch)?;
        all.push(Awaited {
            follow,
            recorded: session.status,
            session,
            passed: false,
            over: false,
        });
    }
    let mut only_events = false;
    loop {
        for awaited in &mut all {
            look(context, awaited, wish, only_events)?;
            if awaited.over {
                settle(&mut awaited.session);
            }
        }
        let (there, missing): (Vec<&Awaited>, Vec<&Awaited>) =
            all.iter().partition(|awaited| awaited.is_there(wish));
        if missing.is_empty() || (wish.any && !there.is_empty()) {
            return Ok(WaitOutcome::Reached(sessions_of(&there)));
        }
        let (ended, others): (Vec<&Awaited>, Vec<&Awaited>) =
            missing.iter().copied().partition(|awaited| awaited.over);
        let soon_enough = wish.fail_fast && !wish.any;
        if !ended.is_empty() && (soon_enough || others.is_empty()) {
            return Ok(WaitOutcome::Ended(sessions_of(&ended)));
        }
        let mut poll = Poll::new();
        poll.read((), &watch);
        if poll.wait(wish.deadline)?.is_empty() {
            return Ok(WaitOutcome::TimedOut(sessions_of(&missing)));
        }
        only_events = watch.take().iter().all(|name| name == spool::FILE);
    }
}

fn sessions_of(all: &[&Awaited]) -> Vec<Session> {
    all.iter().map(|awaited| awaited.session.clone()).collect()
}

fn require(context: &Context<'_>, sid: SessionId) -> Result<Session> {
    let found = follow::look(context, sid)?;
    let (session, _) = found.ok_or_else(|| Error::fatal(format!("session {sid} is gone")))?;
    Ok(session)
}

/// Reads a session again. New events without a change of state leave it as it was.
fn look(
    context: &Context<'_>,
    awaited: &mut Awaited,
    wish: &Wish,
    only_events: bool,
) -> Result<()> {
    let sid = awaited.follow.sid();
    let news = awaited.follow.news(&context.store)?;
    let is_change = |event: &Event| matches!(event.body, Body::Status { .. });
    if only_events && !news.iter().any(is_change) {
        return Ok(());
    }
    let Some((mut session, mut over)) = follow::look(context, sid)? else {
        return Err(Error::fatal(format!("session {sid} is gone")));
    };
    if session.status == State::Interrupted {
        recover::notice(context, &session)?;
        if let Some((again, over_again)) = follow::look(context, sid)? {
            (session, over) = (again, over_again);
        }
    }
    // States that pass quickly are seen in the events, however late this process wakes up.
    let passed = |event: &Event| match &event.body {
        Body::Status { to, .. } => to.needs_supervisor() && wish.states.contains(to),
        _ => false,
    };
    awaited.passed |= news.iter().any(passed);
    awaited.recorded = session.status;
    awaited.session = session;
    awaited.over = over;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beyond_counts() {
        assert!(reaches(State::Ready, State::Ready));
        assert!(reaches(State::Merged, State::Ready));
        assert!(reaches(State::Merged, State::Approved));
        assert!(!reaches(State::Failed, State::Ready));
        assert!(!reaches(State::Ready, State::Approved));
    }
}
