//! Reads a session's events, first from git and then from the spool: all of them, the last ones, or as they come.

pub mod follow;
pub mod live;
pub mod timeline;
pub mod wait;

use crate::context::Context;
use crate::error::Result;
use crate::git::ObjectId;
use crate::model::event::Event;
use crate::model::session::SessionId;
use crate::session::events::follow::Follow;
use crate::store::Store;
use crate::store::list::Listed;
use crate::store::log::{Transcript, spool};

/// Returns the whole of a large output, which is kept beside the events of a session.
pub fn attached(context: &Context<'_>, listed: &Listed, name: &str) -> Result<Option<Vec<u8>>> {
    context.store.attached(listed, name)
}

/// Calls `each` with every event of a session, oldest first, until it returns `false`. `tip` is the log in git, if any.
pub fn for_each(
    context: &Context<'_>,
    sid: SessionId,
    tip: Option<ObjectId>,
    each: &mut dyn FnMut(Event) -> Result<bool>,
) -> Result<()> {
    let mut last = 0;
    if let Some(tip) = tip {
        for event in context.store.transcript(tip)? {
            let event = event?;
            last = event.seq;
            if !each(event)? {
                return Ok(());
            }
        }
    }
    for event in Follow::after(&context.store, sid, last).news(&context.store)? {
        if !each(event)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the last `count` events of one of this clone's sessions.
pub fn tail(context: &Context<'_>, sid: SessionId, count: usize) -> Result<Vec<Event>> {
    let mut tip = context.store.log_tip(sid)?;
    let spooled = loop {
        let seq = tip.as_ref().map_or(0, |tip| tip.session.seq);
        let spooled = spool::read_tail(&context.store.spool_dir(sid), seq, None, u64::MAX)?.events;
        // The events of a spool that moved to git between the two reads would be missed.
        let now = context.store.log_tip(sid)?;
        if now.as_ref().map(|tip| tip.id) == tip.as_ref().map(|tip| tip.id) {
            break spooled;
        }
        tip = now;
    };
    let mut events = Vec::new();
    if let Some(tip) = tip.filter(|_| spooled.len() < count) {
        events = context
            .store
            .transcript_tail(tip.id, count - spooled.len())?;
    }
    events.extend(spooled);
    let surplus = events.len().saturating_sub(count);
    events.drain(..surplus);
    Ok(events)
}

/// Returns the last `count` events of any session.
pub fn tail_of(context: &Context<'_>, listed: &Listed, count: usize) -> Result<Vec<Event>> {
    if listed.is_mine() {
        return tail(context, listed.session.sid, count);
    }
    let mut events = match listed.tip {
        Some(tip) => context.store.transcript_tail(tip, count)?,
        None => Vec::new(),
    };
    let surplus = events.len().saturating_sub(count);
    events.drain(..surplus);
    Ok(events)
}

/// Returns all events of a session one by one, oldest first: those in git, then those in the spool.
pub fn all<'c>(context: &'c Context<'_>, listed: &Listed) -> Result<All<'c>> {
    let in_git = listed
        .tip
        .map(|tip| context.store.transcript(tip))
        .transpose()?;
    Ok(All {
        store: &context.store,
        in_git,
        spooled: listed.is_mine().then_some(listed.session.sid),
        last: 0,
        rest: Vec::new().into_iter(),
    })
}

/// The events of a session, read as they are asked for.
#[derive(Debug)]
pub struct All<'c> {
    store: &'c Store<'c>,
    in_git: Option<Transcript<'c>>,
    spooled: Option<SessionId>,
    last: u64,
    rest: std::vec::IntoIter<Event>,
}

impl Iterator for All<'_> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(transcript) = &mut self.in_git {
            if let Some(event) = transcript.next() {
                if let Ok(event) = &event {
                    self.last = event.seq;
                }
                return Some(event);
            }
            self.in_git = None;
        }
        if let Some(sid) = self.spooled.take() {
            // Events of the spool may be in git by now.
            match Follow::after(self.store, sid, self.last).news(self.store) {
                Ok(events) => self.rest = events.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
        self.rest.next().map(Ok)
    }
}
