//! The sessions as they change: a model for everything that shows a board, without any printing.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::error::Result;
use crate::listing::list;
use crate::listing::row::{self, Summary};
use crate::listing::waits;
use crate::model::session::State;
use crate::process::wait::{Change, Watch};
use crate::selection::Selection;
use crate::session::control::recover;
use crate::store::list::{Listed, Listing};

/// A flood of events leads to a refresh this often at most.
const REFRESH: Duration = Duration::from_millis(250);
/// The files of a session that works are looked at this often at most.
const RECOUNT: Duration = Duration::from_secs(2);

/// The rows of the selected sessions, kept up to date.
///
/// Wait until it can be read, or [`Board::deadline`] has come; then call [`Board::changed`] in the first case, and
/// [`Board::refresh`] in both.
pub struct Board<'c, 'a> {
    context: &'c Context<'a>,
    selection: Selection,
    /// Whether closed sessions of this clone are shown too.
    with_closed: bool,
    changes: Watch,
    rows: Vec<Summary>,
    /// When the work of each session was looked at.
    looked: BTreeMap<String, Instant>,
    /// When the next refresh is due.
    due: Option<Instant>,
    refreshed: Option<Instant>,
    /// When rows that were looked at too recently are looked at again.
    recount: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refreshed {
    /// No refresh was due.
    NotDue,
    Rows {
        /// Whether a session has come to a state in which it needs a person.
        called: bool,
    },
}

impl<'c, 'a> Board<'c, 'a> {
    /// Begins to watch. The first refresh is due at once.
    pub fn new(context: &'c Context<'a>, selection: Selection) -> Result<Self> {
        let store = &context.store;
        let mut changes = Watch::new()?;
        changes.add(&store.require_dir("run")?, Change::Settled)?;
        changes.add(&store.require_dir("spool")?, Change::Settled)?;
        Ok(Board {
            context,
            selection,
            with_closed: false,
            changes,
            rows: Vec::new(),
            looked: BTreeMap::new(),
            due: Some(Instant::now()),
            refreshed: None,
            recount: None,
        })
    }

    /// Shows closed sessions of this clone too.
    #[must_use]
    pub fn with_closed(mut self) -> Self {
        self.with_closed = true;
        self
    }

    /// Returns the rows from the records alone: known at once, without a look at any file.
    pub fn records(&self) -> Result<Vec<Summary>> {
        let now = self.context.env.now();
        let chosen = self.chosen_of(&list::read(self.context, &self.selection)?)?;
        let rows = chosen.iter();
        Ok(rows.map(|listed| Summary::of_record(listed, now)).collect())
    }

    /// Makes the next refresh look at everything again.
    pub fn look_again(&mut self) {
        self.looked.clear();
        self.due = Some(Instant::now());
    }

    /// Returns the rows, with times as of the last refresh.
    pub fn rows(&self) -> &[Summary] {
        &self.rows
    }

    /// Returns the rows, with times as of now.
    pub fn rows_now(&mut self) -> &[Summary] {
        let now = self.context.env.now();
        self.rows.iter_mut().for_each(|row| row.touch(now));
        &self.rows
    }

    /// Returns whether some agent works, so that times in the rows go on.
    pub fn is_working(&self) -> bool {
        self.rows.iter().any(|row| row.state.is_working())
    }

    /// Returns when to refresh, even if nothing changes.
    pub fn deadline(&self) -> Option<Instant> {
        [self.due, self.recount].into_iter().flatten().min()
    }

    /// Takes in that something has changed.
    pub fn changed(&mut self) {
        self.changes.take();
        let next = self.refreshed.map_or_else(Instant::now, |at| at + REFRESH);
        self.due = self.due.or(Some(next));
    }

    /// Reads the sessions anew, if that is due.
    pub fn refresh(&mut self) -> Result<Refreshed> {
        let now = Instant::now();
        if self.deadline().is_none_or(|at| at > now) {
            return Ok(Refreshed::NotDue);
        }
        let called = self.read()?;
        self.due = None;
        self.refreshed = Some(Instant::now());
        Ok(Refreshed::Rows { called })
    }

    /// Returns the chosen sessions; a crash is recorded first.
    fn choose(&self) -> Result<Vec<Listed>> {
        let mut listing = list::read(self.context, &self.selection)?;
        let died = |listing: &Listing| {
            let mut sessions = listing.sessions.iter();
            sessions.any(|listed| listed.session.status == State::Interrupted)
        };
        if died(&listing) {
            // A state that cannot be recorded now is shown anyway, and recorded later.
            let _ = recover::heal(self.context, &listing);
            listing = list::read(self.context, &self.selection)?;
        }
        self.chosen_of(&listing)
    }

    fn chosen_of(&self, listing: &Listing) -> Result<Vec<Listed>> {
        if !self.with_closed || !self.selection.is_plain() {
            return list::choose(listing, &self.selection);
        }
        let group = self.selection.group.as_deref();
        let fits = |listed: &&Listed| group.is_none() || listed.session.group.as_deref() == group;
        Ok(listing.sessions.iter().filter(fits).cloned().collect())
    }

    /// Reads the rows. Returns whether a session has come to a state in which it needs a person.
    fn read(&mut self) -> Result<bool> {
        let context = self.context;
        let chosen = self.choose()?;
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
                let _ = self.changes.add(&spool, Change::Written);
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
        // Places in the queue change without an event of the session itself.
        waits::explain(context, &mut rows.iter_mut().collect::<Vec<_>>());
        self.rows = rows;
        Ok(called)
    }
}

impl AsFd for Board<'_, '_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

/// Returns whether a person is wanted when a session comes to this state.
fn needs_person(state: State) -> bool {
    matches!(
        state,
        State::Waiting | State::Ready | State::Failed | State::Interrupted | State::Stuck
    )
}
