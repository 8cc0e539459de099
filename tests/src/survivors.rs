//! Finding the processes that a test left behind.
//!
//! Every program started in a sandbox inherits a variable that no other process has. A process counts as left behind
//! if it carries that variable, or if it works inside the sandbox after dropping its environment.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The variable whose value is unique to one sandbox.
pub const MARKER: &str = "GIT_AGENT_TEST_SANDBOX";

/// A process that outlived its test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// The process id.
    pub pid: i32,
    /// The command line, for a person.
    pub command: String,
    start_time: String,
}

/// Returns the living processes that belong to a sandbox.
pub fn survivors(marker: &str, root: &Path) -> Vec<Survivor> {
    let wanted = format!("{MARKER}={marker}");
    let own = std::process::id();
    let entries = fs::read_dir("/proc").expect("/proc tells which processes run");
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        if u32::try_from(pid) == Ok(own) {
            continue;
        }
        let dir = entry.path();
        let marked = fs::read(dir.join("environ")).is_ok_and(|environ| {
            environ
                .split(|byte| *byte == 0)
                .any(|variable| variable == wanted.as_bytes())
        });
        let inside = || fs::read_link(dir.join("cwd")).is_ok_and(|cwd| cwd.starts_with(root));
        if (marked || inside())
            && let Some(start_time) = start_time_if_alive(pid)
        {
            let command = fs::read(dir.join("cmdline")).unwrap_or_default();
            found.push(Survivor {
                pid,
                command: String::from_utf8_lossy(&command).replace('\0', " "),
                start_time,
            });
        }
    }
    found
}

/// Waits for a sandbox's processes to end by themselves, and returns those that did not.
pub fn survivors_after(grace: Duration, marker: &str, root: &Path) -> Vec<Survivor> {
    let deadline = Instant::now() + grace;
    let mut pause = Duration::from_millis(2);
    loop {
        let left = survivors(marker, root);
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Kills all processes of a sandbox, and those they start meanwhile.
pub fn kill_all(marker: &str, root: &Path) {
    for _ in 0..50 {
        let left = survivors(marker, root);
        if left.is_empty() {
            return;
        }
        for survivor in left {
            survivor.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Survivor {
    /// Kills this process and no other: an id that was given to a new process meanwhile is left alone.
    pub fn kill(&self) {
        if start_time_if_alive(self.pid).as_deref() == Some(self.start_time.as_str())
            && let Some(pid) = Pid::from_raw(self.pid)
        {
            // It may have ended by itself between the look and the signal.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns when a process started, in the kernel's ticks, unless it is only waiting to be reaped.
fn start_time_if_alive(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself contain blanks and parentheses.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    let start_time = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| start_time.to_owned())
}
