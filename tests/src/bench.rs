//! What the benchmarks share: how they begin, their options, the programs they run, medians.
//!
//! Every benchmark measures ours beside git's in one run and prints ratios; nothing is asserted, the numbers are for people.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use git_agent::env::GIT_LOCATION_VARIABLES;

/// What stops a benchmark.
pub type Failure = Box<dyn std::error::Error>;

/// Runs a benchmark with the words after its name, and says under that name what stopped it.
pub fn main(name: &str, measure: impl FnOnce(&[OsString]) -> Result<(), Failure>) -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match measure(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The options of a benchmark: each a name and a value.
#[derive(Debug)]
pub struct Options {
    given: BTreeMap<String, OsString>,
}

impl Options {
    /// Reads options, of which these are known.
    pub fn parse(words: &[OsString], known: &[&str]) -> Result<Self, Failure> {
        let mut given = BTreeMap::new();
        for pair in words.chunks(2) {
            let name = pair[0].to_string_lossy().into_owned();
            if !known.contains(&name.as_str()) {
                return Err(format!("unknown option '{name}': try {}", known.join(", ")).into());
            }
            let value = pair.get(1).ok_or(format!("'{name}' lacks its value"))?;
            given.insert(name, value.clone());
        }
        Ok(Options { given })
    }

    /// Returns a number, or the usual one.
    pub fn number(&self, name: &str, usual: usize) -> Result<usize, Failure> {
        match self.given.get(name) {
            Some(value) => Ok(value.to_string_lossy().parse()?),
            None => Ok(usual),
        }
    }

    /// Returns a text, if it was given.
    pub fn text(&self, name: &str) -> Option<String> {
        let value = self.given.get(name)?;
        Some(value.to_string_lossy().into_owned())
    }

    /// Returns how often something is measured: at least once.
    pub fn runs(&self, usual: usize) -> Result<usize, Failure> {
        Ok(self.number("--runs", usual)?.max(1))
    }

    /// Returns the directory in which everything happens.
    pub fn dir(&self) -> PathBuf {
        self.given
            .get("--dir")
            .map_or_else(std::env::temp_dir, PathBuf::from)
    }
}

/// Returns the search path with the installed programs under test first, or those beside this one, so that `git agent` is
/// that one.
pub fn search_path() -> Result<OsString, Failure> {
    let own = std::env::current_exe()?;
    let beside = own.parent().ok_or("no directory of programs")?;
    let installed = std::env::var_os(crate::binaries::INSTALLED);
    let programs = installed.map_or_else(|| beside.to_owned(), PathBuf::from);
    let others = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(
        std::iter::once(programs).chain(std::env::split_paths(&others)),
    )?)
}

/// Returns a quiet call of a program in a repository, with an identity and without anybody's settings.
pub fn quiet(program: impl AsRef<OsStr>, dir: impl Into<PathBuf>) -> Command {
    let mut command = Command::new(program);
    for name in GIT_LOCATION_VARIABLES {
        command.env_remove(name);
    }
    command
        .current_dir(dir.into())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "Bench")
            .env(format!("GIT_{who}_EMAIL"), "bench@example.com");
    }
    command
}

/// Runs a command to its end and returns how long it took; its failure stops the benchmark.
pub fn run(command: &mut Command) -> Result<Duration, Failure> {
    let since = Instant::now();
    let status = command.status()?;
    let took = since.elapsed();
    if status.success() {
        Ok(took)
    } else {
        Err(format!("{command:?} failed").into())
    }
}

/// Returns the middle one.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Returns a time in milliseconds.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Returns how often one time goes into another.
pub fn ratio(ours: Duration, others: Duration) -> f64 {
    ours.as_secs_f64() / others.as_secs_f64()
}
