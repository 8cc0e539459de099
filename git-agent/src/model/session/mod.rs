//! A session: its record, which is shared, its facts of this clone, its state, and the permitted changes of state. Pure: no
//! I/O, no clock, no git.

pub mod fold;
pub mod local;
pub mod settings;
pub mod untrusted;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::env::Millis;
use crate::error::{Error, Result};
pub use crate::model::id::{SessionId, Ulid, WriterId};
pub use local::Local;
pub use settings::SessionSettings;

/// The state of a session.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Described, but not started.
    Draft,
    /// Waits for a slot or for the sessions it depends on.
    Queued,
    /// The worktree is being created and set up.
    Preparing,
    /// The agent is working.
    Running,
    /// The agent asked a question and waits for the answer.
    Waiting,
    /// The turn ended well; the work can be reviewed.
    Ready,
    /// A reviewer approved exactly this tip.
    Approved,
    /// Merged into its target.
    Merged,
    /// The turn ended with a failure.
    Failed,
    /// It cannot start: a session that it depends on failed, or their work conflicts.
    Blocked,
    /// The user stopped it.
    Stopped,
    /// The supervisor died; `restart` continues.
    Interrupted,
    /// The agent was silent for longer than allowed.
    Stuck,
    /// A reviewer asked for changes.
    ChangesRequested,
    /// A reviewer rejected the work.
    Rejected,
    /// Abandoned; its work is kept.
    Discarded,
    /// Written by a newer program, or unreadable.
    #[default]
    #[serde(other)]
    Unknown,
}

impl State {
    /// Every state, in the order of a session's life.
    pub const ALL: [State; 17] = [
        State::Draft,
        State::Queued,
        State::Preparing,
        State::Running,
        State::Waiting,
        State::Ready,
        State::Approved,
        State::Merged,
        State::Failed,
        State::Blocked,
        State::Stopped,
        State::Interrupted,
        State::Stuck,
        State::ChangesRequested,
        State::Rejected,
        State::Discarded,
        State::Unknown,
    ];

    /// Returns the word for people and records.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Draft => "draft",
            State::Queued => "queued",
            State::Preparing => "preparing",
            State::Running => "running",
            State::Waiting => "waiting",
            State::Ready => "ready",
            State::Approved => "approved",
            State::Merged => "merged",
            State::Failed => "failed",
            State::Blocked => "blocked",
            State::Stopped => "stopped",
            State::Interrupted => "interrupted",
            State::Stuck => "stuck",
            State::ChangesRequested => "changes-requested",
            State::Rejected => "rejected",
            State::Discarded => "discarded",
            State::Unknown => "unknown",
        }
    }

    /// Returns whether a live supervisor is required in this state.
    pub fn needs_supervisor(self) -> bool {
        matches!(
            self,
            State::Queued | State::Preparing | State::Running | State::Waiting | State::Stuck
        )
    }

    /// Returns whether the agent is in the middle of a turn.
    pub fn is_working(self) -> bool {
        matches!(self, State::Running | State::Waiting | State::Stuck)
    }

    /// Returns whether the session is finished.
    pub fn is_closed(self) -> bool {
        matches!(self, State::Merged | State::Rejected | State::Discarded)
    }

    /// Returns whether `next` may follow this state.
    pub fn may_become(self, next: State) -> bool {
        use State::*;
        if next == Unknown {
            return false;
        }
        match self {
            Unknown => true,
            Draft => matches!(next, Queued | Preparing | Discarded | Stopped),
            Queued => matches!(
                next,
                Preparing | Running | Stopped | Failed | Blocked | Interrupted | Discarded
            ),
            Preparing => matches!(
                next,
                Queued | Running | Failed | Blocked | Stopped | Interrupted | Discarded
            ),
            Running => matches!(
                next,
                Queued | Waiting | Ready | Failed | Stopped | Interrupted | Stuck
            ),
            Waiting => matches!(
                next,
                Running | Ready | Failed | Stopped | Interrupted | Stuck
            ),
            Stuck => matches!(
                next,
                Running | Waiting | Ready | Failed | Stopped | Interrupted
            ),
            // A closed session may be resumed: the user decided so with `send` or `restore`.
            Ready | Approved | Merged | Failed | Blocked | Stopped | Interrupted
            | ChangesRequested | Rejected | Discarded => {
                next != Draft && next != Stuck && next != Waiting
            }
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for State {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        State::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| Error::usage(format!("unknown state '{text}'")))
    }
}

/// A person, as git identifies one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct Person {
    /// The name.
    #[serde(rename = "n", default)]
    pub name: String,
    /// The email address.
    #[serde(rename = "e", default)]
    pub email: String,
}

/// How much of its plan the agent reports as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Progress {
    /// Steps done.
    pub done: u32,
    /// All steps.
    pub total: u32,
}

/// The session's usage in the vendor's own figures; absent where the vendor gives none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
pub struct Usage {
    /// Tokens read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub input_tokens: Option<u64>,
    /// Tokens written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output_tokens: Option<u64>,
    /// Cost of the whole session in US dollars.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Returns whether no figure is known.
    pub fn is_empty(&self) -> bool {
        self.input_tokens.is_none() && self.output_tokens.is_none() && self.cost_usd.is_none()
    }
}

/// How the process of the last turn ended, and the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Exit {
    /// The exit code, if it exited.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<i32>,
    /// The signal, if one ended it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signal: Option<i32>,
    /// The reason for the session's state, in words.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub reason: String,
}

/// A request that waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The request's id.
    pub request: String,
    /// The question, in words and shortened.
    pub title: String,
}

/// A session as this clone sees it: the shared record, and the facts of this clone. Only the record can be written to
/// git: this type has no serial form.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The shared part.
    pub record: Record,
    /// The part of this clone; empty for the sessions of others.
    pub local: Local,
}

impl From<Record> for Session {
    fn from(mut record: Record) -> Self {
        let local = record.take_earlier();
        Session { record, local }
    }
}

impl Deref for Session {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Record {
        &mut self.record
    }
}

/// The shared state of a session: `state.json` at the tip of its log. At most 64 KiB, no unbounded lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Format version of this file.
    pub v: u32,
    /// The session's id; equals the last part of its ref name.
    pub sid: SessionId,
    /// The clone that writes this session.
    pub writer: WriterId,
    /// The human name: unique among this clone's sessions.
    pub name: String,
    /// The task in words (shortened; the whole prompt is an event).
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub task: String,
    /// The current state.
    #[serde(default)]
    pub status: State,
    /// The agent's name.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub agent: String,
    /// The model, when one was chosen.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<String>,
    /// The role preset, when one was chosen.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role: Option<String>,
    /// The group of sessions that it was created with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub group: Option<String>,
    /// The branch it was created from, and by default merges into (a short name).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<String>,
    /// The commit it was created from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub base: Option<String>,
    /// Its own branch (a short name).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub branch: Option<String>,
    /// Its worktree, in records of an earlier version. Read, never written: see [`Local`].
    #[serde(skip_serializing, default)]
    worktree: Option<String>,
    /// The session whose conversation or work this one continues.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent_session: Option<SessionId>,
    /// The person it belongs to.
    #[serde(default)]
    pub author: Person,
    /// The time of creation.
    #[serde(default)]
    pub created: Millis,
    /// The time at which this state was written.
    #[serde(default)]
    pub updated: Millis,
    /// The start of the current turn, while one runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn_started: Option<Millis>,
    /// Milliseconds spent in finished turns.
    #[serde(default)]
    pub worked_ms: u64,
    /// The number of prompts so far.
    #[serde(default)]
    pub turns: u32,
    /// The id of the last prompt, which is the id of the message that brought it: a message is delivered once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompt: Option<Ulid>,
    /// The progress of the agent's own plan, if it gave one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub progress: Option<Progress>,
    /// The usage of all turns.
    #[serde(skip_serializing_if = "Usage::is_empty", default)]
    pub usage: Usage,
    /// How the last turn ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit: Option<Exit>,
    /// The vendor's own id of the conversation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub vendor_session: Option<String>,
    /// The tip of its branch when this state was written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// The last line of activity worth showing.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub activity: String,
    /// Its open requests, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub asks: Vec<Asked>,
    /// Sequence number of the last event in git.
    #[serde(default)]
    pub seq: u64,
    /// Lamport clock of the last event in git.
    #[serde(default)]
    pub lc: u64,
    /// Its settings, and the facts that features keep.
    #[serde(
        rename = "more",
        skip_serializing_if = "SessionSettings::is_empty",
        default
    )]
    pub settings: SessionSettings,
}

impl Record {
    /// Returns the id of the session in whose worktree it works: its own, unless it shares another session's worktree.
    pub fn host(&self) -> &str {
        self.settings.shares.as_ref().unwrap_or(&self.sid).as_str()
    }

    /// Returns the session whose conflict it resolves. Such work belongs to that session, and is not reviewed or merged
    /// by itself.
    pub fn resolves(&self) -> Option<SessionId> {
        self.settings.resolves
    }

    /// Returns whether the turn of a message has begun: its prompt is in the transcript.
    pub fn has_begun(&self, message: Ulid) -> bool {
        self.prompt == Some(message) || self.settings.inbox_done == Some(message)
    }

    /// Returns how many uncommitted files its owner had at the last push. Only the owner has them.
    pub fn unshared(&self) -> Option<u64> {
        self.settings.unshared.filter(|files| *files > 0)
    }

    /// Takes out the facts of this clone that an earlier version kept in the record.
    fn take_earlier(&mut self) -> Local {
        let (port, set_up) = self.settings.take_earlier();
        Local {
            worktree: self.worktree.take(),
            port,
            set_up,
        }
    }

    /// Returns a new draft.
    pub fn new(sid: SessionId, writer: WriterId, name: impl Into<String>, author: Person) -> Self {
        Record {
            v: 1,
            sid,
            writer,
            name: name.into(),
            task: String::new(),
            status: State::Draft,
            agent: String::new(),
            model: None,
            role: None,
            group: None,
            parent: None,
            base: None,
            branch: None,
            worktree: None,
            parent_session: None,
            author,
            created: sid.time(),
            updated: sid.time(),
            turn_started: None,
            worked_ms: 0,
            turns: 0,
            prompt: None,
            progress: None,
            usage: Usage::default(),
            exit: None,
            vendor_session: None,
            code: None,
            activity: String::new(),
            asks: Vec::new(),
            seq: 0,
            lc: 0,
            settings: SessionSettings::default(),
        }
    }
}

impl Session {
    /// Returns a new draft.
    pub fn new(sid: SessionId, writer: WriterId, name: impl Into<String>, author: Person) -> Self {
        Record::new(sid, writer, name, author).into()
    }
}
