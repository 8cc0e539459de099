//! A driver for Codex: `codex exec --json`, one process per turn, with the prompt as its only input and JSON lines as
//! its output.
//!
//! It cannot ask for permission in this mode. If every request should go to the user, its own sandbox confines it to
//! the worktree instead, and a notice says so.

mod stream;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::time::Instant;

use serde_json::json;

use crate::agent::catalog::spec::AgentSpec;
use crate::agent::codex::stream::{Ending, Stream};
use crate::agent::driver::{
    Capabilities, Driver, Input, Link, McpServer, Program, Trouble, TroubleKind, Turn, TurnClaim,
};
use crate::agent::retell::{opening, with_history};
use crate::agent::stream::exit::{self, FAREWELL};
use crate::agent::stream::failure::is_forgotten;
use crate::agent::stream::output::{self, Printed};
use crate::agent::stream::{bounded_json, raw_message};
use crate::error::Result;
use crate::model::event::Body;
use crate::model::session::Exit;

/// Settings that turn off unwanted habits.
const QUIET: [&str; 4] = [
    "-c",
    "check_for_update_on_startup=false",
    "-c",
    "analytics.enabled=false",
];

/// Drives Codex.
#[derive(Debug)]
pub struct Codex {
    spec: AgentSpec,
}

impl Codex {
    /// Returns a driver for an agent.
    pub fn new(spec: AgentSpec) -> Self {
        Codex { spec }
    }

    fn program(&self, turn: &Turn, resume: Option<&str>) -> Program {
        let mut argv = self.spec.argv.clone();
        argv.extend(["exec", "--json"].map(OsString::from));
        argv.extend(QUIET.map(OsString::from));
        let mut add = |words: &[&str]| argv.extend(words.iter().map(OsString::from));
        match (turn.read_only, turn.ask) {
            (true, _) => add(&["--sandbox", "read-only"]),
            (false, true) => add(&["--sandbox", "workspace-write"]),
            (false, false) => add(&["--dangerously-bypass-approvals-and-sandbox"]),
        }
        if let Some(model) = self.spec.model_of(turn) {
            add(&["--model", model]);
        }
        let mut env = self.spec.variables(turn);
        for server in &turn.mcp_servers {
            let setting = offer(server, turn, &mut env);
            add(&["-c", &setting]);
        }
        match resume {
            Some(session) if turn.fork => add(&["fork", session]),
            Some(session) => add(&["resume", session]),
            None => {}
        }
        add(&["-"]);
        Program {
            argv,
            env,
            stdin: true,
        }
    }

    fn run(
        &self,
        turn: &Turn,
        resume: Option<&str>,
        prompt: &str,
        link: &mut dyn Link,
    ) -> Result<TurnClaim> {
        link.start(&self.program(turn, resume))?;
        match link.write(format!("{prompt}\n").as_bytes()) {
            Err(error) if error.is_broken_pipe() => {}
            result => result?,
        }
        link.close_stdin()?;
        let known = resume.filter(|_| !turn.fork);
        let mut stream = Stream::new(known.map(ToOwned::to_owned));
        let mut printed = Printed::default();
        let (mut cancelled, mut hopeless) = (false, None);
        // When an agent that does not end by itself will be killed.
        let mut patience: Option<Instant> = None;
        let exit = loop {
            let given_up = stream.gives_up().map(|(at, _)| at);
            let dues = [printed.due(), patience, given_up];
            let due = dues.into_iter().flatten().min();
            match link.next(due)? {
                Input::Stdout { line, cut: 0 } => {
                    match bounded_json::parse(&String::from_utf8_lossy(&line)) {
                        Some(event) if event.is_object() => {
                            stream.event(&event, &turn.worktree, turn.used, link)?;
                        }
                        _ => printed.line(output::Stream::Stdout, &line, 0, link)?,
                    }
                }
                Input::Stdout { line, cut } => {
                    link.event(raw_message::raw(
                        "codex-json",
                        &raw_message::cut_message(&line, cut),
                    ))?;
                }
                Input::Stderr { line, cut } => {
                    printed.line(output::Stream::Stderr, &line, cut, link)?;
                }
                Input::Exited(exit) => break exit,
                Input::Cancel => {
                    cancelled = true;
                    break link.end()?;
                }
                Input::Answer { .. } | Input::Woken => {}
            }
            let now = Instant::now();
            printed.flush_due(now, link)?;
            if stream.is_over() {
                patience = patience.or(Some(now + FAREWELL));
            }
            if let Some((_, trouble)) = stream.gives_up().filter(|(at, _)| *at <= now) {
                hopeless = Some(trouble.clone());
                break link.end()?;
            }
            if patience.is_some_and(|patience| patience <= now) {
                break link.end()?;
            }
        };
        printed.finish(link)?;
        stream.end(link)?;
        if hopeless.is_some() {
            return Ok(TurnClaim {
                trouble: hopeless,
                exit: Some(exit),
                ..TurnClaim::default()
            });
        }
        let over = stream.is_over() && !cancelled;
        let mut claim = claim(stream, exit.clone(), cancelled, &printed);
        if over {
            claim.exit = exit::after_turn(exit, link)?;
        }
        Ok(claim)
    }
}

/// Returns the setting that offers an MCP server. The server's variables are only named there and put into the agent's
/// environment, because every user of the machine can read command lines.
fn offer(server: &McpServer, turn: &Turn, env: &mut Vec<(OsString, OsString)>) -> String {
    let (mut passed, mut given) = (Vec::new(), Vec::new());
    for (name, value) in &server.env {
        let is_it = |(known, _): &&(OsString, OsString)| known == name.as_str();
        let known = env.iter().rfind(is_it).map(|(_, value)| value);
        match known.or_else(|| turn.environment.get(OsStr::new(name))) {
            Some(known) if known == value.as_str() => passed.push(name),
            // The agent itself has another value under that name.
            Some(_) => given.push(format!("{}={}", json!(name), json!(value))),
            None => {
                env.push((name.into(), value.into()));
                passed.push(name);
            }
        }
    }
    // Codex rejects other characters in a name, however it is quoted.
    let plain = |c: char| match c {
        '-' => c,
        _ if c.is_ascii_alphanumeric() => c,
        _ => '_',
    };
    let name: String = server.name.chars().map(plain).collect();
    // Strings and lists look the same in JSON and TOML; tables do not.
    format!(
        "mcp_servers.{name}={{command={},args={},env_vars={},env={{{}}}}}",
        json!(server.command.to_string_lossy()),
        json!(server.args),
        json!(passed),
        given.join(",")
    )
}

fn claim(stream: Stream, exit: Exit, cancelled: bool, printed: &Printed) -> TurnClaim {
    let trouble = match &stream.ending {
        _ if cancelled => None,
        Some(Ending::Completed) => None,
        Some(Ending::Failed(text)) => Some(Trouble::from_words(text, TroubleKind::Model)),
        None if exit.code == Some(0) => Some(Trouble::new(
            TroubleKind::Protocol,
            "the agent ended without a result",
        )),
        None => Some(Trouble::from_exit(&exit, printed.last_stderr())),
    };
    TurnClaim {
        ok: trouble.is_none() && !cancelled,
        cancelled,
        trouble,
        final_text: stream.last_said,
        exit: Some(exit),
    }
}

impl Driver for Codex {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            fork: true,
            ..Capabilities::default()
        }
    }

    fn turn(&mut self, turn: &Turn, link: &mut dyn Link) -> Result<TurnClaim> {
        if let Some(trouble) = self.spec.missing(&turn.environment, &turn.worktree) {
            return Ok(TurnClaim::failed(trouble));
        }
        if turn.ask && !turn.read_only {
            link.event(Body::Notice {
                text: "this agent cannot ask for permission; its own sandbox confines it to the worktree instead"
                    .to_owned(),
            })?;
        }
        let prompt = match turn.resume {
            Some(_) => turn.prompt.clone(),
            None => opening(turn, link)?,
        };
        let claim = self.run(turn, turn.resume.as_deref(), &prompt, link)?;
        let forgotten = |trouble: &Trouble| is_forgotten(&trouble.text);
        match &turn.resume {
            Some(lost) if claim.trouble.as_ref().is_some_and(forgotten) => {
                link.event(Body::Notice {
                    text: format!(
                        "the agent has no conversation {lost}: a new one begins, and its prompt contains the earlier one"
                    ),
                })?;
                let prompt = with_history(&turn.prompt, turn.history.as_deref());
                self.run(turn, None, &prompt, link)
            }
            _ => Ok(claim),
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
