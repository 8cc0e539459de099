//! Measures adding a worktree, and bringing one back, beside `git worktree add --no-track` of the same tree, in one run.
//!
//! `bench-worktree [--files N] [--megabytes M] [--runs R] [--many R] [--dir PATH] [--only WORDS]` prints one table: medians in
//! seconds and their ratio to git's; `--only` keeps the rows whose names hold the words, and git's. `git agent` is the one beside
//! this program, or the one in `GIT_AGENT_TEST_INSTALLED`; worktrunk (`wt`) and workmux get a row where they are found.
//! Everything happens in a directory of its own, which is removed at the end and not before: creating files where others
//! were just deleted is slower for whoever comes next. `--dir` chooses the file system.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use git_agent::env::Env;
use git_agent::git::Repo;
use git_agent::git::worktree::{self, AddOptions, Way};
use git_agent_tests::bench::{self, Failure, Options, run};

const AT_ONCE: usize = 16;

fn main() -> ExitCode {
    bench::main("bench-worktree", |words| {
        if words.first().is_some_and(|word| word == "add") {
            return add_one(&words[1..]);
        }
        let known = [
            "--files",
            "--megabytes",
            "--runs",
            "--many",
            "--dir",
            "--only",
        ];
        let options = Options::parse(words, &known)?;
        measure(&Settings {
            files: options.number("--files", 5_000)?,
            megabytes: options.number("--megabytes", 30)?,
            runs: options.runs(5)?,
            many: options.number("--many", 3)?,
            dir: options.dir(),
            only: options.text("--only").unwrap_or_default(),
        })
    })
}

struct Settings {
    files: usize,
    megabytes: usize,
    runs: usize,
    many: usize,
    dir: PathBuf,
    only: String,
}

/// Adds one worktree as a process of its own, as `git worktree add` is one.
fn add_one(words: &[OsString]) -> Result<(), Failure> {
    let [path, branch, expected] = words else {
        return Err("add PATH BRANCH copied|written|git".into());
    };
    let env = Env::from_process()?;
    let repo = Repo::discover(&env)?;
    let start = repo.find_ref("HEAD")?.ok_or("HEAD has no commit")?;
    let added = worktree::add(
        &repo,
        &AddOptions {
            path: Path::new(path),
            branch: &branch.to_string_lossy(),
            start,
            start_name: Some("HEAD"),
            name_hint: None,
            no_checkout: false,
            interrupt: &AtomicBool::new(false),
        },
    )?;
    let way = match added.way {
        Way::Fast(report) if report.copied * 10 > report.files * 9 => "copied",
        Way::Fast(_) => "written",
        Way::Git(_) => "git",
        Way::NoCheckout => "empty",
    };
    if expected != way {
        return Err(format!("the files were {way}, not {expected:?}: {:?}", added.way).into());
    }
    Ok(())
}

fn git(dir: &Path) -> Command {
    bench::quiet("git", dir)
}

/// Returns the processor time of all children that have ended: less disturbed by neighbours than the clock.
fn children_cpu() -> Duration {
    let ticks = std::fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|text| {
            let fields: Vec<&str> = text.rsplit(") ").next()?.split(' ').collect();
            Some(fields.get(13)?.parse::<u64>().ok()? + fields.get(14)?.parse::<u64>().ok()?)
        })
        .unwrap_or(0);
    Duration::from_millis(ticks * 10)
}

/// Makes a repository of pseudo-source: directories of about a dozen files, text that compresses as source does.
fn make_repository(settings: &Settings, top: &Path) -> Result<(), Failure> {
    let mean = settings.megabytes * 1_000_000 / settings.files.max(1);
    std::fs::create_dir_all(top)?;
    run(git(top).args(["init", "-q", "-b", "main"]))?;
    run(git(top).args(["config", "user.name", "Bench"]))?;
    run(git(top).args(["config", "user.email", "bench@example.com"]))?;
    let mut seed = 1u64;
    for number in 0..settings.files {
        let dir = top.join(format!(
            "src{:02}/module{:03}",
            number / 1200,
            number / 12 % 100
        ));
        if number % 12 == 0 {
            std::fs::create_dir_all(&dir)?;
        }
        let size = mean / 4 + (number * 7919) % (mean * 3 / 2 + 1);
        let mut text = String::with_capacity(size + 64);
        while text.len() < size {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(&format!(
                "    let value_{:x} = compute({}, \"{:x}\");\n",
                seed >> 52,
                seed >> 60,
                (seed >> 20) & 0xffff_ffff
            ));
        }
        std::fs::write(dir.join(format!("file{number}.rs")), text)?;
    }
    run(git(top).args(["add", "-A"]))?;
    run(git(top).args(["commit", "-q", "-m", "all"]))?;
    run(git(top).args(["repack", "-q", "-a", "-d", "--depth=10", "--window=2"]))?;
    std::thread::sleep(Duration::from_millis(1100));
    run(git(top).args(["update-index", "--force-write-index"]))?;
    Ok(())
}

/// Who adds a worktree, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Git,
    Copied,
    Written,
    LeftToGit,
    Session,
    Restore,
    Worktrunk,
    Workmux,
}

impl Who {
    /// Returns a program of somebody else's that this one is.
    fn program(self) -> Option<&'static str> {
        match self {
            Who::Worktrunk => Some("wt"),
            Who::Workmux => Some("workmux"),
            _ => None,
        }
    }

    fn is_here(self) -> bool {
        self.program()
            .is_none_or(|program| which::which(program).is_ok())
    }
}

struct Row {
    who: Who,
    name: &'static str,
    add: Vec<Duration>,
    cpu: Vec<Duration>,
    status: Vec<Duration>,
    failed: usize,
}

impl Row {
    fn new(who: Who, name: &'static str) -> Self {
        Row {
            who,
            name,
            add: Vec::new(),
            cpu: Vec::new(),
            status: Vec::new(),
            failed: 0,
        }
    }
}

fn median(times: &[Duration]) -> f64 {
    let mut seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    seconds.sort_by(f64::total_cmp);
    match seconds.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => seconds[count / 2],
        count => f64::midpoint(seconds[count / 2 - 1], seconds[count / 2]),
    }
}

fn least(times: &[Duration]) -> f64 {
    times
        .iter()
        .map(Duration::as_secs_f64)
        .fold(f64::INFINITY, f64::min)
}

fn ours(repo: &Path, path: &Path, branch: &str, way: &str) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .current_dir(repo)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .arg("add")
        .arg(path)
        .args([branch, way]);
    Ok(command)
}

fn theirs(repo: &Path, path: &Path, branch: &str) -> Command {
    let mut command = git(repo);
    command
        .args(["worktree", "add", "-q", "--no-track", "-b", branch])
        .arg(path)
        .arg("HEAD");
    command
}

/// What a person types.
fn agent(repo: &Path, words: &[&str]) -> Result<Command, Failure> {
    let mut command = git(repo);
    command
        .env("PATH", bench::search_path()?)
        .args(["-c", "agent.maxParallel=1", "agent"])
        .args(words)
        .stderr(Stdio::null());
    Ok(command)
}

/// Makes a session that left a file, and removes its worktree.
fn clean_session(repo: &Path, name: &str) -> Result<(), Failure> {
    let work = ["new", name, "--", "sh", "-c", "echo work >left"];
    for words in [&work[..], &["wait", name], &["clean", name]] {
        run(&mut agent(repo, words)?)?;
    }
    Ok(())
}

/// What a person types who uses another manager: a worktree with a branch of its own and nothing in it that runs.
fn peer(repo: &Path, home: &Path, program: &str, branch: &str) -> Command {
    let mut command = bench::quiet(program, repo);
    command.env("HOME", home).stderr(Stdio::null());
    for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
        command.env_remove(name);
    }
    match program {
        "wt" => command.args(["switch", "--create", branch, "--no-cd", "--yes"]),
        _ => command.args(["add", branch, "--headless", "--json"]),
    };
    command
}

/// Returns where the worktree of a branch is.
fn place_of(repo: &Path, branch: &str) -> Result<Option<PathBuf>, Failure> {
    let listed = git(repo)
        .args(["worktree", "list", "--porcelain"])
        .stdout(Stdio::piped())
        .output()?;
    let wanted = [
        format!("branch refs/heads/{branch}"),
        format!("branch refs/heads/agent/{branch}"),
    ];
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let found = text.split("\n\n").find(|one| {
        one.lines()
            .any(|line| wanted.iter().any(|want| want == line))
    });
    Ok(found
        .and_then(|one| one.lines().next()?.strip_prefix("worktree "))
        .map(PathBuf::from))
}

fn status(path: &Path) -> Result<Duration, Failure> {
    let since = Instant::now();
    let output = git(path)
        .args(["status", "--porcelain"])
        .stdout(Stdio::piped())
        .output()?;
    let took = since.elapsed();
    if !output.stdout.is_empty() || !output.status.success() {
        return Err(format!("'{}' is not clean", path.display()).into());
    }
    Ok(took)
}

/// Runs all together and returns how long that took and how many failed.
fn all_at_once(mut commands: Vec<Command>) -> Result<(Duration, usize), Failure> {
    let since = Instant::now();
    let mut children = Vec::new();
    for command in &mut commands {
        children.push(command.spawn()?);
    }
    let mut failed = 0;
    for child in &mut children {
        failed += usize::from(!child.wait()?.success());
    }
    Ok((since.elapsed(), failed))
}

/// The repositories of a measurement.
struct Places<'a> {
    base: &'a Path,
    repo: &'a Path,
    unfilled: &'a Path,
    filtered: &'a Path,
}

impl Places<'_> {
    fn repository(&self, who: Who) -> &Path {
        match who {
            Who::Written => self.unfilled,
            Who::LeftToGit => self.filtered,
            _ => self.repo,
        }
    }

    /// Returns what adds a worktree with this branch.
    fn command(&self, who: Who, branch: &str) -> Result<Command, Failure> {
        let top = self.repository(who);
        let path = self.base.join("worktrees").join(branch);
        Ok(match who {
            Who::Git => theirs(top, &path, branch),
            Who::Copied => ours(top, &path, branch, "copied")?,
            Who::Written => ours(top, &path, branch, "written")?,
            Who::LeftToGit => ours(top, &path, branch, "git")?,
            Who::Session => agent(top, &["new", branch, "--", "true"])?,
            Who::Restore => agent(top, &["restore", branch])?,
            Who::Worktrunk | Who::Workmux => {
                let home = self.base.join("home");
                peer(top, &home, who.program().unwrap_or_default(), branch)
            }
        })
    }
}

fn measure(settings: &Settings) -> Result<(), Failure> {
    let dir = tempfile::Builder::new()
        .prefix("bench-worktree-")
        .tempdir_in(&settings.dir)?;
    let base = std::fs::canonicalize(dir.path())?;
    let repo = base.join("repo");
    make_repository(settings, &repo)?;
    for name in ["worktrees", "home"] {
        std::fs::create_dir_all(base.join(name))?;
    }
    // The same objects without a checkout to copy from, and once more with a filter that git has to run.
    let unfilled = base.join("unfilled");
    run(git(&base).args(["clone", "-q", "--no-checkout", "repo", "unfilled"]))?;
    let filtered = base.join("filtered");
    run(git(&base).args(["clone", "-q", "--no-checkout", "repo", "filtered"]))?;
    for (key, value) in [("user.name", "Bench"), ("user.email", "bench@example.com")] {
        run(git(&unfilled).args(["config", key, value]))?;
        run(git(&filtered).args(["config", key, value]))?;
    }
    std::fs::create_dir_all(filtered.join(".git/info"))?;
    std::fs::write(
        filtered.join(".git/info/attributes"),
        "nothing.bin eol=crlf\n",
    )?;

    let places = Places {
        base: &base,
        repo: &repo,
        unfilled: &unfilled,
        filtered: &filtered,
    };
    let mut rows = vec![
        Row::new(Who::Git, "git worktree add"),
        Row::new(Who::Copied, "copied from the main worktree"),
        Row::new(Who::Written, "written from objects"),
        Row::new(Who::LeftToGit, "left to git (attributes)"),
        Row::new(Who::Session, "git agent new"),
        Row::new(Who::Restore, "git agent restore"),
        Row::new(Who::Worktrunk, "worktrunk"),
        Row::new(Who::Workmux, "workmux"),
    ];
    let is_wanted = |row: &Row| row.who == Who::Git || row.name.contains(&settings.only);
    rows.retain(|row| row.who.is_here() && is_wanted(row));
    for round in 0..settings.runs {
        // Nobody always goes first: what runs before leaves its mark on memory and disk.
        for turn in 0..rows.len() {
            let number = (turn + round) % rows.len();
            let row = &mut rows[number];
            let branch = format!("bench{number}-{round}");
            if row.who == Who::Restore {
                clean_session(&repo, &branch)?;
            }
            let mut command = places.command(row.who, &branch)?;
            let before = children_cpu();
            row.add.push(run(&mut command)?);
            row.cpu.push(children_cpu() - before);
            let path = place_of(places.repository(row.who), &branch)?;
            let path = path.ok_or("no worktree was made")?;
            if row.who == Who::Restore {
                // What was not committed came back; the rest is measured as it is for others.
                std::fs::remove_file(path.join("left"))?;
            }
            row.status.push(status(&path)?);
            if row.who == Who::Session {
                // Its supervisor is not to disturb the next one. The agent did nothing, which is no success.
                agent(&repo, &["wait", "--all"])?.status()?;
            }
        }
    }

    let mut many = vec![
        Row::new(Who::Git, "16 × git, one after another"),
        Row::new(Who::Git, "16 × git at once"),
        Row::new(Who::Copied, "16 × copied at once"),
        Row::new(Who::Written, "16 × written at once"),
        Row::new(Who::Session, "16 × git agent new at once"),
        Row::new(Who::Worktrunk, "16 × worktrunk at once"),
        Row::new(Who::Workmux, "16 × workmux at once"),
    ];
    many.retain(|row| row.who.is_here() && is_wanted(row));
    for round in 0..settings.many {
        for (number, row) in many.iter_mut().enumerate() {
            let branches: Vec<String> = (0..AT_ONCE)
                .map(|one| format!("many{number}-{round}-{one}"))
                .collect();
            let commands = branches
                .iter()
                .map(|branch| places.command(row.who, branch))
                .collect::<Result<Vec<_>, Failure>>()?;
            let before = children_cpu();
            let took = if number == 0 {
                let mut sum = Duration::ZERO;
                for mut command in commands {
                    sum += run(&mut command)?;
                }
                sum
            } else {
                let (took, failed) = all_at_once(commands)?;
                row.failed += failed;
                took
            };
            row.add.push(took);
            row.cpu.push(children_cpu() - before);
            for branch in &branches {
                if let Some(path) = place_of(places.repository(row.who), branch)? {
                    row.status.push(status(&path)?);
                }
            }
            if row.who == Who::Session {
                agent(&repo, &["wait", "--all"])?.status()?;
            }
        }
    }
    print(settings, &rows, &many)
}

fn print(settings: &Settings, rows: &[Row], many: &[Row]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} files, {} MB, medians of {} runs",
        settings.files, settings.megabytes, settings.runs
    )?;
    for table in [rows, many]
        .into_iter()
        .filter(|table| !table[0].add.is_empty())
    {
        writeln!(
            out,
            "{:<32} {:>9} {:>6} {:>9} {:>6} {:>9} {:>6} {:>13} {:>6}",
            "", "add", "ratio", "fastest", "ratio", "cpu", "ratio", "first status", "ratio"
        )?;
        for row in table {
            let failed = match row.failed {
                0 => String::new(),
                count => format!("  {count} failed"),
            };
            writeln!(
                out,
                "{:<32} {:>8.3}s {:>6.2} {:>8.3}s {:>6.2} {:>8.2}s {:>6.2} {:>12.3}s {:>6.2}{failed}",
                row.name,
                median(&row.add),
                median(&row.add) / median(&table[0].add),
                least(&row.add),
                least(&row.add) / least(&table[0].add),
                median(&row.cpu),
                median(&row.cpu) / median(&table[0].cpu),
                median(&row.status),
                median(&row.status) / median(&table[0].status)
            )?;
        }
    }
    Ok(())
}
