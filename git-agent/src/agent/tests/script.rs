//! A link that follows a script, for tests: it contains the agent's output and checks its input.

use std::collections::VecDeque;
use std::time::Instant;

use serde_json::Value;

use crate::agent::driver::{Input, Link, Program};
use crate::error::Result;
use crate::model::event::Body;
use crate::model::session::Exit;
use crate::redact::{KnownSecrets, Redactor};

/// One step of a dialogue.
#[derive(Debug, Clone)]
pub enum Step {
    /// The driver must have started this by now.
    Started(Vec<String>),
    /// The driver must write this line before anything else happens.
    Wrote(String),
    /// Something happens.
    Gives(Input),
}

/// A link that follows a script.
#[derive(Debug, Default)]
pub struct Script {
    /// The remaining steps.
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
    /// Whether the driver's input and programs are not checked, and the agent dies at the end of the script.
    pub lenient: bool,
    /// Whether the agent runs.
    pub running: bool,
    /// The redactor that later handles the events.
    pub redactor: Option<Redactor>,
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

    /// Returns a script whose events are redacted with a known secret.
    pub fn knowing(secret: &str) -> Self {
        let mut known = KnownSecrets::new();
        known.add_value(secret.as_bytes());
        Script {
            redactor: Some(Redactor::new(known)),
            ..Script::default()
        }
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
    fn cut(&self, text: &str, at: usize) -> usize {
        let redactor = self.redactor.as_ref();
        redactor.map_or(at, |redactor| redactor.cut(text, at))
    }

    fn event(&mut self, body: Body) -> Result<()> {
        self.events.push(body);
        Ok(())
    }

    fn start(&mut self, program: &Program) -> Result<()> {
        assert!(!self.running, "one agent at a time");
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
        loop {
            match self.steps.front() {
                Some(Step::Gives(_)) => break,
                Some(_) if self.lenient => {}
                Some(Step::Started(expected)) => {
                    let program = self.started.last().expect("something was started");
                    let words: Vec<String> = program
                        .argv
                        .iter()
                        .map(|word| word.to_string_lossy().into_owned())
                        .collect();
                    assert_eq!(&words, expected);
                }
                Some(Step::Wrote(expected)) => match (self.written.pop_front(), wake) {
                    (Some(line), _) => assert_same_message(&line, expected),
                    // A driver that wants to be woken has not written yet, and may do so then.
                    (None, Some(wake)) => return Ok(sleep_until(wake)),
                    (None, None) => panic!("not written: {expected}"),
                },
                None if self.lenient && self.running => {
                    self.running = false;
                    return Ok(exited(1));
                }
                None => match wake {
                    Some(wake) => return Ok(sleep_until(wake)),
                    None => panic!("the script is over, and the driver waits for ever"),
                },
            }
            self.steps.pop_front();
        }
        let Some(Step::Gives(input)) = self.steps.pop_front() else {
            unreachable!("looked at above");
        };
        if matches!(input, Input::Exited(_)) {
            self.running = false;
        }
        Ok(input)
    }

    fn end(&mut self) -> Result<Exit> {
        self.ended = true;
        self.running = false;
        // The agent's remaining output is lost.
        while let Some(step) = self.steps.pop_front() {
            if let Step::Gives(Input::Exited(exit)) = step {
                return Ok(exit);
            }
        }
        Ok(Exit {
            signal: Some(15),
            ..Exit::default()
        })
    }
}

fn sleep_until(wake: Instant) -> Input {
    std::thread::sleep(wake.saturating_duration_since(Instant::now()));
    Input::Woken
}

fn assert_same_message(line: &[u8], expected: &str) {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end();
    let json = |text: &str| serde_json::from_str::<Value>(text).ok();
    match (json(line), json(expected)) {
        (Some(written), Some(expected)) => assert_eq!(written, expected),
        _ => assert_eq!(line, expected),
    }
}
