//! One turn: ask the model, do what it calls for, and ask again until it has nothing more to do.

mod act;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use git_agent::redact::Redactor;
use reqwest::blocking::Client;
use serde_json::Value;

use crate::conversation::{Call, Conversation, Message};
use crate::provider::failure::Failure;
use crate::provider::http::{self, Answer};
use crate::provider::{Delta, Model, Reply, Request, Stop, choose};
use crate::screen::Screen;
use crate::system_prompt::FENCED;
use crate::tools;
use crate::{compaction, fenced};

/// The most requests of one turn.
const STEPS: u64 = 200;
/// Waits before the tries after the first, if the server fails before it says anything.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// The share of the context, in percent, above which room is made.
const FULL: u64 = 80;

/// What can happen while a turn waits. Numbers tell old requests and commands from the present one.
#[derive(Debug)]
pub enum Input {
    /// A step of the model's answer.
    Http(u64, Answer),
    /// A command ended.
    Shell(u64, Option<ExitStatus>),
    /// The client answered a permission request.
    Permission(String, Value),
    /// The client cancels the turn.
    Cancel,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The model is done.
    End,
    /// The client cancelled.
    Cancelled,
    /// The answer was too long.
    Length,
    /// Too many requests.
    Steps,
    /// The provider refused.
    Refused,
}

/// What an agent may do without asking.
#[derive(Debug, Default, Clone)]
pub struct Permissions {
    /// Everything.
    pub skip: bool,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Kinds of actions that the user allowed for good.
    pub always: BTreeSet<&'static str>,
}

/// One turn.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The HTTP client.
    pub client: &'a Client,
    /// The model.
    pub model: &'a Model,
    /// The conversation.
    pub conversation: &'a mut Conversation,
    /// For the conversation's file.
    pub redactor: &'a Redactor,
    /// The client's view.
    pub screen: &'a Screen,
    /// Where commands run.
    pub cwd: &'a Path,
    /// What may be done without asking.
    pub permissions: &'a mut Permissions,
    /// Everything that happens.
    pub inbox: &'a Receiver<Input>,
    /// The other end of the inbox.
    pub sender: Sender<Input>,
    /// Counts requests, commands and questions.
    pub number: u64,
    /// Tokens of this turn: read and written.
    pub used: (u64, u64),
    /// Tokens of the last request and its answer, by the provider's count.
    pub filled: u64,
    /// The price so far, if the provider says it.
    pub cost: &'a mut Option<f64>,
    /// The last call and how often it was made in a row.
    pub last_call: (String, u32),
}

/// A failure, or the wish of the client to stop.
#[derive(Debug)]
pub(crate) enum Halt {
    Cancelled,
    Failed(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Halt::Failed(failure)
    }
}

impl From<std::io::Error> for Halt {
    fn from(error: std::io::Error) -> Self {
        Halt::Failed(Failure::new(format!(
            "cannot keep the conversation: {error}"
        )))
    }
}

impl Turn<'_> {
    /// Runs the turn.
    pub fn run(&mut self, prompt: &str) -> Result<Outcome, Failure> {
        let outcome = match self.take_steps(prompt) {
            Ok(outcome) => Ok(outcome),
            Err(Halt::Cancelled) => Ok(Outcome::Cancelled),
            Err(Halt::Failed(failure)) => Err(failure),
        };
        let _ = self.conversation.sync();
        outcome
    }

    fn take_steps(&mut self, prompt: &str) -> Result<Outcome, Halt> {
        // A prompt without an answer stays: the next one only says to go on. Many models insist on turns.
        if let Some(Message::User { .. }) = self.conversation.messages().last() {
            let text = "(interrupted)".to_owned();
            let calls = Vec::new();
            let said = Message::Assistant { text, calls };
            self.conversation.say(said, self.redactor)?;
        }
        self.conversation
            .say(Message::user(prompt), self.redactor)?;
        if !self.model.tools && !self.conversation.fenced {
            self.conversation.use_fences(self.redactor)?;
        }
        let mut written_out = 0;
        for _ in 0..STEPS {
            if self.is_nearly_full() {
                self.make_room()?;
            }
            let reply = match self.ask() {
                Ok(reply) => reply,
                Err(Halt::Failed(failure))
                    if failure.is_without_tools() && !self.conversation.fenced =>
                {
                    self.conversation.use_fences(self.redactor)?;
                    continue;
                }
                Err(Halt::Failed(failure)) if failure.is_overflow() && self.make_room()? => {
                    continue;
                }
                Err(halt) => return Err(halt),
            };
            let (stop, text) = (reply.stop, reply.text);
            let calls = self.with_own_ids(reply.calls);
            let said = Message::Assistant {
                text: text.clone(),
                calls: calls.clone(),
            };
            self.conversation.say(said, self.redactor)?;
            match stop {
                Stop::Refused => return Ok(Outcome::Refused),
                Stop::Length if calls.is_empty() => return Ok(Outcome::Length),
                Stop::Length | Stop::End => {}
            }
            if !calls.is_empty() {
                if self.call_all(&calls)? {
                    return Ok(Outcome::End);
                }
            } else if self.conversation.fenced {
                let Some(command) = fenced::command(&text) else {
                    return Ok(Outcome::End);
                };
                self.run_fenced(command)?;
            } else if fenced::looks_like_call(&text) {
                written_out += 1;
                self.correct(written_out)?;
            } else {
                return Ok(Outcome::End);
            }
        }
        Ok(Outcome::Steps)
    }

    /// Asks the model, and asks again if the server fails before it says anything.
    fn ask(&mut self) -> Result<Reply, Halt> {
        let mut waits = WAITS.iter();
        loop {
            self.number += 1;
            let number = self.number;
            let sender = self.sender.clone();
            let tell = move |answer| sender.send(Input::Http(number, answer)).is_ok();
            http::post(self.client, self.model, self.request(), tell);
            match self.listen(number) {
                Err((Halt::Failed(failure), false)) if failure.is_passing() => match waits.next() {
                    Some(wait) => self.pause(*wait)?,
                    None => return Err(failure.into()),
                },
                Err((Halt::Failed(failure), _)) if failure.status == 404 => {
                    return Err(choose::missing(self.model, failure).into());
                }
                Err((halt, _)) => return Err(halt),
                Ok(reply) => {
                    self.count(&reply);
                    return Ok(reply);
                }
            }
        }
    }

    fn request(&self) -> (String, Value) {
        let fenced = self.conversation.fenced;
        let system = if fenced {
            format!("{}{FENCED}", self.conversation.system)
        } else {
            self.conversation.system.clone()
        };
        self.model.request(&Request {
            system: &system,
            messages: self.conversation.messages(),
            tools: if fenced { &[] } else { &tools::ALL },
        })
    }

    /// Folds the answer to a request. An error comes with whether anything was said before it.
    fn listen(&mut self, number: u64) -> Result<Reply, (Halt, bool)> {
        let mut fold = self.model.fold();
        let mut begun = false;
        loop {
            match self.next(None) {
                Some(Input::Http(of, Answer::Event(event))) if of == number => {
                    begun = true;
                    for delta in fold
                        .event(&event)
                        .map_err(|failure| (Halt::from(failure), true))?
                    {
                        match delta {
                            Delta::Text(text) => self.screen.text(number, &text),
                            Delta::Thought(text) => self.screen.thought(number, &text),
                        }
                    }
                }
                Some(Input::Http(of, Answer::End)) if of == number => {
                    if fold.is_complete() {
                        return Ok(fold.reply());
                    }
                    let failure = Failure::new("connection error: the model's answer broke off");
                    return Err((failure.into(), begun));
                }
                Some(Input::Http(of, Answer::Failed { failure })) if of == number => {
                    return Err((failure.into(), begun));
                }
                Some(Input::Cancel) | None => {
                    let text = fold.reply().text;
                    if !text.is_empty() {
                        let said = Message::Assistant {
                            text,
                            calls: Vec::new(),
                        };
                        // The turn is over in any case.
                        let _ = self.conversation.say(said, self.redactor);
                    }
                    return Err((Halt::Cancelled, begun));
                }
                Some(_) => {}
            }
        }
    }

    fn count(&mut self, reply: &Reply) {
        self.used.0 += reply.input_tokens;
        self.used.1 += reply.output_tokens;
        if let Some(cost) = reply.cost {
            *self.cost = Some(self.cost.unwrap_or(0.0) + cost);
        }
        let tokens = (reply.input_tokens, reply.output_tokens);
        self.filled = reply.input_tokens + reply.output_tokens;
        let room = (self.filled, self.model.context);
        self.screen.usage(self.number, tokens, *self.cost, room);
    }

    /// Gives ids to calls without one, or with one of an earlier answer: some servers count from zero in every answer, and
    /// others refuse ids that occur twice.
    fn with_own_ids(&self, mut calls: Vec<Call>) -> Vec<Call> {
        let ids = |message: &Message| match message {
            Message::Assistant { calls, .. } => calls.iter().map(|call| call.id.clone()).collect(),
            Message::User { .. } | Message::Tool { .. } => Vec::new(),
        };
        let messages = self.conversation.messages().iter();
        let mut known: BTreeSet<String> = messages.flat_map(ids).collect();
        for (place, call) in calls.iter_mut().enumerate() {
            if call.id.is_empty() || known.contains(&call.id) {
                call.id = format!("call_{}_{place}", known.len());
            }
            known.insert(call.id.clone());
        }
        calls
    }

    /// Tells a model that wrote a call out to make it; the second time, lets it use fenced blocks.
    fn correct(&mut self, times: u32) -> Result<(), Halt> {
        let text = match times {
            1 => "That was only text. Call the tool instead of writing the call out.",
            _ => {
                self.conversation.use_fences(self.redactor)?;
                "Tool calls do not work with this model. From now on, answer with a fenced block to run a command."
            }
        };
        Ok(self.conversation.say(Message::user(text), self.redactor)?)
    }

    fn is_nearly_full(&self) -> bool {
        let messages = self.conversation.messages();
        let used = compaction::tokens(messages).max(self.filled);
        used * 100 > self.model.context * FULL
    }

    /// Leaves out old messages and says so. Returns whether there were any.
    fn make_room(&mut self) -> Result<bool, Halt> {
        let planned = compaction::plan(self.conversation.messages(), self.model.context);
        let Some((before, note)) = planned else {
            return Ok(false);
        };
        self.conversation.leave_out(before, note, self.redactor)?;
        self.filled = 0;
        self.number += 1;
        let said =
            format!("(The context is nearly full: the first {before} messages are summed up.)\n");
        self.screen.thought(self.number, &said);
        Ok(true)
    }

    /// Waits before another try.
    fn pause(&mut self, wait: Duration) -> Result<(), Halt> {
        let deadline = Instant::now() + wait;
        loop {
            match self.next(Some(deadline)) {
                Some(Input::Cancel) => return Err(Halt::Cancelled),
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    /// Returns the next thing that happens, or nothing at the deadline.
    fn next(&self, deadline: Option<Instant>) -> Option<Input> {
        let Some(deadline) = deadline else {
            return self.inbox.recv().ok();
        };
        let wait = deadline.saturating_duration_since(Instant::now());
        self.inbox.recv_timeout(wait).ok()
    }
}
