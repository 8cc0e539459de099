//! A session's events for reading: from git, then what is still in the spool; all of them, the last ones, or as they come.

use super::SessionId;
use super::context::Context;
use crate::error::Result;
use crate::git::ObjectId;
use crate::store::spool;
use crate::transcript::Event;

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
    for event in spool::read_tail(&context.store.spool_dir(sid), last, 0, u64::MAX)?.events {
        if !each(event)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the last `count` events of one of this clone's sessions.
pub fn tail(context: &Context<'_>, sid: SessionId, count: usize) -> Result<Vec<Event>> {
    let tip = context.store.log_tip(sid)?;
    let (seq, hint) = tip
        .as_ref()
        .map_or((0, 0), |tip| (tip.session.seq, tip.session.spool.bytes));
    let spooled = spool::read_tail(&context.store.spool_dir(sid), seq, hint, u64::MAX)?.events;
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
