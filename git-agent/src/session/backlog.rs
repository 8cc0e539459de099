//! The events of several sessions as one story, in the order of time: all of them, or the last ones that fit.

use std::collections::BTreeMap;

use super::SessionId;
use super::context::Context;
use super::events::{self, All};
use crate::env::Millis;
use crate::error::Result;
use crate::store::list::Listed;
use crate::transcript::Event;

/// Which events are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter {
    /// Those that are not older.
    pub since: Option<Millis>,
    /// Those of one turn.
    pub turn: Option<u32>,
}

impl Filter {
    /// Returns whether an event is wanted.
    pub fn fits(&self, event: &Event) -> bool {
        self.since.is_none_or(|since| event.ts >= since)
            && self.turn.is_none_or(|turn| event.turn == turn)
    }
}

/// Where each session's story ended: the number of its last event.
pub type Ends = BTreeMap<SessionId, u64>;

/// Calls `each` with every event of the sessions that is wanted, in the order of time.
pub fn tell(
    context: &Context<'_>,
    sessions: &[Listed],
    wanted: &dyn Fn(&Event) -> bool,
    each: &mut dyn FnMut(usize, Event) -> Result<()>,
) -> Result<Ends> {
    let mut voices = Vec::with_capacity(sessions.len());
    for listed in sessions {
        voices.push(Voice::new(events::all(context, listed)?)?);
    }
    while let Some(index) = first(&voices) {
        if let Some(event) = voices[index].take()?
            && wanted(&event)
        {
            each(index, event)?;
        }
    }
    let ends = sessions.iter().zip(&voices);
    Ok(ends
        .map(|(listed, voice)| (listed.session.sid, voice.last))
        .collect())
}

/// As [`tell`], but only the last `count` wanted events.
pub fn tell_last(
    context: &Context<'_>,
    sessions: &[Listed],
    count: usize,
    wanted: &dyn Fn(&Event) -> bool,
    each: &mut dyn FnMut(usize, Event) -> Result<()>,
) -> Result<Ends> {
    let mut ends = Ends::new();
    let mut kept: Vec<(usize, Event)> = Vec::new();
    for (index, listed) in sessions.iter().enumerate() {
        let (events, last) = last_wanted(context, listed, count, wanted)?;
        ends.insert(listed.session.sid, last);
        kept.extend(events.into_iter().map(|event| (index, event)));
    }
    // Stable, so that a session's own order stands where its clock went back.
    kept.sort_by_key(|(_, event)| event.ts);
    let surplus = kept.len().saturating_sub(count);
    for (index, event) in kept.drain(surplus..) {
        each(index, event)?;
    }
    Ok(ends)
}

/// Returns the last wanted events of one session, reading backwards only as far as needed.
fn last_wanted(
    context: &Context<'_>,
    listed: &Listed,
    count: usize,
    wanted: &dyn Fn(&Event) -> bool,
) -> Result<(Vec<Event>, u64)> {
    let mut look = count.saturating_mul(2).max(64);
    loop {
        let mut events = events::tail_of(context, listed, look)?;
        let all = events.len() < look;
        let last = events.last().map_or(0, |event| event.seq);
        events.retain(|event| wanted(event));
        if all || events.len() >= count {
            let surplus = events.len().saturating_sub(count);
            events.drain(..surplus);
            return Ok((events, last));
        }
        look = look.saturating_mul(4);
    }
}

/// One session's events, with the next one in view.
struct Voice<'c> {
    events: All<'c>,
    next: Option<Event>,
    last: u64,
}

impl<'c> Voice<'c> {
    fn new(mut events: All<'c>) -> Result<Self> {
        let next = events.next().transpose()?;
        Ok(Voice {
            events,
            next,
            last: 0,
        })
    }

    fn take(&mut self) -> Result<Option<Event>> {
        let taken = self.next.take();
        self.next = self.events.next().transpose()?;
        if let Some(event) = &taken {
            self.last = event.seq;
        }
        Ok(taken)
    }
}

/// Returns who speaks next.
fn first(voices: &[Voice<'_>]) -> Option<usize> {
    let times = voices
        .iter()
        .enumerate()
        .filter_map(|(index, voice)| Some((voice.next.as_ref()?.ts, index)));
    times.min().map(|(_, index)| index)
}
