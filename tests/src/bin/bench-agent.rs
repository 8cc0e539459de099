//! Measures what a supervisor costs beside its agent, and how soon what an agent prints is seen.
//!
//!     bench-agent [--agent NAME] [--prompt TEXT] [--runs R]
//!
//! `git agent` is the one beside this program. The agent is one that `git agent` knows, with the variables it needs; without
//! one it is a shell that burns a second of processor time and prints 200 lines meanwhile. Prints the processor time of the
//! supervisor, of everything it started and waited for (the agent, and a few starts of git), and their ratio; then the
//! time from a printed line to `git agent log -f`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use git_agent_tests::bench::{self, Failure, Options};
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
    git(&top, &["init", "-q", "-b", "main"])?;
    git(&top, &["config", "user.name", "Bench"])?;
    git(&top, &["config", "user.email", "bench@example.com"])?;
    git(&top, &["commit", "-q", "--allow-empty", "-m", "seed"])?;
    let mut out = std::io::stdout().lock();
    for round in 0..runs {
        let name = format!("busy{round}");
        match agent {
            Some(agent) => git(
                &top,
                &["agent", "new", "--name", &name, "--agent", agent, prompt],
            )?,
            None => git(&top, &["agent", "new", &name, "--", BUSY])?,
        };
        let (own, below) = follow_processes(&top, &name)?;
        writeln!(
            out,
            "supervisor {own:>7.3} s, agent {below:>8.3} s of processor time: {:.2} %",
            100.0 * own / below.max(f64::EPSILON)
        )?;
    }
    let mut delays = Vec::new();
    for round in 0..runs {
        delays.extend(delays_of(&top, &format!("clock{round}"))?);
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

/// Watches a session's supervisor until it ends; returns the processor time of itself and of all it reaped, in seconds.
///
/// Its own is that of its first thread, which the kernel tells exactly; a process's it tells in hundredths of a second,
/// rounded down. Its other threads only wait for the disk.
fn follow_processes(top: &Path, name: &str) -> Result<(f64, f64), Failure> {
    let mut last = (0.0, 0.0);
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let Some(pid) = session(top, name)?["pid"].as_u64() else {
        return Err("the supervisor ended too soon to be watched".into());
    };
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    while let (Ok(stat), Ok(exact)) = (read("stat"), read("schedstat")) {
        let fields: Vec<f64> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(|field| field.parse().unwrap_or_default())
            .collect();
        let nanoseconds = exact.split(' ').next().and_then(|own| own.parse().ok());
        // User and system time of children that were waited for.
        if let (Some(own), [user, system]) =
            (nanoseconds.map(|own: f64| own / 1e9), &fields[13..15])
        {
            last = (own.max(last.0), (user + system) / ticks);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(last)
}

/// Lets an agent print the time, and returns how long each line took to be seen, in milliseconds.
fn delays_of(top: &Path, name: &str) -> Result<Vec<f64>, Failure> {
    git(top, &["agent", "new", name, "--", CLOCK])?;
    let mut log = Command::new("git")
        .env("PATH", bench::search_path()?)
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

fn session(top: &Path, name: &str) -> Result<Value, Failure> {
    let listed = git(top, &["agent", "list", "--all", "--json"])?;
    let listed: Value = serde_json::from_slice(&listed)?;
    let found = listed["sessions"]
        .as_array()
        .and_then(|sessions| sessions.iter().find(|session| session["name"] == name));
    Ok(found.cloned().ok_or("there is no such session")?)
}

fn git(top: &Path, words: &[&str]) -> Result<Vec<u8>, Failure> {
    let output = Command::new("git")
        .env("PATH", bench::search_path()?)
        .current_dir(top)
        .args(words)
        .output()?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("git {words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}
