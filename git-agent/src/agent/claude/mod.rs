//! A driver for the stream of Claude Code: JSON lines in both directions, one process per turn. Qwen Code supports it
//! too.
//!
//! The prompt, the answers to permission requests and an interrupt are written to its standard input; closing that ends
//! it after the turn. If the agent accepts it, we choose the conversation's id, so that a run killed in its first
//! moment can still be resumed.

mod ask;
mod stream;
mod tasks;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::Instant;

use serde_json::{Value, json};

use crate::agent::catalog::spec::{AgentSpec, Asking, conversation_id};
use crate::agent::catalog::template;
use crate::agent::claude::ask::Request;
use crate::agent::claude::stream::{Ending, Heard, Stream};
use crate::agent::driver::{
    Capabilities, Driver, Input, Link, Program, Trouble, TroubleKind, Turn, TurnClaim,
};
use crate::agent::mcp_config;
use crate::agent::retell::{opening, with_history};
use crate::agent::stream::exit::{self, FAREWELL};
use crate::agent::stream::failure::{is_forgotten, is_taken};
use crate::agent::stream::output::{self, Printed};
use crate::agent::stream::{bounded_json, raw_message};
use crate::error::Result;
use crate::model::event::Body;
use crate::model::event_words::AnsweredBy;
use crate::model::session::Exit;

/// Options that select this stream, if the configured command does not have them.
const STANDARD: [&str; 13] = [
    "-p",
    "--output-format",
    "stream-json",
    "--input-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--session-id",
    "{new_session}",
    "--resume",
    "{session}",
    "--model",
    "{model}",
];
/// Options that make it ask on its stream.
const ASKING: [&str; 4] = [
    "--permission-prompt-tool",
    "stdio",
    "--permission-mode",
    "default",
];
/// Options that make it not ask.
const NOT_ASKING: [&str; 1] = ["--dangerously-skip-permissions"];

/// Drives Claude Code, and agents that support its stream.
#[derive(Debug)]
pub struct Claude {
    spec: AgentSpec,
    is_root: fn() -> bool,
    /// The number of requests in all runs.
    requests: u32,
}

/// One run of the program.
struct Run<'a> {
    turn: &'a Turn,
    link: &'a mut dyn Link,
    stream: Stream,
    printed: Printed,
    /// Requests that wait for the user, by their recorded names.
    asked: BTreeMap<String, Request>,
    requests: u32,
    /// When an agent that does not end by itself will be killed.
    patience: Option<Instant>,
    cancelled: bool,
}

/// How a run ended.
struct ClaudeOutcome {
    ending: Option<Ending>,
    hopeless: Option<Trouble>,
    /// The exit of the process, if it says something about the turn.
    exit: Option<Exit>,
}

impl Claude {
    /// Returns a driver for an agent.
    pub fn new(spec: AgentSpec) -> Self {
        Claude {
            spec,
            is_root: || rustix::process::geteuid().is_root(),
            requests: 0,
        }
    }

    fn program(&self, turn: &Turn, resume: Option<&str>, new: Option<&str>) -> Result<Program> {
        let mut words = self.spec.argv.clone();
        let own = template::has(&words, "session") || template::has(&words, "new_session");
        if !own {
            words.extend(STANDARD.map(OsString::from));
            let words_for = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
            words.extend(words_for(if self.asks(turn) {
                &ASKING
            } else {
                &NOT_ASKING
            }));
            if resume.is_some() && new.is_some() {
                words.push("--fork-session".into());
            }
            words.extend(["--append-system-prompt", "{instructions}"].map(OsString::from));
            words.extend(["--mcp-config", "{mcp_file}"].map(OsString::from));
        }
        let servers = if template::has(&words, "mcp_file") {
            mcp_config::write(turn)?
        } else {
            None
        };
        let careful = turn.ask || turn.read_only;
        let instructions = Some(turn.instructions.as_str()).filter(|text| !text.is_empty());
        let values = [
            ("new_session", new.map(OsStr::new)),
            ("session", resume.map(OsStr::new)),
            ("model", self.spec.model_of(turn).map(OsStr::new)),
            ("scratch", Some(turn.scratch.as_os_str())),
            ("instructions", instructions.map(OsStr::new)),
            ("mcp_file", servers.as_deref().map(|path| path.as_os_str())),
            (
                "approval",
                Some(OsStr::new(if careful { "default" } else { "yolo" })),
            ),
        ];
        Ok(Program {
            argv: template::fill(&words, &values),
            env: self.spec.variables(turn),
            stdin: true,
        })
    }

    /// Returns whether permission requests must come to us.
    fn asks(&self, turn: &Turn) -> bool {
        // As root the agent refuses to skip permissions, unless it believes that it is in a sandbox.
        let refuses = (self.is_root)() && !turn.environment.contains_key(OsStr::new("IS_SANDBOX"));
        turn.ask || turn.read_only || refuses
    }

    fn run(
        &mut self,
        turn: &Turn,
        program: &Program,
        session: Option<String>,
        prompt: &str,
        link: &mut dyn Link,
    ) -> Result<TurnClaim> {
        link.start(program)?;
        let mut run = Run {
            turn,
            link,
            stream: Stream::new(session),
            printed: Printed::default(),
            asked: BTreeMap::new(),
            requests: self.requests,
            patience: None,
            cancelled: false,
        };
        run.send(&json!({
            "type": "user",
            "message": {"role": "user", "content": [{"type": "text", "text": prompt}]},
        }))?;
        let outcome = run.follow()?;
        let claim = run.claim(&outcome);
        // A late answer must not match a request of the next run.
        self.requests = run.requests;
        Ok(claim)
    }
}

impl Run<'_> {
    fn send(&mut self, message: &Value) -> Result<()> {
        let line = format!("{message}\n");
        match self.link.write(line.as_bytes()) {
            // Its exit is reported later.
            Err(error) if error.is_broken_pipe() => Ok(()),
            result => result,
        }
    }

    fn follow(&mut self) -> Result<ClaudeOutcome> {
        let (mut ending, mut hopeless) = (None, None);
        let exit = loop {
            let dues = [self.stream.text.due(), self.printed.due(), self.patience];
            match self.link.next(dues.into_iter().flatten().min())? {
                Input::Stdout { line, cut } => match self.line(&line, cut)? {
                    Heard::Nothing => {}
                    Heard::Asked(request) => self.asked(&request)?,
                    Heard::Withdrawn(request) => self.withdrawn(&request)?,
                    Heard::Ended(told) => {
                        ending = Some(told);
                        self.patience = Some(Instant::now() + FAREWELL);
                        self.link.close_stdin()?;
                    }
                    Heard::Hopeless(trouble) => {
                        hopeless = Some(trouble);
                        break self.link.end()?;
                    }
                },
                Input::Stderr { line, cut } => {
                    self.printed
                        .line(output::Stream::Stderr, &line, cut, self.link)?;
                }
                Input::Exited(exit) => break exit,
                Input::Answer { request, choice } => self.answered(&request, &choice)?,
                Input::Cancel if !self.cancelled => {
                    self.cancelled = true;
                    self.patience = Some(Instant::now() + FAREWELL);
                    let request = json!({"subtype": "interrupt"});
                    self.send(&json!({"type": "control_request", "request_id": "interrupt", "request": request}))?;
                }
                Input::Cancel | Input::Woken => {}
            }
            let now = Instant::now();
            self.stream.text.flush_due(now, self.link)?;
            self.printed.flush_due(now, self.link)?;
            if self.patience.is_some_and(|patience| patience <= now) {
                break self.link.end()?;
            }
        };
        self.stream.text.end(self.link)?;
        self.printed.finish(self.link)?;
        let exit = match &ending {
            Some(_) if !self.cancelled => exit::after_turn(exit, self.link)?,
            _ => Some(exit),
        };
        Ok(ClaudeOutcome {
            ending,
            hopeless,
            exit,
        })
    }

    fn line(&mut self, line: &[u8], cut: u64) -> Result<Heard> {
        if cut > 0 {
            self.stream
                .keep(&raw_message::cut_message(line, cut), self.link)?;
            return Ok(Heard::Nothing);
        }
        match bounded_json::parse(&String::from_utf8_lossy(line)) {
            Some(message) if message.is_object() => {
                self.stream
                    .message(&message, &self.turn.worktree, self.turn.used, self.link)
            }
            _ => {
                self.printed
                    .line(output::Stream::Stdout, line, 0, self.link)?;
                Ok(Heard::Nothing)
            }
        }
    }

    fn asked(&mut self, message: &Value) -> Result<()> {
        let Some(request) = Request::from_message(message) else {
            let id = &message["request_id"];
            self.stream.keep(message, self.link)?;
            return self.send(&json!({"type": "control_response", "response":
                {"subtype": "error", "request_id": id, "error": "not offered"}}));
        };
        self.requests += 1;
        let name = format!("{}.{}", self.turn.number, self.requests);
        self.link.event(request.question(&name))?;
        if self.turn.read_only && !request.is_harmless() {
            return self.decide(&name, &request, false);
        }
        if !self.turn.ask {
            return self.decide(&name, &request, !request.is_question());
        }
        self.asked.insert(name, request);
        Ok(())
    }

    /// Forgets a request that the agent has withdrawn.
    fn withdrawn(&mut self, id: &Value) -> Result<()> {
        let name = self.asked.iter().find(|(_, request)| request.is(id));
        let Some(name) = name.map(|(name, _)| name.clone()) else {
            return Ok(());
        };
        self.asked.remove(&name);
        self.link.event(Body::Answer {
            request: name,
            choice: "cancelled".to_owned(),
            by: AnsweredBy::Agent,
        })
    }

    fn decide(&mut self, name: &str, request: &Request, allow: bool) -> Result<()> {
        let choice = if allow { "allow" } else { "deny" };
        self.link.event(Body::Answer {
            request: name.to_owned(),
            choice: choice.to_owned(),
            by: AnsweredBy::Policy,
        })?;
        self.send(&if allow {
            request.allowed()
        } else {
            request.denied()
        })
    }

    fn answered(&mut self, name: &str, choice: &str) -> Result<()> {
        let Some(mut request) = self.asked.remove(name) else {
            return Ok(());
        };
        match request.answer(choice) {
            Some(message) => self.send(&message),
            // There are more questions, or the answer matches nothing.
            None => {
                self.link.event(request.question(name))?;
                self.asked.insert(name.to_owned(), request);
                Ok(())
            }
        }
    }

    fn claim(&self, outcome: &ClaudeOutcome) -> TurnClaim {
        let trouble = match (&outcome.ending, &outcome.hopeless) {
            _ if self.cancelled => None,
            (_, Some(trouble)) => Some(trouble.clone()),
            (Some(ending), _) => ending.trouble.clone(),
            (None, None) => {
                let said = self.printed.last_stderr();
                let exit = outcome.exit.clone().unwrap_or_default();
                Some(match exit.code {
                    Some(0) => {
                        Trouble::new(TroubleKind::Protocol, "the agent ended without a result")
                    }
                    _ => Trouble::from_exit(&exit, said),
                })
            }
        };
        let text = match &outcome.ending {
            Some(ending) if !ending.text.is_empty() => ending.text.clone(),
            _ => self.stream.text.last().to_owned(),
        };
        TurnClaim {
            ok: trouble.is_none() && !self.cancelled,
            cancelled: self.cancelled,
            trouble,
            final_text: text.trim().to_owned(),
            exit: outcome.exit.clone(),
        }
    }
}

impl Driver for Claude {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            fork: true,
            permissions: true,
            cost: true,
            stays: false,
        }
    }

    fn turn(&mut self, turn: &Turn, link: &mut dyn Link) -> Result<TurnClaim> {
        if let Some(trouble) = self.spec.missing(&turn.environment, &turn.worktree) {
            return Ok(TurnClaim::failed(trouble));
        }
        if turn.ask && self.spec.asking == Asking::Never {
            link.event(Body::Notice {
                text: "this agent cannot ask for permission; it refuses such actions".to_owned(),
            })?;
        }
        let mut resume = turn.resume.clone();
        let mut new = (resume.is_none() || turn.fork).then(|| conversation_id(turn, 0));
        let mut prompt = match resume {
            Some(_) => turn.prompt.clone(),
            None => opening(turn, link)?,
        };
        let mut attempt = 0;
        loop {
            if let Some(session) = &new {
                // Record it before the start, so that a killed run can still be resumed.
                link.event(Body::Vendor {
                    session: session.clone(),
                })?;
            }
            let program = self.program(turn, resume.as_deref(), new.as_deref())?;
            let known = new.clone().or_else(|| resume.clone());
            let claim = self.run(turn, &program, known, &prompt, link)?;
            attempt += 1;
            let words = match &claim.trouble {
                Some(trouble) if attempt < 3 && !claim.cancelled => trouble.text.as_str(),
                _ => return Ok(claim),
            };
            if is_forgotten(words)
                && let Some(lost) = resume.take()
            {
                link.event(Body::Notice {
                    text: format!(
                        "the agent has no conversation {lost}: a new one begins, and its prompt contains the earlier one"
                    ),
                })?;
                prompt = with_history(&turn.prompt, turn.history.as_deref());
                new = Some(conversation_id(turn, 1));
            } else if is_taken(words)
                && let Some(ours) = new.take_if(|_| !turn.fork)
            {
                // The id was made for this turn, so an earlier attempt of this turn has begun it.
                resume = Some(ours);
            } else {
                return Ok(claim);
            }
        }
    }

    fn close(&mut self, _link: &mut dyn Link) -> Result<()> {
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
