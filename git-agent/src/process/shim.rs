//! The half of starting a program that runs in the new process, just before its exec.
//!
//! Our own binary is started first, as `git-agent __exec OPTIONS -- PROGRAM ARGUMENTS`. It binds itself to the
//! supervisor's life, sets the limits, and execs the program. It reports its own errors to the supervisor through a
//! pipe, so that they are never mistaken for a failure of the program.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{
    Resource, Rlimit, getpid, getppid, getpriority_process, getrlimit,
    set_parent_process_death_signal, setpriority_process, setrlimit,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Context, Error, Kind, Result};
use crate::process::identity::{Handle, Signal, Stat};
use crate::process::sandbox::{Room, machine};
use crate::process::tree::{self, KillCare};
use crate::process::wait::{Poll, Signals};

/// The verb under which the shim runs.
pub const VERB: &str = "__exec";
/// The option that makes this process guard a program instead of becoming it.
const GUARD: &str = "--guard";
/// How long descendants of a guarded program have to end by themselves.
const GRACE: Duration = Duration::from_secs(2);
/// The shim's first word to the supervisor, which shows that its pipe works.
pub(super) const HERE: &str = "here\n";
/// Exit codes as in a shell: the program cannot be run, or was not found.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The supervisor's orders to the shim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Orders {
    /// The supervisor's pid, and the number of its status pipe there.
    pub supervisor: u32,
    pub status: i32,
    /// The signal to receive when the supervisor dies.
    pub death_signal: i32,
    pub memory: Option<u64>,
    pub cpu_seconds: Option<u64>,
    pub nice: Option<i32>,
    pub cores: Option<usize>,
    /// The file of a cgroup to which we write our pid.
    pub cgroup: Option<OsString>,
    /// The file that describes the room to enter.
    pub room: Option<OsString>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

impl Orders {
    /// Returns the shim's arguments.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: Option<OsString>| {
            if let Some(value) = value {
                arguments.extend([name.into(), value]);
            }
        };
        add("--supervisor", Some(self.supervisor.to_string().into()));
        add("--status", Some(self.status.to_string().into()));
        add("--death-signal", Some(self.death_signal.to_string().into()));
        add("--limit-memory", self.memory.map(|n| n.to_string().into()));
        let seconds = self.cpu_seconds.map(|n| n.to_string().into());
        add("--limit-cpu-seconds", seconds);
        add("--nice", self.nice.map(|n| n.to_string().into()));
        add("--cores", self.cores.map(|n| n.to_string().into()));
        add("--cgroup", self.cgroup.clone());
        add("--room", self.room.clone());
        arguments.push("--".into());
        arguments.extend(self.command.iter().cloned());
        arguments
    }

    /// Parses the shim's arguments.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self> {
        let mut orders = Orders::default();
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            if name == "--" {
                orders.command = arguments.collect();
                break;
            }
            let value = arguments
                .next()
                .ok_or_else(|| Error::usage(format!("option {name:?} needs a value")))?;
            match name.to_str() {
                Some("--supervisor") => orders.supervisor = number(&name, &value)?,
                Some("--status") => orders.status = number(&name, &value)?,
                Some("--death-signal") => orders.death_signal = number(&name, &value)?,
                Some("--limit-memory") => orders.memory = Some(number(&name, &value)?),
                Some("--limit-cpu-seconds") => orders.cpu_seconds = Some(number(&name, &value)?),
                Some("--nice") => orders.nice = Some(number(&name, &value)?),
                Some("--cores") => orders.cores = Some(number(&name, &value)?),
                Some("--cgroup") => orders.cgroup = Some(value),
                Some("--room") => orders.room = Some(value),
                _ => return Err(Error::usage(format!("unknown option {name:?}"))),
            }
        }
        if orders.command.is_empty() {
            return Err(Error::usage("no program to start"));
        }
        Ok(orders)
    }
}

fn number<T: std::str::FromStr>(name: &OsStr, value: &OsStr) -> Result<T> {
    value
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Error::usage(format!("option {name:?} needs a number")))
}

/// Returns a command that runs another one under a guard: when the program ends, or the guard is asked to end, the
/// guard ends all descendants of the program.
///
/// It is for programs whose whole tree must end even if we are killed. With a `TERM` as the death signal of
/// [`crate::process::spawn::Spec`], the guard outlives us until the tree has ended.
pub fn guarded(command: &[OsString]) -> Vec<OsString> {
    let own = format!("/proc/{}/exe", std::process::id());
    [own.into(), VERB.into(), GUARD.into()]
        .into_iter()
        .chain(command.iter().cloned())
        .collect()
}

/// Becomes the program in the arguments. Returns only on failure, after a report to the supervisor.
pub fn exec_shim(arguments: impl IntoIterator<Item = OsString>) -> Error {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let [first, command @ ..] = arguments.as_slice()
        && first == GUARD
    {
        match guard(command) {
            Ok(code) => std::process::exit(code),
            Err(error) => return error,
        }
    }
    if arguments.first().is_some_and(|first| first == machine::TRY) {
        match machine::try_out() {
            Ok(()) => std::process::exit(0),
            Err(error) => return error,
        }
    }
    let orders = match Orders::parse(arguments) {
        Ok(orders) => orders,
        Err(error) => return error,
    };
    if let Err(error) = stay_with(&orders) {
        return error;
    }
    let status = match open_status(&orders) {
        Ok(status) => Cell::new(Some(status)),
        Err(error) => return error,
    };
    let let_go = || drop(status.take());
    let error = match limit(&orders).and_then(|()| enter_room(&orders, let_go)) {
        Ok(()) => become_program(&orders.command),
        Err(error) => error,
    };
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    let mut cause = cause.unwrap_or_default();
    // The error number does not help the user.
    cause.truncate(cause.find(" (os error ").unwrap_or(cause.len()));
    // A failure means that the supervisor is gone, and this process ends anyway.
    let code = error.kind().exit_code();
    if let Some(mut status) = status.take() {
        let _ = write!(status, "{code} {error}{cause}");
    }
    error
}

/// Enters the room of the program, if it has one. A process in between lets go of the pipe to the supervisor, so that the
/// program's start is seen, and of the standard streams, so that their end is.
fn enter_room(orders: &Orders, let_go_of_status: impl Fn()) -> Result<()> {
    let Some(file) = &orders.room else {
        return Ok(());
    };
    Room::load(Path::new(file))?.enter(|| {
        let_go_of_status();
        if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&nothing);
            let _ = rustix::stdio::dup2_stdout(&nothing);
            let _ = rustix::stdio::dup2_stderr(&nothing);
        }
    })
}

/// Runs a program, ends its descendants, and returns the exit code in a shell's form.
fn guard(command: &[OsString]) -> Result<i32> {
    let [program, arguments @ ..] = command else {
        return Err(Error::usage("no program to start"));
    };
    let asked = [
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGHUP,
    ];
    // Before there is anything to end.
    let signals = Signals::new(&asked)?;
    tree::adopt_orphans()?;
    let mut child = Command::new(program)
        .args(arguments)
        .spawn()
        .context(|| format!("cannot start {}", program.display()))?;
    let handle = match Stat::of(child.id()) {
        Some(stat) => Handle::open(stat.pid, stat.start_time)?,
        None => None,
    };
    let mut asked_to_end = false;
    if let Some(handle) = &handle {
        let mut poll = Poll::new();
        poll.read(false, handle);
        poll.read(true, &signals);
        asked_to_end = poll.wait(None)? == [true];
    }
    if asked_to_end {
        tree::end_all(KillCare::new(GRACE))?;
        return Ok(128 + Signal::TERM.as_raw());
    }
    let status = child
        .wait()
        .context(|| "cannot wait for a program".into())?;
    tree::end_all(KillCare::new(GRACE))?;
    let signal = status.signal().unwrap_or_default();
    Ok(status.code().unwrap_or(128 + signal))
}

/// Binds this process to its supervisor's life. If the supervisor died before that, our parent is another process.
fn stay_with(orders: &Orders) -> Result<()> {
    set_parent_process_death_signal(Signal::from_named_raw(orders.death_signal))
        .context(|| "cannot follow the supervisor".into())?;
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if parent == Some(orders.supervisor) {
        Ok(())
    } else {
        Err(Error::fatal("the supervisor is gone"))
    }
}

/// Opens the supervisor's pipe through `/proc`, so that nothing is inherited, and the exec closes it.
fn open_status(orders: &Orders) -> Result<File> {
    let path = format!("/proc/{}/fd/{}", orders.supervisor, orders.status);
    let mut status = OpenOptions::new()
        .write(true)
        .open(&path)
        .context(|| format!("cannot reach the supervisor at '{path}'"))?;
    status
        .write_all(HERE.as_bytes())
        .context(|| "cannot reach the supervisor".into())?;
    Ok(status)
}

fn limit(orders: &Orders) -> Result<()> {
    if let Some(file) = &orders.cgroup {
        std::fs::write(file, getpid().as_raw_nonzero().to_string())
            .context(|| format!("cannot join the cgroup at {file:?}"))?;
    }
    let lower = |resource: Resource, value: u64, what: &str| {
        // A maximum cannot be raised, so a lower one is kept.
        let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let value = Some(value.min(allowed));
        let limit = Rlimit {
            current: value,
            maximum: value,
        };
        setrlimit(resource, limit).context(|| format!("cannot limit {what}"))
    };
    // A dump of an agent's memory would contain keys and prompts.
    lower(Resource::Core, 0, "core dumps")?;
    if let Some(bytes) = orders.memory {
        // Not the address space: language runtimes reserve far more of it than they use.
        lower(Resource::Data, bytes, "memory")?;
    }
    if let Some(seconds) = orders.cpu_seconds {
        lower(Resource::Cpu, seconds.max(1), "cpu time")?;
    }
    if let Some(nice) = orders.nice {
        let now = getpriority_process(None).context(|| "cannot read the priority".into())?;
        setpriority_process(None, nice.clamp(now, 19))
            .context(|| "cannot set the priority".into())?;
    }
    if let Some(cores) = orders.cores {
        bind_to_cores(cores).context(|| "cannot choose cores".into())?;
    }
    Ok(())
}

/// Binds to some of the allowed cores, starting at one that depends on the pid, so that agents spread out.
fn bind_to_cores(cores: usize) -> rustix::io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let all: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect();
    let mut chosen = CpuSet::new();
    let start = usize::try_from(getpid().as_raw_nonzero().get()).unwrap_or(0);
    for offset in 0..cores.clamp(1, all.len().max(1)) {
        chosen.set(all[(start + offset) % all.len()]);
    }
    sched_setaffinity(None, &chosen)
}

fn become_program(command: &[OsString]) -> Error {
    let program = &command[0];
    let cause = Command::new(program).args(&command[1..]).exec();
    let not_found = cause.kind() == std::io::ErrorKind::NotFound;
    let code = if not_found { NOT_FOUND } else { CANNOT_RUN };
    let path = Path::new(program);
    let message = if not_found && path.components().count() > 1 && path.exists() {
        format!(
            "cannot start '{}': its interpreter is missing",
            path.display()
        )
    } else {
        format!("cannot start '{}'", path.display())
    };
    Error::new(Kind::Exit(code), message).because(cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::SHIM_ARGUMENTS;

    #[test]
    fn acts_as_shim() {
        if let Ok(arguments) = std::env::var(SHIM_ARGUMENTS) {
            let error = exec_shim(arguments.split('\x1f').map(OsString::from));
            std::process::exit(error.kind().exit_code().into());
        }
    }

    #[test]
    fn orders_survive_the_command_line() {
        let orders = Orders {
            supervisor: 12,
            status: 5,
            death_signal: 9,
            memory: Some(1 << 40),
            cpu_seconds: Some(3),
            nice: Some(7),
            cores: Some(2),
            cgroup: Some("/sys/x y".into()),
            room: Some("/a room".into()),
            command: vec!["--".into(), "--nice".into(), "".into()],
        };
        assert_eq!(Orders::parse(orders.arguments()).expect("its own"), orders);
        let bare = Orders {
            command: vec!["true".into()],
            ..Orders::default()
        };
        assert_eq!(Orders::parse(bare.arguments()).expect("its own"), bare);
        for wrong in [
            &["--nice"][..],
            &["--nice", "x", "--", "a"],
            &["--foo", "1"],
            &["--"],
        ] {
            assert!(Orders::parse(wrong.iter().map(OsString::from)).is_err());
        }
    }

    #[test]
    fn another_parent_is_noticed() {
        let orders = Orders {
            supervisor: 1,
            ..Orders::default()
        };
        // The parent of this test is never pid 1 under cargo. No signal is asked for.
        if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(1) {
            assert!(stay_with(&orders).is_err());
        }
    }
}
