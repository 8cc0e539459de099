//! Sessions pushed to a screen as they change: their rows, and the events of the one that is looked at.
//!
//! [`run`] blocks in a thread of its own. It sleeps until the kernel reports a change or a wish arrives, so that sessions
//! which do not change cost nothing.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::listing::row::Summary;
use crate::listing::watch::{Board, Refreshed};
use crate::model::event::Event;
pub use crate::process::wait::Bell;
use crate::process::wait::Poll;
use crate::selection::{self, Selection};
use crate::session::events;
use crate::session::events::follow::Follow;

/// How many events are read when a session is first looked at.
const BACKLOG: usize = 2000;
/// After an error, the sessions are read again no sooner than this.
const RETRY: Duration = Duration::from_secs(5);

/// One piece of news.
#[derive(Debug)]
pub enum News {
    /// The rows of all sessions.
    Rows {
        /// The rows.
        rows: Vec<Summary>,
        /// Whether they come from the records alone; the rest follows.
        is_draft: bool,
        /// Whether a session has come to a state in which it needs a person.
        called: bool,
    },
    /// Events of the followed session.
    Events {
        /// The session's id.
        id: String,
        /// The events, oldest first.
        events: Vec<Event>,
        /// Whether these are its last events, rather than further ones.
        is_first: bool,
    },
    /// The sessions or events cannot be read.
    Failed(Error),
}

/// A wish of the screen.
#[derive(Debug)]
enum Wish {
    Follow(Option<String>),
    Look,
    End,
}

/// The two ends share the wishes that were not read yet.
#[derive(Debug, Clone)]
pub struct Wishes {
    waiting: Arc<Mutex<VecDeque<Wish>>>,
    bell: Bell,
}

impl Wishes {
    /// Returns wishes for a [`run`] that is about to begin.
    pub fn new() -> Result<Self> {
        Ok(Wishes {
            waiting: Arc::default(),
            bell: Bell::new()?,
        })
    }

    /// Asks for the events of a session, and no longer for those of another.
    pub fn follow(&self, id: Option<String>) {
        self.put(Wish::Follow(id));
    }

    /// Asks for a look at everything, also at what seems unchanged.
    pub fn look(&self) {
        self.put(Wish::Look);
    }

    /// Ends it.
    pub fn end(&self) {
        self.put(Wish::End);
    }

    fn put(&self, wish: Wish) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(wish);
        self.bell.ring();
    }

    fn take(&self) -> Vec<Wish> {
        self.bell.silence();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.drain(..).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Change,
    Wish,
}

/// The session whose events are pushed.
struct Followed {
    id: String,
    /// Nothing for a session of a teammate, which only a fetch changes.
    place: Option<Follow>,
}

/// Pushes news of the selected sessions to `tell` until it is told to end.
pub fn run(
    context: &Context<'_>,
    selection: Selection,
    wishes: &Wishes,
    tell: &mut dyn FnMut(News),
) -> Result<()> {
    let mut board = Board::new(context, selection)?.with_closed();
    let mut followed: Option<Followed> = None;
    match board.records() {
        Ok(rows) => tell(News::Rows {
            rows,
            is_draft: true,
            called: false,
        }),
        Err(error) => tell(News::Failed(error)),
    }
    let mut again: Option<Instant> = None;
    loop {
        for wish in wishes.take() {
            match wish {
                Wish::End => return Ok(()),
                Wish::Look => {
                    again = None;
                    board.look_again();
                }
                Wish::Follow(None) => followed = None,
                Wish::Follow(Some(id)) => {
                    followed = match begin(context, &id) {
                        Ok((begun, events)) => {
                            tell(News::Events {
                                id,
                                events,
                                is_first: true,
                            });
                            Some(begun)
                        }
                        Err(error) => {
                            tell(News::Failed(error));
                            None
                        }
                    };
                }
            }
        }
        if let Some(followed) = &mut followed
            && let Some(place) = &mut followed.place
        {
            match place.news(&context.store) {
                Ok(events) if events.is_empty() => {}
                Ok(events) => tell(News::Events {
                    id: followed.id.clone(),
                    events,
                    is_first: false,
                }),
                Err(error) => tell(News::Failed(error)),
            }
        }
        if again.is_none_or(|at| at <= Instant::now()) {
            again = None;
            match board.refresh() {
                Ok(Refreshed::NotDue) => {}
                Ok(Refreshed::Rows { called }) => tell(News::Rows {
                    rows: board.rows().to_vec(),
                    is_draft: false,
                    called,
                }),
                Err(error) => {
                    tell(News::Failed(error));
                    again = Some(Instant::now() + RETRY);
                }
            }
        }
        let mut poll = Poll::new();
        let (changes, bell) = (board.as_fd(), wishes.bell.as_fd());
        poll.read(Ready::Change, &changes);
        poll.read(Ready::Wish, &bell);
        if poll
            .wait(again.or(board.deadline()))?
            .contains(&Ready::Change)
        {
            board.changed();
        }
    }
}

/// Reads the last events of a session, and returns the place after them.
fn begin(context: &Context<'_>, id: &str) -> Result<(Followed, Vec<Event>)> {
    let listed = selection::select_one(context, Some(id))?;
    let events = events::tail_of(context, &listed, BACKLOG)?;
    let last = events.last().map_or(0, |event| event.seq);
    let sid = listed.session.sid;
    let place = listed
        .is_mine()
        .then(|| Follow::after(&context.store, sid, last));
    let id = id.to_owned();
    Ok((Followed { id, place }, events))
}
