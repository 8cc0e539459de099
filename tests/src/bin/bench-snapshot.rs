//! Measures a snapshot of a working tree beside `git stash create` on the same tree in the same run.
//!
//! `bench-snapshot [--files N] [--changed N] [--runs R]`: before each measurement the same number of files is changed, so that
//! both sides store the same work. The snapshot is the whole of it: untracked files looked for, objects and ref synced.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use git_agent::env::{Env, Terminals};
use git_agent::git::Repo;
use git_agent::model::session::SessionId;
use git_agent::store::Store;
use git_agent_tests::bench::{self, Failure, Options, median, millis, ratio};

fn main() -> ExitCode {
    bench::main("bench-snapshot", measure)
}

fn measure(words: &[OsString]) -> Result<(), Failure> {
    let options = Options::parse(words, &["--files", "--changed", "--runs"])?;
    let count = options.number("--files", 5_000)?;
    let changed = options.number("--changed", 10)?;
    let rounds = options.runs(25)?;
    let dir = tempfile::tempdir()?;
    let top = dir.path().join("repo");
    build(&top, count)?;

    let env = Env::new(top.clone(), variables(dir.path()), Terminals::default());
    let repo = Repo::open(&env, &top.join(".git"))?;
    let store = Store::new(&env, &repo);
    let checkout = repo.checkout()?;
    let sid = SessionId::new(&env);
    let mut out = std::io::stdout().lock();
    let (mut snapshots, mut idle, mut stashes) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds as u64 {
        edit(&top, count, changed, round * 3)?;
        let start = Instant::now();
        store.take_snapshot(sid, Some(round), "after a turn", &checkout)?;
        snapshots.push(start.elapsed());
        let start = Instant::now();
        store.take_snapshot(sid, Some(round), "after a turn", &checkout)?;
        idle.push(start.elapsed());
        edit(&top, count, changed, round * 3 + 1)?;
        let start = Instant::now();
        git(&top, &["stash", "create"])?;
        stashes.push(start.elapsed());
    }
    let (snapshot, idle, stash) = (median(snapshots), median(idle), median(stashes));
    writeln!(
        out,
        "{count} files, {changed} changed, median of {rounds} rounds"
    )?;
    writeln!(out, "snapshot            {:>8.1} ms", millis(snapshot))?;
    writeln!(out, "snapshot, no change {:>8.1} ms", millis(idle))?;
    writeln!(out, "git stash create    {:>8.1} ms", millis(stash))?;
    writeln!(out, "ratio               {:>8.2}", ratio(snapshot, stash))?;
    Ok(())
}

fn build(top: &Path, count: usize) -> Result<(), Failure> {
    fs::create_dir(top)?;
    git(top, &["init", "-q", "-b", "main"])?;
    git(top, &["config", "gc.auto", "0"])?;
    git(top, &["config", "maintenance.auto", "false"])?;
    git(top, &["config", "user.name", "Bench"])?;
    git(top, &["config", "user.email", "bench@example.com"])?;
    for number in 0..count {
        let path = top.join(name(number));
        fs::create_dir_all(path.parent().ok_or("no parent")?)?;
        fs::write(path, format!("line of file {number}\n").repeat(60))?;
    }
    git(top, &["add", "-A"])?;
    git(top, &["commit", "-q", "-m", "seed"])?;
    git(top, &["gc", "-q"])?;
    // Old enough that nobody has to look into files for their age.
    std::thread::sleep(Duration::from_millis(1_100));
    git(top, &["status"])?;
    Ok(())
}

fn name(number: usize) -> PathBuf {
    PathBuf::from(format!(
        "dir{}/sub{}/file{number}.txt",
        number % 50,
        number % 7
    ))
}

fn edit(top: &Path, count: usize, changed: usize, seed: u64) -> Result<(), Failure> {
    for number in 0..changed {
        let path = top.join(name(number * (count / changed.max(1)).max(1)));
        fs::write(path, format!("round {seed} file {number}\n").repeat(60))?;
    }
    Ok(())
}

fn variables(home: &Path) -> Vec<(OsString, OsString)> {
    vec![("HOME".into(), home.into())]
}

fn git(top: &Path, words: &[&str]) -> Result<(), Failure> {
    bench::run(bench::quiet("git", top).args(words)).map(drop)
}
