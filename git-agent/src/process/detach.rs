//! Starts our own program so that it outlives the terminal, and learns whether its start succeeded.
//!
//! The new process's standard output is a pipe to the starter until it has reported: ready, or an error. From the start
//! it leads its own session, so that the end of a terminal does not reach it. Its standard error goes to a log file,
//! and after the report its standard output does too.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{getpid, getsid, setsid};
use rustix::stdio::{dup2_stdout, stderr, stdout};

use crate::env::Env;
use crate::error::{Context, Error, Kind, Result};
use crate::process::identity::{Handle, ProcessId};
use crate::process::inherited;
use crate::process::wait::Poll;

/// Programs of the suite that cannot supervise.
const COMPANIONS: [&str; 4] = [
    "git-agent-board",
    "git-agent-builtin",
    "git-agent-merge",
    "git-agent-review",
];

/// The first word of a successful report.
const READY: &str = "ready";
/// The byte that ends a report.
const END: u8 = 0;
/// How much of a failed process's log is passed on.
const LOG_TAIL: u64 = 2000;
/// The longest report.
const WORD: usize = 64 << 10;

/// A process to start.
#[derive(Debug)]
pub struct Spec {
    /// Our own program.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// The complete environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory; `/` keeps no file system busy.
    pub directory: PathBuf,
    /// The file that receives its standard streams.
    pub log: PathBuf,
}

/// A process that was started.
#[derive(Debug)]
pub struct Started {
    /// The identity of the process.
    pub id: ProcessId,
    /// The text of its report; `None` if it had not reported in time. It continues to run then.
    pub word: Option<String>,
    child: Child,
}

impl Started {
    /// Collects its exit status in the background, for a starter that may live longer.
    pub fn reap_in_background(mut self) {
        std::thread::spawn(move || self.child.wait());
    }
}

/// Returns the main program, for [`Spec::program`]: this program by its path, or by the kernel's link if its path now
/// names another file. For a companion (`git-agent-review`), returns the main program beside it.
pub fn own_program() -> PathBuf {
    let Some(path) = std::env::current_exe().ok().filter(|path| path.is_file()) else {
        return "/proc/self/exe".into();
    };
    let name = path.file_name().and_then(|name| name.to_str());
    let main = match name {
        Some(name) if COMPANIONS.contains(&name) => path.with_file_name("git-agent"),
        _ => return path,
    };
    if main.is_file() { main } else { path }
}

/// Starts a process and waits for its report. An error means that it ended or gave up, and holds its reason.
pub fn start(env: &Env, spec: &Spec, timeout: Duration) -> Result<Started> {
    let log = open_log(&spec.log)?;
    let log_start = log.metadata().map_or(0, |metadata| metadata.len());
    // Otherwise the new process would hold locks and pipes of the starter's parent for as long as it lives.
    inherited::keep_all();
    let mut child = Command::new(&spec.program)
        .args(&spec.arguments)
        .env_clear()
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&spec.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .context(|| format!("cannot start '{}'", spec.program.display()))?;
    let id = ProcessId::of(env, child.id())?
        .ok_or_else(|| Error::fatal("cannot find the new process in '/proc'"))?;
    let handle = Handle::open(id.pid, id.start_time)?;
    let Some(mut pipe) = child.stdout.take() else {
        return Err(Error::fatal("a process started without its pipe"));
    };
    let deadline = Instant::now().checked_add(timeout);
    let mut said = Vec::new();
    loop {
        let mut poll = Poll::new();
        poll.read((), &pipe);
        if poll.wait(deadline)?.is_empty() {
            return Ok(Started {
                id,
                word: None,
                child,
            });
        }
        let mut chunk = [0; 4096];
        let count = pipe
            .read(&mut chunk)
            .context(|| "cannot read from the new process".into())?;
        said.extend_from_slice(&chunk[..count]);
        // The report ends at its last byte, not at the end of the pipe, which a child of the process may hold open.
        let end = said.iter().position(|byte| *byte == END);
        said.truncate(end.unwrap_or(said.len()));
        if end.is_some() || count == 0 || said.len() > WORD {
            break;
        }
    }
    let said = String::from_utf8_lossy(&said);
    if let Some(word) = said.strip_prefix(READY) {
        return Ok(Started {
            id,
            word: Some(word.trim().to_owned()),
            child,
        });
    }
    // It has given up or died, so it ends now at the latest.
    let ended = handle.is_none_or(|handle| {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        handle.wait(left).unwrap_or(false)
    });
    let status = if ended { child.wait().ok() } else { None };
    Err(failure(&said, status, spec, log_start))
}

fn failure(
    said: &str,
    status: Option<std::process::ExitStatus>,
    spec: &Spec,
    log_start: u64,
) -> Error {
    let mut parts = said.splitn(2, ' ');
    let code = parts.next().and_then(|code| code.parse::<u8>().ok());
    if let (Some(code), Some(text)) = (code, parts.next()) {
        let kind = match code {
            1 => Kind::Negative,
            128 => Kind::Fatal,
            129 => Kind::Usage,
            other => Kind::Exit(other),
        };
        let mut lines = text.lines();
        let error = Error::new(kind, lines.next().unwrap_or_default());
        return lines.fold(error, Error::hint);
    }
    let how = match status {
        Some(status) => format!("ended during its start ({status})"),
        None => "ended without a report".into(),
    };
    let error = Error::fatal(format!("the background process {how}"));
    let tail = log_tail(&spec.log, log_start);
    let error = tail.lines().fold(error, Error::hint);
    error.hint(format!("its log is '{}'", spec.log.display()))
}

fn log_tail(path: &Path, start: u64) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(start.max(length.saturating_sub(LOG_TAIL))))?;
        file.take(LOG_TAIL).read_to_end(&mut bytes)
    });
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

fn open_log(path: &Path) -> Result<File> {
    let cannot = || format!("cannot write '{}'", path.display());
    if let Some(parent) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .context(cannot)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.open(path).context(cannot)
}

/// The new process's side of the pipe: it must report once.
#[derive(Debug)]
pub struct Ready {
    pipe: File,
}

/// Makes this process the leader of a new session without a terminal, and sends its standard output to the log. Must be
/// called first, before this process writes or starts anything.
pub fn become_session_leader() -> Result<Ready> {
    if let Err(error) = setsid()
        && getsid(None).ok() != Some(getpid())
    {
        return Err(Error::fatal("cannot leave the terminal").because(error));
    }
    let pipe =
        fcntl_dupfd_cloexec(stdout(), 3).context(|| "cannot keep the starter's pipe".into())?;
    dup2_stdout(stderr()).context(|| "cannot write to the log".into())?;
    Ok(Ready { pipe: pipe.into() })
}

impl Ready {
    /// Reports success to the starter. A starter that has ended does not matter.
    pub fn done(self, word: &str) {
        self.say(format!("{READY} {word}"));
    }

    /// Reports an error to the starter.
    pub fn failed(self, error: &Error) {
        let mut text = format!("{} {error}", error.kind().exit_code());
        let mut cause = std::error::Error::source(error);
        while let Some(next) = cause {
            text.push_str(&format!(": {next}"));
            cause = next.source();
        }
        // The first line is the message, each further one a hint.
        text = text.replace('\n', " ");
        for hint in error.hints() {
            text.push('\n');
            text.push_str(&hint.replace('\n', " "));
        }
        self.say(text);
    }

    fn say(mut self, text: String) {
        let mut bytes = text.into_bytes();
        bytes.retain(|byte| *byte != END);
        bytes.truncate(WORD);
        bytes.push(END);
        let _ = self.pipe.write_all(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use rustix::process::{Signal, kill_process_group};

    use super::*;
    use crate::process::identity::Stat;
    use crate::process::lock::{Lock, is_held};
    use crate::process::tests::{env, rerun, until};

    const CHILD: &str = "GIT_AGENT_TEST_DETACHED";
    const STARTER: &str = "GIT_AGENT_TEST_STARTER";

    /// Returns a process that runs [`acts_as_detached`] in one of its modes.
    fn spec(directory: &Path, way: &str) -> Spec {
        let name = "process::detach::tests::acts_as_detached";
        let arguments = ["--exact", name, "--nocapture", "--test-threads=1"];
        Spec {
            // The test runner's output must not reach the pipe, so a shell moves the pipe to 3 and the test moves it
            // back.
            program: "/bin/sh".into(),
            arguments: ["-c", "exec \"$0\" \"$@\" 3>&1 >&2"]
                .into_iter()
                .map(OsString::from)
                .chain([std::env::current_exe().expect("this binary").into()])
                .chain(arguments.map(OsString::from))
                .collect(),
            environment: vec![
                (CHILD.into(), way.into()),
                ("DIRECTORY".into(), directory.into()),
            ],
            directory: "/".into(),
            log: directory.join("logs/x.log"),
        }
    }

    /// The process that the other tests start.
    #[test]
    fn acts_as_detached() {
        let Ok(way) = std::env::var(CHILD) else {
            return;
        };
        let directory = PathBuf::from(std::env::var("DIRECTORY").expect("given"));
        let kept = OpenOptions::new().write(true).open("/proc/self/fd/3");
        dup2_stdout(kept.expect("the starter's pipe")).expect("puts it back");
        let ready = become_session_leader().expect("detaches");
        let env = env();
        match way.as_str() {
            "run" => match Lock::try_acquire(&env, directory.join("lock")).expect("answers") {
                Some(lock) => {
                    ready.done("as told");
                    std::thread::sleep(Duration::from_secs(60));
                    drop(lock);
                }
                None => ready.failed(&Error::negative("already running").hint("look\nthere")),
            },
            "crash" => {
                let _ = std::io::stderr().write_all(b"it burns\n");
                std::process::exit(3);
            }
            "slow" => std::thread::sleep(Duration::from_secs(3)),
            other => unreachable!("{other}"),
        }
    }

    #[test]
    fn it_says_that_it_runs_and_only_one_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let env = env();
        let long = Duration::from_secs(8);
        let started = start(&env, &spec(dir.path(), "run"), long).expect("starts");
        assert_eq!(started.word.as_deref(), Some("as told"));
        assert!(is_held(&dir.path().join("lock")).expect("answers"));
        let stat = Stat::of(started.id.pid).expect("alive");
        assert_eq!(stat.session, stat.pid, "a session of its own");
        let error = start(&env, &spec(dir.path(), "run"), long).expect_err("runs already");
        assert_eq!(error.message(), "already running");
        assert_eq!(error.kind(), Kind::Negative);
        assert_eq!(error.hints(), ["look there"]);
        let handle = started.id.open(&env).expect("opens").expect("alive");
        handle.signal(Signal::KILL).expect("ours");
        started.reap_in_background();
        until("reaped", || Stat::of(handle.pid()).is_none());
    }

    #[test]
    fn an_immediate_end_and_a_slow_start_are_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let env = env();
        let crash = start(&env, &spec(dir.path(), "crash"), Duration::from_secs(8));
        let error = crash.expect_err("ends");
        assert!(error.message().contains("exit status: 3"), "{error}");
        let burns = |hint: &String| hint.ends_with("it burns");
        assert!(error.hints().iter().any(burns), "{error:?}");
        let slow = start(&env, &spec(dir.path(), "slow"), Duration::from_millis(100));
        let slow = slow.expect("goes on");
        assert_eq!(slow.word, None);
        let handle = slow.id.open(&env).expect("opens").expect("alive");
        handle.signal(Signal::KILL).expect("ours");
        slow.reap_in_background();
        let mut nothing = spec(dir.path(), "run");
        nothing.program = dir.path().join("none");
        assert!(start(&env, &nothing, Duration::from_secs(8)).is_err());
    }

    /// The starter of `the_end_of_the_terminal_does_not_reach_it`, with an inherited descriptor.
    #[test]
    fn acts_as_starter() {
        let Ok(directory) = std::env::var(STARTER) else {
            return;
        };
        let directory = PathBuf::from(directory);
        assert!(Path::new("/proc/self/fd/7").exists());
        let spec = spec(&directory, "run");
        // Before its report it may still be in the starter's group, which is about to be hung up.
        let started = start(&env(), &spec, Duration::from_secs(60)).expect("starts");
        assert_eq!(started.word.as_deref(), Some("as told"));
        let text = serde_json::to_string(&started.id).expect("plain data");
        std::fs::write(directory.join("id.new"), text).expect("writes");
        std::fs::rename(directory.join("id.new"), directory.join("id")).expect("renames");
        std::thread::sleep(Duration::from_secs(20));
    }

    #[test]
    fn the_end_of_the_terminal_does_not_reach_it() {
        // If these tests were started with the signal ignored, the starter would ignore it too. A handler is reset on
        // exec.
        let as_usual = std::sync::Arc::new(true.into());
        signal_hook::flag::register_conditional_default(signal_hook::consts::SIGHUP, as_usual)
            .expect("it can be handled");
        let dir = tempfile::tempdir().expect("a directory");
        let plain = rerun("process::detach::tests::acts_as_starter");
        let mut starter = Command::new("/bin/sh")
            .args([
                "-c",
                "exec \"$0\" \"$@\" 7>\"$GIT_AGENT_TEST_STARTER/seven\"",
            ])
            .arg(plain.get_program())
            .args(plain.get_args())
            .env(STARTER, dir.path())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        until("it runs", || dir.path().join("id").exists());
        let text = std::fs::read(dir.path().join("id")).expect("written");
        let id: ProcessId = serde_json::from_slice(&text).expect("a record");
        let descriptors: Vec<PathBuf> = std::fs::read_dir(format!("/proc/{}/fd", id.pid))
            .expect("alive")
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .collect();
        assert!(
            !descriptors.contains(&dir.path().join("seven")),
            "{descriptors:?}"
        );
        let group = crate::process::identity::raw_pid(starter.id()).expect("a pid");
        kill_process_group(group, Signal::HUP).expect("ours");
        starter.wait().expect("ours");
        let env = env();
        assert!(id.is_alive(&env));
        let handle = id.open(&env).expect("opens").expect("alive");
        handle.signal(Signal::KILL).expect("ours");
        assert!(handle.wait(Some(Duration::from_secs(5))).expect("waits"));
    }
}
