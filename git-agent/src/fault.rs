//! Named points where a test can make this process fail, to show that every step of a write survives a failure.
//!
//! Code that writes passes a point after (or before) each step that must be survivable:
//!
//! ```
//! # fn write() -> std::io::Result<()> {
//! git_agent::fault::point("flush.blob.written")?;
//! # Ok(())
//! # }
//! # write().expect("no fault is planned");
//! ```
//!
//! Nothing happens unless one of two variables is set when the first point is passed:
//!
//! - `GIT_AGENT_TEST_FAULT=<point>[#<nth>]:<action>` acts at the nth pass of that point in this process, or at every
//!   pass without a number. `*` as the point counts the passes of all points. The actions are `kill` (SIGKILL to this
//!   process), `abort`, `exit` (at once, code 70), `eio`, `enospc` (the point returns that error) and `sleep:<ms>`.
//! - `GIT_AGENT_TEST_FAULT_LOG=<file>` appends one line for each point passed, `<point>#<nth>`. A dry run thereby lists
//!   the left sides of all faults worth trying. A fault that fires is logged with its action.
//!
//! A point's name is `area.step.done`, lower case, and never contains `#`, `:` or a blank.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

const FAULT: &str = "GIT_AGENT_TEST_FAULT";
const LOG: &str = "GIT_AGENT_TEST_FAULT_LOG";
const ANY: &str = "*";
const EXIT_CODE: i32 = 70;

static PLAN: OnceLock<Option<FaultPlan>> = OnceLock::new();

/// Passes a named point: does nothing unless a test planned a fault here.
#[inline]
pub fn point(name: &'static str) -> io::Result<()> {
    match PLAN.get_or_init(FaultPlan::from_process) {
        None => Ok(()),
        Some(plan) => plan.pass(name),
    }
}

/// Returns whether a test logs or plans faults in this process.
pub fn active() -> bool {
    PLAN.get_or_init(FaultPlan::from_process).is_some()
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Kill,
    Abort,
    Exit,
    Errno(rustix::io::Errno),
    Sleep(Duration),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    point: String,
    nth: Option<u64>,
    action: Action,
}

impl Fault {
    fn parse(text: &str) -> Option<Self> {
        let (place, action) = text.split_once(':')?;
        let (point, nth) = match place.split_once('#') {
            None => (place, None),
            Some((point, nth)) => (point, Some(nth.parse().ok().filter(|nth| *nth > 0)?)),
        };
        let action = match action.split_once(':') {
            None => match action {
                "kill" => Action::Kill,
                "abort" => Action::Abort,
                "exit" => Action::Exit,
                "eio" => Action::Errno(rustix::io::Errno::IO),
                "enospc" => Action::Errno(rustix::io::Errno::NOSPC),
                _ => return None,
            },
            Some(("sleep", millis)) => Action::Sleep(Duration::from_millis(millis.parse().ok()?)),
            Some(_) => return None,
        };
        (!point.is_empty()).then(|| Fault {
            point: point.to_owned(),
            nth,
            action,
        })
    }

    fn fires(&self, name: &str, passes_of_name: u64, passes_of_all: u64) -> bool {
        let passes = match self.point.as_str() {
            ANY => passes_of_all,
            point if point == name => passes_of_name,
            _ => return false,
        };
        self.nth.is_none_or(|nth| nth == passes)
    }
}

#[derive(Debug)]
struct FaultPlan {
    /// Keeps the text of an invalid plan too: a test with a misspelt fault must fail, not pass unharmed.
    fault: Option<(String, Option<Fault>)>,
    log: Option<io::Result<File>>,
    passes: Mutex<(u64, BTreeMap<&'static str, u64>)>,
}

impl FaultPlan {
    fn from_process() -> Option<Self> {
        FaultPlan::new(std::env::var_os(FAULT), std::env::var_os(LOG))
    }

    fn new(fault: Option<OsString>, log: Option<OsString>) -> Option<Self> {
        if fault.is_none() && log.is_none() {
            return None;
        }
        Some(FaultPlan {
            fault: fault.map(|text| {
                let text = text.to_string_lossy().into_owned();
                let parsed = Fault::parse(&text);
                (text, parsed)
            }),
            log: log.map(|path| OpenOptions::new().append(true).create(true).open(path)),
            passes: Mutex::default(),
        })
    }

    fn pass(&self, name: &'static str) -> io::Result<()> {
        let (of_name, of_all) = self.count(name);
        let fires = match &self.fault {
            None => None,
            Some((text, None)) => {
                return Err(invalid(format!("{FAULT}: '{text}' is not a fault")));
            }
            Some((text, Some(fault))) => fault
                .fires(name, of_name, of_all)
                .then_some((text, &fault.action)),
        };
        self.record(&format!("{name}#{of_name}\n"))?;
        let Some((text, action)) = fires else {
            return Ok(());
        };
        self.record(&format!("{text}\n"))?;
        match action {
            Action::Kill => {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL)?;
                // The signal normally ends the process before this line.
                std::process::abort()
            }
            Action::Abort => std::process::abort(),
            Action::Exit => std::process::exit(EXIT_CODE),
            Action::Errno(errno) => Err((*errno).into()),
            Action::Sleep(duration) => {
                std::thread::sleep(*duration);
                Ok(())
            }
        }
    }

    fn count(&self, name: &'static str) -> (u64, u64) {
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        passes.0 += 1;
        let of_all = passes.0;
        let of_name = passes.1.entry(name).or_default();
        *of_name += 1;
        (*of_name, of_all)
    }

    fn record(&self, line: &str) -> io::Result<()> {
        match &self.log {
            None => Ok(()),
            // One write per line, because other processes append to the same file.
            Some(Ok(file)) => (&mut &*file).write_all(line.as_bytes()),
            Some(Err(error)) => Err(invalid(format!("{LOG}: {error}"))),
        }
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(fault: &str) -> FaultPlan {
        FaultPlan::new(Some(fault.into()), None).expect("a fault is planned")
    }

    #[test]
    fn without_variables_there_is_no_plan() {
        assert!(FaultPlan::new(None, None).is_none());
    }

    #[test]
    fn a_numbered_fault_fires_once() {
        let plan = plan("a.b#2:enospc");
        assert!(plan.pass("a.b").is_ok());
        assert!(plan.pass("a.c").is_ok());
        let error = plan.pass("a.b").expect_err("the second pass is hit");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(plan.pass("a.b").is_ok());
    }

    #[test]
    fn a_fault_without_number_fires_always() {
        let plan = plan("a.b:eio");
        for _ in 0..3 {
            let error = plan.pass("a.b").expect_err("every pass is hit");
            assert_eq!(
                error.raw_os_error(),
                Some(rustix::io::Errno::IO.raw_os_error())
            );
        }
    }

    #[test]
    fn the_star_counts_all_points() {
        let plan = plan("*#3:eio");
        assert!(plan.pass("a").is_ok());
        assert!(plan.pass("b").is_ok());
        assert!(plan.pass("c").is_err());
        assert!(plan.pass("d").is_ok());
    }

    #[test]
    fn nonsense_fails_every_point() {
        for text in [
            "",
            "a",
            "a:",
            ":kill",
            "a:burn",
            "a#0:kill",
            "a#x:kill",
            "a:sleep",
            "a:sleep:x",
            "a:kill:1",
        ] {
            let error = plan(text)
                .pass("z")
                .expect_err("an invalid plan is reported");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{text}");
        }
    }

    #[test]
    fn the_log_lists_passes_and_the_fault() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let plan =
            FaultPlan::new(Some("b#1:sleep:0".into()), Some(file.path().into())).expect("a plan");
        for name in ["a", "b", "a"] {
            plan.pass(name).expect("nothing fails");
        }
        let text = std::fs::read_to_string(file.path()).expect("the log is readable");
        assert_eq!(text, "a#1\nb#1\nb#1:sleep:0\na#2\n");
    }

    #[test]
    fn a_log_that_cannot_be_written_is_told() {
        let plan = FaultPlan::new(None, Some("/nonexistent/log".into())).expect("a plan");
        assert!(plan.pass("a").is_err());
    }
}
