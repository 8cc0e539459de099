//! Runs a command and writes to the file named first how much memory the largest process of it ever had, in KiB.
//!
//!     peak FILE COMMAND…
//!
//! The kernel keeps the highest value of a process and hands it to whoever waits for it: of all that were waited for, however
//! short they lived, nothing is missed. Those that nobody waits for are looked at often, which loses only what they take in
//! their last moment.

use std::process::{Command, ExitCode};
use std::time::Duration;

use git_agent::process::tree;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (Some(file), Some(program)) = (words.next(), words.next()) else {
        return ExitCode::from(129);
    };
    let Ok(mut child) = Command::new(program).args(words).spawn() else {
        return ExitCode::from(127);
    };
    let mut most = 0;
    let status = loop {
        let below = tree::descendants(child.id());
        for pid in below.iter().map(|stat| stat.pid).chain([child.id()]) {
            most = most.max(high_water(pid));
        }
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(_) => return ExitCode::from(128),
        }
    };
    most = most.max(most_of_all_waited_for());
    if std::fs::write(file, most.to_string()).is_err() {
        return ExitCode::from(128);
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(255))
}

/// Returns what the largest process below this one took that was waited for.
fn most_of_all_waited_for() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of that very type, alive for the call, which only writes there. All bytes are zero
    // before, and an `rusage` is made of integers, so it is initialised whether the call fails or not.
    #[allow(unsafe_code, reason = "the kernel tells it in no other way")]
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_maxrss).unwrap_or(0)
}

fn high_water(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0)
}
