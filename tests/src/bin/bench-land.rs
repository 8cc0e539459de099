//! Measures landing one clean session beside `git merge --no-ff` of the same branch, in one run.
//!
//! `bench-land [--files N] [--runs R] [--dir PATH]` makes a repository with a session whose work is committed and approved in its
//! worktree, merges it by both in turn, each time from the same state, and prints medians in seconds, their ratio and the
//! memory of the largest process. `git agent` is the one beside this program. Everything happens in a directory of its own,
//! which is removed at the end.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use git_agent_tests::bench::{self, Failure, Options, median, ratio};

/// Files of a directory.
const PER_DIR: usize = 50;

fn main() -> ExitCode {
    bench::main("bench-land", |words| {
        let options = Options::parse(words, &["--files", "--runs", "--dir"])?;
        measure(&Settings {
            files: options.number("--files", 60_000)?,
            runs: options.runs(7)?,
            dir: options.dir(),
        })
    })
}

struct Settings {
    files: usize,
    runs: usize,
    dir: PathBuf,
}

/// A repository and the programs to measure in it.
struct Site {
    repo: PathBuf,
    home: PathBuf,
    path: OsString,
}

impl Site {
    fn command(&self, program: &str) -> Command {
        let mut command = bench::quiet(program, &self.repo);
        command.env("PATH", &self.path).env("HOME", &self.home);
        command
    }

    fn git(&self, words: &[&str]) -> Result<Duration, Failure> {
        bench::run(self.command("git").args(words))
    }
}

fn measure(settings: &Settings) -> Result<(), Failure> {
    let dir = tempfile::Builder::new()
        .prefix("bench-land-")
        .tempdir_in(&settings.dir)?;
    let site = Site {
        repo: dir.path().join("r"),
        home: dir.path().join("home"),
        path: bench::search_path()?,
    };
    std::fs::create_dir_all(&site.home)?;
    furnish(&site, settings)?;
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..settings.runs {
        plain.push(site.git(&["merge", "--quiet", "--no-ff", "--no-edit", "agent/one"])?);
        site.git(&["reset", "--quiet", "--hard", "HEAD^1"])?;
        ours.push(site.git(&["agent", "merge", "--yes", "one"])?);
        site.git(&["agent", "merge", "--undo", "--yes"])?;
    }
    let peak = peak_memory(&site)?;
    let (plain, ours) = (median(plain), median(ours));
    let mut table = format!("{} files, {} runs\n", settings.files, settings.runs);
    for (what, took) in [("git merge --no-ff", plain), ("git agent merge", ours)] {
        writeln!(
            table,
            "{what:<20} {:>8.3} s  {:>6.2}",
            took.as_secs_f64(),
            ratio(took, plain)
        )?;
    }
    writeln!(table, "memory of the largest process: {} MiB", peak / 1024)?;
    std::io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// Makes a history in which both sides changed files, and a session that is approved.
fn furnish(site: &Site, settings: &Settings) -> Result<(), Failure> {
    std::fs::create_dir_all(&site.repo)?;
    site.git(&["init", "--quiet", "--initial-branch=main"])?;
    for index in 0..settings.files {
        let file = site.repo.join(format!("d{}/f{index}.txt", index / PER_DIR));
        if index % PER_DIR == 0 {
            std::fs::create_dir_all(file.parent().unwrap_or(&site.repo))?;
        }
        std::fs::write(&file, format!("file {index}\n{}", "text\n".repeat(5)))?;
    }
    site.git(&["config", "gc.auto", "0"])?;
    site.git(&["config", "agent.mergeStrategy", "orchestrator-review"])?;
    site.git(&["add", "."])?;
    site.git(&["commit", "--quiet", "--message", "all files"])?;
    site.git(&["repack", "-adq"])?;
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo theirs >>d$i/f$((i * 50)).txt; done; git commit -qam work";
    site.git(&[
        "agent", "new", "--name", "one", "work", "--", "sh", "-c", script,
    ])?;
    site.git(&["agent", "wait", "one", "--timeout", "300s"])?;
    for number in 11..20 {
        std::fs::write(
            site.repo.join(format!("d{number}/f{}.txt", number * 50)),
            "ours\n",
        )?;
    }
    site.git(&["commit", "--quiet", "--all", "--message", "ours"])?;
    site.git(&["agent", "review", "approve", "one"])?;
    Ok(())
}

/// Returns the memory of the largest process of one merge, in KiB.
fn peak_memory(site: &Site) -> Result<u64, Failure> {
    let report = site.home.join("peak");
    let own = std::env::current_exe()?;
    let status = site
        .command(&own.with_file_name("peak").to_string_lossy())
        .arg(&report)
        .args(["git", "agent", "merge", "--yes", "one"])
        .status()?;
    if !status.success() {
        return Err("git agent merge failed".into());
    }
    Ok(std::fs::read_to_string(&report)?.trim().parse()?)
}
