//! Measures what a supervisor costs beside its agent, and how soon what an agent prints is seen.
//!
//!     bench-agent [--agent NAME] [--prompt TEXT] [--runs R]
//!
//! `git agent` is the one beside this program. The agent is one that `git agent` knows, with the variables it needs; without
//! one it is a shell that burns a second of processor time and prints 200 lines meanwhile. Prints the processor time of the
//! supervisor, of the agent with everything it started, and their ratio; then the time from a printed line to
//! `git agent log -f`.
//!
//! Nothing is sampled. The agent runs in a control group of its own, whose clock the kernel keeps whoever reaps what; where
//! none can be made, it counts what the supervisor waited for, a few starts of git included. The supervisor becomes this
//! program's child when its starter ends, and its figures are read when it is dead and not yet buried.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use git_agent::process::tree::adopt_orphans;
use git_agent_tests::bench::{self, Failure, Options};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::Value;

/// Prints 200 lines while it burns about a second.
const BUSY: &str = "i=0; while [ $i -lt 200 ]; do j=0; while [ $j -lt 2500 ]; do j=$((j+1)); done; echo line $i; i=$((i+1)); done";
/// Prints the time, line by line.
const CLOCK: &str = "i=0; while [ $i -lt 40 ]; do date +%s%N; sleep 0.1; i=$((i+1)); done";

fn main() -> ExitCode {
    bench::main("bench-agent", |words| {
        let options = Options::parse(words, &["--agent", "--prompt", "--runs"])?;
        let prompt = options.text("--prompt");
        measure(
            options.text("--agent").as_deref(),
            prompt.as_deref().unwrap_or("say something"),
            options.runs(3)?,
        )
    })
}

fn measure(agent: Option<&str>, prompt: &str, runs: usize) -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let top = dir.path().join("repo");
    std::fs::create_dir(&top)?;
    let path = bench::search_path()?;
    git(&top, &path, &["init", "-q", "-b", "main"])?;
    git(&top, &path, &["config", "user.name", "Bench"])?;
    git(&top, &path, &["config", "user.email", "bench@example.com"])?;
    git(
        &top,
        &path,
        &["commit", "-q", "--allow-empty", "-m", "seed"],
    )?;
    adopt_orphans()?;
    let mut out = std::io::stdout().lock();
    for round in 0..runs {
        let name = format!("busy{round}");
        let group = Group::make(&name);
        let enter = group.as_ref().map(Group::enter).unwrap_or_default();
        match agent {
            Some(agent) => {
                let aside = dir.path().join(&name);
                let path = wrap(&aside, agent, &enter, &path)?;
                let words = ["agent", "new", "--name", &name, "--agent", agent, prompt];
                git(&top, &path, &words)?
            }
            None => {
                let script = format!("{enter}{BUSY}");
                git(&top, &path, &["agent", "new", &name, "--", &script])?
            }
        };
        let (own, waited) = wait_for_supervisor(&top, &path, &name)?;
        // An agent that was kept out of its group has used nothing there.
        let inside = group.as_ref().and_then(Group::seconds);
        let inside = inside.filter(|seconds| *seconds > 0.0);
        let below = inside.unwrap_or(waited);
        let how = match inside {
            Some(_) => "",
            None => " (with a few starts of git)",
        };
        writeln!(
            out,
            "supervisor {own:>7.3} s, agent{how} {below:>8.3} s of processor time: {:.2} %",
            100.0 * own / below.max(f64::EPSILON)
        )?;
    }
    let mut delays = Vec::new();
    for round in 0..runs {
        delays.extend(delays_of(&top, &path, &format!("clock{round}"))?);
    }
    delays.sort_by(f64::total_cmp);
    let at = |part: f64| {
        delays
            .get(((delays.len() - 1) as f64 * part) as usize)
            .copied()
    };
    let (Some(median), Some(high), Some(most)) = (at(0.5), at(0.95), at(1.0)) else {
        return Err("nothing was printed".into());
    };
    writeln!(
        out,
        "printed to seen in log -f: median {median:.1} ms, 95 % within {high:.1} ms, most {most:.1} ms ({} lines)",
        delays.len()
    )?;
    Ok(())
}

/// A control group: the kernel counts what everything in it uses, dead or alive.
struct Group(PathBuf);

impl Group {
    /// Makes a group, where the machine and the user's rights allow it.
    fn make(name: &str) -> Option<Self> {
        let places =
            ["", "unified", "cpuacct"].map(|place| Path::new("/sys/fs/cgroup").join(place));
        let own = format!("git-agent-bench-{}-{name}", std::process::id());
        places.into_iter().find_map(|place| {
            let group = Group(place.join(&own));
            std::fs::create_dir(&group.0).ok()?;
            // What is no control group is a directory with nothing in it.
            group.seconds().is_some().then_some(group)
        })
    }

    /// Returns the shell's words by which it enters the group.
    fn enter(&self) -> String {
        format!(
            "echo $$ >'{}' 2>/dev/null\n",
            self.0.join("cgroup.procs").display()
        )
    }

    /// Returns the processor time that everything in it has used.
    fn seconds(&self) -> Option<f64> {
        let read = |file: &str| std::fs::read_to_string(self.0.join(file)).ok();
        if let Some(nanoseconds) = read("cpuacct.usage") {
            return Some(nanoseconds.trim().parse::<f64>().ok()? / 1e9);
        }
        let stat = read("cpu.stat")?;
        let micros = stat
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(micros.parse::<f64>().ok()? / 1e6)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // One that is not empty yet stays until the machine is started anew, and costs nothing.
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Puts a program in front of an agent that enters a group and becomes the agent, and returns the search path with it.
fn wrap(aside: &Path, agent: &str, enter: &str, path: &OsStr) -> Result<OsString, Failure> {
    let real = std::env::split_paths(path)
        .map(|place| place.join(agent))
        .find(|program| program.is_file())
        .ok_or(format!("'{agent}' is not installed"))?;
    std::fs::create_dir(aside)?;
    let program = aside.join(agent);
    let script = format!(
        "#!/bin/sh\n{enter}PATH=${{PATH#'{}':}}\nexec '{}' \"$@\"\n",
        aside.display(),
        real.display()
    );
    std::fs::write(&program, script)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    let places = std::iter::once(aside.to_owned()).chain(std::env::split_paths(path));
    Ok(std::env::join_paths(places)?)
}

/// Waits for a session's supervisor to end; returns the processor time of itself and of all it reaped, in seconds.
///
/// Its own is that of its first thread, which the kernel tells exactly; a process's it tells in hundredths of a second,
/// rounded down. Its other threads only wait for the disk.
fn wait_for_supervisor(top: &Path, path: &OsStr, name: &str) -> Result<(f64, f64), Failure> {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let pid = session(top, path, name)?["pid"].as_i64();
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let Some(pid) = pid else {
        return Err("the supervisor ended too soon to be watched".into());
    };
    waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )?;
    let read =
        |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero()));
    let (stat, exact) = (read("stat")?, read("schedstat")?);
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED)?;
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|field| field.parse().unwrap_or_default())
        .collect();
    let own: f64 = exact.split(' ').next().unwrap_or_default().parse()?;
    // User and system time of children that were waited for.
    let waited: f64 = fields.get(13..15).ok_or("a short stat")?.iter().sum();
    Ok((own / 1e9, waited / ticks))
}

/// Lets an agent print the time, and returns how long each line took to be seen, in milliseconds.
fn delays_of(top: &Path, path: &OsStr, name: &str) -> Result<Vec<f64>, Failure> {
    git(top, path, &["agent", "new", name, "--", CLOCK])?;
    let mut log = Command::new("git")
        .env("PATH", path)
        .args(["agent", "log", "--raw", "-f", name])
        .current_dir(top)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut delays = Vec::new();
    let reader = BufReader::new(log.stdout.take().ok_or("no output")?);
    for line in reader.lines() {
        let event: Value = serde_json::from_str(&line?)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as f64;
        let printed = event["text"]
            .as_str()
            .and_then(|text| text.trim().parse::<f64>().ok());
        if let Some(printed) = printed.filter(|_| event["type"] == "output") {
            delays.push((now - printed) / 1e6);
        }
    }
    log.wait()?;
    // What was printed before the log was followed says nothing.
    let late = delays.len().min(5);
    Ok(delays.split_off(late))
}

fn session(top: &Path, path: &OsStr, name: &str) -> Result<Value, Failure> {
    let listed = git(top, path, &["agent", "list", "--all", "--json"])?;
    let listed: Value = serde_json::from_slice(&listed)?;
    let found = listed["sessions"]
        .as_array()
        .and_then(|sessions| sessions.iter().find(|session| session["name"] == name));
    Ok(found.cloned().ok_or("there is no such session")?)
}

fn git(top: &Path, path: &OsStr, words: &[&str]) -> Result<Vec<u8>, Failure> {
    let output = Command::new("git")
        .env("PATH", path)
        .current_dir(top)
        .args(words)
        .output()?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("git {words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}
