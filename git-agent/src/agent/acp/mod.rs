//! A driver for the Agent Client Protocol over a child's standard input and output.
//!
//! No file system and no terminal are offered: the agent works in its worktree directly. Its process stays between
//! turns. `end_turn` does not prove success: some agents put a failed model's error into their text.
//!
//! | file | owns |
//! |---|---|
//! | `wire` | messages: JSON-RPC 2.0, one per line |
//! | `dialogue` | one turn's exchange: our requests and their answers, and other messages meanwhile |
//! | `handshake` | opening a conversation: handshake, new or loaded session, model and mode |
//! | `calls` | tool calls, sent in any number of updates |
//! | `updates` | the agent's reports: text, plans, usage |
//! | `requests` | the agent's requests: who answers them, and which are not offered |
//! | `permission` | one permission request, and the possible answers |

mod calls;
mod dialogue;
mod handshake;
mod permission;
mod requests;
#[cfg(test)]
mod tests;
mod updates;
mod wire;

use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::agent::acp::dialogue::{Dialogue, Halt};
use crate::agent::acp::handshake::Opened;
use crate::agent::catalog::spec::AgentSpec;
use crate::agent::driver::{
    Capabilities, Driver, Input, Link, Program, Trouble, TroubleKind, Turn, TurnClaim,
};
use crate::agent::retell::{opening, with_history};
use crate::agent::stream::raw_message;
use crate::error::Result;
use crate::model::event::Body;
use crate::model::session::Usage;

/// How long a process may take to end after its input was closed.
const FAREWELL: Duration = Duration::from_secs(5);

/// Drives any agent that supports the protocol.
#[derive(Debug)]
pub struct Acp {
    spec: AgentSpec,
    peer: Peer,
    clock: fn() -> SystemTime,
}

/// The state of the running process.
#[derive(Debug, Default)]
struct Peer {
    last_id: u64,
    /// The announced capabilities.
    capabilities: Value,
    /// The offered authentication methods.
    auth_methods: Vec<Value>,
    /// The open conversation: its id and its settings.
    conversation: Option<(String, Value)>,
    /// The session's usage when the process started.
    used_before: Usage,
    /// The session's cost when the conversation began.
    cost_before: f64,
    /// The number of requests so far, also of earlier processes.
    asked: u64,
}

impl Peer {
    /// Resets the state after the process ended.
    fn forget(&mut self) {
        *self = Peer {
            asked: self.asked,
            ..Peer::default()
        };
    }

    /// Returns the offered login methods in words.
    fn ways_to_log_in(&self) -> String {
        let ways: Vec<&str> = self
            .auth_methods
            .iter()
            .filter_map(|method| method.get("name")?.as_str())
            .collect();
        if ways.is_empty() {
            String::new()
        } else {
            format!(" (ways to log in: {})", ways.join(", "))
        }
    }
}

impl Acp {
    /// Returns a driver for an agent.
    pub fn new(spec: AgentSpec) -> Self {
        Acp {
            spec,
            peer: Peer::default(),
            clock: SystemTime::now,
        }
    }

    /// Turns the end of an exchange into a claim, and ends a process that the next turn could not use.
    fn halted(&mut self, halt: Halt, link: &mut dyn Link) -> Result<TurnClaim> {
        let mut claim = match halt {
            Halt::Failed(error) => return Err(error),
            Halt::Cancelled => TurnClaim {
                cancelled: true,
                ..TurnClaim::default()
            },
            Halt::Exited(exit, printed) => TurnClaim {
                exit: Some(exit.clone()),
                ..TurnClaim::failed(Trouble::from_exit(&exit, &printed))
            },
            Halt::Silent(method) => TurnClaim::failed(Trouble::new(
                TroubleKind::Protocol,
                format!("the agent did not answer {method}"),
            )),
            Halt::Fault(fault) => TurnClaim::failed(fault.trouble()),
            Halt::Trouble(trouble) => TurnClaim::failed(trouble),
        };
        if link.is_running() {
            claim.exit = Some(link.end()?);
        }
        self.peer.forget();
        Ok(claim)
    }
}

impl Driver for Acp {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            fork: false,
            permissions: true,
            cost: true,
            stays: true,
        }
    }

    fn turn(&mut self, turn: &Turn, link: &mut dyn Link) -> Result<TurnClaim> {
        if !link.is_running() {
            self.peer.forget();
            if let Some(trouble) = self.spec.missing(&turn.environment, &turn.worktree) {
                return Ok(TurnClaim::failed(trouble));
            }
        }
        let mut dialogue = Dialogue::new(&self.spec, turn, &mut self.peer, link);
        let outcome = dialogue.open(self.clock).and_then(|opened| {
            let text = match opened {
                Opened::TakenUp => turn.prompt.clone(),
                Opened::Forgotten => with_history(&turn.prompt, turn.history.as_deref()),
                Opened::New => opening(turn, dialogue.link)?,
            };
            dialogue.prompt(&text)
        });
        dialogue.finish()?;
        let said = dialogue.last_said().to_owned();
        let ways = self.peer.ways_to_log_in();
        let mut claim = match outcome {
            Ok(claim) => claim,
            Err(halt) => self.halted(halt, link)?,
        };
        claim.final_text = said;
        if claim.ok
            && let Some(trouble) = self.spec.failure_in(&claim.final_text)
        {
            claim = TurnClaim {
                ok: false,
                trouble: Some(trouble),
                ..claim
            };
        }
        // The user will log in before the next try, and an old process may not notice.
        if let Some(trouble) = &mut claim.trouble
            && trouble.kind == TroubleKind::Auth
        {
            trouble.text.push_str(&ways);
            if link.is_running() {
                claim.exit = Some(link.end()?);
            }
            self.peer.forget();
        }
        Ok(claim)
    }

    fn close(&mut self, link: &mut dyn Link) -> Result<()> {
        self.peer.forget();
        if !link.is_running() {
            return Ok(());
        }
        link.close_stdin()?;
        let patience = Instant::now() + FAREWELL;
        while link.is_running() && Instant::now() < patience {
            if let Input::Exited(_) = link.next(Some(patience))? {
                break;
            }
        }
        // Also after it ended by itself, because tools of some agents survive it.
        link.end()?;
        Ok(())
    }

    fn attach(&self, turn: &Turn) -> Option<Program> {
        Some(Program {
            argv: self.spec.attach_argv(turn)?,
            env: self.spec.variables(turn),
            stdin: false,
        })
    }
}

/// Returns a foreign message as an event.
fn raw(data: &Value) -> Body {
    raw_message::raw("acp", data)
}
