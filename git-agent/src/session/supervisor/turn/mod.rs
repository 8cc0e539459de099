//! The running turn: records events, holds the agent's process, and waits for the next event without polling.

pub mod briefing;
pub(crate) mod deadlines;
mod disk_usage;
pub(crate) mod exchange;
pub(crate) mod idle;
pub mod mcp_servers;
pub(crate) mod pipes;
pub mod retry;

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::agent::driver::{Input, LONGEST_ID, Link, Program, Trouble, TroubleKind, Turn};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::git::command;
use crate::guard::refusals::Refusals;
use crate::model::event::Body;
use crate::model::event_words::{AnsweredBy, Sender};
use crate::model::session::{Exit, Session, State, Ulid};
use crate::process::identity::Stat;
use crate::process::slots::doorbell::Doorbell;
use crate::process::spawn::{self, Shim, Stdin};
use crate::process::tree::{self, KillCare};
use crate::process::wait::{Poll, Signals};
use crate::session::exchange::artifacts;
use crate::session::supervisor::inbox::{Inbox, Message};
use crate::session::supervisor::limits::{TurnBounds, WhenStuck};
use crate::session::supervisor::notify::Notifier;
use crate::session::supervisor::turn::deadlines::Clocks;
use crate::session::supervisor::turn::pipes::Running;
use crate::session::supervisor::{launch, rate_limit};
use crate::store::log::writer::SessionWriter;

/// How long a process may take to end when asked to, before it is made to.
const GRACE: Duration = Duration::from_secs(3);

/// The supervisor's hands.
#[derive(Debug)]
pub struct Live<'a> {
    env: &'a Env,
    /// The session's record.
    pub writer: SessionWriter<'a>,
    inbox: Inbox,
    bell: Doorbell,
    signals: Signals,
    bounds: TurnBounds,
    notifier: Notifier,
    /// Whose limits on requests the session shares with others.
    pub provider: Option<String>,
    /// The agent's name, when it is known to say nothing while its provider limits it.
    pub waits_in_silence: Option<String>,
    /// When the agent last did something that a working model is needed for.
    progress: Option<Instant>,
    process: Option<Running>,
    queue: VecDeque<Input>,
    clocks: Clocks,
    /// The requests that wait for an answer, oldest first, each with the time at which it is refused without one.
    requests: Vec<(String, Option<Instant>)>,
    /// The process groups of commands that tell a person.
    told: Vec<u32>,
    /// Why the turn shall end, once a command or a limit wants that.
    pub ending: Option<Ending>,
    /// The first stop that the user asked for.
    stop: Option<Stop>,
    turn: Turn,
    /// Finds what the agent's room refuses.
    pub refusals: Option<Refusals>,
    /// The directories whose size is limited.
    pub measured: Vec<PathBuf>,
}

/// A stop by the user, and the messages that came before it: they rest with the session, later ones begin a new turn.
#[derive(Debug)]
struct Stop {
    reason: String,
    resting: Vec<Ulid>,
}

/// Why a turn shall end before the agent says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// A person said so.
    Stopped(String),
    /// A limit was reached, in words.
    Limit(String),
    /// The agent showed no sign of life, in words.
    Stuck(String),
    /// The machine, or the user, ended the supervisor.
    Signal(i32),
}

/// A prompt that waits for its turn.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// The sender, as the transcript names it.
    pub from: Sender,
    /// Whether it only continues an earlier prompt.
    pub again: bool,
    /// The messages of other sessions that it delivers.
    pub notes: Vec<(Ulid, Message)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Inbox,
    Signal,
    Exit,
    Stdout,
    Stderr,
    Stdin,
}

impl<'a> Live<'a> {
    /// Takes hold of a session for this process.
    pub fn new(
        env: &'a Env,
        writer: SessionWriter<'a>,
        inbox: Inbox,
        bounds: TurnBounds,
        notifier: Notifier,
    ) -> Result<Self> {
        let bell = inbox.listen()?;
        let signals = Signals::new(&[
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGHUP,
        ])?;
        Ok(Live {
            env,
            writer,
            inbox,
            bell,
            signals,
            bounds,
            notifier,
            provider: None,
            waits_in_silence: None,
            progress: None,
            process: None,
            queue: VecDeque::new(),
            clocks: Clocks::default(),
            requests: Vec::new(),
            told: Vec::new(),
            ending: None,
            stop: None,
            turn: Turn::default(),
            refusals: None,
            measured: Vec::new(),
        })
    }

    /// Returns the session's messages.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Begins a turn: from now on its clocks run. `worked` is how long it was worked on before it was tried again.
    pub fn begin(&mut self, turn: &Turn, worked: Duration) -> Result<()> {
        // If the process stayed after the last turn and died since, this turn did not crash: the driver starts another.
        let dead = |running: &Running| running.spawned.handle.wait(Some(Duration::ZERO));
        if self.process.as_ref().map(dead).transpose()? == Some(true)
            && let Some(mut running) = self.process.take()
        {
            running.finish(&mut self.queue)?;
        }
        self.turn = turn.clone();
        self.queue.clear();
        self.requests.clear();
        self.progress = None;
        self.clocks = self.start_clocks(worked);
        Ok(())
    }

    /// Ends everything the agent left running, and returns how many processes that were.
    pub fn sweep(&mut self) -> Result<usize> {
        self.process = None;
        let others = OnceCell::new();
        let ended = tree::end_all(KillCare {
            spare: &|stat| self.is_spared(stat, &others),
            ..KillCare::new(GRACE)
        })?;
        Ok(ended.asked.len() + ended.killed.len())
    }

    /// Returns when the agent last did something that a working model is needed for, in the turn or attempt that began last.
    pub fn last_progress(&self) -> Option<Instant> {
        self.progress
    }

    /// Returns the action for a stuck agent.
    pub fn when_stuck(&self) -> WhenStuck {
        self.bounds.when_stuck
    }

    /// Tells a person about the state the session is in.
    pub fn notify(&mut self) {
        self.told.extend(self.notifier.tell(self.writer.session()));
    }

    /// Returns whether a process below us is not the agent's: another supervisor, or something that tells a person. The
    /// supervisors are looked for only when there is a process to judge: each has a file of its own.
    fn is_spared(&self, stat: &Stat, others: &OnceCell<Vec<u32>>) -> bool {
        let all = || launch::supervisors(self.writer.store());
        self.told.contains(&stat.group) || others.get_or_init(all).contains(&stat.pid)
    }

    /// Ends writing: everything is in git when this returns.
    pub fn close(self) -> Result<Session> {
        self.writer.close()
    }

    /// Reads the messages that cannot wait: stops and answers. The rest stays until the turn is over.
    fn take_messages(&mut self) -> Result<()> {
        let messages = self.inbox.list()?;
        let requests = messages
            .iter()
            .filter(|(_, message)| message.needs_supervisor());
        let resting: Vec<Ulid> = requests.map(|(id, _)| *id).collect();
        for (id, message) in messages {
            match message {
                Message::Prompt { .. } | Message::Note { .. } | Message::Leave => continue,
                Message::Artifact { .. } => {
                    artifacts::record_waiting(&mut self.writer, &self.inbox)?;
                    continue;
                }
                Message::Sent { .. } | Message::Read { .. } => self.record_message(id, message)?,
                Message::TooMany { most } => {
                    let text =
                        format!("wanted to send more than {most} messages: agent.maxMessages");
                    self.writer.append(Body::Notice { text })?;
                    self.notify();
                }
                Message::Wake { session } => self.wake(session)?,
                Message::Progress { entries } => {
                    self.writer.append(Body::Plan { entries })?;
                }
                Message::Stop { reason } => {
                    self.ending.get_or_insert(Ending::Stopped(reason.clone()));
                    let resting = resting.clone();
                    self.stop.get_or_insert(Stop { reason, resting });
                    self.cancel();
                }
                Message::Answer { request, choice } => {
                    self.answer(request, choice, AnsweredBy::User)?
                }
                // A supervisor that shall stop leaves it to the next one.
                Message::Begin if self.ending.is_some() => continue,
                Message::Begin => {}
            }
            self.inbox.remove(id)?;
        }
        Ok(())
    }

    /// Takes back the end of a turn by a limit: the next prompt may be given, unless the user stopped the session too.
    pub fn end_by_limit_is_over(&mut self) {
        if matches!(self.ending, Some(Ending::Limit(_) | Ending::Stuck(_))) {
            let stopped = |stop: &Stop| Ending::Stopped(stop.reason.clone());
            self.ending = self.stop.as_ref().map(stopped);
        }
    }

    /// Returns the messages that start no supervisor when this one has ended; `None` when none may be started. `over` says
    /// that it ended because there was nothing left to do.
    pub fn resting(&self, over: bool) -> Result<Option<Vec<Ulid>>> {
        match (&self.ending, &self.stop) {
            (Some(Ending::Signal(_)), _) => Ok(None),
            (Some(_), Some(stop)) => Ok(Some(stop.resting.clone())),
            (None, _) if over => Ok(Some(Vec::new())),
            _ => self.inbox.requests().map(Some),
        }
    }

    /// Does something long with git, and gives it up when the session shall stop: that is then the ending.
    pub fn unless_stopped<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let inbox = self.inbox.clone();
        let is_stop = |message: &Message| matches!(message, Message::Stop { .. });
        let cancelling = command::cancel_when(move || {
            let messages = inbox.list().unwrap_or_default();
            messages.iter().any(|(_, message)| is_stop(message))
        });
        let result = work();
        drop(cancelling);
        self.take_messages()?;
        result
    }

    fn answer(&mut self, request: String, choice: String, by: AnsweredBy) -> Result<()> {
        if !self.requests.iter().any(|(open, _)| *open == request) {
            return Ok(());
        }
        self.clocks.silent_since = Some(Instant::now());
        self.writer.append(Body::Answer {
            request: request.clone(),
            choice: choice.clone(),
            by,
        })?;
        self.close_request(&request)?;
        self.queue.push_back(Input::Answer { request, choice });
        Ok(())
    }

    /// Takes note that a request waits no longer. The agent goes on when it was the last one.
    fn close_request(&mut self, request: &str) -> Result<()> {
        let before = self.requests.len();
        self.requests.retain(|(open, _)| open != request);
        match self.requests.len() {
            left if left == before => Ok(()),
            0 if self.writer.session().status == State::Waiting => {
                self.writer.set_status(State::Running, "")
            }
            0 => Ok(()),
            _ => {
                self.notify();
                Ok(())
            }
        }
    }

    /// Records that the open requests need no answer any more: what asked them is over.
    pub fn withdraw_requests(&mut self) -> Result<()> {
        for (request, _) in std::mem::take(&mut self.requests) {
            self.writer.append(Body::Answer {
                request,
                choice: "cancelled".to_owned(),
                by: AnsweredBy::Policy,
            })?;
        }
        if self.writer.session().status == State::Waiting {
            self.writer.set_status(State::Running, "")?;
        }
        Ok(())
    }

    fn cancel(&mut self) {
        if self.clocks.cancel_by.is_none() {
            self.clocks.cancel_by = Some(Instant::now() + 2 * GRACE);
            self.queue.push_back(Input::Cancel);
        }
    }

    fn take_signals(&mut self) {
        for signal in self.signals.take() {
            // The terminal that started the supervisor is gone, which it must survive.
            if signal == signal_hook::consts::SIGHUP {
                continue;
            }
            self.ending.get_or_insert(Ending::Signal(signal));
            self.cancel();
        }
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<Vec<Ready>> {
        let mut poll = Poll::new();
        poll.read(Ready::Inbox, &self.bell);
        poll.read(Ready::Signal, &self.signals);
        if let Some(running) = &self.process {
            poll.read(Ready::Exit, &running.spawned.handle);
            if let Some(stdout) = &running.stdout {
                poll.read(Ready::Stdout, stdout);
            }
            if let Some(stderr) = &running.stderr {
                poll.read(Ready::Stderr, stderr);
            }
            if let Some(stdin) = running
                .spawned
                .stdin
                .as_ref()
                .filter(|_| !running.outgoing.is_empty())
            {
                poll.write(Ready::Stdin, stdin);
            }
        }
        poll.rest(deadline)
    }

    fn handle(&mut self, ready: &[Ready]) -> Result<()> {
        if ready.contains(&Ready::Signal) {
            self.take_signals();
        }
        if ready.contains(&Ready::Inbox) {
            self.bell.silence();
            self.take_messages()?;
        }
        if ready.contains(&Ready::Stdin)
            && let Some(running) = &mut self.process
        {
            running.pump()?;
        }
        let (out, err) = (
            ready.contains(&Ready::Stdout),
            ready.contains(&Ready::Stderr),
        );
        if (out || err)
            && let Some(running) = &mut self.process
        {
            let before = self.queue.len();
            running.read(out, err, &mut self.queue)?;
            let ended = (out && running.stdout.is_none()) || (err && running.stderr.is_none());
            if running.dialogue && running.stdout.is_none() {
                // It will never answer again: it ends by itself now, or is ended.
                self.clocks.cancel_by.get_or_insert(Instant::now() + GRACE);
            }
            // A stream that ends is not a sign of life.
            if !ended || self.queue.len() > before {
                self.clocks.silent_since = Some(Instant::now());
                // Output of an agent that is being ended does not count as work.
                if self.writer.session().status == State::Stuck && self.ending.is_none() {
                    self.writer.set_status(State::Running, "output again")?;
                }
            }
        }
        if ready.contains(&Ready::Exit)
            && let Some(mut running) = self.process.take()
        {
            let exit = running.finish(&mut self.queue)?;
            self.queue.push_back(Input::Exited(exit));
        }
        Ok(())
    }
}

impl Link for Live<'_> {
    fn event(&mut self, body: Body) -> Result<()> {
        let (asks, answered) = match &body {
            Body::Permission { request, .. } => (Some(request.clone()), None),
            Body::Answer { request, .. } => (None, Some(request.clone())),
            _ => (None, None),
        };
        if let Body::Vendor { session } = &body
            && session.len() > LONGEST_ID
        {
            return Err(Error::fatal(format!(
                "the agent's id of its conversation is longer than {LONGEST_ID} bytes"
            )));
        }
        if let Some(refusals) = &mut self.refusals
            && let Body::Output { text, .. } | Body::ToolResult { output: text, .. } = &body
        {
            refusals.see(text);
        }
        let usage = matches!(body, Body::Usage { .. });
        if needs_model(&body) {
            self.progress = Some(Instant::now());
        }
        self.writer.append(body)?;
        if let Some(request) = asks.filter(|_| self.turn.ask) {
            let within = self.bounds.answer_within;
            let by = within.map(|within| Instant::now() + within);
            self.requests.retain(|(open, _)| *open != request);
            self.requests.push((request, by));
            if self.writer.session().status != State::Waiting {
                self.writer.set_status(State::Waiting, "")?;
            }
            self.notify();
        }
        if let Some(request) = answered {
            self.close_request(&request)?;
        }
        if usage && self.ending.is_none() {
            self.check_budget()?;
        }
        self.writer.flush_if_due()
    }

    fn cut(&self, text: &str, at: usize) -> usize {
        self.writer.redactor().cut(text, at)
    }

    fn start(&mut self, program: &Program) -> Result<()> {
        if self.process.is_some() {
            return Err(Error::fatal("the agent is already running"));
        }
        let mut environment = self.turn.environment.clone();
        environment.extend(program.env.iter().cloned());
        let spec = spawn::Spec {
            command: program.argv.clone(),
            directory: self.turn.worktree.clone(),
            environment: environment.into_iter().collect(),
            stdin: if program.stdin {
                Stdin::Pipe
            } else {
                Stdin::Null
            },
            limits: self.bounds.limits.clone(),
            name: self.writer.session().sid.to_string(),
            death_signal: rustix::process::Signal::KILL,
            room: self.turn.room.clone(),
        };
        let spawned = spawn::spawn(self.env, &Shim::own(), spec)?;
        if self.ending.is_none() {
            // The deadline of an earlier process of the same turn does not apply to this one.
            self.clocks.cancel_by = None;
        }
        self.process = Some(Running::new(spawned, program.stdin)?);
        self.clocks.silent_since = Some(Instant::now());
        Ok(())
    }

    fn is_running(&self) -> bool {
        self.process.is_some()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(running) = &mut self.process else {
            return Err(Error::fatal("the agent is not running"));
        };
        running.outgoing.extend(bytes);
        running.pump()
    }

    fn close_stdin(&mut self) -> Result<()> {
        if let Some(running) = &mut self.process {
            running.close_after = true;
            running.pump()?;
        }
        Ok(())
    }

    fn next(&mut self, wake: Option<Instant>) -> Result<Input> {
        loop {
            if let Some(input) = self.queue.pop_front() {
                return Ok(input);
            }
            let ready = self.wait(self.next_clock(wake))?;
            self.handle(&ready)?;
            let now = Instant::now();
            self.ring(now)?;
            self.writer.flush_if_due()?;
            if self.queue.is_empty() && wake.is_some_and(|wake| now >= wake) {
                return Ok(Input::Woken);
            }
        }
    }

    fn end(&mut self) -> Result<Exit> {
        let Some(mut running) = self.process.take() else {
            return Ok(Exit::default());
        };
        let keep = [running.spawned.id.pid];
        let others = OnceCell::new();
        tree::end_all(KillCare {
            spare: &|stat| self.is_spared(stat, &others),
            keep: &keep,
            grace: GRACE,
        })?;
        running.finish(&mut self.queue)
    }

    fn setback(&mut self, trouble: &Trouble) -> Result<()> {
        if let (TroubleKind::RateLimit, Some(provider)) = (trouble.kind, &self.provider) {
            let wait = retry::wait_for_limit(trouble, 0);
            rate_limit::note(self.writer.store(), provider, wait)?;
        }
        Ok(())
    }
}

/// Returns whether an event shows that the model answers.
fn needs_model(body: &Body) -> bool {
    matches!(
        body,
        Body::Assistant { .. }
            | Body::Reasoning { .. }
            | Body::ToolCall { .. }
            | Body::ToolResult { .. }
            | Body::Plan { .. }
            | Body::Permission { .. }
    )
}
