//! A link that follows a script, for tests: what the agent prints is written down, what is written to it is checked.

use std::collections::VecDeque;
use std::time::Instant;

use serde_json::Value;

use super::{Input, Link, Program};
use crate::error::{Error, Result};
use crate::session::Exit;
use crate::transcript::Body;

/// One step of a dialogue.
#[derive(Debug, Clone)]
pub enum Step {
    /// The driver must have written this message by now.
    Wrote(Value),
    /// Something happens.
    Gives(Input),
    /// Nothing happens: a driver that asked to be woken is.
    Quiet,
}

/// A link that follows a script.
#[derive(Debug, Default)]
pub struct Script {
    /// What is to come.
    pub steps: VecDeque<Step>,
    /// Everything recorded.
    pub events: Vec<Body>,
    /// Every program started.
    pub started: Vec<Program>,
    /// Messages written and not yet checked.
    pub written: VecDeque<Vec<u8>>,
    /// Whether standard input is closed.
    pub stdin_closed: bool,
    /// Whether the driver ended the agent.
    pub ended: bool,
    /// Whether starting fails because there is no such program.
    pub missing: bool,
    running: bool,
}

impl Script {
    /// Returns a script in which the agent prints these lines.
    pub fn printing<L: AsRef<[u8]>>(lines: impl IntoIterator<Item = L>) -> Self {
        let mut script = Script::default();
        for line in lines {
            script.push(stdout(line));
        }
        script
    }

    /// Adds something that happens.
    pub fn push(&mut self, input: Input) {
        self.steps.push_back(Step::Gives(input));
    }

    /// Returns the kinds of the events recorded.
    pub fn kinds(&self) -> Vec<&str> {
        self.events.iter().map(Body::kind).collect()
    }
}

/// Returns a printed line as input.
pub fn stdout(line: impl AsRef<[u8]>) -> Input {
    Input::Stdout {
        line: line.as_ref().to_vec(),
        cut: 0,
    }
}

/// Returns an exit with a code as input.
pub fn exited(code: i32) -> Input {
    Input::Exited(Exit {
        code: Some(code),
        signal: None,
        reason: String::new(),
    })
}

impl Link for Script {
    fn event(&mut self, body: Body) -> Result<()> {
        self.events.push(body);
        Ok(())
    }

    fn start(&mut self, program: &Program) -> Result<()> {
        assert!(!self.running, "one agent at a time");
        if self.missing {
            let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(Error::fatal("cannot start the agent").because(absent));
        }
        self.started.push(program.clone());
        self.running = true;
        self.stdin_closed = false;
        Ok(())
    }

    fn is_running(&self) -> bool {
        self.running
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        assert!(!self.stdin_closed, "written after closing");
        assert!(bytes.ends_with(b"\n"), "whole lines are written");
        self.written.extend(
            bytes
                .split_inclusive(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec),
        );
        Ok(())
    }

    fn close_stdin(&mut self) -> Result<()> {
        self.stdin_closed = true;
        Ok(())
    }

    fn next(&mut self, wake: Option<Instant>) -> Result<Input> {
        while let Some(Step::Wrote(expected)) = self.steps.front() {
            let line = self
                .written
                .pop_front()
                .unwrap_or_else(|| panic!("not written: {expected}"));
            let message: Value = serde_json::from_slice(&line).expect("JSON is written");
            assert_eq!(&message, expected);
            self.steps.pop_front();
        }
        match self.steps.pop_front() {
            Some(Step::Gives(input)) => {
                if matches!(input, Input::Exited(_)) {
                    self.running = false;
                }
                Ok(input)
            }
            Some(Step::Quiet) | None if wake.is_some() => {
                if let Some(wake) = wake {
                    std::thread::sleep(wake.saturating_duration_since(Instant::now()));
                }
                Ok(Input::Woken)
            }
            _ => panic!("the script is over, and the driver waits for ever"),
        }
    }

    fn end(&mut self) -> Result<Exit> {
        self.ended = true;
        self.running = false;
        Ok(Exit {
            signal: Some(15),
            ..Exit::default()
        })
    }
}
