//! The events of several sessions in the order of time: all of them, or the last ones.

use std::collections::BTreeMap;

use crate::context::Context;
use crate::env::Millis;
use crate::error::Result;
use crate::model::event::{Body, Event};
use crate::model::session::SessionId;
use crate::session::events::{self, All};
use crate::store::list::Listed;

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

/// As [`tell`], but only the last `count` wanted events if a count is given. `in_words` is as of [`Last`].
pub fn tell_some(
    context: &Context<'_>,
    sessions: &[Listed],
    (count, in_words): (Option<usize>, bool),
    wanted: &dyn Fn(&Event) -> bool,
    each: &mut dyn FnMut(usize, Event) -> Result<()>,
) -> Result<Ends> {
    let Some(count) = count else {
        return tell(context, sessions, wanted, each);
    };
    let last = Last {
        count,
        in_words,
        wanted,
    };
    tell_last(context, sessions, &last, each)
}

/// Joins the pieces of a message for a reader, who sees it as one. As records they stay apart.
#[derive(Debug, Default)]
pub struct Join {
    held: Option<(usize, Event)>,
}

impl Join {
    /// Takes an event of the session with a number. Returns the events to be told now.
    pub fn take(&mut self, index: usize, event: Event) -> Vec<(usize, Event)> {
        if let Some((at, earlier)) = &mut self.held
            && *at == index
            && earlier.body.take_more(&event.body)
        {
            return Vec::new();
        }
        self.held.replace((index, event)).into_iter().collect()
    }

    /// Takes an event that is only counted: a message goes on after it, a state does not.
    pub fn take_aside(&mut self, index: usize, event: Event) -> Vec<(usize, Event)> {
        let is_status = |(_, held): &mut (usize, Event)| matches!(held.body, Body::Status { .. });
        let status = self.held.take_if(is_status);
        status.into_iter().chain([(index, event)]).collect()
    }

    /// Returns the last event.
    pub fn end(self) -> Option<(usize, Event)> {
        self.held
    }
}

/// Which of the last events are shown.
pub struct Last<'w> {
    /// How many.
    pub count: usize,
    /// Whether they are shown as text: the pieces of a message count as one, and usage is shown with the next event.
    pub in_words: bool,
    /// Whether an event is shown.
    pub wanted: &'w dyn Fn(&Event) -> bool,
}

impl Last<'_> {
    /// Returns the index of the first event to show.
    fn start(&self, events: &[(usize, Event)]) -> usize {
        let mut left = self.count;
        for at in (0..events.len()).rev() {
            let counts = self.counts(events, at);
            if left == 0 && (counts || self.count == 0) {
                return at + 1;
            }
            left = left.saturating_sub(usize::from(counts));
        }
        0
    }

    /// Keeps only the events to show, and the usage of the first one's turn, wherever it is.
    fn keep(&self, events: &mut Vec<(usize, Event)>) {
        let mut told = events.split_off(self.start(events));
        let turn_of = |index: usize| {
            let first = told.iter().find(|(same, _)| *same == index);
            first.map(|(_, event)| event.turn)
        };
        events.retain(|(index, event)| {
            let usage = matches!(event.body, Body::Usage { .. });
            self.in_words && usage && turn_of(*index) == Some(event.turn)
        });
        events.append(&mut told);
    }

    /// Returns whether the event at a place counts.
    fn counts(&self, events: &[(usize, Event)], at: usize) -> bool {
        let only_counted = |event: &Event| matches!(event.body, Body::Usage { .. });
        let (index, event) = &events[at];
        let next = || {
            events[at + 1..]
                .iter()
                .find(|(_, next)| !only_counted(next))
        };
        let goes_on = || {
            next().is_some_and(|(same, next)| same == index && event.body.goes_on_in(&next.body))
        };
        !self.in_words || !only_counted(event) && !goes_on()
    }
}

/// As [`tell`], but only the last wanted events.
pub fn tell_last(
    context: &Context<'_>,
    sessions: &[Listed],
    last: &Last<'_>,
    each: &mut dyn FnMut(usize, Event) -> Result<()>,
) -> Result<Ends> {
    let mut ends = Ends::new();
    let mut kept: Vec<(usize, Event)> = Vec::new();
    for (index, listed) in sessions.iter().enumerate() {
        let (events, end) = last_wanted(context, (index, listed), last)?;
        ends.insert(listed.session.sid, end);
        kept.extend(events);
    }
    // Stable, so that a session's own order stands where its clock went back.
    kept.sort_by_key(|(_, event)| event.ts);
    last.keep(&mut kept);
    for (index, event) in kept {
        each(index, event)?;
    }
    Ok(ends)
}

/// Returns the last wanted events of one session, reading backwards only as far as needed.
fn last_wanted(
    context: &Context<'_>,
    (index, listed): (usize, &Listed),
    last: &Last<'_>,
) -> Result<(Vec<(usize, Event)>, u64)> {
    let mut look = last.count.saturating_mul(2).max(64);
    loop {
        let events = events::tail_of(context, listed, look)?;
        let all = events.len() < look;
        let end = events.last().map_or(0, |event| event.seq);
        let wanted = events.into_iter().filter(|event| (last.wanted)(event));
        let mut told: Vec<_> = wanted.map(|event| (index, event)).collect();
        // The usage or the beginning of the first event may be before it.
        if all || last.start(&told) > 0 {
            last.keep(&mut told);
            return Ok((told, end));
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
