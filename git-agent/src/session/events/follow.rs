//! Follows a session's events: from the spool while it grows, from git once the spool is gone, and each event once.

use std::path::PathBuf;
use std::time::Duration;

use crate::context::Context;
use crate::error::Result;
use crate::model::event::Event;
use crate::model::session::{Session, SessionId, State};
use crate::process::lock;
use crate::process::wait::{Change, Watch};
use crate::session::supervisor::inbox::{Inbox, Message};
use crate::session::supervisor::launch;
use crate::store::Store;
use crate::store::log::spool;

/// How long a supervisor may have let go of a session for which it has found more to do.
const HANDOVER: Duration = Duration::from_millis(100);

/// A place in a session's events.
#[derive(Debug)]
pub struct Follow {
    sid: SessionId,
    spool: PathBuf,
    last: u64,
    /// Where in the spool the last event ended, if it was read there.
    offset: Option<u64>,
}

impl Follow {
    /// Returns a place after the event with this number; 0 is the beginning.
    pub fn after(store: &Store<'_>, sid: SessionId, last: u64) -> Self {
        Follow {
            sid,
            spool: store.spool_dir(sid),
            last,
            offset: None,
        }
    }

    pub fn sid(&self) -> SessionId {
        self.sid
    }

    /// Watches for whatever makes new events.
    pub fn watch(&self, store: &Store<'_>, watch: &mut Watch) -> Result<()> {
        let spool = store.require_dir(&format!("spool/{}", self.sid))?;
        watch.add(&spool, Change::Written)
    }

    /// Returns the events that came since the last call, oldest first.
    pub fn news(&mut self, store: &Store<'_>) -> Result<Vec<Event>> {
        let mut events = self.spooled()?;
        let continues = events
            .first()
            .is_some_and(|event| event.seq == self.last + 1);
        if !continues {
            // Nothing there, or a gap: the spool may have been emptied into git and begun anew.
            let mut earlier = self.in_git(store)?;
            if let Some(event) = earlier.last() {
                self.last = event.seq;
                self.offset = None;
                events = self.spooled()?;
            }
            earlier.append(&mut events);
            events = earlier;
        }
        if let Some(event) = events.last() {
            self.last = event.seq;
        }
        Ok(events)
    }

    fn spooled(&mut self) -> Result<Vec<Event>> {
        let tail = spool::read_tail(&self.spool, self.last, self.offset, u64::MAX)?;
        self.offset = Some(tail.end);
        Ok(tail.events)
    }

    fn in_git(&self, store: &Store<'_>) -> Result<Vec<Event>> {
        let Some(tip) = store.log_tip(self.sid)? else {
            return Ok(Vec::new());
        };
        let missing = tip.session.seq.saturating_sub(self.last);
        if missing == 0 {
            return Ok(Vec::new());
        }
        let count = usize::try_from(missing).unwrap_or(usize::MAX);
        let mut events = store.transcript_tail(tip.id, count)?;
        events.retain(|event| event.seq > self.last);
        Ok(events)
    }
}

/// Returns the current session, and whether it is at rest: it has started, it has no supervisor, and no prompt waits
/// for one. `None` when it is gone.
pub fn look(context: &Context<'_>, sid: SessionId) -> Result<Option<(Session, bool)>> {
    // The prompts first: one that is taken up meanwhile shows in the state, which is read after.
    let coming = has_prompt_coming(context, sid)?;
    let Some(session) = launch::current(&context.store, sid)? else {
        return Ok(None);
    };
    let idle = session.status != State::Draft && !session.status.needs_supervisor();
    Ok(Some((session, idle && !coming)))
}

/// Returns whether a prompt was sent that a running supervisor has not begun with yet.
fn has_prompt_coming(context: &Context<'_>, sid: SessionId) -> Result<bool> {
    let store = &context.store;
    if !store.dir().join("inbox").join(sid.as_str()).is_dir() {
        return Ok(false);
    }
    let waits = Inbox::open(store, sid)?
        .list()?
        .iter()
        .any(|(_, message)| matches!(message, Message::Prompt { .. }));
    if !waits {
        return Ok(false);
    }
    let lock = launch::run_lock(store, sid);
    if lock::is_held(&lock)? || launch::is_starting(store, sid)? {
        return Ok(true);
    }
    // A supervisor that finds a prompt after it has let go takes hold again at once.
    std::thread::sleep(HANDOVER);
    lock::is_held(&lock)
}
