//! The state of the screen. [`App::input`] takes what happened and returns the effects; nothing here touches a
//! terminal, a file or a clock.

pub mod board;
pub mod board_keys;
pub mod compare;
pub mod dialog;
pub mod dialog_keys;
pub mod diff;
pub mod effect;
pub mod log;
pub mod mouse;
pub mod news;
pub mod question;
pub mod review;
pub mod review_keys;
#[cfg(test)]
pub mod samples;

use git_agent::env::Millis;
use git_agent::listing::row::Summary;
use git_agent::output::moment::Clock;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEvent};

use crate::app::board::Board;
use crate::app::compare::Compare;
use crate::app::dialog::Dialog;
use crate::app::effect::{Effect, Message};
use crate::app::log::Log;
use crate::app::review::Review;
use crate::keys::{Key, Keys, Place};

/// How long a notice stays.
const NOTICE: u64 = 8_000;

/// Everything that is shown.
#[derive(Debug)]
pub struct App {
    /// The time.
    pub now: Millis,
    /// The user's time zone.
    pub clock: Clock,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The name of the repository.
    pub repository: String,
    /// Whether rows have come.
    pub is_loaded: bool,
    /// The sessions, in the order of the board.
    pub rows: Vec<Summary>,
    /// The board.
    pub board: Board,
    /// The transcript of the selected session.
    pub log: Log,
    /// The review screen, if it is open.
    pub review: Option<Review>,
    /// The comparison of versions, if it is open.
    pub compare: Option<Compare>,
    /// The open dialogs; the last one has the keyboard.
    pub dialogs: Vec<Dialog>,
    /// The last message.
    pub notice: Option<Notice>,
    /// What goes on in the background.
    pub busy: Vec<(u64, String)>,
    /// The keys.
    pub keys: Keys,
    /// Whether the program was opened for one review and ends with it.
    pub only_review: bool,
    /// Words that were typed and not sent, by their purpose.
    pub drafts: Vec<(String, String)>,
    /// The last click, for double clicks.
    pub clicked: Option<(Millis, u16, u16)>,
    /// Where things were drawn, for the mouse.
    pub areas: mouse::Areas,
    /// The number of the last background job.
    pub jobs: u64,
}

/// How a message looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Something was done.
    Good,
    /// Something could not be done.
    Bad,
    /// Anything else.
    Plain,
}

/// A message in the last line.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The words.
    pub text: String,
    /// How it looks.
    pub tone: Tone,
    /// Until when it stays.
    pub until: Millis,
}

/// What the terminal reports.
#[derive(Debug)]
pub enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse was used.
    Mouse(MouseEvent),
    /// Text was pasted.
    Paste(String),
    /// The size changed.
    Resize(u16, u16),
    /// Time passed.
    Tick,
}

impl App {
    /// Returns an empty screen.
    pub fn new(keys: Keys, repository: String, now: Millis, clock: Clock) -> Self {
        App {
            now,
            clock,
            size: (80, 24),
            repository,
            is_loaded: false,
            rows: Vec::new(),
            board: Board::default(),
            log: Log::default(),
            review: None,
            compare: None,
            dialogs: Vec::new(),
            notice: None,
            busy: Vec::new(),
            keys,
            only_review: false,
            drafts: Vec::new(),
            clicked: None,
            areas: mouse::Areas::default(),
            jobs: 0,
        }
    }

    /// Takes what the terminal reports.
    pub fn input(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Key(event) => self.key(event),
            Input::Mouse(event) => self.mouse(event),
            Input::Paste(text) => {
                self.paste(&text);
                Vec::new()
            }
            Input::Resize(columns, rows) => {
                self.size = (columns, rows);
                Vec::new()
            }
            Input::Tick => {
                let now = self.now;
                self.notice.take_if(|notice| notice.until <= now);
                for row in &mut self.rows {
                    if row.state.is_working() {
                        row.touch(now);
                    }
                }
                Vec::new()
            }
        }
    }

    fn key(&mut self, event: KeyEvent) -> Vec<Effect> {
        let is_ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        if is_ctrl && event.code == KeyCode::Char('z') {
            return vec![Effect::Suspend];
        }
        if !self.dialogs.is_empty() {
            return self.dialog_key(event);
        }
        if is_ctrl && event.code == KeyCode::Char('c') {
            return vec![Effect::Quit];
        }
        let place = self.place();
        let Some(action) = self.keys.action(place, Key::of(event)) else {
            return match (place, event.code) {
                (Place::Board, KeyCode::Char(digit @ '1'..='9')) => {
                    self.jump(usize::from(digit as u8 - b'1'))
                }
                (Place::Board, KeyCode::BackTab) => self.move_column(-1),
                _ => Vec::new(),
            };
        };
        match place {
            Place::Review => self.review_action(action),
            Place::Compare => self.compare_action(action),
            _ => self.board_action(action),
        }
    }

    /// Returns which screen has the keyboard.
    pub fn place(&self) -> Place {
        match (&self.review, &self.compare) {
            (Some(_), _) => Place::Review,
            (None, Some(_)) => Place::Compare,
            (None, None) => Place::Board,
        }
    }

    /// Shows a message.
    pub fn say(&mut self, tone: Tone, text: impl Into<String>) {
        let text = crate::text::line(text.into());
        self.notice = Some(Notice {
            text,
            tone,
            until: Millis(self.now.0 + NOTICE),
        });
    }

    /// Returns the row of a session.
    pub fn row(&self, id: &str) -> Option<&Summary> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// Returns the session that actions are about: that of the review screen, or the selected one.
    pub fn current(&self) -> Option<&Summary> {
        match &self.review {
            Some(review) => self.row(&review.id),
            None => self.row(self.board.selected.as_deref()?),
        }
    }

    /// Returns the sessions that an action is about: the marked ones, or the current one.
    pub fn targets(&self) -> Vec<String> {
        if self.review.is_none() && !self.board.marks.is_empty() {
            let marked = self
                .rows
                .iter()
                .filter(|row| self.board.marks.contains(&row.id));
            return marked.map(|row| row.id.clone()).collect();
        }
        self.current()
            .map(|row| row.id.clone())
            .into_iter()
            .collect()
    }

    /// Begins a background job, and returns it with a number by which its end is recognised.
    pub fn begin(&mut self, words: impl Into<String>, make: impl FnOnce(u64) -> Effect) -> Effect {
        self.jobs += 1;
        self.busy.push((self.jobs, words.into()));
        make(self.jobs)
    }

    /// Takes what another thread reports.
    pub fn message(&mut self, message: Message) -> Vec<Effect> {
        self.news(message)
    }

    /// Returns whether something on the screen changes with the time alone, every second.
    pub fn is_ticking(&self) -> bool {
        self.notice.is_some()
            || !self.busy.is_empty()
            || self.rows.iter().any(|row| row.state.is_working())
    }
}
