//! Measures merging beside git doing the same, in one run.
//!
//! `bench-merge [--files N] [--sessions S] [--runs R] [--dir PATH]` makes a repository with sessions on branches of their own, some
//! with work that is not committed, and prints one table: what `git agent merge conflicts` takes for every session against
//! the target and every two sessions, the same again from memory, and one `git merge-tree --write-tree` process for each of
//! those merges. Everything happens in a directory of its own, which is removed at the end.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use git_agent::env::Env;
use git_agent::git::Repo;
use git_agent::model::session::{Person, Session, SessionId, State};
use git_agent::redact::{KnownSecrets, Redactor};
use git_agent::store::Store;
use git_agent::store::log::writer::SessionWriter;
use git_agent_tests::bench::{self, Failure, Options, median};

/// Files that several sessions change, so that some merges are real ones.
const HOT: usize = 6;
/// Files of a directory.
const PER_DIR: usize = 50;

fn main() -> ExitCode {
    bench::main("bench-merge", |words| {
        let options = Options::parse(words, &["--files", "--sessions", "--runs", "--dir"])?;
        measure(&Settings {
            files: options.number("--files", 60_000)?,
            sessions: options.number("--sessions", 20)?,
            runs: options.runs(3)?,
            dir: options.dir(),
        })
    })
}

struct Settings {
    files: usize,
    sessions: usize,
    runs: usize,
    dir: PathBuf,
}

fn git(dir: &Path) -> Command {
    bench::quiet("git", dir)
}

fn text(command: &mut Command) -> Result<String, Failure> {
    let output = command
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{command:?} failed").into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn path_of(index: usize) -> String {
    let dir = index / PER_DIR;
    format!("src/m{}/d{dir}/file{index}.txt", dir / 20)
}

fn content(index: usize, lines: usize) -> String {
    (0..lines)
        .map(|line| format!("{index} line {line} of the file\n"))
        .collect()
}

fn measure(settings: &Settings) -> Result<(), Failure> {
    let home = tempfile::Builder::new()
        .prefix("bench-merge-")
        .tempdir_in(&settings.dir)?;
    let dir = home.path().join("r.git");
    make_repository(&dir, settings)?;
    let commits = make_sessions(&dir, settings)?;
    let mut pairs = Vec::new();
    for (index, one) in commits.iter().enumerate() {
        pairs.push(("main".to_owned(), one.clone()));
        for other in &commits[index + 1..] {
            pairs.push((one.clone(), other.clone()));
        }
    }
    let path = bench::search_path()?;
    let conflicts = || -> Result<(Duration, String), Failure> {
        let begun = Instant::now();
        let output = git(&dir)
            .env("PATH", &path)
            .args(["agent", "merge", "conflicts", "--porcelain"])
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .output()?;
        let took = begun.elapsed();
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err("git agent merge conflicts failed".into());
        }
        Ok((took, String::from_utf8(output.stdout)?))
    };
    let (mut first, mut again, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let mut answer = String::new();
    let mut verdicts = Vec::new();
    for _ in 0..settings.runs {
        let _ = std::fs::remove_dir_all(dir.join("agents/cache"));
        let (took, said) = conflicts()?;
        first.push(took);
        let (took, once_more) = conflicts()?;
        again.push(took);
        if said != once_more {
            return Err("what is remembered is not what was found".into());
        }
        answer = said;
        let begun = Instant::now();
        verdicts.clear();
        for (one, other) in &pairs {
            let status = git(&dir)
                .args(["merge-tree", "--write-tree", one, other])
                .stdout(Stdio::null())
                .status()?;
            verdicts.push(status.code() == Some(0));
        }
        alone.push(begun.elapsed());
    }
    let peak = peak_memory(&dir, home.path(), &path)?;
    check(&answer, &verdicts)?;
    let baseline = median(alone);
    let mut table = format!(
        "{} files, {} sessions, {} merges, {} with conflicts\n",
        settings.files,
        settings.sessions,
        pairs.len(),
        verdicts.iter().filter(|clean| !**clean).count()
    );
    let mut row = |what: &str, took: Duration| -> std::fmt::Result {
        let ratio = took.as_secs_f64() / baseline.as_secs_f64();
        writeln!(
            table,
            "{what:<44} {:>8.3} s  {ratio:>6.3}",
            took.as_secs_f64()
        )
    };
    row("git merge-tree --write-tree, one a merge", baseline)?;
    row("git agent merge conflicts", median(first))?;
    row("git agent merge conflicts, again", median(again))?;
    writeln!(table, "memory of the largest process: {} MiB", peak / 1024)?;
    std::io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// Makes sure that both said the same: how many merges conflict.
fn check(answer: &str, verdicts: &[bool]) -> Result<(), Failure> {
    let mut pairs: Vec<(&str, &str, &str)> = answer
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            Some((*fields.first()?, *fields.get(2)?, *fields.get(4)?))
        })
        .collect();
    pairs.dedup();
    let conflicts = pairs.iter().filter(|pair| pair.0 != "clean").count();
    let expected = verdicts.iter().filter(|clean| !**clean).count();
    if pairs.len() != verdicts.len() || conflicts != expected {
        return Err(format!(
            "{} of {} conflict, but git says {expected} of {}",
            conflicts,
            pairs.len(),
            verdicts.len()
        )
        .into());
    }
    Ok(())
}

fn peak_memory(dir: &Path, home: &Path, path: &OsString) -> Result<u64, Failure> {
    let _ = std::fs::remove_dir_all(dir.join("agents/cache"));
    let file = home.join("peak");
    let own = std::env::current_exe()?;
    let status = Command::new(own.with_file_name("peak"))
        .current_dir(dir)
        .env("PATH", path)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .arg(&file)
        .args(["git", "agent", "merge", "conflicts", "--porcelain"])
        .stdout(Stdio::null())
        .status()?;
    if !matches!(status.code(), Some(0 | 1)) {
        return Err("git agent merge conflicts failed".into());
    }
    Ok(std::fs::read_to_string(&file)?.trim().parse()?)
}

/// Makes a repository with many files, a target that went on, and a branch for each session.
fn make_repository(dir: &Path, settings: &Settings) -> Result<(), Failure> {
    let parent = dir.parent().ok_or("no directory")?;
    text(
        git(parent)
            .args(["init", "-q", "--bare", "-b", "main"])
            .arg(dir),
    )?;
    let mut child = git(dir)
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take().ok_or("no pipe")?;
    let mut out = std::io::BufWriter::new(stdin);
    let person = "committer T <t@example.com> 1700000000 +0000";
    write!(
        out,
        "commit refs/heads/main\nmark :1\n{person}\ndata 5\nfirst\n"
    )?;
    for index in 0..settings.files {
        let lines = if index < HOT { 200 } else { 3 };
        put(&mut out, &path_of(index), &content(index, lines))?;
    }
    let mut random = Random(7);
    for session in 0..settings.sessions {
        write!(
            out,
            "\ncommit refs/heads/agents/s{session}\n{person}\ndata 4\nwork\nfrom :1\n"
        )?;
        for _ in 0..40 {
            let index = HOT + random.below(settings.files - HOT);
            put(
                &mut out,
                &path_of(index),
                &format!("{}changed\n", content(index, 3)),
            )?;
        }
        for number in 0..10 {
            let near = path_of(random.below(settings.files));
            let near = near.rsplit_once('/').map_or("", |(dir, _)| dir);
            put(
                &mut out,
                &format!("{near}/new{session}-{number}.txt"),
                &content(number, 9),
            )?;
        }
        for _ in 0..3 {
            writeln!(
                out,
                "D {}",
                path_of(HOT + random.below(settings.files - HOT))
            )?;
        }
        let hot = session % HOT;
        let mut lines: Vec<String> = content(hot, 200).lines().map(str::to_owned).collect();
        // Half of those who share a file change the same line of it.
        let at = if random.below(2) == 0 {
            100
        } else {
            5 + session * 9
        };
        lines[at.min(199)] = format!("session {session} was here");
        put(&mut out, &path_of(hot), &format!("{}\n", lines.join("\n")))?;
        if session % 7 == 3 {
            writeln!(out, "R src/m{session} src/moved{session}")?;
        }
    }
    write!(
        out,
        "\ncommit refs/heads/main\n{person}\ndata 6\nsecond\nfrom :1\n"
    )?;
    for _ in 0..100 {
        let index = HOT + random.below(settings.files - HOT);
        put(
            &mut out,
            &path_of(index),
            &format!("{}main\n", content(index, 3)),
        )?;
    }
    let mut lines: Vec<String> = content(0, 200).lines().map(str::to_owned).collect();
    lines[100] = "main was here".to_owned();
    put(&mut out, &path_of(0), &format!("{}\n", lines.join("\n")))?;
    writeln!(out)?;
    out.flush()?;
    drop(out);
    if !child.wait()?.success() {
        return Err("cannot import the repository".into());
    }
    text(git(dir).args(["repack", "-adq"]))?;
    Ok(())
}

fn put(out: &mut impl Write, path: &str, text: &str) -> std::io::Result<()> {
    write!(out, "M 100644 inline {path}\ndata {}\n{text}\n", text.len())
}

/// Makes the records of the sessions, and for some of them work that is not committed. Returns the commits that hold
/// all work of each.
fn make_sessions(dir: &Path, settings: &Settings) -> Result<Vec<String>, Failure> {
    let env = Env::from_process()?;
    let repo = Repo::open(&env, dir)?;
    let store = Store::new(&env, &repo);
    let base = text(git(dir).args(["rev-parse", "main~1"]))?;
    let mut commits = Vec::new();
    for number in 0..settings.sessions {
        let sid = SessionId::new(&env);
        let name = format!("s{number}");
        let mut session = Session::new(sid, store.require_writer()?, &name, Person::default());
        let branch = format!("agents/{name}");
        let tip = text(git(dir).args(["rev-parse", &branch]))?;
        session.branch = Some(branch);
        session.parent = Some("main".to_owned());
        session.base = Some(base.clone());
        session.status = State::Ready;
        session.turns = 1;
        SessionWriter::create(&store, session, Redactor::new(KnownSecrets::new()))?.close()?;
        if number % 4 != 1 {
            commits.push(tip);
            continue;
        }
        let tree = dirty_tree(dir, &tip, number)?;
        let message =
            format!("snapshot after turn 1\n\nSnapshot-Head: {tip}\nSnapshot-Index: {tree}\n");
        let commit = text(git(dir).args(["commit-tree", &tree, "-p", &tip, "-m", &message]))?;
        let name = format!("refs/agents-local/snapshots/{sid}");
        text(git(dir).args(["update-ref", &name, &commit]))?;
        commits.push(commit);
    }
    Ok(commits)
}

/// Returns a tree with one more change than a commit has.
fn dirty_tree(dir: &Path, tip: &str, number: usize) -> Result<String, Failure> {
    let index = dir.join("dirty-index");
    let with = |words: &[&str]| text(git(dir).env("GIT_INDEX_FILE", &index).args(words));
    with(&["read-tree", tip])?;
    let blob = text(git(dir).args(["rev-parse", &format!("{tip}:{}", path_of(0))]))?;
    let entry = format!("100644,{blob},uncommitted/{number}.txt");
    with(&["update-index", "--add", "--cacheinfo", &entry])?;
    let tree = with(&["write-tree"])?;
    std::fs::remove_file(&index)?;
    Ok(tree)
}

/// A small generator of numbers: every run measures the same.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % limit.max(1) as u64).unwrap_or(0)
    }
}
