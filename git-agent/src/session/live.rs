//! The supervisor's hands during a turn: it records events, holds the agent's process, and waits for whatever comes next,
//! without ever waking up for nothing.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::inbox::{Inbox, Message};
use super::{Exit, Session, State};
use crate::agent::{Input, Link, Program, Turn};
use crate::env::Env;
use crate::error::{Context, Error, Result};
use crate::process::identity::Stat;
use crate::process::limits::{LimitPlan, memory_below};
use crate::process::lines::{Bounds, Fill, Lines, Piece, Reader, Stream};
use crate::process::spawn::{self, Shim, Spawned, Stdin};
use crate::process::tree::{self, Care};
use crate::process::wait::{Change, Poll, Signals, Watch};
use crate::session::Ulid;
use crate::store::append::SessionWriter;
use crate::transcript::Body;

/// How long a process may take to end when asked to, before it is made to.
const GRACE: Duration = Duration::from_secs(3);
/// How long output is waited for after the process that wrote it has ended.
const DRAIN: Duration = Duration::from_millis(300);
/// How often the memory of a limited process tree is looked at.
const MEMORY_LOOK: Duration = Duration::from_secs(2);

/// What bounds a turn.
#[derive(Debug, Clone)]
pub struct TurnBounds {
    /// How long a turn may take.
    pub timeout: Option<Duration>,
    /// How long an agent may be silent before it counts as stuck.
    pub stuck_after: Option<Duration>,
    /// How long a request may stay unanswered.
    pub answer_within: Option<Duration>,
    /// What the whole session may cost.
    pub max_cost: Option<f64>,
    /// How many tokens the whole session may use.
    pub max_tokens: Option<u64>,
    /// What the processes may use.
    pub limits: LimitPlan,
}

/// The supervisor's hands.
#[derive(Debug)]
pub struct Live<'a> {
    env: &'a Env,
    /// The session's record.
    pub writer: SessionWriter<'a>,
    inbox: Inbox,
    watch: Watch,
    signals: Signals,
    bounds: TurnBounds,
    process: Option<Running>,
    queue: VecDeque<Input>,
    clocks: Clocks,
    /// The request that waits for an answer.
    request: Option<String>,
    /// Supervisors of other sessions that the agent started: they are not ours to end.
    pub others: Vec<u32>,
    /// Why the turn shall end, once somebody or something wants that.
    pub ending: Option<Ending>,
    turn: Turn,
}

/// Why a turn shall end before the agent says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// A person said so.
    Stopped(String),
    /// A limit was reached, in words.
    Limit(String),
    /// The machine, or the user, ended the supervisor.
    Signal(i32),
}

#[derive(Debug, Default)]
struct Clocks {
    turn_end: Option<Instant>,
    silent_since: Option<Instant>,
    answer_by: Option<Instant>,
    cancel_by: Option<Instant>,
    memory: Option<Instant>,
}

#[derive(Debug)]
struct Running {
    spawned: Spawned,
    stdout: Option<Reader<OwnedFd>>,
    stderr: Option<Reader<OwnedFd>>,
    lines: Lines,
    outgoing: VecDeque<u8>,
    close_after: bool,
    dialogue: bool,
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
    ) -> Result<Self> {
        let watch = Watch::new()?;
        watch.add(inbox.dir(), Change::Settled)?;
        let signals = Signals::new(&[
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGHUP,
        ])?;
        Ok(Live {
            env,
            writer,
            inbox,
            watch,
            signals,
            bounds,
            process: None,
            queue: VecDeque::new(),
            clocks: Clocks::default(),
            request: None,
            others: Vec::new(),
            ending: None,
            turn: Turn::default(),
        })
    }

    /// Returns the session's messages.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Begins a turn: from now on its clocks run.
    pub fn begin(&mut self, turn: &Turn) {
        let now = Instant::now();
        self.turn = turn.clone();
        self.queue.clear();
        self.request = None;
        self.clocks = Clocks {
            turn_end: self.bounds.timeout.map(|timeout| now + timeout),
            silent_since: Some(now),
            memory: self.bounds.limits.needs_watch().then(|| now + MEMORY_LOOK),
            ..Clocks::default()
        };
    }

    /// Ends everything the agent left running, and returns how many processes that were.
    pub fn sweep(&mut self) -> Result<usize> {
        self.process = None;
        let others = self.others.clone();
        let spare = |stat: &Stat| others.contains(&stat.pid);
        let ended = tree::end_all(Care {
            spare: &spare,
            ..Care::new(GRACE)
        })?;
        Ok(ended.asked.len() + ended.killed.len())
    }

    /// Waits for a message or a signal while no turn runs, at most until `until`. Returns whether something came.
    pub fn idle(&mut self, until: Option<Instant>) -> Result<bool> {
        self.take_messages()?;
        if self.ending.is_some() || self.inbox.has_prompt()? {
            return Ok(true);
        }
        let flush = self.flush_at();
        let deadline = [until, flush].into_iter().flatten().min();
        let mut poll = Poll::new();
        poll.read(Ready::Inbox, &self.watch);
        poll.read(Ready::Signal, &self.signals);
        let ready = poll.wait(deadline)?;
        if ready.contains(&Ready::Signal) {
            self.take_signals();
        }
        if ready.contains(&Ready::Inbox) {
            self.watch.take();
            self.take_messages()?;
        }
        self.writer.flush_if_due()?;
        Ok(self.ending.is_some() || self.inbox.has_prompt()?)
    }

    /// Waits, while no turn runs, for something of the caller's. `false` when the session shall end instead.
    pub fn wait_also(&mut self, also: &impl AsFd) -> Result<bool> {
        loop {
            self.take_messages()?;
            if self.ending.is_some() {
                return Ok(false);
            }
            let mut poll = Poll::new();
            poll.read(None, also);
            poll.read(Some(Ready::Inbox), &self.watch);
            poll.read(Some(Ready::Signal), &self.signals);
            let ready = poll.wait(self.flush_at())?;
            if ready.contains(&Some(Ready::Signal)) {
                self.take_signals();
            }
            if ready.contains(&Some(Ready::Inbox)) {
                self.watch.take();
            }
            self.writer.flush_if_due()?;
            if ready.contains(&None) {
                return Ok(true);
            }
        }
    }

    /// Ends writing: everything is in git when this returns.
    pub fn close(self) -> Result<Session> {
        self.writer.close()
    }

    /// Returns the oldest prompt that waits.
    pub fn next_prompt(&self) -> Result<Option<(Ulid, String, String)>> {
        Ok(self
            .inbox
            .list()?
            .into_iter()
            .find_map(|(id, message)| match message {
                Message::Prompt { text, from } => Some((id, text, from)),
                _ => None,
            }))
    }

    fn flush_at(&self) -> Option<Instant> {
        let due = self.writer.flush_deadline()?;
        let left = due.0.saturating_sub(self.env.now().0);
        Some(Instant::now() + Duration::from_millis(left))
    }

    /// Takes in what may not wait: stops and answers. Prompts stay until the turn is over.
    fn take_messages(&mut self) -> Result<()> {
        for (id, message) in self.inbox.list()? {
            match message {
                Message::Prompt { .. } => continue,
                Message::Stop { reason } => {
                    self.ending.get_or_insert(Ending::Stopped(reason));
                    self.cancel();
                }
                Message::Answer { request, choice } => self.answer(request, choice, "user")?,
            }
            self.inbox.remove(id)?;
        }
        Ok(())
    }

    fn answer(&mut self, request: String, choice: String, by: &str) -> Result<()> {
        if self.request.as_deref() != Some(request.as_str()) {
            return Ok(());
        }
        self.request = None;
        self.clocks.answer_by = None;
        self.clocks.silent_since = Some(Instant::now());
        self.writer.append(Body::Answer {
            request: request.clone(),
            choice: choice.clone(),
            by: by.to_owned(),
        })?;
        self.writer.set_status(State::Running, "")?;
        self.queue.push_back(Input::Answer { request, choice });
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
            // The terminal that started us is gone: that is what a supervisor is for.
            if signal == signal_hook::consts::SIGHUP {
                continue;
            }
            self.ending.get_or_insert(Ending::Signal(signal));
            self.cancel();
        }
    }

    /// Looks at the clocks and acts on those that have run out.
    fn ring(&mut self, now: Instant) -> Result<()> {
        if self.clocks.turn_end.is_some_and(|end| now >= end) {
            self.clocks.turn_end = None;
            let limit = self.bounds.timeout.unwrap_or_default().as_secs();
            self.limit(format!("over the time limit of {limit} seconds"))?;
        }
        if self.clocks.answer_by.is_some_and(|by| now >= by)
            && let Some(request) = self.request.clone()
        {
            self.answer(request, "reject_once".to_owned(), "timeout")?;
        }
        let silent = self.clocks.silent_since.zip(self.bounds.stuck_after);
        if silent.is_some_and(|(since, after)| now >= since + after) {
            self.clocks.silent_since = None;
            if self.writer.session().status == State::Running {
                let minutes = self.bounds.stuck_after.unwrap_or_default().as_secs() / 60;
                self.writer
                    .set_status(State::Stuck, &format!("no output for {minutes} minutes"))?;
            }
        }
        if self.clocks.memory.is_some_and(|at| now >= at) {
            self.clocks.memory = Some(now + MEMORY_LOOK);
            let used = memory_below(std::process::id());
            if let Some(limit) = self.bounds.limits.limits.memory
                && used.bytes > limit
            {
                self.limit(format!("over the memory limit of {} MiB", limit >> 20))?;
            }
        }
        if self.clocks.cancel_by.is_some_and(|by| now >= by) && self.process.is_some() {
            // Asked and not done: from here on the process is simply ended, and the driver sees that.
            self.clocks.cancel_by = None;
            let exit = self.end()?;
            self.queue.push_back(Input::Exited(exit));
        }
        Ok(())
    }

    fn limit(&mut self, words: String) -> Result<()> {
        self.writer.append(Body::Error {
            kind: "limit".to_owned(),
            text: words.clone(),
        })?;
        self.ending.get_or_insert(Ending::Limit(words));
        self.cancel();
        Ok(())
    }

    fn next_clock(&self, wake: Option<Instant>) -> Option<Instant> {
        let clocks = &self.clocks;
        let stuck = clocks.silent_since.zip(self.bounds.stuck_after);
        let stuck = stuck.filter(|_| self.writer.session().status == State::Running);
        [
            wake,
            clocks.turn_end,
            clocks.answer_by,
            clocks.cancel_by.filter(|_| self.process.is_some()),
            clocks.memory,
            stuck.map(|(since, after)| since + after),
            self.flush_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<Vec<Ready>> {
        let mut poll = Poll::new();
        poll.read(Ready::Inbox, &self.watch);
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
        poll.wait(deadline)
    }

    fn handle(&mut self, ready: &[Ready]) -> Result<()> {
        if ready.contains(&Ready::Signal) {
            self.take_signals();
        }
        if ready.contains(&Ready::Inbox) {
            self.watch.take();
            self.take_messages()?;
        }
        if ready.contains(&Ready::Stdin)
            && let Some(running) = &mut self.process
        {
            running.pump()?;
        }
        if ready.contains(&Ready::Stdout) || ready.contains(&Ready::Stderr) {
            self.clocks.silent_since = Some(Instant::now());
            if self.writer.session().status == State::Stuck {
                self.writer.set_status(State::Running, "output again")?;
            }
            if let Some(running) = &mut self.process {
                running.read(&mut self.queue)?;
                if running.dialogue && running.stdout.is_none() {
                    // It will never answer again: it ends by itself now, or is ended.
                    self.clocks.cancel_by.get_or_insert(Instant::now() + GRACE);
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
        let asks = match &body {
            Body::Permission { request, .. } => Some(request.clone()),
            _ => None,
        };
        let usage = matches!(body, Body::Usage { .. });
        self.writer.append(body)?;
        if let Some(request) = asks.filter(|_| self.turn.ask) {
            self.request = Some(request);
            self.clocks.answer_by = self
                .bounds
                .answer_within
                .map(|within| Instant::now() + within);
            self.writer.set_status(State::Waiting, "")?;
        }
        if usage && self.ending.is_none() {
            self.check_budget()?;
        }
        self.writer.flush_if_due()
    }

    fn start(&mut self, program: &Program) -> Result<()> {
        if self.process.is_some() {
            return Err(Error::fatal("the agent runs already"));
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
        };
        let spawned = spawn::spawn(self.env, &Shim::own(), spec)?;
        self.process = Some(Running::new(spawned, program.stdin)?);
        self.clocks.silent_since = Some(Instant::now());
        Ok(())
    }

    fn is_running(&self) -> bool {
        self.process.is_some()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(running) = &mut self.process else {
            return Err(Error::fatal("the agent does not run"));
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
        let spare = |stat: &Stat| self.others.contains(&stat.pid);
        let keep = [running.spawned.id.pid];
        tree::end_all(Care {
            spare: &spare,
            keep: &keep,
            grace: GRACE,
        })?;
        running.finish(&mut self.queue)
    }
}

impl Live<'_> {
    fn check_budget(&mut self) -> Result<()> {
        let usage = self.writer.session().usage;
        if let (Some(limit), Some(cost)) = (self.bounds.max_cost, usage.cost_usd)
            && cost > limit
        {
            return self.limit(format!("over the budget of ${limit:.2}"));
        }
        let tokens = usage.input_tokens.unwrap_or(0) + usage.output_tokens.unwrap_or(0);
        if let Some(limit) = self.bounds.max_tokens.filter(|limit| tokens > *limit) {
            return self.limit(format!("over the budget of {limit} tokens"));
        }
        Ok(())
    }
}

impl Running {
    /// Takes hold of a process. What one in a dialogue says is a protocol: of that no line may be missing.
    fn new(spawned: Spawned, dialogue: bool) -> Result<Self> {
        let cannot = || "cannot take hold of the agent's pipes".to_owned();
        let stdout = spawned
            .stdout
            .as_fd()
            .try_clone_to_owned()
            .context(cannot)?;
        let stderr = spawned
            .stderr
            .as_fd()
            .try_clone_to_owned()
            .context(cannot)?;
        if let Some(stdin) = &spawned.stdin {
            rustix::fs::fcntl_getfl(stdin)
                .and_then(|flags| {
                    rustix::fs::fcntl_setfl(stdin, flags | rustix::fs::OFlags::NONBLOCK)
                })
                .context(cannot)?;
        }
        Ok(Running {
            spawned,
            stdout: Some(Reader::new(stdout, Stream::Out)?),
            stderr: Some(Reader::new(stderr, Stream::Err)?),
            lines: Lines::new(Bounds {
                line: 4 << 20,
                head: Bounds::default().head.filter(|_| !dialogue),
                ..Bounds::default()
            }),
            outgoing: VecDeque::new(),
            close_after: false,
            dialogue,
        })
    }

    /// Writes as much as the agent takes now. An agent that has closed its input is not an error: it will end, or not.
    fn pump(&mut self) -> Result<()> {
        while let Some(stdin) = self
            .spawned
            .stdin
            .as_ref()
            .filter(|_| !self.outgoing.is_empty())
        {
            let (front, _) = self.outgoing.as_slices();
            match rustix::io::write(stdin, front) {
                Ok(count) => {
                    self.outgoing.drain(..count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => {
                    self.outgoing.clear();
                    self.spawned.stdin = None;
                }
            }
        }
        if self.close_after {
            self.spawned.stdin = None;
        }
        Ok(())
    }

    fn read(&mut self, queue: &mut VecDeque<Input>) -> Result<()> {
        let mut emit = |piece| queue.push_back(as_input(piece));
        for side in [&mut self.stdout, &mut self.stderr] {
            if let Some(reader) = side
                && reader.fill(&mut self.lines, &mut emit)? == Fill::Ended
            {
                *side = None;
            }
        }
        Ok(())
    }

    /// Takes what is left of the output, and the status.
    fn finish(&mut self, queue: &mut VecDeque<Input>) -> Result<Exit> {
        let until = Instant::now() + DRAIN;
        let mut emit = |piece| queue.push_back(as_input(piece));
        for side in [&mut self.stdout, &mut self.stderr] {
            if let Some(mut reader) = side.take() {
                reader.drain(&mut self.lines, until, &mut emit)?;
            }
        }
        self.lines.finish(&mut emit);
        let status = self
            .spawned
            .child
            .wait()
            .context(|| "cannot tell how the agent ended".into())?;
        use std::os::unix::process::ExitStatusExt;
        Ok(Exit {
            code: status.code(),
            signal: status.signal(),
            reason: String::new(),
        })
    }
}

fn as_input(piece: Piece) -> Input {
    match piece {
        Piece::Line(line) => match line.stream {
            Stream::Out => Input::Stdout {
                line: line.bytes,
                cut: line.cut,
            },
            Stream::Err => Input::Stderr {
                line: line.bytes,
                cut: line.cut,
            },
        },
        Piece::Gap { lines, bytes } => {
            let words = format!("[{lines} lines, {bytes} bytes of output were not kept]");
            Input::Stderr {
                line: words.into_bytes(),
                cut: 0,
            }
        }
    }
}
