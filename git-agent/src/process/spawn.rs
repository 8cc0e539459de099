//! Starts an agent's program: with exactly the given environment, in its own process group, with limits, and with a
//! clear answer whether it started.

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

/// How long a program may take to start, perhaps through a service manager.
const START: Duration = Duration::from_secs(30);

/// The standard input of a program.
#[derive(Debug)]
pub enum Stdin {
    /// Nothing.
    Null,
    /// A pipe from the supervisor.
    Pipe,
    File(File),
}

/// A program to start.
#[derive(Debug)]
pub struct Spec {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// The complete environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its standard input.
    pub stdin: Stdin,
    /// The resource limits.
    pub limits: LimitPlan,
    /// A name for its cgroup or scope: letters, digits and dashes, always the same for one agent.
    pub name: String,
    /// The signal it receives when the supervisor dies in any way.
    pub death_signal: Signal,
    /// The file that describes the room it runs in; nothing for none.
    pub room: Option<PathBuf>,
}

/// The program that prepares the new process and then becomes the agent's program.
#[derive(Debug, Clone)]
pub struct Shim {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Shim {
    /// Returns this very program, even if a newer one has replaced its file.
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
    /// The child, from which the caller takes the exit status.
    pub child: Child,
    /// Its identity, for records.
    pub id: ProcessId,
    /// A pidfd that becomes readable when it has ended.
    pub handle: Handle,
    /// Its standard input, if that is a pipe.
    pub stdin: Option<ChildStdin>,
    /// Its standard output.
    pub stdout: ChildStdout,
    /// Its standard error.
    pub stderr: ChildStderr,
    /// The limits in force: a mechanism that failed was replaced.
    pub limits: LimitPlan,
    /// Its own cgroup, if it has one; the caller keeps this until the program has ended.
    pub cgroup: Option<Cgroup>,
}

/// Starts a program and returns once it runs. An error means that it never ran; its kind holds 127 or 126, as in a
/// shell.
///
/// The calling thread must outlive the program, because the kernel binds [`Spec::death_signal`] to that thread.
pub fn spawn(env: &Env, shim: &Shim, spec: Spec) -> Result<Spawned> {
    if !spec.directory.is_dir() {
        let message = format!("'{}' is not a directory", spec.directory.display());
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
        // Without its first word the shim never ran, so the program in front of it failed.
        Err(Failure::Unborn(_)) if matches!(plan.mechanism, Mechanism::Scope(_)) => {
            start(env, shim, &spec, &plan.without_machine(), None).map_err(Failure::into_error)
        }
        other => other.map_err(Failure::into_error),
    }
}

/// The reason why a program did not start.
enum Failure {
    /// The shim reported nothing.
    Unborn(Error),
    /// The shim reported the reason, or we know it.
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
        pipe_with(PipeFlags::CLOEXEC).context(|| "cannot create a pipe".into())?;
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
        room: spec.room.clone().map(PathBuf::into_os_string),
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
    // It is our child and its status has not been taken, so its pid cannot have been reused.
    let id = ProcessId::of(env, pid)?;
    let handle = match &id {
        Some(id) => Handle::open(pid, id.start_time)?,
        None => None,
    };
    id.zip(handle)
        .ok_or_else(|| Error::fatal(format!("cannot find process {pid} in '/proc'")))
}

/// Waits until the shim's end of the pipe is closed: by the exec on success, after a message otherwise.
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
    // The shim has opened the pipe itself. Our copy would keep the pipe open.
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

/// Returns the first line that a program wrote to standard error before it ended.
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
