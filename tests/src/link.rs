//! A driver's link to a real process, with threads and without a supervisor: for tests, recordings and benches.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use git_agent::agent::driver::{Input, Link, Program};
use git_agent::error::{Context, Error, Result};
use git_agent::model::event::Body;
use git_agent::model::session::Exit;
use rustix::process::{Pid, Signal};

/// The longest line given to a driver whole.
const LONGEST_LINE: usize = 1024 * 1024;
/// How long a process may take to end politely, and how long what it left open may keep us waiting.
const GRACE: Duration = Duration::from_secs(2);

/// What is called for an event.
pub type OnEvent = Box<dyn FnMut(&Body)>;

/// A link to a real process.
pub struct ProcessLink {
    /// Where the process works.
    pub cwd: PathBuf,
    /// Its environment, complete.
    pub environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    /// Everything recorded.
    pub events: Vec<Body>,
    /// Called for everything recorded.
    pub on_event: Option<OnEvent>,
    /// Where the whole exchange is written, one line each: `>` to the agent, `<` and `!` from it, `=` its exit, `$` its start.
    pub recording: Option<File>,
    sender: Sender<Input>,
    inputs: Receiver<Input>,
    stdin: Option<ChildStdin>,
    group: Option<Pid>,
}

impl ProcessLink {
    /// Returns a link for processes that work in a directory with an environment.
    pub fn new(
        cwd: impl Into<PathBuf>,
        environment: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    ) -> Self {
        let (sender, inputs) = channel();
        ProcessLink {
            cwd: cwd.into(),
            environment: environment.into_iter().collect(),
            events: Vec::new(),
            on_event: None,
            recording: None,
            sender,
            inputs,
            stdin: None,
            group: None,
        }
    }

    /// Returns where answers and cancels are put in, from any thread.
    pub fn sender(&self) -> Sender<Input> {
        self.sender.clone()
    }

    fn note(&mut self, mark: char, text: &str) {
        if let Some(file) = &mut self.recording {
            writeln!(file, "{mark} {}", text.trim_end_matches('\n'))
                .expect("the recording is writable");
        }
    }
}

impl Link for ProcessLink {
    fn event(&mut self, body: Body) -> Result<()> {
        if let Some(callback) = &mut self.on_event {
            callback(&body);
        }
        self.events.push(body);
        Ok(())
    }

    fn start(&mut self, program: &Program) -> Result<()> {
        assert!(self.group.is_none(), "one process at a time");
        let words: Vec<String> = program
            .argv
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        self.note('$', &serde_json::json!(words).to_string());
        let mut child = Command::new(&program.argv[0])
            .args(&program.argv[1..])
            .current_dir(&self.cwd)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .envs(program.env.iter().cloned())
            .stdin(if program.stdin {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .context(|| format!("cannot start '{}'", words[0]))?;
        self.group = Pid::from_raw(child.id().try_into().expect("a pid fits"));
        self.stdin = child.stdin.take();
        let (done, readers_done) = channel();
        let stdout = child.stdout.take().expect("piped");
        let stderr = child.stderr.take().expect("piped");
        let read = |source: Box<dyn Read + Send>, wrap: fn(Vec<u8>, u64) -> Input| {
            let (sender, done) = (self.sender.clone(), done.clone());
            std::thread::spawn(move || {
                read_lines(source, |line, cut| sender.send(wrap(line, cut)).is_ok());
                done.send(()).ok();
            });
        };
        read(Box::new(stdout), |line, cut| Input::Stdout { line, cut });
        read(Box::new(stderr), |line, cut| Input::Stderr { line, cut });
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            let status = child.wait().expect("it is our child");
            let patience = Instant::now() + GRACE;
            for _ in 0..2 {
                readers_done
                    .recv_timeout(patience.saturating_duration_since(Instant::now()))
                    .ok();
            }
            let exit = Exit {
                code: status.code(),
                signal: status.signal(),
                reason: String::new(),
            };
            sender.send(Input::Exited(exit)).ok();
        });
        Ok(())
    }

    fn is_running(&self) -> bool {
        self.group.is_some()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.note('>', &String::from_utf8_lossy(bytes));
        match &mut self.stdin {
            Some(stdin) => Ok(stdin.write_all(bytes).and_then(|()| stdin.flush())?),
            None => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
        }
    }

    fn close_stdin(&mut self) -> Result<()> {
        self.stdin = None;
        Ok(())
    }

    fn next(&mut self, wake: Option<Instant>) -> Result<Input> {
        let input = match wake {
            None => self
                .inputs
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
            Some(wake) => self
                .inputs
                .recv_timeout(wake.saturating_duration_since(Instant::now())),
        };
        let input = match input {
            Ok(input) => input,
            Err(RecvTimeoutError::Timeout) => return Ok(Input::Woken),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::fatal("the link is broken")),
        };
        match &input {
            Input::Stdout { line, .. } => self.note('<', &String::from_utf8_lossy(line)),
            Input::Stderr { line, .. } => self.note('!', &String::from_utf8_lossy(line)),
            Input::Exited(exit) => {
                self.note('=', &serde_json::to_string(exit).expect("plain data"));
                self.group = None;
                self.stdin = None;
            }
            Input::Cancel => self.note('x', ""),
            Input::Answer { request, choice } => self.note('a', &format!("{request} {choice}")),
            Input::Woken => {}
        }
        Ok(input)
    }

    fn end(&mut self) -> Result<Exit> {
        self.stdin = None;
        for signal in [Signal::TERM, Signal::KILL] {
            let Some(group) = self.group else {
                break;
            };
            rustix::process::kill_process_group(group, signal).ok();
            let patience = Instant::now() + GRACE;
            while self.group.is_some() && Instant::now() < patience {
                if let Input::Exited(exit) = self.next(Some(patience))? {
                    return Ok(exit);
                }
            }
        }
        Ok(Exit::default())
    }
}

impl Drop for ProcessLink {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            rustix::process::kill_process_group(group, Signal::KILL).ok();
        }
    }
}

/// Reads lines, each at most so long; what is longer is counted, not kept.
fn read_lines(source: impl Read, mut give: impl FnMut(Vec<u8>, u64) -> bool) {
    let mut source = BufReader::with_capacity(64 * 1024, source);
    let (mut line, mut cut, mut begun) = (Vec::new(), 0, false);
    loop {
        let Ok(buffer) = source.fill_buf() else {
            return;
        };
        if buffer.is_empty() {
            if begun {
                give(line, cut);
            }
            return;
        }
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..newline.unwrap_or(buffer.len())];
        let room = part.len().min(LONGEST_LINE - line.len());
        line.extend_from_slice(&part[..room]);
        cut += (part.len() - room) as u64;
        begun = newline.is_none();
        let used = part.len() + usize::from(newline.is_some());
        source.consume(used);
        if newline.is_some() && !give(std::mem::take(&mut line), std::mem::take(&mut cut)) {
            return;
        }
    }
}
