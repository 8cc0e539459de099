//! `git agent list --watch`: the listing painted again whenever a session changes, with a bell when one needs a person.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use git_agent::context::Context;
use git_agent::error::{Error, Kind, Result};
use git_agent::listing::row::{self, Summary};
use git_agent::model::session::State;
use git_agent::output::moment::Clock;
use git_agent::output::sessions::{self, When};
use git_agent::output::terminal::screen::Screen;
use git_agent::output::{Format, Ui, closed_pipe};
use git_agent::process::wait::{Change, Poll, Signals, Watch};
use git_agent::session::control::recover;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};

use crate::list::{self, List};

/// A flood of events is shown this often at most.
const REFRESH: Duration = Duration::from_millis(250);
/// The files of a session that works are looked at this often at most.
const RECOUNT: Duration = Duration::from_secs(2);
/// While somebody works the clock on the screen goes on.
const TICK: Duration = Duration::from_secs(1);

/// What a wait ended for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Change,
    Signal,
    Key,
    ReaderGone,
}

struct Board<'c, 'a> {
    context: &'c Context<'a>,
    ui: &'c Ui,
    args: &'c List,
    clock: Clock,
    rows: Vec<Summary>,
    looked: BTreeMap<String, Instant>,
    /// When rows that were looked at too recently are looked at again.
    recount: Option<Instant>,
    /// What was written last, where there is no screen to paint over.
    written: String,
}

/// Shows sessions until the reader has seen enough.
pub fn watch(context: &Context<'_>, ui: &Ui, args: &List) -> Result<u8> {
    let store = &context.store;
    let mut changes = Watch::new()?;
    changes.add(&store.require_dir("run")?, Change::Settled)?;
    changes.add(&store.require_dir("spool")?, Change::Settled)?;
    let mut signals = Signals::new(&[SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT])?;
    let mut screen = match ui.format() {
        Format::Human => Screen::enter(context.env, ui)?,
        _ => None,
    };
    let mut board = Board {
        context,
        ui,
        args,
        clock: Clock::local(context.env),
        rows: Vec::new(),
        looked: BTreeMap::new(),
        recount: None,
        written: String::new(),
    };
    let mut due = Some(Instant::now());
    let mut refreshed = None;
    loop {
        let now = Instant::now();
        if due.is_some_and(|due| due <= now) || board.recount.is_some_and(|at| at <= now) {
            let called = board.refresh(&mut changes)?;
            if let Some(screen) = screen.as_ref().filter(|_| called) {
                screen.ring()?;
            }
            due = None;
            refreshed = Some(Instant::now());
        }
        match &screen {
            Some(screen) => screen.paint(&board.paint(screen.size())?)?,
            None => board.write()?,
        }
        let tick = (screen.is_some() && board.is_working()).then(|| Instant::now() + TICK);
        let deadline = [due, board.recount, tick].into_iter().flatten().min();
        let mut poll = Poll::new();
        poll.read(Ready::Change, &changes);
        poll.read(Ready::Signal, &signals);
        let (keyboard, pipe) = (screen.as_ref().and_then(Screen::keyboard), closed_pipe());
        if let Some(keyboard) = &keyboard {
            poll.read(Ready::Key, keyboard);
        }
        if let Some(pipe) = &pipe {
            poll.read(Ready::ReaderGone, pipe);
        }
        for ready in poll.wait(deadline)? {
            match ready {
                Ready::Change => {
                    changes.take();
                    let next = refreshed.map_or_else(Instant::now, |at: Instant| at + REFRESH);
                    due = due.or(Some(next));
                }
                Ready::ReaderGone => return Ok(0),
                Ready::Key => {
                    let keys = screen.as_ref().and_then(Screen::keys);
                    // Without a keyboard nobody could ever end it.
                    if keys.is_none_or(|keys| keys.iter().any(|key| matches!(key, b'q' | b'Q'))) {
                        return Ok(0);
                    }
                }
                Ready::Signal => {
                    for signal in signals.take() {
                        match signal {
                            SIGINT => return Ok(0),
                            SIGTERM | SIGHUP => {
                                return Err(Error::new(Kind::Signal(signal), ""));
                            }
                            SIGCONT => {
                                if let Some(screen) = &mut screen {
                                    screen.take()?;
                                }
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
    }
}

impl Board<'_, '_> {
    /// Reads the sessions anew. Returns whether one has come to a state in which it needs a person.
    fn refresh(&mut self, changes: &mut Watch) -> Result<bool> {
        let context = self.context;
        let mut listing = list::read(context, &self.args.choice)?;
        let died = |listing: &git_agent::store::list::Listing| {
            listing
                .sessions
                .iter()
                .any(|listed| listed.session.status == State::Interrupted)
        };
        if died(&listing) {
            // What cannot be recorded now is shown all the same, and tried again later.
            let _ = recover::heal(context, &listing);
            listing = list::read(context, &self.args.choice)?;
        }
        let chosen = list::choose(&listing, &self.args.choice)?;
        let before: BTreeMap<String, Summary> = std::mem::take(&mut self.rows)
            .into_iter()
            .map(|row| (row.id.clone(), row))
            .collect();
        let now = Instant::now();
        self.recount = None;
        let mut rows: Vec<Summary> = Vec::with_capacity(chosen.len());
        let mut stale = Vec::new();
        let mut called = false;
        for (index, listed) in chosen.iter().enumerate() {
            let mut row = Summary::of_record(listed, context.env.now());
            let old = before.get(&row.id);
            let moved = old.is_none_or(|old| old.session.status != row.session.status);
            called |= moved && !before.is_empty() && needs_person(row.state);
            let same = old.is_some_and(|old| old.session.seq == row.session.seq);
            let next = self.looked.get(&row.id).map(|at| *at + RECOUNT);
            match (old, next) {
                (Some(old), Some(next)) if !moved && (same || next > now) => {
                    row.adopt(old);
                    if !same {
                        self.recount = Some(self.recount.map_or(next, |at| at.min(next)));
                        // Seen as not counted yet by the next refresh.
                        row.session.seq = old.session.seq;
                    }
                }
                _ => stale.push(index),
            }
            if row.mine {
                let spool = context.store.spool_dir(listed.session.sid);
                // One without a spool has nothing to tell until it gets one, and that is seen too.
                let _ = changes.add(&spool, Change::Written);
            }
            rows.push(row);
        }
        let mut wanted: Vec<&mut Summary> = rows
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| stale.contains(index))
            .map(|(_, row)| row)
            .collect();
        row::look(context, &mut wanted);
        for row in wanted {
            self.looked.insert(row.id.clone(), now);
        }
        self.rows = rows;
        Ok(called)
    }

    fn is_working(&self) -> bool {
        self.rows.iter().any(|row| row.state.is_working())
    }

    /// Returns the table as it fits the screen, with one line below that says how to leave.
    fn paint(&mut self, (columns, rows): (usize, usize)) -> Result<String> {
        let now = self.context.env.now();
        self.rows.iter_mut().for_each(|row| row.touch(now));
        let table = sessions::table(&self.rows, &When::At(self.clock.clone()));
        let mut bytes = Vec::new();
        table.write(&mut bytes, self.ui.palette(), Some(columns))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let room = rows.saturating_sub(2).max(1);
        let total = text.lines().count();
        let mut shown: Vec<&str> = text.lines().take(room).collect();
        let below = match total.saturating_sub(room) {
            0 => format!("{} - q to leave", count(&self.rows)),
            left => format!("{} - {left} more - q to leave", count(&self.rows)),
        };
        let below: String = below.chars().take(columns).collect();
        shown.push("");
        let mut text = shown.join("\n");
        text += &format!(
            "\n{}",
            self.ui
                .palette()
                .paint(git_agent::output::terminal::style::Slot::Dim, below)
        );
        Ok(text)
    }

    /// Writes the listing where there is no screen: again only when something in it changed.
    fn write(&mut self) -> Result<()> {
        let state = self
            .rows
            .iter()
            .map(|row| sessions::record(row).join("\t"))
            .collect::<Vec<_>>()
            .join("\n");
        if state == self.written {
            return Ok(());
        }
        if !self.written.is_empty() && self.ui.format() == Format::Human {
            std::io::Write::write_all(&mut self.ui.out(), b"\n")?;
        }
        self.written = state;
        list::write(self.context, self.ui, &self.rows)?;
        std::io::Write::flush(&mut self.ui.out())?;
        Ok(())
    }
}

/// Returns whether a person is wanted when a session comes to this state.
fn needs_person(state: State) -> bool {
    matches!(
        state,
        State::Waiting | State::Ready | State::Failed | State::Interrupted | State::Stuck
    )
}

/// Returns how many sessions are in which state.
fn count(rows: &[Summary]) -> String {
    let mut counts: BTreeMap<State, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.state).or_default() += 1;
    }
    let words: Vec<String> = counts
        .iter()
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    match words.as_slice() {
        [] => "no sessions".to_owned(),
        words => words.join(", "),
    }
}
