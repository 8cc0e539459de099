//! The interface between the supervisor and the drivers of agents. It starts nothing itself.
//!
//! A driver knows one family of agents: the program to start, its input, and the meaning of its output as our events.
//! It uses the system only through [`Link`], so it runs the same in the supervisor, in a test with a recorded stream,
//! and in a bench. A driver never judges the work; it reports the agent's claim.
//!
//! The driver records the agent's messages and actions, and the answers that its policy gave. The supervisor records
//! the prompt, the user's answers, changes of state, and `Body::Error` for the trouble in a claim.

pub use crate::agent::catalog::spec::{AgentSpec, Family};
pub use crate::agent::stream::text::words_end;
pub use crate::model::turn_claim::{Trouble, TroubleKind, TurnClaim};

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::model::event::Body;
use crate::model::session::{Exit, Usage};

/// The answer if the user does not answer in time: refuse this once.
pub const NOBODY: &str = "reject_once";

/// Words that mean no.
pub const REFUSALS: [&str; 5] = ["n", "no", "never", "deny", "reject"];
/// The longest conversation id that an agent may use, in bytes.
pub const LONGEST_ID: usize = 512;

/// The inputs of one turn.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// The session's id as text, from which ids for vendors are derived.
    pub session: String,
    pub prompt: String,
    /// The number of this turn, from 1.
    pub number: u32,
    /// The vendor's id of the conversation to continue, if there is one.
    pub resume: Option<String>,
    /// Whether to fork that conversation instead, if the agent can.
    pub fork: bool,
    /// The session's worktree, where the agent works.
    pub worktree: PathBuf,
    /// A directory of the session outside the worktree, for files handed to the agent.
    pub scratch: PathBuf,
    /// The conversation so far as plain text, for agents that cannot resume.
    pub history: Option<PathBuf>,
    /// The model, if one was chosen.
    pub model: Option<String>,
    /// Whether every permission request goes to the user.
    pub ask: bool,
    /// Whether the agent must not change anything.
    pub read_only: bool,
    /// The configured MCP servers to offer.
    pub mcp_servers: Vec<McpServer>,
    /// The agent's complete environment; nothing else is inherited.
    pub environment: BTreeMap<OsString, OsString>,
    /// The session's usage before this turn. `Body::Usage` carries totals of the session, not of a turn.
    pub used: Usage,
    /// The file that describes the room it runs in; nothing without.
    pub room: Option<PathBuf>,
    /// Instructions for every turn, for agents that accept them separately from the prompt.
    pub instructions: String,
}

/// An MCP server offered to an agent over stdio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// The server's name.
    pub name: String,
    /// The program to start.
    pub command: PathBuf,
    /// The program's arguments.
    pub args: Vec<String>,
    /// The program's environment.
    pub env: Vec<(String, String)>,
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Variables added to the turn's environment.
    pub env: Vec<(OsString, OsString)>,
    /// Whether the driver writes to its standard input; otherwise the input is empty.
    pub stdin: bool,
}

/// Something that happened while a driver waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A line of the agent's standard output, without its newline.
    Stdout {
        line: Vec<u8>,
        /// Number of bytes left out of a line that was too long.
        cut: u64,
    },
    /// A line of the agent's standard error.
    Stderr {
        line: Vec<u8>,
        /// Number of bytes left out of a line that was too long.
        cut: u64,
    },
    /// The agent's process ended, and all of its output was delivered.
    Exited(Exit),
    /// The user answered a request, or the time to answer ran out.
    Answer {
        /// The request's id.
        request: String,
        /// The chosen option's id, one of the option kinds (`allow_once`, `reject_once` …), or free text. If it matches
        /// nothing, the driver records the same request again.
        choice: String,
    },
    /// The turn must end now: the driver asks the agent to cancel, if it can.
    Cancel,
    /// The requested wake time has come.
    Woken,
}

/// How long an agent may retry by itself if the model does not answer; after that, we decide about retries.
pub(crate) const SETBACK: Duration = Duration::from_secs(60);

/// The actions open to a driver: record events, start the agent, write to it, and wait.
pub trait Link {
    /// Records an event.
    fn event(&mut self, body: Body) -> Result<()>;
    /// Starts the agent. Only one process runs at a time; an earlier one must have ended.
    fn start(&mut self, program: &Program) -> Result<()>;
    /// Returns whether the agent's process runs.
    fn is_running(&self) -> bool;
    /// Writes to the agent's standard input.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// Closes the agent's standard input.
    fn close_stdin(&mut self) -> Result<()>;
    /// Waits for the next input, at most until `wake`.
    fn next(&mut self, wake: Option<Instant>) -> Result<Input>;
    /// Ends the agent and every process it started: first politely, then by force.
    fn end(&mut self) -> Result<Exit>;
    /// Returns a place at or before `at` where text may be cut without splitting a secret.
    fn cut(&self, _text: &str, at: usize) -> usize {
        at
    }
    /// Reports a trouble that the agent tries to overcome itself, so that other sessions of the same provider learn of
    /// it.
    fn setback(&mut self, _trouble: &Trouble) -> Result<()> {
        Ok(())
    }
}

/// The capabilities of an agent family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// It can continue a conversation after its process ended.
    pub resume: bool,
    /// It can fork a conversation.
    pub fork: bool,
    /// It asks for permission in its stream.
    pub permissions: bool,
    /// It reports its cost.
    pub cost: bool,
    /// Its process serves further turns of the same conversation.
    pub stays: bool,
}

/// One family of agents.
pub trait Driver {
    /// Returns the capabilities of this family.
    fn capabilities(&self) -> Capabilities;
    /// Runs one turn and returns the agent's claim. Records everything through the link.
    fn turn(&mut self, turn: &Turn, link: &mut dyn Link) -> Result<TurnClaim>;
    /// Ends the process of the conversation, if it is still running.
    fn close(&mut self, link: &mut dyn Link) -> Result<()>;
    /// Returns the command that opens the agent's own interface on the conversation, if it has one.
    fn attach(&self, turn: &Turn) -> Option<Program>;
}
