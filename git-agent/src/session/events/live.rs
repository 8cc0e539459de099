//! Follows the events of several sessions in the order of time, without polling.

use std::os::fd::BorrowedFd;

use crate::context::Context;
use crate::error::Result;
use crate::model::event::{Body, Event};
use crate::model::session::State;
use crate::process::wait::{Change, Poll, Watch};
use crate::session::control::recover;
use crate::session::events::follow::{self, Follow};
use crate::session::events::timeline::Ends;
use crate::session::list;
use crate::store::list::{Listed, Scope};
use crate::store::log::spool;

/// Which sessions to follow, and how long.
pub struct FollowPlan {
    pub sessions: Vec<Listed>,
    /// The last event of each that was told already.
    pub ends: Ends,
    /// Whether to go on when all of them have ended.
    pub forever: bool,
    /// Whether sessions that are made meanwhile are followed too.
    pub all: bool,
}

/// The receiver of the events.
pub trait Audience {
    /// Hears an event of a session.
    fn event(&mut self, listed: &Listed, event: Event) -> Result<()>;

    /// Hears that all events so far were told.
    fn caught_up(&mut self) -> Result<()>;

    /// Returns a descriptor that can be read once the audience is gone.
    fn gone(&self) -> Option<BorrowedFd<'static>>;
}

struct Followed {
    listed: Listed,
    follow: Follow,
    over: bool,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Change,
    AudienceGone,
}

/// Follows sessions until they end, or forever.
pub fn follow(context: &Context<'_>, plan: FollowPlan, audience: &mut dyn Audience) -> Result<()> {
    let store = &context.store;
    let mut watch = Watch::new()?;
    watch.add(&store.require_dir("run")?, Change::Settled)?;
    watch.add(&store.require_dir("spool")?, Change::Settled)?;
    let mut all = Vec::with_capacity(plan.sessions.len());
    for listed in plan.sessions {
        // Nothing more comes from a teammate's session but by a fetch.
        if listed.is_mine() {
            let after = plan.ends.get(&listed.session.sid).copied().unwrap_or(0);
            all.push(start(context, listed, after, &mut watch)?);
        }
    }
    let mut look = true;
    loop {
        look |= tell(context, audience, &mut all)?;
        if look {
            judge(context, audience, &mut all)?;
            if !plan.forever && all.iter().all(|followed| followed.over) {
                return Ok(());
            }
        }
        audience.caught_up()?;
        let mut poll = Poll::new();
        poll.read(Ready::Change, &watch);
        let gone = audience.gone();
        if let Some(gone) = &gone {
            poll.read(Ready::AudienceGone, gone);
        }
        if poll.wait(None)?.contains(&Ready::AudienceGone) {
            return Ok(());
        }
        let changed = watch.take();
        // Anything but a growing spool may be the end of a session, or a new one.
        look = changed.iter().any(|name| name != spool::FILE);
        if look && plan.all {
            welcome(context, &mut all, &mut watch)?;
        }
    }
}

fn start(context: &Context<'_>, listed: Listed, after: u64, watch: &mut Watch) -> Result<Followed> {
    let store = &context.store;
    let follow = Follow::after(store, listed.session.sid, after);
    follow.watch(store, watch)?;
    Ok(Followed {
        listed,
        follow,
        over: false,
    })
}

/// Tells the new events. Returns whether some session changed its state.
fn tell(context: &Context<'_>, audience: &mut dyn Audience, all: &mut [Followed]) -> Result<bool> {
    let mut news: Vec<(usize, Event)> = Vec::new();
    for (index, followed) in all.iter_mut().enumerate() {
        let events = followed.follow.news(&context.store)?;
        news.extend(events.into_iter().map(|event| (index, event)));
    }
    news.sort_by_key(|(_, event)| event.ts);
    let mut changed = false;
    for (index, event) in news {
        changed |= matches!(event.body, Body::Status { .. });
        audience.event(&all[index].listed, event)?;
    }
    Ok(changed)
}

/// Finds out which sessions have ended, and tells the last events of them.
fn judge(context: &Context<'_>, audience: &mut dyn Audience, all: &mut [Followed]) -> Result<()> {
    for followed in all.iter_mut() {
        let sid = followed.follow.sid();
        followed.over = match follow::look(context, sid)? {
            Some((session, over)) => {
                if session.status == State::Interrupted {
                    recover::notice(context, &session)?;
                }
                over
            }
            None => true,
        };
    }
    // The events that were recorded before the look, and by it.
    tell(context, audience, all)?;
    Ok(())
}

/// Takes in sessions that were made meanwhile.
fn welcome(context: &Context<'_>, all: &mut Vec<Followed>, watch: &mut Watch) -> Result<()> {
    for listed in list::list(context, Scope::Mine)?.sessions {
        let sid = listed.session.sid;
        let known = all.iter().any(|followed| followed.follow.sid() == sid);
        if !known && !listed.session.status.is_closed() {
            all.push(start(context, listed, 0, watch)?);
        }
    }
    Ok(())
}
