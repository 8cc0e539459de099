//! Identifies one process over time by pid, start time and boot, because the kernel reuses pids.
//!
//! A signal goes through a pidfd that is opened before the comparison, so that it reaches the recorded process or none.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::error::{Context, Error, Result};

pub use rustix::process::Signal;

/// Returns the kernel's id of the current boot, or `GIT_AGENT_TEST_BOOT_ID` if it is set.
pub fn boot_id(env: &Env) -> Result<String> {
    if let Some(fixed) = env.var("GIT_AGENT_TEST_BOOT_ID") {
        return Ok(fixed.to_owned());
    }
    // A process does not outlive its boot, so the id cannot change.
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(path).context(|| format!("cannot read '{path}'"))?;
    Ok(KNOWN.get_or_init(|| text.trim().to_owned()).clone())
}

/// A process, distinct from any later one with the same pid.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// The start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
    pub boot_id: String,
}

impl ProcessId {
    pub fn current(env: &Env) -> Result<Self> {
        static STARTED: OnceLock<u64> = OnceLock::new();
        let pid = std::process::id();
        let start_time = match STARTED.get() {
            Some(known) => *known,
            None => {
                let stat = Stat::of(pid).ok_or_else(|| {
                    Error::fatal("cannot find this process in '/proc'").hint("mount /proc")
                })?;
                *STARTED.get_or_init(|| stat.start_time)
            }
        };
        Ok(ProcessId {
            pid,
            start_time,
            boot_id: boot_id(env)?,
        })
    }

    /// Returns the process that currently has this pid, if there is one.
    pub fn of(env: &Env, pid: u32) -> Result<Option<Self>> {
        Ok(match Stat::of(pid) {
            Some(stat) => Some(stat.id(&boot_id(env)?)),
            None => None,
        })
    }

    /// Returns whether this very process still runs. A zombie does not run, and a later process with its pid does not
    /// count.
    pub fn is_alive(&self, env: &Env) -> bool {
        boot_id(env).is_ok_and(|boot| boot == self.boot_id)
            && Stat::of(self.pid)
                .is_some_and(|stat| stat.start_time == self.start_time && !stat.is_dead())
    }

    /// Opens this very process for signals and waiting; returns `None` if it ended or its pid belongs to another.
    pub fn open(&self, env: &Env) -> Result<Option<Handle>> {
        if boot_id(env)? != self.boot_id {
            return Ok(None);
        }
        Handle::open(self.pid, self.start_time)
    }
}

/// A pidfd: the kernel guarantees that it never refers to another process.
#[derive(Debug)]
pub struct Handle {
    descriptor: OwnedFd,
    pid: u32,
}

impl Handle {
    /// Opens a process of this boot. The comparison follows the opening, so that the pid cannot change owners in
    /// between.
    pub(super) fn open(pid: u32, start_time: u64) -> Result<Option<Self>> {
        let Some(raw) = raw_pid(pid) else {
            return Ok(None);
        };
        let descriptor = match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            // INVAL and NOENT: the number belongs to a thread.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Ok(None),
            Err(error) => {
                return Err(Error::fatal(format!("cannot open process {pid}")).because(error));
            }
        };
        Ok(Stat::of(pid)
            .filter(|stat| stat.start_time == start_time)
            .map(|_| Handle { descriptor, pid }))
    }

    /// Returns the pid, for messages.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal. Returns `false` if the process has already ended.
    pub fn signal(&self, signal: Signal) -> Result<bool> {
        match pidfd_send_signal(&self.descriptor, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => {
                Err(Error::fatal(format!("cannot signal process {}", self.pid)).because(error))
            }
        }
    }

    /// Waits until the process has ended, at most for this time. Returns whether it has ended.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut poll = crate::process::wait::Poll::new();
        poll.read((), self);
        Ok(!poll.wait(deadline)?.is_empty())
    }
}

impl AsFd for Handle {
    /// Returns the pidfd: it is readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Returns a pid in the kernel's type. Numbers that address groups or all processes are not pids.
pub(super) fn raw_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid)
        .ok()
        .filter(|pid| *pid > 0)
        .and_then(Pid::from_raw)
}

/// Longer than any line of `/proc/PID/stat`: some fifty numbers of at most twenty digits, and a name of at most 64
/// bytes.
const STAT_LINE: usize = 2048;

/// The fields of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub pid: u32,
    /// The program's name in the kernel: at most 15 bytes, chosen by the program.
    pub name: String,
    /// The letter of the state: `R`, `S`, `D`, `T`, `Z` …
    pub state: char,
    /// The parent's pid.
    pub parent: u32,
    /// The process group.
    pub group: u32,
    /// The terminal session.
    pub session: u32,
    pub threads: u64,
    /// The start time in clock ticks since boot.
    pub start_time: u64,
}

impl Stat {
    /// Reads a process; returns `None` if it does not exist or vanished meanwhile.
    pub fn of(pid: u32) -> Option<Self> {
        use std::io::Read;
        // The kernel returns the line in one read. This runs for every process of the machine, and a growing buffer
        // would take five reads each.
        let mut line = [0; STAT_LINE];
        let mut file = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?;
        let length = file.read(&mut line).ok()?;
        Stat::parse(&line[..length])
    }

    /// Parses a `stat` file. The name may contain spaces and parentheses, so it ends at the last parenthesis.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let open = text.iter().position(|byte| *byte == b'(')?;
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let name = text.get(open + 1..close)?;
        let pid = std::str::from_utf8(&text[..open]).ok()?.trim();
        let rest = std::str::from_utf8(&text[close + 1..]).ok()?;
        // The first of these is field 3 of proc(5).
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let small = |field: usize| u32::try_from(number(field)?).ok();
        Some(Stat {
            pid: pid.parse().ok()?,
            name: String::from_utf8_lossy(name).into_owned(),
            state: fields.first()?.chars().next()?,
            parent: small(4)?,
            group: small(5)?,
            session: small(6)?,
            threads: number(20)?,
            start_time: number(22)?,
        })
    }

    /// Returns whether only its exit status is left. A process whose first thread ended before the others is not dead.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }

    /// Returns its identity, given the boot.
    pub fn id(&self, boot_id: &str) -> ProcessId {
        ProcessId {
            pid: self.pid,
            start_time: self.start_time,
            boot_id: boot_id.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::{env, env_with, sh};

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read() {
        let text = b"42 (a) S (b c) R 7 42 41 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 98765 2 3\n";
        let stat = Stat::parse(text).expect("a stat line");
        assert_eq!(stat.name, "a) S (b c");
        assert_eq!(
            (stat.state, stat.parent, stat.group, stat.session),
            ('R', 7, 42, 41)
        );
        assert_eq!(stat.start_time, 98765);
        for broken in [
            &b""[..],
            b"42",
            b"42 (x",
            b"42 (x) R 1 2",
            b")42(",
            b"1 () ",
        ] {
            assert_eq!(Stat::parse(broken), None);
        }
    }

    #[test]
    fn this_process_lives_and_survives_json() {
        let env = env();
        let me = ProcessId::current(&env).expect("this process");
        assert!(me.is_alive(&env));
        let text = serde_json::to_string(&me).expect("plain data");
        let back: ProcessId = serde_json::from_str(&text).expect("its own text");
        assert_eq!(back, me);
        assert!(
            !ProcessId {
                pid: 0,
                ..me.clone()
            }
            .is_alive(&env)
        );
        assert!(
            ProcessId {
                pid: u32::MAX,
                ..me
            }
            .open(&env)
            .expect("a missing process is not a failure")
            .is_none()
        );
    }

    #[test]
    fn another_start_time_or_boot_is_another_process() {
        let env = env();
        let mut child = sh("exec sleep 30").spawn().expect("sh starts");
        let id = ProcessId::of(&env, child.id())
            .expect("readable")
            .expect("alive");
        let reused = ProcessId {
            start_time: id.start_time + 1,
            ..id.clone()
        };
        assert!(!reused.is_alive(&env));
        assert!(reused.open(&env).expect("answers").is_none());
        let later = env_with(&[("GIT_AGENT_TEST_BOOT_ID", "another-boot")]);
        assert!(!id.is_alive(&later));
        assert!(id.open(&later).expect("answers").is_none());
        assert!(id.is_alive(&env), "nothing was signalled");
        child.kill().expect("ours");
        child.wait().expect("ours");
    }

    #[test]
    fn a_signal_reaches_it_and_its_end_is_seen() {
        let env = env();
        let mut child = sh("exec sleep 30").spawn().expect("sh starts");
        let id = ProcessId::of(&env, child.id())
            .expect("readable")
            .expect("alive");
        let handle = id.open(&env).expect("opens").expect("alive");
        assert!(!handle.wait(Some(Duration::from_millis(20))).expect("waits"));
        assert!(handle.signal(Signal::TERM).expect("sent"));
        assert!(handle.wait(Some(Duration::from_secs(5))).expect("waits"));
        assert!(!id.is_alive(&env), "a zombie is not alive");
        child.wait().expect("ours");
        assert!(
            !handle
                .signal(Signal::TERM)
                .expect("an ended process is not a failure")
        );
        assert!(!id.is_alive(&env));
    }
}
