//! Measures the store beside plain git doing the same work, in one run: `bench-store [--sessions N] [--runs R]`.
//!
//! Prints one table: medians in milliseconds and their ratio to git's. Everything happens in a directory of its own,
//! which is removed at the end. Nothing is asserted: the numbers are for people.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use git_agent::env::{Env, Terminals};
use git_agent::git::Repo;
use git_agent::model::event::Body;
use git_agent::model::event_words::ToolKind;
use git_agent::model::session::{Person, Session, SessionId, State};
use git_agent::redact::{KnownSecrets, Redactor};
use git_agent::store::Store;
use git_agent::store::list::Scope;
use git_agent::store::log::writer::SessionWriter;
use git_agent::store::notes::Kind;
use git_agent::store::refname::RefName;
use git_agent_tests::bench::{self, Failure, Options, median};
use git_agent_tests::imported::import_sessions;

fn main() -> ExitCode {
    bench::main("bench-store", |words| {
        let text = |at: usize| words.get(at).and_then(|word| word.to_str());
        match (text(0), text(1), text(2)) {
            (Some("list"), Some(dir), _) => list(Path::new(dir)),
            (Some("read"), Some(dir), Some(sid)) => read(Path::new(dir), sid),
            _ => measure(words),
        }
    })
}

fn open(dir: &Path) -> Result<(Env, Repo), Failure> {
    let env = Env::new(dir.to_owned(), std::env::vars_os(), Terminals::default());
    let repo = Repo::discover(&env)?;
    Ok((env, repo))
}

/// What `bench-store list DIR` does: the state of every session, as a process of its own.
fn list(dir: &Path) -> Result<(), Failure> {
    let (env, repo) = open(dir)?;
    let listing = Store::new(&env, &repo).list(Scope::Mine)?;
    writeln!(std::io::stdout(), "{}", listing.sessions.len())?;
    Ok(())
}

/// What `bench-store read DIR SID` does: every event of one session.
fn read(dir: &Path, sid: &str) -> Result<(), Failure> {
    let (env, repo) = open(dir)?;
    let store = Store::new(&env, &repo);
    let tip = store.log_tip(sid.parse()?)?.ok_or("no such session")?;
    let mut count = 0;
    for event in store.transcript(tip.id)? {
        event?;
        count += 1;
    }
    writeln!(std::io::stdout(), "{count}")?;
    Ok(())
}

fn redactor() -> Redactor {
    Redactor::new(KnownSecrets::new())
}

fn measure(words: &[OsString]) -> Result<(), Failure> {
    let options = Options::parse(words, &["--sessions", "--runs"])?;
    let (sessions, runs) = (options.number("--sessions", 10_000)?, options.runs(9)?);
    let dir = tempfile::tempdir()?;
    let mut table = Table::default();
    bench_version(&mut table, runs)?;
    bench_list(&mut table, dir.path(), sessions, runs)?;
    bench_append(&mut table, dir.path(), runs)?;
    bench_objects(&mut table, dir.path())?;
    bench_notes(&mut table, dir.path(), runs)?;
    bench_redaction(&mut table)?;
    table.print()
}

#[derive(Default)]
struct Table {
    rows: Vec<[String; 4]>,
}

impl Table {
    fn compare(&mut self, what: &str, ours: Duration, git: Duration) {
        let millis = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
        let ratio = format!("{:.2}", ours.as_secs_f64() / git.as_secs_f64());
        self.rows
            .push([what.to_owned(), millis(ours), millis(git), ratio]);
    }

    fn note(&mut self, what: &str, value: String) {
        self.rows
            .push([what.to_owned(), value, String::new(), String::new()]);
    }

    fn print(&self) -> Result<(), Failure> {
        let mut out = std::io::stdout();
        writeln!(
            out,
            "{:<58} {:>12} {:>12} {:>6}",
            "", "ours", "git", "ratio"
        )?;
        for [what, ours, git, ratio] in &self.rows {
            writeln!(out, "{what:<58} {ours:>12} {git:>12} {ratio:>6}")?;
        }
        Ok(())
    }
}

/// Runs two ways in turns, so that a change in the machine's load meets both, and returns their medians.
fn in_turns(
    runs: usize,
    mut ours: impl FnMut() -> Result<(), Failure>,
    mut theirs: impl FnMut() -> Result<(), Failure>,
) -> Result<(Duration, Duration), Failure> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let start = Instant::now();
        ours()?;
        first.push(start.elapsed());
        let start = Instant::now();
        theirs()?;
        second.push(start.elapsed());
    }
    Ok((median(first), median(second)))
}

fn quiet(command: &mut Command) -> Result<(), Failure> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
}

fn shell(dir: &Path, script: &str) -> Result<(), Failure> {
    quiet(
        Command::new("/bin/sh")
            .arg("-c")
            .arg(script)
            .current_dir(dir),
    )
}

fn init(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)?;
    shell(
        dir,
        "git init -q -b main . && git config user.name Bench && git config user.email bench@example.com",
    )
}

/// Returns a program beside this one.
fn sibling(name: &str) -> Result<PathBuf, Failure> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

fn bench_version(table: &mut Table, runs: usize) -> Result<(), Failure> {
    let dir = sibling("git-agent")?;
    let dir = dir.parent().ok_or("no directory")?;
    let path = format!("{}:{}", dir.display(), std::env::var("PATH")?);
    let (ours, git) = in_turns(
        runs * 10,
        || {
            quiet(
                Command::new("git")
                    .args(["agent", "--version"])
                    .env("PATH", &path),
            )
        },
        || quiet(Command::new("git").arg("--version")),
    )?;
    table.compare("git agent --version / git --version", ours, git);
    Ok(())
}

fn bench_list(table: &mut Table, base: &Path, count: usize, runs: usize) -> Result<(), Failure> {
    let dir = base.join("list");
    init(&dir)?;
    import_sessions(&dir, count, State::Ready)?;
    let own = std::env::current_exe()?;
    let script = "git for-each-ref --format='%(objectname):state.json' refs/agents/sessions | git cat-file --batch";
    let (ours, git) = in_turns(
        runs,
        || quiet(Command::new(&own).arg("list").arg(&dir)),
        || shell(&dir, script),
    )?;
    table.compare(
        &format!("list {count} sessions / for-each-ref + cat-file --batch"),
        ours,
        git,
    );
    Ok(())
}

fn session(store: &Store<'_>, name: &str) -> Result<Session, Failure> {
    let author = Person {
        name: "Ada".into(),
        email: "ada@example.com".into(),
    };
    Ok(Session::new(
        SessionId::new(store.env),
        store.require_writer()?,
        name,
        author,
    ))
}

fn say(writer: &mut SessionWriter<'_>, text: &str) -> Result<(), Failure> {
    writer.append(Body::Assistant {
        text: text.to_owned(),
    })?;
    Ok(())
}

fn bench_append(table: &mut Table, base: &Path, runs: usize) -> Result<(), Failure> {
    let dir = base.join("append");
    init(&dir)?;
    let (env, repo) = open(&dir)?;
    let store = Store::new(&env, &repo);
    let text = "A sentence of an agent that explains what it is about to do next. ".repeat(20);
    let mut long = SessionWriter::create(&store, session(&store, "long")?, redactor())?;
    let start = Instant::now();
    for _ in 0..10_000 {
        say(&mut long, &text)?;
        long.flush_if_due()?;
    }
    long.flush()?;
    table.note(
        "write 10,000 events of 1.3 KB, flushed as designed",
        format!("{:.1} ms", start.elapsed().as_secs_f64() * 1000.0),
    );
    let mut empty = SessionWriter::create(&store, session(&store, "empty")?, redactor())?;
    let (to_long, to_empty) = in_turns(
        runs * 5,
        || {
            say(&mut long, &text)?;
            Ok(long.flush()?)
        },
        || {
            say(&mut empty, &text)?;
            Ok(empty.flush()?)
        },
    )?;
    table.compare(
        "append + flush to 10,000 events / to an empty session",
        to_long,
        to_empty,
    );
    let blob = dir.join("chunk");
    std::fs::write(&blob, &text)?;
    let script = "b=$(git hash-object -w chunk) && t=$(printf '100644 blob %s\\tevents.jsonl\\n' $b | git mktree) && \
                  c=$(git commit-tree -m x $t) && git update-ref refs/heads/x $c";
    let (ours, git) = in_turns(
        runs * 5,
        || {
            say(&mut long, &text)?;
            Ok(long.flush()?)
        },
        || shell(&dir, script),
    )?;
    table.compare(
        "append + flush / hash-object, mktree, commit-tree, update-ref",
        ours,
        git,
    );
    let sid = long.session().sid;
    let own = std::env::current_exe()?;
    let name = RefName::Session(sid).to_string();
    let script = format!("git log --format='%H:events.jsonl' {name} | git cat-file --batch");
    let (ours, git) = in_turns(
        runs,
        || quiet(Command::new(&own).arg("read").arg(&dir).arg(sid.as_str())),
        || shell(&dir, &script),
    )?;
    table.compare("read 10,000 events / git log + cat-file --batch", ours, git);
    Ok(())
}

/// Counts the objects of a session that talks at length: 400 turns in the sense of a transcript, three events each.
fn bench_objects(table: &mut Table, base: &Path) -> Result<(), Failure> {
    let dir = base.join("objects");
    init(&dir)?;
    let (env, repo) = open(&dir)?;
    let store = Store::new(&env, &repo);
    let mut writer = SessionWriter::create(&store, session(&store, "talks")?, redactor())?;
    let turns = 400;
    let text = "What was read, what follows from it, and what to do about it. ".repeat(14);
    for turn in 0..turns {
        say(&mut writer, &text)?;
        let call = format!("call-{turn}");
        writer.append(Body::ToolCall {
            call: call.clone(),
            name: "read".into(),
            kind: ToolKind::Read,
            input: serde_json::Value::Null,
        })?;
        writer.append(Body::ToolResult {
            call,
            ok: true,
            output: text.clone(),
            attachment: None,
        })?;
        writer.flush_if_due()?;
    }
    writer.close()?;
    let output = Command::new("git")
        .args(["count-objects"])
        .current_dir(&dir)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let objects: f64 = text.split(' ').next().unwrap_or("0").parse()?;
    table.note(
        "objects a turn (message, tool call, result)",
        format!("{:.2}", objects / f64::from(turns)),
    );
    Ok(())
}

fn bench_notes(table: &mut Table, base: &Path, runs: usize) -> Result<(), Failure> {
    let dir = base.join("notes");
    init(&dir)?;
    let (env, repo) = open(&dir)?;
    let store = Store::new(&env, &repo);
    shell(&dir, "git commit -q --allow-empty -m x")?;
    let on = repo.resolve_commit("HEAD")?;
    let redactor = redactor();
    let mut number = 0;
    let (ours, git) = in_turns(
        runs * 5,
        || {
            number += 1;
            let record = redactor.json(serde_json::json!({"v": 1, "n": number}));
            store.append_notes(Kind::Review, &[(on, record)])?;
            Ok(())
        },
        || shell(&dir, "git notes append -m '{\"v\":1}'"),
    )?;
    table.compare("append a note record / git notes append", ours, git);
    Ok(())
}

fn bench_redaction(table: &mut Table) -> Result<(), Failure> {
    let line = "error[E0277]: the trait bound `Foo: Bar` is not satisfied in src/lib.rs:42, see commit 1f3870be274f6c49b3e31a0c6728957f\n";
    let record = line.repeat(40);
    let redactor = redactor();
    let start = Instant::now();
    let mut bytes = 0;
    while start.elapsed() < Duration::from_secs(2) {
        bytes += redactor.text(&record).as_bytes().len();
    }
    let rate = bytes as f64 / 1e6 / start.elapsed().as_secs_f64();
    table.note("redaction", format!("{rate:.0} MB/s"));
    Ok(())
}
