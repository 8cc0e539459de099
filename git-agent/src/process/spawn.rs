//! Starting an agent's program: with exactly the environment it shall see, in a process group of its own, limited, and
//! with a clear answer whether it started.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::env::Env;
use crate::error::{Context, Error, Kind, Result};
use crate::process::identity::{Handle, ProcessId, Signal};
use crate::process::limits::{Cgroup, LimitPlan, Mechanism};
use crate::process::lines::{Bounds, Lines, Piece, Reader, Stream};
use crate::process::shim::{HERE, Orders, VERB};
use crate::process::wait::Poll;

/// How long a program may take to start; a service manager may stand between.
const START: Duration = Duration::from_secs(30);

/// What a program reads as its standard input.
#[derive(Debug)]
pub enum Stdin {
    /// Nothing.
    Null,
    /// What the supervisor writes to it.
    Pipe,
    /// A file.
    File(File),
}

/// A program to start.
#[derive(Debug)]
pub struct Spec {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Where it starts.
    pub directory: PathBuf,
    /// All that is in its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its standard input.
    pub stdin: Stdin,
    /// What it may use.
    pub limits: LimitPlan,
    /// A name for its cgroup or scope: letters, digits and dashes, the same for the same agent.
    pub name: String,
    /// The signal it gets when the supervisor dies, however that happens.
    pub death_signal: Signal,
}

/// The program that prepares the new process and then becomes the agent's program.
#[derive(Debug, Clone)]
pub struct Shim {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Shim {
    /// Returns this very program, even if its file has been replaced by a newer one meanwhile.
    pub fn own() -> Self {
        Shim {
            program: format!("/proc/{}/exe", std::process::id()).into(),
            arguments: vec![VERB.into()],
        }
    }
}

/// A program that has started.
#[derive(Debug)]
pub struct Spawned {
    /// The process: its status is to be taken from here.
    pub child: Child,
    /// Who it is, for the record.
    pub id: ProcessId,
    /// A hold on it that becomes readable when it has ended.
    pub handle: Handle,
    /// What it reads, if that is a pipe.
    pub stdin: Option<ChildStdin>,
    /// What it writes.
    pub stdout: ChildStdout,
    /// What it complains.
    pub stderr: ChildStderr,
    /// How it is limited in the end: a mechanism that did not work was replaced.
    pub limits: LimitPlan,
    /// Its cgroup, if it has one of its own; to be kept until it has ended.
    pub cgroup: Option<Cgroup>,
}

/// Starts a program and returns once it runs. An error means that it never did; its kind holds 127 or 126 as a shell
/// would give.
///
/// The calling thread must outlive the program: the kernel ties [`Spec::death_signal`] to the thread that started it.
pub fn spawn(env: &Env, shim: &Shim, spec: Spec) -> Result<Spawned> {
    if !spec.directory.is_dir() {
        let message = format!("'{}' is no directory", spec.directory.display());
        return Err(Error::new(Kind::Exit(126), message));
    }
    let mut plan = spec.limits.clone();
    let mut cgroup = None;
    if let Mechanism::Cgroup(parent) = &plan.mechanism {
        match Cgroup::make(parent, &format!("git-agent-{}", spec.name), &plan.limits) {
            Ok(made) => cgroup = Some(made),
            Err(_) => plan = plan.without_machine(),
        }
    }
    match start(env, shim, &spec, &plan, cgroup) {
        // Without its first word the shim never ran: what stands before it did not work.
        Err(Failure::Unborn(_)) if matches!(plan.mechanism, Mechanism::Scope(_)) => {
            start(env, shim, &spec, &plan.without_machine(), None).map_err(Failure::into_error)
        }
        other => other.map_err(Failure::into_error),
    }
}

/// Why a program did not start.
enum Failure {
    /// The shim said nothing.
    Unborn(Error),
    /// The shim said why, or we know it.
    Known(Error),
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Failure::Unborn(error) | Failure::Known(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Known(error)
    }
}

fn start(
    env: &Env,
    shim: &Shim,
    spec: &Spec,
    plan: &LimitPlan,
    cgroup: Option<Cgroup>,
) -> Result<Spawned, Failure> {
    let (status, shims_end) =
        pipe_with(PipeFlags::CLOEXEC).context(|| "cannot make a pipe".into())?;
    let per_process = matches!(plan.mechanism, Mechanism::Process { .. });
    let orders = Orders {
        supervisor: std::process::id(),
        status: shims_end.as_raw_fd(),
        death_signal: spec.death_signal.as_raw(),
        memory: plan.limits.memory.filter(|_| per_process),
        cpu_seconds: plan.limits.cpu_seconds,
        nice: plan.nice(),
        cores: match plan.mechanism {
            Mechanism::Process { cores } => cores,
            _ => None,
        },
        cgroup: cgroup
            .as_ref()
            .map(|cgroup| cgroup.procs().into_os_string()),
        command: spec.command.clone(),
    };
    let mut command = command_line(shim, spec, plan);
    command
        .args(orders.arguments())
        .env_clear()
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&spec.directory)
        .process_group(0)
        .stdin(match &spec.stdin {
            Stdin::Null => Stdio::null(),
            Stdin::Pipe => Stdio::piped(),
            Stdin::File(file) => file
                .try_clone()
                .context(|| "cannot pass on the standard input".into())?
                .into(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .context(|| format!("cannot start '{}'", shim.program.display()))?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(Error::fatal("a program started without its pipes").into());
    };
    match identify(env, child.id())
        .map_err(Failure::from)
        .and_then(|(id, handle)| {
            await_start(&handle, status, shims_end)?;
            Ok((id, handle))
        }) {
        Ok((id, handle)) => Ok(Spawned {
            id,
            handle,
            stdin: child.stdin.take(),
            stdout,
            stderr,
            limits: plan.clone(),
            cgroup,
            child,
        }),
        Err(failure) => {
            let _ = child.kill();
            let ended = child.wait();
            Err(match failure {
                Failure::Unborn(error) => Failure::Unborn(match (first_words(stderr), ended) {
                    (Some(words), _) => error.hint(words),
                    (None, Ok(ended)) => error.hint(ended.to_string()),
                    (None, Err(_)) => error,
                }),
                known => known,
            })
        }
    }
}

fn command_line(shim: &Shim, spec: &Spec, plan: &LimitPlan) -> Command {
    let mut command = match &plan.mechanism {
        Mechanism::Scope(program) => {
            let mut command = Command::new(program);
            command.args(["--user", "--scope", "--quiet", "--collect"]);
            if let Some(bytes) = plan.limits.memory {
                command.args(["-p", &format!("MemoryMax={bytes}"), "-p", "MemorySwapMax=0"]);
            }
            if let Some(percent) = plan.limits.cpu_percent {
                command.args(["-p", &format!("CPUQuota={}%", percent.max(1))]);
            }
            command.arg(format!("--description=git-agent {}", spec.name));
            command.arg("--").arg(&shim.program);
            command
        }
        _ => Command::new(&shim.program),
    };
    command.args(&shim.arguments);
    command
}

fn identify(env: &Env, pid: u32) -> Result<(ProcessId, Handle)> {
    // It is our child and nobody has taken its status, so the pid cannot have passed on.
    let id = ProcessId::of(env, pid)?;
    let handle = match &id {
        Some(id) => Handle::open(pid, id.start_time)?,
        None => None,
    };
    id.zip(handle)
        .ok_or_else(|| Error::fatal(format!("cannot find process {pid} in '/proc'")))
}

/// Waits until the shim's end of the pipe is closed: by the exec if all is well, after a message if not.
fn await_start(handle: &Handle, status: OwnedFd, shims_end: OwnedFd) -> Result<(), Failure> {
    let deadline = Instant::now() + START;
    let mut poll = Poll::new();
    poll.read(true, &status);
    poll.read(false, handle);
    let ready = poll.wait(Some(deadline))?;
    if ready.is_empty() {
        let message = "the program did not start in time";
        return Err(Failure::Unborn(Error::new(Kind::Exit(126), message)));
    }
    if !ready.contains(&true) {
        let message = "the program ended before it started";
        return Err(Failure::Unborn(Error::new(Kind::Exit(126), message)));
    }
    // The shim has opened the pipe for itself; ours would keep it from ending.
    drop(shims_end);
    let mut poll = Poll::new();
    poll.read((), &status);
    let mut said = String::new();
    let mut status = File::from(status.try_clone().context(|| "cannot read a pipe".into())?);
    loop {
        if poll.wait(Some(deadline))?.is_empty() {
            let message = "the program did not start in time";
            return Err(Error::new(Kind::Exit(126), message).into());
        }
        let mut chunk = [0; 4096];
        match status.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => said.push_str(&String::from_utf8_lossy(&chunk[..count])),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(Error::fatal("cannot read a pipe").because(error).into());
            }
        }
    }
    match said.strip_prefix(HERE).unwrap_or(&said) {
        "" => Ok(()),
        failure => {
            let (code, message) = failure.split_once(' ').unwrap_or(("126", failure));
            let kind = Kind::Exit(code.parse().unwrap_or(126));
            Err(Error::new(kind, message).into())
        }
    }
}

/// Returns the first line of what a program complained before it ended.
fn first_words(stderr: ChildStderr) -> Option<String> {
    let mut first = None;
    let mut lines = Lines::new(Bounds {
        line: 1000,
        ..Bounds::default()
    });
    let mut emit = |piece: Piece| {
        if let (None, Piece::Line(line)) = (&first, piece) {
            first = Some(String::from_utf8_lossy(&line.bytes).into_owned());
        }
    };
    let mut reader = Reader::new(stderr, Stream::Err).ok()?;
    reader.fill(&mut lines, &mut emit).ok()?;
    lines.finish(&mut emit);
    first
}

#[cfg(test)]
#[path = "tests/spawn.rs"]
mod tests;
