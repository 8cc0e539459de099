//! Following sessions: their events are shown as they come, in the order of time, without looking from time to time.

use git_agent::error::Result;
use git_agent::model::event::{Body, Event};
use git_agent::model::session::State;
use git_agent::output::closed_pipe;
use git_agent::process::wait::{Change, Poll, Watch};
use git_agent::selection;
use git_agent::session::control::recover;
use git_agent::session::events::follow::{self, Follow};
use git_agent::session::events::timeline::Ends;
use git_agent::store::list::{Listed, Scope};
use git_agent::store::log::spool;

use crate::event_format::Show;

/// What to follow.
pub struct Plan {
    /// The sessions.
    pub sessions: Vec<Listed>,
    /// Up to where each was shown already.
    pub ends: Ends,
    /// Whether to go on when all of them have ended.
    pub forever: bool,
    /// Whether sessions that are made meanwhile are followed too.
    pub all: bool,
}

struct Followed {
    listed: Listed,
    follow: Follow,
    over: bool,
}

/// What a wait ended for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Change,
    ReaderGone,
}

/// Follows sessions until they end, or forever.
pub fn follow(show: &mut Show<'_, '_>, plan: Plan) -> Result<()> {
    let store = &show.context.store;
    let mut watch = Watch::new()?;
    watch.add(&store.require_dir("run")?, Change::Settled)?;
    watch.add(&store.require_dir("spool")?, Change::Settled)?;
    let mut all = Vec::with_capacity(plan.sessions.len());
    for listed in plan.sessions {
        // Nothing more comes from somebody else's session but by a fetch.
        if listed.is_mine() {
            let after = plan.ends.get(&listed.session.sid).copied().unwrap_or(0);
            all.push(start(show, listed, after, &mut watch)?);
        }
    }
    let mut look = true;
    loop {
        look |= tell(show, &mut all)?;
        if look {
            judge(show, &mut all)?;
            if !plan.forever && all.iter().all(|followed| followed.over) {
                return Ok(());
            }
        }
        show.flush()?;
        let mut poll = Poll::new();
        poll.read(Ready::Change, &watch);
        let pipe = closed_pipe();
        if let Some(pipe) = &pipe {
            poll.read(Ready::ReaderGone, pipe);
        }
        if poll.wait(None)?.contains(&Ready::ReaderGone) {
            return Ok(());
        }
        let changed = watch.take();
        // Anything but a growing spool may be the end of a session, or a new one.
        look = changed.iter().any(|name| name != spool::FILE);
        if look && plan.all {
            welcome(show, &mut all, &mut watch)?;
        }
    }
}

fn start(show: &Show<'_, '_>, listed: Listed, after: u64, watch: &mut Watch) -> Result<Followed> {
    let store = &show.context.store;
    let follow = Follow::after(store, listed.session.sid, after);
    follow.watch(store, watch)?;
    Ok(Followed {
        listed,
        follow,
        over: false,
    })
}

/// Shows what is new. Returns whether some session changed its state.
fn tell(show: &mut Show<'_, '_>, all: &mut [Followed]) -> Result<bool> {
    let mut news: Vec<(usize, Event)> = Vec::new();
    for (index, followed) in all.iter_mut().enumerate() {
        let events = followed.follow.news(&show.context.store)?;
        news.extend(events.into_iter().map(|event| (index, event)));
    }
    news.sort_by_key(|(_, event)| event.ts);
    let mut changed = false;
    for (index, event) in news {
        changed |= matches!(event.body, Body::Status { .. });
        if show.shows(&event) {
            show.event(&all[index].listed, event)?;
        }
    }
    Ok(changed)
}

/// Finds out which sessions have ended, and shows the last of them.
fn judge(show: &mut Show<'_, '_>, all: &mut [Followed]) -> Result<()> {
    for followed in all.iter_mut() {
        let sid = followed.follow.sid();
        followed.over = match follow::look(show.context, sid)? {
            Some((session, over)) => {
                if session.status == State::Interrupted {
                    recover::notice(show.context, &session)?;
                }
                over
            }
            None => true,
        };
    }
    // What was recorded before the look, and by it.
    tell(show, all)?;
    Ok(())
}

/// Takes in sessions that were made meanwhile.
fn welcome(show: &Show<'_, '_>, all: &mut Vec<Followed>, watch: &mut Watch) -> Result<()> {
    for listed in selection::list(show.context, Scope::Mine)?.sessions {
        let sid = listed.session.sid;
        let known = all.iter().any(|followed| followed.follow.sid() == sid);
        if !known && !listed.session.status.is_closed() {
            all.push(start(show, listed, 0, watch)?);
        }
    }
    Ok(())
}
