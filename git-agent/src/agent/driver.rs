//! What an agent is, and how it is spoken to: the interface between the supervisor and the drivers. Starts nothing itself.
//!
//! A driver knows one family of agents: what to start, what to write to it, and what its stream means in our events. It
//! sees the world only through [`Link`], so it runs the same in the supervisor, in a test with a recorded stream, and in
//! a bench. A driver never decides whether the work is good: it reports what the agent claims.
//!
//! Who records what: the driver records what the agent says and does, and the answers that its policy gave. The
//! supervisor records the prompt, a person's answers, changes of state, and `Body::Error` from a claim's trouble.

pub use crate::agent::catalog::spec::{AgentSpec, Family};
pub use crate::agent::stream::text::words_end;
pub use crate::model::turn_claim::{Claim, Trouble, TroubleKind};

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::model::event::Body;
use crate::model::session::{Exit, Usage};

/// What is answered when nobody does in time: it is refused, this once.
pub const NOBODY: &str = "reject_once";

/// The words by which a person says no.
pub const REFUSALS: [&str; 5] = ["n", "no", "never", "deny", "reject"];
/// The longest id of a conversation that an agent may give, in bytes.
pub const LONGEST_ID: usize = 512;

/// What a driver is told about one turn.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// The session's own id, as text: what ids that we choose for vendors are made from.
    pub session: String,
    /// What to ask.
    pub prompt: String,
    /// The number of this turn, from 1.
    pub number: u32,
    /// The vendor's id of the conversation to go on with, if there is one.
    pub resume: Option<String>,
    /// Whether to branch off that conversation instead, where the agent can.
    pub fork: bool,
    /// The session's worktree: where the agent works.
    pub worktree: PathBuf,
    /// A directory of the session's own, outside the worktree, for files handed to the agent.
    pub scratch: PathBuf,
    /// The conversation so far as plain text, for agents that cannot resume.
    pub history: Option<PathBuf>,
    /// The model, when one was chosen.
    pub model: Option<String>,
    /// Whether every request for permission goes to a person.
    pub ask: bool,
    /// Whether the agent may change nothing.
    pub read_only: bool,
    /// MCP servers to offer, as the configuration names them.
    pub mcp_servers: Vec<McpServer>,
    /// The agent's environment, complete: nothing else is inherited.
    pub environment: BTreeMap<OsString, OsString>,
    /// What the session had used before this turn. `Body::Usage` carries totals of the session, not of a turn.
    pub used: Usage,
    /// What the agent shall know in every turn, for agents that take such words beside the prompt.
    pub instructions: String,
}

/// An MCP server offered to an agent over stdio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// What to start.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment.
    pub env: Vec<(String, String)>,
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Variables added to the turn's environment.
    pub env: Vec<(OsString, OsString)>,
    /// Whether the driver writes to its standard input; otherwise that is empty.
    pub stdin: bool,
}

/// Something that happened while a driver waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A line the agent printed, without its newline. `cut` counts bytes left out of a line that was too long.
    Stdout {
        /// The line.
        line: Vec<u8>,
        /// Bytes left out.
        cut: u64,
    },
    /// A line the agent printed on standard error.
    Stderr {
        /// The line.
        line: Vec<u8>,
        /// Bytes left out.
        cut: u64,
    },
    /// The agent's process ended, and everything it printed has been given.
    Exited(Exit),
    /// A person answered a request, or nobody did in time.
    Answer {
        /// The request's id.
        request: String,
        /// The chosen option's id, one of the option kinds (`allow_once`, `reject_once` …), or free text. An answer that
        /// fits nothing makes the driver record the same request again.
        choice: String,
    },
    /// The turn shall end now: the agent should be asked to cancel, if it can be.
    Cancel,
    /// The moment the driver wanted to be woken at has come.
    Woken,
}

/// How long an agent may try again by itself against a model that does not answer: after that, trying is ours to decide.
pub(crate) const SETBACK: Duration = Duration::from_secs(60);

/// What a driver may do: record events, start the agent, write to it, and wait.
pub trait Link {
    /// Records an event.
    fn event(&mut self, body: Body) -> Result<()>;
    /// Starts the agent. Only one runs at a time; an earlier one must have ended.
    fn start(&mut self, program: &Program) -> Result<()>;
    /// Returns whether the agent's process runs.
    fn is_running(&self) -> bool;
    /// Writes to the agent's standard input.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// Closes the agent's standard input.
    fn close_stdin(&mut self) -> Result<()>;
    /// Waits for the next input, at most until `wake`.
    fn next(&mut self, wake: Option<Instant>) -> Result<Input>;
    /// Ends the agent and everything it started: politely, then not.
    fn end(&mut self) -> Result<Exit>;
    /// Returns where text may be cut, at or before a place, so that no secret that the text holds or that may begin at
    /// its end lies on both sides.
    fn cut(&self, _text: &str, at: usize) -> usize {
        at
    }
    /// Hears of a trouble that the agent itself tries to overcome. Others who use the same provider may want to know.
    fn setback(&mut self, _trouble: &Trouble) -> Result<()> {
        Ok(())
    }
}

/// What an agent family can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// It can go on with a conversation after its process ended.
    pub resume: bool,
    /// It can branch off a conversation.
    pub fork: bool,
    /// It asks for permission in its stream.
    pub permissions: bool,
    /// It tells what it cost.
    pub cost: bool,
    /// Its process serves further turns of the same conversation.
    pub stays: bool,
}

/// One family of agents.
pub trait Driver {
    /// Returns what this family can do.
    fn capabilities(&self) -> Capabilities;
    /// Runs one turn to its end and reports what the agent claims. Everything seen is recorded through the link.
    fn turn(&mut self, turn: &Turn, link: &mut dyn Link) -> Result<Claim>;
    /// Ends the conversation's process, if one stays between turns.
    fn close(&mut self, link: &mut dyn Link) -> Result<()>;
    /// Returns what opens the agent's own interface on the conversation, if it can.
    fn attach(&self, turn: &Turn) -> Option<Program>;
}
