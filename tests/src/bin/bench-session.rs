//! Measures what sessions cost while nobody looks, and what looking costs: `bench-session [--live N] [--closed N] [--runs R]`.
//!
//! Prints `git agent list` with live and closed sessions beside `git worktree list` and a `git status` of every live worktree, and
//! what the idle supervisors use: memory, and how often they woke. `git agent` is the one beside this program. Everything
//! happens in a directory of its own, which is removed at the end.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use git_agent::model::session::State;
use git_agent_tests::bench::{self, Failure, Options, median, millis, ratio};
use git_agent_tests::imported::import_sessions;

fn main() -> ExitCode {
    bench::main("bench-session", measure)
}

struct World {
    repo: PathBuf,
    path: OsString,
}

impl World {
    fn new(base: &Path) -> Result<Self, Failure> {
        let repo = base.join("repo");
        std::fs::create_dir_all(&repo)?;
        let path = bench::search_path()?;
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

    fn git(&self, words: &[&str]) -> Result<Duration, Failure> {
        let mut command = bench::quiet("git", &self.repo);
        bench::run(
            command
                .env("PATH", &self.path)
                .args(words)
                .stderr(Stdio::null()),
        )
    }
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

fn measure(words: &[OsString]) -> Result<(), Failure> {
    let options = Options::parse(words, &["--live", "--closed", "--runs"])?;
    let live = options.number("--live", 20)?;
    let closed = options.number("--closed", 1000)?;
    let runs = options.runs(9)?;
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
        ours.push(world.git(&["agent", "list"])?);
        let mut git = world.git(&["worktree", "list"])?;
        for worktree in &worktrees {
            git += world.git(&["-C", &worktree.to_string_lossy(), "status", "--porcelain"])?;
        }
        gits.push(git);
    }
    let mut out = std::io::stdout().lock();
    let (ours, gits) = (median(ours), median(gits));
    writeln!(
        out,
        "list, {live} live and {closed} closed: {:.1} ms; git worktree list + {live} × git status: {:.1} ms; ratio {:.2}",
        millis(ours),
        millis(gits),
        ratio(ours, gits)
    )?;
    writeln!(
        out,
        "{} idle supervisors: the largest has {memory} kB resident, {own} kB of its own; together they woke {woken} times in 20 s",
        pids.len()
    )?;
    drop(out);
    world.git(&["agent", "stop", "--all"])?;
    Ok(())
}
