//! Runs a command and writes to the file named first how much memory the largest process of it ever had, in KiB.
//!
//!     peak FILE COMMAND…
//!
//! The kernel keeps the highest value of a process, so looking often loses only what a process takes in its last moment.

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
    if std::fs::write(file, most.to_string()).is_err() {
        return ExitCode::from(128);
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(255))
}

fn high_water(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0)
}
