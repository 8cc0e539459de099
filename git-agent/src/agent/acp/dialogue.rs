//! One turn's exchange: our requests and their answers, and everything else that arrives meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::acp::calls::Calls;
use crate::agent::acp::permission::{self, Request};
use crate::agent::acp::updates::tokens_in;
use crate::agent::acp::wire::{self, Fault, Message};
use crate::agent::acp::{Peer, raw};
use crate::agent::catalog::spec::AgentSpec;
use crate::agent::driver::{Input, Link, SETBACK, Trouble, TroubleKind, Turn, TurnClaim};
use crate::agent::stream::output::{Printed, Stream};
use crate::agent::stream::raw_message;
use crate::agent::stream::text::Streamed;
use crate::error::{Error, Result};
use crate::model::session::{Exit, Usage};

/// How long the agent may take to end a cancelled turn.
const CANCEL: Duration = Duration::from_secs(10);
/// An agent that sends other messages but no answer may take this many times its patience.
const SIGNS: u32 = 5;
/// How long after an answer its late updates may arrive.
const LATEST: Duration = Duration::from_secs(1);
/// The longest pause before such an update.
pub(super) const AFTERMATH: Duration = Duration::from_millis(100);

/// Why an exchange ended early.
#[derive(Debug)]
pub enum Halt {
    /// Our side failed.
    Failed(Error),
    /// The agent refused a request.
    Fault(Fault),
    /// The agent's process ended; with its last lines on standard error.
    Exited(Exit, String),
    /// No answer to this method, and no other message.
    Silent(String),
    /// The turn was cancelled, and the agent did not end it by itself.
    Cancelled,
    /// A trouble that ends the turn, in our words.
    Trouble(Trouble),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Failed(error)
    }
}

/// One turn's exchange.
pub struct Dialogue<'a> {
    pub(super) spec: &'a AgentSpec,
    pub(super) turn: &'a Turn,
    pub(super) peer: &'a mut Peer,
    pub(super) link: &'a mut dyn Link,
    /// While a conversation is loaded, its old messages are sent again; they are not recorded again.
    pub(super) replaying: bool,
    pub(super) text: Streamed,
    pub(super) message: Option<String>,
    pub(super) calls: Calls,
    pub(super) printed: Printed,
    pub(super) asked: BTreeMap<String, Request>,
    pub(super) refused: bool,
    pub(super) cancelled: Option<Instant>,
    pub(super) exited: Option<Exit>,
    pub(super) prompting: bool,
    /// When the agent began to retry by itself, and why.
    pub(super) setback: Option<(Instant, Trouble)>,
    pub(super) usage: Usage,
    /// Whether the last line on standard error belongs to the agent's own log.
    pub(super) murmurs: bool,
    /// Tokens of this turn, for agents that report each request.
    pub(super) requests: (u64, u64),
}

impl<'a> Dialogue<'a> {
    /// Returns an exchange for a turn.
    pub(super) fn new(
        spec: &'a AgentSpec,
        turn: &'a Turn,
        peer: &'a mut Peer,
        link: &'a mut dyn Link,
    ) -> Self {
        Dialogue {
            spec,
            turn,
            peer,
            link,
            replaying: false,
            text: Streamed::default(),
            message: None,
            calls: Calls::default(),
            printed: Printed::default(),
            asked: BTreeMap::new(),
            refused: false,
            cancelled: None,
            exited: None,
            prompting: false,
            setback: None,
            usage: turn.used,
            murmurs: false,
            requests: (0, 0),
        }
    }

    /// Returns the last message of the agent.
    pub fn last_said(&self) -> &str {
        self.text.last().trim()
    }

    /// Records everything that still waits.
    pub fn finish(&mut self) -> Result<()> {
        self.text.end(self.link)?;
        self.calls.end(self.link)?;
        self.printed.finish(self.link)
    }

    /// Sends the prompt and waits until the agent reports the end of the turn.
    pub fn prompt(&mut self, text: &str) -> Result<TurnClaim, Halt> {
        let params = json!({
            "sessionId": self.conversation(),
            "prompt": [{"type": "text", "text": text}],
        });
        let noted = self.noted();
        self.begin_prompt();
        let answer = self.call("session/prompt", &params, None);
        self.prompting = false;
        let claim = match answer {
            Ok(result) => {
                let claim = self.conclude(&result)?;
                self.settle()?;
                self.take_noted(noted)?;
                if claim.ok && self.is_unanswered(&result) {
                    TurnClaim::failed(Trouble::new(
                        TroubleKind::Context,
                        "the agent shortened the conversation and got no answer",
                    ))
                } else {
                    claim
                }
            }
            // The process can be asked again: a failed request does not end it.
            Err(Halt::Fault(_)) if self.cancelled.is_some() => TurnClaim {
                cancelled: true,
                ..TurnClaim::default()
            },
            Err(Halt::Fault(fault)) => TurnClaim::failed(fault.trouble()),
            Err(halt) => return Err(halt),
        };
        Ok(claim)
    }

    /// Treats all messages from now on as part of the turn.
    pub(super) fn begin_prompt(&mut self) {
        self.prompting = true;
    }

    /// Returns the id of the open conversation.
    pub(super) fn conversation(&self) -> &str {
        self.peer
            .conversation
            .as_ref()
            .map_or("", |(id, _)| id.as_str())
    }

    /// Sends a request and waits for its answer; with `patience`, only as long as the agent sends messages.
    pub(super) fn call(
        &mut self,
        method: &str,
        params: &Value,
        patience: Option<Duration>,
    ) -> Result<Value, Halt> {
        self.peer.last_id += 1;
        let id = self.peer.last_id;
        self.send(&wire::request(id, method, params))?;
        let begun = Instant::now();
        let mut heard = begun;
        loop {
            let silent = patience.map(|patience| (heard + patience).min(begun + patience * SIGNS));
            match self.wait(silent)? {
                Heard::Answer(answered, result) if wire::same_id(id, &answered) => {
                    return result.map_err(Halt::Fault);
                }
                Heard::Answer(..) | Heard::Something => heard = Instant::now(),
                Heard::Nothing => {}
            }
            let now = Instant::now();
            let chatty = patience.is_some_and(|patience| begun + patience * SIGNS <= now);
            let quiet = silent.is_some_and(|silent| silent <= now) && heard + AFTERMATH < now;
            if quiet || chatty {
                return Err(Halt::Silent(method.to_owned()));
            }
        }
    }

    /// Waits for updates that belong to an answer but arrive after it, until no more arrive.
    pub(super) fn settle(&mut self) -> Result<(), Halt> {
        let answered = Instant::now();
        let mut quiet = answered + AFTERMATH;
        while Instant::now() < quiet {
            match self.wait(Some(quiet)) {
                // The turn is over, so the end of the process does not matter.
                Err(Halt::Exited(..)) => return Ok(()),
                Err(halt) => return Err(halt),
                Ok(Heard::Nothing) => {}
                Ok(_) => quiet = (Instant::now() + AFTERMATH).min(answered + LATEST),
            }
        }
        Ok(())
    }

    /// Waits for one input and handles it.
    pub(super) fn wait(&mut self, wake: Option<Instant>) -> Result<Heard, Halt> {
        if let Some(exit) = &self.exited {
            // A dead process sends nothing more, no matter who noticed its end.
            let printed = self.printed.last_stderr().to_owned();
            return Err(Halt::Exited(exit.clone(), printed));
        }
        let given_up = self.hopeless().map(|(since, _)| *since + SETBACK);
        let dues = [
            wake,
            self.text.due(),
            self.printed.due(),
            self.cancelled,
            given_up,
        ];
        let heard = match self.link.next(dues.into_iter().flatten().min())? {
            Input::Stdout { line, cut } => self.line(&line, cut)?,
            Input::Stderr { line, cut } => {
                let setback = self.hear_of_setback(&line)?;
                if setback || !self.is_murmur(&line) {
                    self.printed.line(Stream::Stderr, &line, cut, self.link)?;
                }
                Heard::Something
            }
            Input::Exited(exit) => {
                self.exited = Some(exit.clone());
                let printed = self.printed.last_stderr().to_owned();
                return match self.cancelled {
                    Some(_) => Err(Halt::Cancelled),
                    None => Err(Halt::Exited(exit, printed)),
                };
            }
            Input::Answer { request, choice } => {
                self.answered(&request, &choice)?;
                Heard::Something
            }
            Input::Cancel => {
                self.cancel()?;
                Heard::Something
            }
            Input::Woken => Heard::Nothing,
        };
        let now = Instant::now();
        self.text.flush_due(now, self.link)?;
        self.printed.flush_due(now, self.link)?;
        if self.cancelled.is_some_and(|patience| patience <= now) {
            return Err(Halt::Cancelled);
        }
        match self.hopeless() {
            Some((since, trouble)) if *since + SETBACK <= now => {
                Err(Halt::Trouble(trouble.clone()))
            }
            _ => Ok(heard),
        }
    }

    /// Returns the setback that may end the turn. While a tool runs or the user is asked, the agent does not use its
    /// model, so the failure was about something else.
    pub(super) fn hopeless(&self) -> Option<&(Instant, Trouble)> {
        let asks_model = || self.asked.is_empty() && !self.calls.are_running();
        self.setback.as_ref().filter(|_| asks_model())
    }

    /// Notices when the agent says that it retries. Its next action shows that it overcame the trouble.
    fn hear_of_setback(&mut self, line: &[u8]) -> Result<bool> {
        let line = String::from_utf8_lossy(line);
        // Strip the time and the level of a log line.
        let words = line
            .split_once("Z] [")
            .and_then(|(_, rest)| rest.split_once("] "))
            .filter(|_| self.spec.murmurs.is_some())
            .map_or(&*line, |(_, words)| words);
        let Some(trouble) = Trouble::in_passing(words).filter(|_| self.prompting) else {
            return Ok(false);
        };
        self.link.setback(&trouble)?;
        let since = self
            .setback
            .as_ref()
            .map_or(Instant::now(), |(since, _)| *since);
        self.setback = Some((since, trouble));
        Ok(true)
    }

    /// Returns whether a line belongs to the agent's own log: `[2026-01-02T03:04:05.678Z] [DEBUG] …`, and the indented
    /// lines below it.
    fn is_murmur(&mut self, line: &[u8]) -> bool {
        let dated = line.first() == Some(&b'[')
            && line.get(1).is_some_and(u8::is_ascii_digit)
            && line.windows(4).any(|part| part == b"Z] [");
        let below = matches!(line.first(), Some(b' ' | b'\t' | b'}' | b']'));
        self.murmurs = self.spec.murmurs.is_some() && (dated || (below && self.murmurs));
        self.murmurs
    }

    /// Writes to the agent. If it has gone, its exit is reported later.
    pub(super) fn send(&mut self, line: &[u8]) -> Result<()> {
        match self.link.write(line) {
            Err(error) if error.is_broken_pipe() => Ok(()),
            result => result,
        }
    }

    fn cancel(&mut self) -> Result<(), Halt> {
        if !self.prompting {
            return Err(Halt::Cancelled);
        }
        if self.cancelled.is_some() {
            return Ok(());
        }
        self.cancelled = Some(Instant::now() + CANCEL);
        let params = json!({"sessionId": self.conversation()});
        self.send(&wire::notification("session/cancel", &params))?;
        for (_, request) in std::mem::take(&mut self.asked) {
            self.send(&wire::answer(&request.id, &permission::outcome(None)))?;
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8], cut: u64) -> Result<Heard> {
        if cut > 0 {
            return self.cut_line(line, cut);
        }
        match wire::parse(line) {
            Message::Response { id, result } => return Ok(Heard::Answer(id, result)),
            Message::Request { id, method, params } => self.request(id, &method, params)?,
            Message::Notification { method, params } => {
                let foreign = params
                    .get("sessionId")
                    .and_then(Value::as_str)
                    .is_some_and(|session| !["", session].contains(&self.conversation()));
                match params.get("update") {
                    Some(_) if self.replaying => {}
                    Some(update) if method == "session/update" && !foreign => {
                        self.update(update)?;
                    }
                    _ => self.keep(&json!({"method": method, "params": params}))?,
                }
            }
            Message::Broken { id, method } => {
                self.printed.line(Stream::Stdout, line, 0, self.link)?;
                return self.unread(id, method, "the message cannot be read");
            }
            Message::Odd(value) => self.keep(&value)?,
            Message::Noise => self.printed.line(Stream::Stdout, line, 0, self.link)?,
        }
        Ok(Heard::Something)
    }

    /// Handles a message that was too long to read, so that neither side waits for it for ever.
    fn cut_line(&mut self, line: &[u8], cut: u64) -> Result<Heard> {
        let size = line.len() as u64 + cut;
        let (id, method) = wire::parse_head(line);
        self.keep(&raw_message::cut_message(line, cut))?;
        let message = format!("a message of {size} bytes is too long");
        match id {
            Some(id) => self.unread(id, method, &message),
            None => Ok(Heard::Something),
        }
    }

    /// Refuses a request that could not be read, and treats an unreadable answer as a refusal.
    fn unread(&mut self, id: Value, method: Option<String>, why: &str) -> Result<Heard> {
        if method.is_some() {
            self.send(&wire::refusal(&id, wire::INTERNAL_ERROR, why))?;
            return Ok(Heard::Something);
        }
        let fault = Fault {
            code: wire::INVALID_REQUEST,
            message: why.to_owned(),
            data: Value::Null,
        };
        Ok(Heard::Answer(id, Err(fault)))
    }

    pub(super) fn keep(&mut self, message: &Value) -> Result<()> {
        self.text.pause(self.link)?;
        self.link.event(raw(message))
    }

    /// Returns whether a finished turn has no answer of the model.
    fn is_unanswered(&self, result: &Value) -> bool {
        let nothing_written = matches!(tokens_in(result), Some((read, 0)) if read > 0);
        self.spec.overflows_silently && nothing_written && !self.text.spoke_last()
    }

    /// Turns the agent's result into a claim.
    fn conclude(&mut self, result: &Value) -> Result<TurnClaim> {
        self.note_usage(tokens_in(result), None)?;
        let reason = result
            .get("stopReason")
            .and_then(Value::as_str)
            .unwrap_or("end_turn");
        let cancelled = self.cancelled.take().is_some();
        let trouble = match reason {
            _ if cancelled => None,
            "end_turn" => None,
            "max_tokens" => Some("the model reached its token limit"),
            "max_turn_requests" => Some("the agent reached its limit of requests per turn"),
            "refusal" => Some("the agent refused to continue"),
            "cancelled" if self.refused => Some("the agent stopped after a refused permission"),
            "cancelled" => Some("the agent stopped the turn"),
            _ => Some("the agent stopped"),
        };
        Ok(TurnClaim {
            ok: trouble.is_none() && !cancelled,
            cancelled,
            trouble: trouble.map(|text| {
                let known = ["max_tokens", "refusal", "max_turn_requests", "cancelled"];
                let text = if known.contains(&reason) {
                    text.to_owned()
                } else {
                    format!("{text}: {reason}")
                };
                Trouble::new(TroubleKind::Other, text)
            }),
            ..TurnClaim::default()
        })
    }
}

/// Result of a wait.
#[derive(Debug)]
pub enum Heard {
    /// An answer to some request.
    Answer(Value, Result<Value, Fault>),
    /// Another message.
    Something,
    /// The wake time has come.
    Nothing,
}
