//! Starting programs: with time limits, in process groups of their own, in the foreground or not.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};

use crate::output::{Output, Run};

/// How long a program may take unless its test says otherwise. Generous: the machine may be busy.
pub const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A program about to be started.
#[derive(Debug, Clone)]
#[must_use = "nothing starts before .run() or .spawn()"]
pub struct Cmd {
    program: OsString,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
    stdin: Input,
    time_limit: Duration,
    root: PathBuf,
}

#[derive(Debug, Clone)]
enum Input {
    Nothing,
    Bytes(Vec<u8>),
    Open,
}

impl Cmd {
    pub(crate) fn new(
        program: &OsStr,
        env: BTreeMap<OsString, OsString>,
        cwd: &Path,
        root: &Path,
    ) -> Self {
        Cmd {
            program: program.to_owned(),
            args: Vec::new(),
            env,
            cwd: cwd.to_owned(),
            stdin: Input::Nothing,
            time_limit: TIME_LIMIT,
            root: root.to_owned(),
        }
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .insert(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Takes a variable away.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.remove(name.as_ref());
        self
    }

    /// Puts a directory before all others on PATH.
    pub fn path_first(self, dir: impl AsRef<Path>) -> Self {
        let mut path = dir.as_ref().as_os_str().to_owned();
        if let Some(rest) = self.env.get(OsStr::new("PATH")) {
            path.push(":");
            path.push(rest);
        }
        self.env("PATH", path)
    }

    /// Starts the program in another directory.
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.cwd = dir.as_ref().to_owned();
        self
    }

    /// Gives these bytes as standard input; without this it is empty.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Input::Bytes(bytes.into());
        self
    }

    /// Keeps standard input open, to be written by [`Background::write`].
    pub fn stdin_open(mut self) -> Self {
        self.stdin = Input::Open;
        self
    }

    /// Limits the time the program may take.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Freezes the product's clock at this many milliseconds since 1970.
    pub fn clock(self, millis: u64) -> Self {
        self.env("GIT_AGENT_TEST_CLOCK", millis.to_string())
    }

    /// Makes the product's randomness repeatable. Two processes with one seed draw the same: give each its own.
    pub fn seed(self, seed: u64) -> Self {
        self.env("GIT_AGENT_TEST_SEED", seed.to_string())
    }

    /// Starts the program on a terminal of its own, 80 columns wide, that understands colours. What it writes to the
    /// terminal, lines ending in `\r\n`, becomes the standard output of the run.
    pub fn on_terminal(mut self) -> Self {
        let mut script = OsString::from("stty cols 80 rows 24; exec");
        for word in std::iter::once(&self.program).chain(&self.args) {
            script.push(" ");
            script.push(quoted(word));
        }
        self.program = "script".into();
        self.args = vec![
            "-q".into(),
            "-e".into(),
            "-c".into(),
            script,
            "/dev/null".into(),
        ];
        self.env_remove("COLUMNS").env("TERM", "xterm-256color")
    }

    /// Returns the command as a person would read it.
    pub fn shown(&self) -> String {
        std::iter::once(&self.program)
            .chain(&self.args)
            .map(|word| {
                let word = word.to_string_lossy();
                if word.is_empty()
                    || word.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\'')
                {
                    format!("{word:?}")
                } else {
                    word.into_owned()
                }
            })
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Runs the program to its end.
    #[track_caller]
    pub fn run(self) -> Run {
        self.spawn().wait()
    }

    /// Starts the program and goes on.
    #[track_caller]
    pub fn spawn(self) -> Background {
        hear_signals();
        let shown = self.shown();
        let program = self.find_program();
        let mut child = Command::new(&program)
            .arg0(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.cwd)
            .stdin(match self.stdin {
                Input::Nothing => Stdio::null(),
                _ => Stdio::piped(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot start {shown} in {}: {error}", self.cwd.display())
            });
        let mut stdin = child.stdin.take();
        if let Input::Bytes(bytes) = self.stdin {
            let mut pipe = stdin.take().expect("standard input is a pipe");
            // A program that does not read everything is no failure of the test.
            std::thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        Background {
            stdout: Collector::new(child.stdout.take().expect("stdout is a pipe")),
            stderr: Collector::new(child.stderr.take().expect("stderr is a pipe")),
            stdin,
            started: Instant::now(),
            time_limit: self.time_limit,
            root: self.root,
            command: shown,
            child,
            reaped: false,
        }
    }

    fn find_program(&self) -> PathBuf {
        let program = Path::new(&self.program);
        if program.components().count() > 1 {
            return program.to_owned();
        }
        let path = self
            .env
            .get(OsStr::new("PATH"))
            .cloned()
            .unwrap_or_default();
        std::env::split_paths(&path)
            .map(|dir| dir.join(program))
            .find(|candidate| candidate.is_file())
            .unwrap_or_else(|| panic!("there is no {} on the sandbox's PATH", program.display()))
    }
}

/// A started program. It is killed, with its process group, if it still runs when this is dropped.
#[derive(Debug)]
pub struct Background {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Collector,
    stderr: Collector,
    started: Instant,
    time_limit: Duration,
    root: PathBuf,
    command: String,
    reaped: bool,
}

impl Background {
    /// Returns the process id, which is the process group's too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the program alone.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.raw_pid(), signal)
            .expect("the program takes the signal");
    }

    /// Sends a signal to the program and what it started, as a terminal does.
    pub fn signal_group(&self, signal: Signal) {
        rustix::process::kill_process_group(self.raw_pid(), signal)
            .expect("the group takes the signal");
    }

    /// Writes to a standard input kept open by [`Cmd::stdin_open`].
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let pipe = self.stdin.as_mut().expect("standard input was kept open");
        pipe.write_all(bytes.as_ref())
            .expect("the program reads its input");
        pipe.flush().expect("the program reads its input");
    }

    /// Closes a standard input kept open.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Returns what standard output holds so far.
    pub fn stdout_so_far(&self) -> Vec<u8> {
        self.stdout.so_far()
    }

    /// Waits until standard output contains these words.
    #[track_caller]
    pub fn wait_for(&self, words: &str) {
        let ended = Instant::now() + self.time_limit;
        while !String::from_utf8_lossy(&self.stdout.so_far()).contains(words) {
            assert!(
                Instant::now() < ended,
                "{} never said '{words}'; stderr: {}",
                self.command,
                String::from_utf8_lossy(&self.stderr.so_far())
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns whether the program still runs.
    pub fn is_running(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("the program can be waited for")
            .is_none()
    }

    /// Waits for the end of the program and of its output.
    #[track_caller]
    pub fn wait(mut self) -> Run {
        self.stdin = None;
        let deadline = self.started + self.time_limit;
        let mut pause = Duration::from_micros(200);
        let status = loop {
            if let Some(status) = self
                .child
                .try_wait()
                .expect("the program can be waited for")
            {
                break status;
            }
            if Instant::now() > deadline {
                self.end("took too long");
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        };
        let elapsed = self.started.elapsed();
        // Output that stays open after the end hangs every `$(…)` of a script: some child kept it.
        let patience = deadline.max(Instant::now() + Duration::from_secs(2));
        for stream in [&self.stdout, &self.stderr] {
            if !stream.finished(patience) {
                self.end("ended, but a process it left behind keeps its output open");
            }
        }
        self.reaped = true;
        Run(Output {
            command: self.command.clone(),
            status,
            stdout: self.stdout.so_far(),
            stderr: self.stderr.so_far(),
            elapsed,
            root: self.root.clone(),
        })
    }

    #[track_caller]
    fn end(&self, why: &str) -> ! {
        let _ = rustix::process::kill_process_group(self.raw_pid(), Signal::KILL);
        panic!(
            "{} {why} ({:?})\n--- stdout\n{}\n--- stderr\n{}",
            self.command,
            self.started.elapsed(),
            self.stdout.so_far().escape_ascii(),
            self.stderr.so_far().escape_ascii()
        );
    }

    fn raw_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if !self.reaped && self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = rustix::process::kill_process_group(self.raw_pid(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

#[derive(Debug)]
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    done: Receiver<()>,
}

impl Collector {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (send, done) = channel();
        let collected = Arc::clone(&bytes);
        std::thread::spawn(move || {
            let mut buffer = [0; 64 * 1024];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                collected
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(&buffer[..count]);
            }
            // Nobody may be waiting any more.
            let _ = send.send(());
        });
        Collector { bytes, done }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn finished(&self, deadline: Instant) -> bool {
        self.done
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            .is_ok()
    }
}

/// Returns a word that a shell reads as this one word.
fn quoted(word: &OsStr) -> OsString {
    let mut bytes = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => bytes.extend_from_slice(br"'\''"),
            other => bytes.push(*other),
        }
    }
    bytes.push(b'\'');
    OsString::from_vec(bytes)
}

/// Lets the programs of a test be interrupted and hung up even where the test itself was started deaf to that, as `nohup`
/// and shells do in the background: what is ignored stays so in whatever is started, what is handled does not.
fn hear_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [SIGINT, SIGQUIT, SIGHUP] {
            let as_usual = Arc::new(AtomicBool::new(true));
            signal_hook::flag::register_conditional_default(signal, as_usual)
                .expect("these can be handled");
        }
    });
}

/// Waits until something holds, and fails the test naming it if it never does.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
