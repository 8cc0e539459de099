//! Measures what sessions cost while nobody looks, and what looking costs: `bench-session [--live N] [--closed N] [--runs R]`.
//!
//! Prints `git agent list` with live and closed sessions beside `git worktree list` and a `git status` of every live worktree, and
//! what the idle supervisors use: memory, and how often they woke. `git agent` is the one beside this program. Everything
//! happens in a directory of its own, which is removed at the end.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use git_agent::session::State;
use git_agent_tests::imported::import_sessions;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match measure(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "bench-session: {error}");
            ExitCode::FAILURE
        }
    }
}

struct World {
    repo: PathBuf,
    path: std::ffi::OsString,
}

impl World {
    fn new(base: &Path) -> Result<Self, Failure> {
        let own = std::env::current_exe()?;
        let mut path = own.parent().unwrap_or(base).as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let repo = base.join("repo");
        std::fs::create_dir_all(&repo)?;
        let world = World { repo, path };
        world.git(&["init", "-q", "-b", "main"])?;
        world.git(&["config", "user.name", "Bench"])?;
        world.git(&["config", "user.email", "bench@example.com"])?;
        world.git(&["config", "agent.maxParallel", "1000"])?;
        for number in 0..500 {
            let dir = world.repo.join(format!("src{}", number / 50));
            std::fs::create_dir_all(&dir)?;
            let text = format!("fn number() -> u64 {{ {number} }}\n").repeat(40);
            std::fs::write(dir.join(format!("file{number}.rs")), text)?;
        }
        world.git(&["add", "-A"])?;
        world.git(&["commit", "-q", "-m", "all"])?;
        Ok(world)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .current_dir(&self.repo)
            .env("PATH", &self.path)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn git(&self, words: &[&str]) -> Result<(), Failure> {
        if self.command(words).status()?.success() {
            Ok(())
        } else {
            Err(format!("git {words:?} failed").into())
        }
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times
        .get(times.len() / 2)
        .map_or(f64::NAN, Duration::as_secs_f64)
        * 1000.0
}

/// Returns the numbers after a name in a file of the kernel about a process.
fn told(pid: u32, file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| {
            rest.trim_start_matches([':', ' ', '\t'])
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or(0)
}

/// Returns the supervisors of this repository's sessions.
fn supervisors(repo: &Path) -> Result<Vec<u32>, Failure> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir(repo.join(".git/agents/run"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "json") {
            let record: serde_json::Value = serde_json::from_slice(&std::fs::read(path)?)?;
            pids.extend(
                record["supervisor"]["pid"]
                    .as_u64()
                    .map(u32::try_from)
                    .transpose()?,
            );
        }
    }
    Ok(pids)
}

fn measure(words: &[String]) -> Result<(), Failure> {
    let (mut live, mut closed, mut runs) = (20, 1000, 9);
    for pair in words.chunks(2) {
        let number: usize = pair.get(1).ok_or("an option lacks its number")?.parse()?;
        match pair[0].as_str() {
            "--live" => live = number,
            "--closed" => closed = number,
            "--runs" => runs = number.max(1),
            other => return Err(format!("unknown option '{other}'").into()),
        }
    }
    let dir = tempfile::Builder::new()
        .prefix("bench-session-")
        .tempdir()?;
    let world = World::new(&std::fs::canonicalize(dir.path())?)?;
    import_sessions(&world.repo, closed, State::Merged)?;
    for number in 0..live {
        world.git(&["agent", "new", &format!("live{number}"), "--", "sleep 600"])?;
    }
    std::thread::sleep(Duration::from_secs(5));
    let pids = supervisors(&world.repo)?;
    let switches = || -> u64 {
        pids.iter()
            .map(|pid| told(*pid, "status", "voluntary_ctxt_switches"))
            .sum()
    };
    let before = switches();
    std::thread::sleep(Duration::from_secs(20));
    let woken = switches() - before;
    let memory = pids
        .iter()
        .map(|pid| told(*pid, "status", "VmRSS"))
        .max()
        .unwrap_or(0);
    let own = pids
        .iter()
        .map(|pid| told(*pid, "smaps_rollup", "Pss"))
        .max()
        .unwrap_or(0);

    let (mut ours, mut gits) = (Vec::new(), Vec::new());
    let mut worktrees = Vec::new();
    for number in 0..live {
        worktrees.push(
            world
                .repo
                .with_file_name("repo-worktrees")
                .join(format!("live{number}")),
        );
    }
    for _ in 0..runs {
        let since = Instant::now();
        world.git(&["agent", "list"])?;
        ours.push(since.elapsed());
        let since = Instant::now();
        world.git(&["worktree", "list"])?;
        for worktree in &worktrees {
            world.git(&["-C", &worktree.to_string_lossy(), "status", "--porcelain"])?;
        }
        gits.push(since.elapsed());
    }
    let mut out = std::io::stdout().lock();
    let (ours, gits) = (median(ours), median(gits));
    writeln!(
        out,
        "list, {live} live and {closed} closed: {ours:.1} ms; git worktree list + {live} × git status: {gits:.1} ms; ratio {:.2}",
        ours / gits
    )?;
    writeln!(
        out,
        "{} idle supervisors: the largest has {memory} kB resident, {own} kB of its own; together they woke {woken} times in 20 s",
        pids.len()
    )?;
    drop(out);
    world.git(&["agent", "stop", "--all"])
}
