//! Measures sharing against plain git moving the same objects, in one run: medians and their ratios.
//!
//!     bench-share [ROUNDS]
//!
//! Everything lies below a temporary directory; `git` and `git-agent` come from PATH.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use git_agent::env::Millis;
use git_agent::session::{Person, Session, SessionId, State, Ulid};
use git_agent::store::refname::RefName;
use git_agent::transcript::{Body, Event, to_ascii_json};

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok());
    match bench(rounds.unwrap_or(5)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "bench-share: {error}");
            ExitCode::FAILURE
        }
    }
}

fn git(dir: &Path, words: &[&str]) -> Result<Vec<u8>, Failure> {
    let output = Command::new("git").current_dir(dir).args(words).output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("git {}: {said}", words.join(" ")).into())
}

fn timed(dir: &Path, words: &[&str]) -> Result<Duration, Failure> {
    let started = Instant::now();
    git(dir, words)?;
    Ok(started.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn report(what: &str, ours: Vec<Duration>, plain: Vec<Duration>, limit: f64) {
    let (ours, plain) = (median(ours), median(plain));
    let ratio = ours.as_secs_f64() / plain.as_secs_f64().max(1e-9);
    let verdict = if ratio <= limit { "holds" } else { "FAILS" };
    let _ = writeln!(
        io::stdout(),
        "{what}: {:.1} ms, plain git {:.1} ms, ratio {ratio:.2} (at most {limit}): {verdict}",
        ours.as_secs_f64() * 1e3,
        plain.as_secs_f64() * 1e3,
    );
}

/// Makes a repository with an identity and one commit.
fn make(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path)?;
    git(path, &["init", "--quiet", "-b", "main"])?;
    for (key, value) in [
        ("user.name", "Ada"),
        ("user.email", "ada@example.com"),
        ("gc.auto", "0"),
        ("agent.writer", "ada-1a2b"),
    ] {
        git(path, &["config", key, value])?;
    }
    for at in 0..200 {
        fs::write(path.join(format!("file{at}")), format!("content {at}\n"))?;
    }
    git(path, &["add", "."])?;
    git(path, &["commit", "--quiet", "-m", "begin"])?;
    Ok(())
}

fn bare(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path)?;
    git(path, &["init", "--quiet", "--bare", "-b", "main"])?;
    Ok(())
}

/// Sessions to be made.
struct Made {
    count: usize,
    turns: usize,
    state: State,
    /// When, in milliseconds since 1970.
    at: u64,
}

/// Of this autumn.
const NOW: u64 = 1_794_000_000_000;
/// Half a year before.
const LONG_AGO: u64 = 1_778_000_000_000;

impl Made {
    fn now(count: usize, turns: usize) -> Self {
        Made {
            count,
            turns,
            state: State::Ready,
            at: NOW,
        }
    }
}

/// Makes sessions, ten turns a commit, by one import.
fn import(dir: &Path, made: &Made) -> Result<(), Failure> {
    let turns = made.turns;
    let mut child = Command::new("git")
        .args(["fast-import", "--quiet"])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .spawn()?;
    let mut out = io::BufWriter::new(child.stdin.take().ok_or("no input")?);
    for index in 0..made.count {
        let mut ten = [7; 10];
        ten[..8].copy_from_slice(&(index as u64).to_be_bytes());
        let sid = SessionId::from_parts(Millis(made.at + index as u64), ten);
        let author = Person {
            name: "Ada".into(),
            email: "ada@example.com".into(),
        };
        let mut session = Session::new(sid, "ada-1a2b".parse()?, format!("task-{index}"), author);
        session.status = made.state;
        session.created = Millis(made.at);
        session.updated = Millis(made.at);
        session.task = format!("Do the {index}th thing that has to be done in this repository");
        let mut turn = 0;
        while turn < turns {
            let mut lines = String::new();
            for _ in 0..10.min(turns - turn) {
                turn += 1;
                for body in bodies(index, turn) {
                    session.seq += 1;
                    session.lc += 1;
                    let mut random = [3; 10];
                    random[..8]
                        .copy_from_slice(&(index as u64 * 100_000 + session.seq).to_be_bytes());
                    let event = Event {
                        id: Ulid::from_parts(Millis(made.at + session.seq), random),
                        seq: session.seq,
                        lc: session.lc,
                        ts: Millis(made.at + session.seq * 1000),
                        turn: u32::try_from(turn)?,
                        body,
                    };
                    lines += &event.to_line();
                    lines.push('\n');
                }
            }
            session.turns = u32::try_from(turn)?;
            let state = to_ascii_json(&session) + "\n";
            let message = format!("agent-log v1\n\nAgent-Session: {sid}\n");
            write!(
                out,
                "commit {}\ncommitter Ada <ada@example.com> 1794000000 +0000\ndata {}\n{message}\n",
                RefName::Session(sid),
                message.len()
            )?;
            write!(out, "M 100644 inline v1\ndata 0\n\n")?;
            write!(
                out,
                "M 100644 inline events.jsonl\ndata {}\n{lines}\n",
                lines.len()
            )?;
            write!(
                out,
                "M 100644 inline state.json\ndata {}\n{state}\n",
                state.len()
            )?;
        }
    }
    out.flush()?;
    drop(out);
    match child.wait()?.success() {
        true => Ok(()),
        false => Err("the import failed".into()),
    }
}

/// What is said and done in one turn: about two and a half kilobytes.
fn bodies(index: usize, turn: usize) -> [Body; 4] {
    let words = |salt: usize, count: usize| -> String {
        (0..count)
            .map(|at| format!("word{} ", (index * 31 + turn * 17 + at * salt) % 9973))
            .collect()
    };
    [
        Body::Prompt {
            text: format!("please go on with step {turn}: {}", words(3, 20)),
            from: String::new(),
        },
        Body::Assistant { text: words(5, 90) },
        Body::Output {
            stream: "stdout".into(),
            text: words(7, 110),
        },
        Body::Assistant {
            text: words(11, 60),
        },
    ]
}

fn bench(rounds: usize) -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let root = dir.path();
    push_hundred(root, rounds)?;
    fetch_thousand(root, rounds)?;
    let writer = root.join("writer");
    let none = root.join("none.git");
    bare(&none)?;
    git(
        &writer,
        &["push", "--quiet", &none.display().to_string(), "main"],
    )?;
    let thousand = root.join("thousand.git");
    own_git(root, rounds, (&thousand, &none), "1,000 open sessions")?;
    let folded = root.join("folded.git");
    housekeeping(root, &folded)?;
    own_git(
        root,
        rounds,
        (&folded, &none),
        "40 open sessions and 960 closed long ago",
    )
}

fn push_hundred(root: &Path, rounds: usize) -> Result<(), Failure> {
    let from = root.join("pusher");
    make(&from)?;
    import(&from, &Made::now(100, 50))?;
    let listed = git(
        &from,
        &["for-each-ref", "--format=%(refname)", "refs/agents"],
    )?;
    let names: Vec<String> = String::from_utf8(listed)?
        .lines()
        .map(str::to_owned)
        .collect();
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        for side in 0..2 {
            let hub = root.join(format!("hub-{round}-{side}"));
            bare(&hub)?;
            let address = hub.display().to_string();
            git(&from, &["push", "--quiet", &address, "main"])?;
            if (side + round) % 2 == 0 {
                let mut words = vec!["push", "--quiet", &address];
                words.extend(names.iter().map(String::as_str));
                plain.push(timed(&from, &words)?);
            } else {
                let name = format!("r{round}");
                git(&from, &["remote", "add", &name, &address])?;
                git(&from, &["config", "--add", "agent.share", &address])?;
                ours.push(timed(&from, &["agent", "push", &name])?);
            }
        }
    }
    report("push of 100 new sessions of 50 turns", ours, plain, 1.3);
    Ok(())
}

fn fetch_thousand(root: &Path, rounds: usize) -> Result<(), Failure> {
    let from = root.join("writer");
    make(&from)?;
    import(&from, &Made::now(1_000, 20))?;
    git(&from, &["repack", "-adq"])?;
    let hub = root.join("thousand.git");
    bare(&hub)?;
    let address = hub.display().to_string();
    git(
        &from,
        &[
            "push",
            "--quiet",
            &address,
            "main",
            "refs/agents/sessions/*:refs/agents/sessions/*",
        ],
    )?;
    git(&hub, &["pack-refs", "--all"])?;
    let (mut ours, mut plain, mut again, mut listed) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        for side in 0..2 {
            let to: PathBuf = root.join(format!("reader-{round}-{side}"));
            // By path git would take all objects of the other repository, and nothing would be left to fetch.
            let target = to.display().to_string();
            git(root, &["clone", "--quiet", "--no-local", &address, &target])?;
            if (side + round) % 2 == 0 {
                let spec = "refs/agents/sessions/*:refs/copied/*";
                plain.push(timed(
                    &to,
                    &["fetch", "--quiet", "--no-tags", "origin", spec],
                )?);
            } else {
                ours.push(timed(&to, &["agent", "fetch"])?);
                for _ in 0..3 {
                    again.push(timed(&to, &["agent", "fetch"])?);
                    listed.push(timed(&to, &["ls-remote", "origin"])?);
                }
            }
        }
    }
    report("fetch of 1,000 sessions", ours, plain, 1.5);
    report("a fetch with nothing new", again, listed, 1.2);
    Ok(())
}

/// Shares what a year leaves behind, as it is by itself after a push: 40 sessions at work, and 960 closed long ago.
fn housekeeping(root: &Path, hub: &Path) -> Result<(), Failure> {
    let from = root.join("keeper");
    let writer = root.join("writer").display().to_string();
    let address = hub.display().to_string();
    bare(hub)?;
    git(
        root,
        &["clone", "--quiet", &writer, &from.display().to_string()],
    )?;
    for (key, value) in [
        ("user.name", "Ada"),
        ("user.email", "ada@example.com"),
        ("gc.auto", "0"),
        ("agent.writer", "ada-1a2b"),
        ("remote.origin.url", &address),
    ] {
        git(&from, &["config", key, value])?;
    }
    git(&from, &["push", "--quiet", "origin", "main"])?;
    import(&from, &Made::now(40, 20))?;
    let closed = Made {
        count: 960,
        turns: 2,
        state: State::Merged,
        at: LONG_AGO,
    };
    import(&from, &closed)?;
    git(&from, &["agent", "push", "--yes"])?;
    let refs = git(hub, &["for-each-ref", "--format=%(refname)", "refs/agents"])?;
    let refs = String::from_utf8(refs)?.lines().count();
    let _ = writeln!(
        io::stdout(),
        "1,000 sessions, 960 of them folded: {refs} refs"
    );
    git(hub, &["pack-refs", "--all"])?;
    Ok(())
}

/// What the user's own git takes with shared sessions around, beside the same without.
fn own_git(
    root: &Path,
    rounds: usize,
    (with, without): (&Path, &Path),
    shape: &str,
) -> Result<(), Failure> {
    let name = |hub: &Path| hub.file_stem().unwrap_or_default().to_os_string();
    let place = root.join(name(with)).join("own");
    fs::create_dir_all(&place)?;
    let mut clones = Vec::new();
    for hub in [with, without] {
        let to = place.join(name(hub));
        let address = hub.display().to_string();
        git(
            root,
            &["clone", "--quiet", &address, &to.display().to_string()],
        )?;
        for (key, value) in [
            ("user.name", "Bob"),
            ("user.email", "b@example.com"),
            ("gc.auto", "0"),
        ] {
            git(&to, &["config", key, value])?;
        }
        if hub == with {
            git(&to, &["agent", "fetch"])?;
        }
        clones.push((to, address));
    }
    let rounds = rounds * 4;
    for what in ["status", "fetch", "push", "clone"] {
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for (side, (clone, address)) in clones.iter().enumerate() {
                let target = place.join(format!("clone-{round}-{side}"));
                let target = target.display().to_string();
                let time = match what {
                    "status" => timed(clone, &["status", "--porcelain"])?,
                    "fetch" => timed(clone, &["fetch", "--quiet"])?,
                    "push" => {
                        git(clone, &["commit", "--quiet", "--allow-empty", "-m", "more"])?;
                        timed(clone, &["push", "--quiet"])?
                    }
                    _ => timed(root, &["clone", "--quiet", address, &target])?,
                };
                times[side].push(time);
            }
        }
        let [ours, plain] = times;
        report(&format!("git {what} with {shape}"), ours, plain, 1.1);
    }
    Ok(())
}
