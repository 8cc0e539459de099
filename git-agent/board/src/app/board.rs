//! The board: sessions in columns, the selected card, marks, filter and order.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use git_agent::env::Millis;
use git_agent::listing::row::Summary;
use git_agent::model::known::Finding;
use git_agent::model::session::State;

use crate::app::App;
use crate::app::effect::{Effect, Job};

/// Closed sessions older than this are hidden.
const RECENT: u64 = 24 * 60 * 60 * 1000;

/// The columns.
pub const COLUMNS: [&str; 3] = ["To Do", "Doing", "Done"];

/// The state of the board.
#[derive(Debug, Default)]
pub struct Board {
    /// The selected session.
    pub selected: Option<String>,
    /// The column of the selection; kept when it is empty.
    pub column: usize,
    /// Marked sessions.
    pub marks: BTreeSet<String>,
    /// Only sessions that contain these words.
    pub filter: String,
    /// The order.
    pub sort: Sort,
    /// Whether closed sessions of earlier days are shown.
    pub all_closed: bool,
    /// What the pane shows.
    pub pane: Pane,
    /// Whether the pane takes the whole screen.
    pub zoomed: bool,
    /// How far the pane is scrolled back from its end (log), or down from its top.
    pub scroll: usize,
}

/// What the pane shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pane {
    /// The transcript.
    #[default]
    Log,
    /// The changes.
    Diff,
    /// The comments.
    Comments,
}

impl Pane {
    /// All of them with their words.
    pub const ALL: [(Pane, &'static str); 3] = [
        (Pane::Log, "log"),
        (Pane::Diff, "diff"),
        (Pane::Comments, "comments"),
    ];
}

/// The order of cards in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// What needs a person first.
    #[default]
    Urgency,
    /// By name.
    Name,
    /// The newest first.
    Age,
    /// The most expensive first.
    Cost,
}

impl Sort {
    /// Returns the next order and its word.
    pub fn next(self) -> (Self, &'static str) {
        match self {
            Sort::Urgency => (Sort::Name, "name"),
            Sort::Name => (Sort::Age, "age"),
            Sort::Age => (Sort::Cost, "cost"),
            Sort::Cost => (Sort::Urgency, "urgency"),
        }
    }
}

/// Returns the column of a state.
pub fn column(state: State) -> usize {
    match state {
        State::Draft | State::Queued | State::Blocked => 0,
        State::Preparing
        | State::Running
        | State::Waiting
        | State::Stuck
        | State::Interrupted
        | State::ChangesRequested => 1,
        _ => 2,
    }
}

/// Returns how urgently a session needs a person; 0 is the most urgent.
pub fn urgency(row: &Summary) -> u8 {
    match row.state {
        State::Waiting => 0,
        State::Stuck | State::Interrupted | State::Failed | State::Blocked => 1,
        State::Ready => 2,
        State::Approved => 3,
        State::ChangesRequested if row.pid.is_none() => 3,
        State::Running | State::Preparing | State::ChangesRequested => 4,
        State::Queued => 5,
        State::Stopped | State::Draft | State::Unknown => 6,
        State::Merged => 7,
        State::Rejected | State::Discarded => 8,
    }
}

/// Returns whether a session waits for a person.
pub fn needs_person(row: &Summary) -> bool {
    row.mine && urgency(row) <= 3
}

/// Returns why a session needs a person, or what it does, in a few words.
pub fn reason(row: &Summary) -> String {
    let session = &row.session;
    let said = row.exit.as_ref().map(|exit| exit.reason.as_str());
    let said = said.filter(|said| !said.is_empty() && *said != row.state.as_str());
    match row.state {
        State::Waiting => match session.asks.first() {
            Some(asked) => format!("asks: {}", asked.title),
            None => "asks a question".to_owned(),
        },
        State::Failed | State::Stuck | State::Stopped | State::Blocked => {
            said.unwrap_or("").to_owned()
        }
        State::Interrupted => "its supervisor died; restart goes on".to_owned(),
        State::Queued => said.unwrap_or("waits for a free place").to_owned(),
        State::Running | State::Preparing => session.activity.clone(),
        _ => String::new(),
    }
}

impl App {
    /// Returns the cards of each column.
    pub fn columns(&self) -> [Vec<&Summary>; 3] {
        let mut columns = [Vec::new(), Vec::new(), Vec::new()];
        for row in self.rows.iter().filter(|row| self.is_shown(row)) {
            columns[column(row.state)].push(row);
        }
        columns
    }

    fn is_shown(&self, row: &Summary) -> bool {
        let board = &self.board;
        if row.state.is_closed() && !board.all_closed && self.now.0 > row.updated.0 + RECENT {
            return false;
        }
        let has = |text: &str, word: &str| text.to_lowercase().contains(word);
        board.filter.to_lowercase().split_whitespace().all(|word| {
            has(&row.name, word)
                || has(&row.task, word)
                || has(&row.agent, word)
                || has(row.state.as_str(), word)
                || row.group.as_deref().is_some_and(|group| has(group, word))
                || row.model.as_deref().is_some_and(|model| has(model, word))
        })
    }

    /// Puts new rows into order and keeps the selection.
    pub fn set_rows(&mut self, rows: Vec<Summary>) {
        self.rows = rows;
        self.sort_rows();
        let known: BTreeSet<&String> = self.rows.iter().map(|row| &row.id).collect();
        self.board.marks.retain(|id| known.contains(id));
        self.keep_selection();
    }

    /// Sorts the rows as chosen. Versions of one group stay together behind their most urgent one.
    pub fn sort_rows(&mut self) {
        let key = |row: &Summary| (urgency(row), Reverse(row.updated), row.name.clone());
        match self.board.sort {
            Sort::Urgency => {
                let mut best: std::collections::BTreeMap<(usize, String), (u8, Reverse<Millis>)> =
                    std::collections::BTreeMap::new();
                for row in &self.rows {
                    if let Some(group) = &row.group {
                        let at = (column(row.state), group.clone());
                        let own = (urgency(row), Reverse(row.updated));
                        let known = best.entry(at).or_insert(own);
                        *known = (*known).min(own);
                    }
                }
                self.rows.sort_by_cached_key(|row| {
                    let own = (urgency(row), Reverse(row.updated));
                    let group = row.group.clone().unwrap_or_default();
                    let lead = best.get(&(column(row.state), group.clone())).copied();
                    (lead.unwrap_or(own), group, row.name.clone())
                });
            }
            Sort::Name => self.rows.sort_by_cached_key(|row| row.name.clone()),
            Sort::Age => self
                .rows
                .sort_by_cached_key(|row| (Reverse(row.updated), key(row))),
            Sort::Cost => self.rows.sort_by_cached_key(|row| {
                let cents = row.usage.cost_usd.unwrap_or(0.0) * 10_000.0;
                (Reverse(cents as u64), key(row))
            }),
        }
    }

    /// Selects another card if the selected one is gone.
    pub fn keep_selection(&mut self) {
        let columns = self.columns();
        let selected = self.board.selected.as_deref();
        for (at, cards) in columns.iter().enumerate() {
            if cards.iter().any(|row| Some(row.id.as_str()) == selected) {
                self.board.column = at;
                return;
            }
        }
        // The most urgent card of all.
        let first = columns.iter().flatten().min_by_key(|row| urgency(row));
        let first = first.map(|row| (column(row.state), row.id.clone()));
        if let Some((at, _)) = &first {
            self.board.column = *at;
        }
        self.board.selected = first.map(|(_, id)| id);
    }

    /// Selects a card and follows it.
    pub fn select(&mut self, id: Option<String>) -> Vec<Effect> {
        if self.board.selected == id {
            return Vec::new();
        }
        if let Some(row) = id.as_deref().and_then(|id| self.row(id)) {
            self.board.column = column(row.state);
        }
        self.board.selected = id;
        self.board.scroll = 0;
        self.follow_selected()
    }

    /// Asks for what the pane shows of the selected session.
    pub fn follow_selected(&mut self) -> Vec<Effect> {
        let Some(id) = self.board.selected.clone() else {
            self.log.clear();
            return vec![Effect::Follow(None)];
        };
        let mut effects = Vec::new();
        if self.log.id != id {
            self.log.begin(&id);
            effects.push(Effect::Follow(Some(id.clone())));
        }
        if self.board.pane != Pane::Log && self.log.begin_peek() {
            effects.push(Effect::Job(0, Job::Peek(id)));
        }
        effects
    }

    /// Moves the selection within its column.
    pub fn move_card(&mut self, by: isize) -> Vec<Effect> {
        let columns = self.columns();
        let cards = &columns[self.board.column];
        let selected = self.board.selected.as_deref();
        let at = cards
            .iter()
            .position(|row| Some(row.id.as_str()) == selected);
        let Some(last) = cards.len().checked_sub(1) else {
            return Vec::new();
        };
        let next = match at {
            Some(at) => at.saturating_add_signed(by).min(last),
            None => 0,
        };
        let id = cards[next].id.clone();
        self.select(Some(id))
    }

    /// Moves the selection to another column that has cards; an empty one can be reached too.
    pub fn move_column(&mut self, by: isize) -> Vec<Effect> {
        let columns = self.columns();
        let count = COLUMNS.len();
        let mut at = self.board.column;
        for _ in 0..count {
            at = (at + count).saturating_add_signed(by) % count;
            if let Some(first) = columns[at].first() {
                let id = first.id.clone();
                self.board.column = at;
                return self.select(Some(id));
            }
        }
        Vec::new()
    }

    /// Selects a card of the column by its number.
    pub fn jump(&mut self, index: usize) -> Vec<Effect> {
        let columns = self.columns();
        let id = columns[self.board.column]
            .get(index)
            .map(|row| row.id.clone());
        match id {
            Some(id) => self.select(Some(id)),
            None => Vec::new(),
        }
    }
}

/// Returns the paths that conflict.
pub fn conflicts(row: &Summary) -> &[String] {
    match &row.conflicts {
        Finding::Known(paths) => paths,
        _ => &[],
    }
}
