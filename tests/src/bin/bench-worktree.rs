//! Measures adding a worktree beside `git worktree add --no-track` of the same tree, in one run.
//!
//! `bench-worktree [--files N] [--megabytes M] [--runs R] [--many R] [--dir PATH]` prints one table: medians in seconds and their
//! ratio to git's. `git agent` is the one beside this program. Everything happens in a directory of its own, which is removed at the end and not before: creating
//! files where others were just deleted is slower for whoever comes next. `--dir` chooses the file
//! system.

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
        let known = ["--files", "--megabytes", "--runs", "--many", "--dir"];
        let options = Options::parse(words, &known)?;
        measure(&Settings {
            files: options.number("--files", 5_000)?,
            megabytes: options.number("--megabytes", 30)?,
            runs: options.runs(5)?,
            many: options.number("--many", 3)?,
            dir: options.dir(),
        })
    })
}

struct Settings {
    files: usize,
    megabytes: usize,
    runs: usize,
    many: usize,
    dir: PathBuf,
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

struct Row {
    name: &'static str,
    add: Vec<Duration>,
    cpu: Vec<Duration>,
    status: Vec<Duration>,
    failed: usize,
}

impl Row {
    fn new(name: &'static str) -> Self {
        Row {
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

/// What a person types: a session with an agent that does nothing.
fn session(repo: &Path, name: &str) -> Result<Command, Failure> {
    let own = std::env::current_exe()?;
    let mut path = own
        .parent()
        .unwrap_or(Path::new("/"))
        .as_os_str()
        .to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = git(repo);
    command
        .env("PATH", path)
        .args(["-c", "agent.maxParallel=1", "agent"]);
    match name {
        "" => command.args(["wait", "--all"]),
        name => command.args(["new", name, "--", "true"]),
    };
    command.stderr(Stdio::null());
    Ok(command)
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

fn measure(settings: &Settings) -> Result<(), Failure> {
    let dir = tempfile::Builder::new()
        .prefix("bench-worktree-")
        .tempdir_in(&settings.dir)?;
    let base = std::fs::canonicalize(dir.path())?;
    let repo = base.join("repo");
    make_repository(settings, &repo)?;
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

    let mut rows = [
        Row::new("git worktree add"),
        Row::new("copied from the main worktree"),
        Row::new("written from objects"),
        Row::new("left to git (attributes)"),
        Row::new("git agent new"),
    ];
    for round in 0..settings.runs {
        // Nobody always goes first: what runs before leaves its mark on memory and disk.
        for turn in 0..rows.len() {
            let number = (turn + round) % rows.len();
            let row = &mut rows[number];
            let top = match number {
                2 => &unfilled,
                3 => &filtered,
                _ => &repo,
            };
            let branch = format!("bench{number}-{round}");
            let path = match number {
                4 => base.join("repo-worktrees").join(&branch),
                _ => base.join(format!("wt{number}-{round}")),
            };
            let mut command = match number {
                0 => theirs(top, &path, &branch),
                1 => ours(top, &path, &branch, "copied")?,
                2 => ours(top, &path, &branch, "written")?,
                3 => ours(top, &path, &branch, "git")?,
                _ => session(top, &branch)?,
            };
            let before = children_cpu();
            row.add.push(run(&mut command)?);
            row.cpu.push(children_cpu() - before);
            row.status.push(status(&path)?);
            if number == 4 {
                // Its supervisor is not to disturb the next one. The agent did nothing, which is no success.
                session(top, "")?.status()?;
            }
        }
    }

    let mut many = [
        Row::new("16 × git, one after another"),
        Row::new("16 × git at once"),
        Row::new("16 × copied at once"),
        Row::new("16 × written at once"),
        Row::new("16 × git agent new at once"),
    ];
    for round in 0..settings.many {
        for (number, row) in many.iter_mut().enumerate() {
            let top = if number == 3 { &unfilled } else { &repo };
            let places: Vec<(PathBuf, String)> = (0..AT_ONCE)
                .map(|one| {
                    let name = format!("many{number}-{round}-{one}");
                    let folder = if number == 4 {
                        "repo-worktrees"
                    } else {
                        "many"
                    };
                    (base.join(folder).join(&name), name)
                })
                .collect();
            std::fs::create_dir_all(base.join("many"))?;
            let commands = places
                .iter()
                .map(|(path, branch)| match number {
                    0 | 1 => Ok(theirs(top, path, branch)),
                    2 => ours(top, path, branch, "copied"),
                    3 => ours(top, path, branch, "written"),
                    _ => session(top, branch),
                })
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
            for (path, _) in &places {
                if path.exists() {
                    row.status.push(status(path)?);
                }
            }
            if number == 4 {
                session(top, "")?.status()?;
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
