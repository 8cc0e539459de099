//! Thousands of sessions made the fast way, by one import into git: for measuring, not for trying what makes a session.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use git_agent::env::Millis;
use git_agent::model::event::{Body, Event, to_ascii_json};
use git_agent::model::event_words::{OutputStream, Sender};
use git_agent::model::session::{Person, Session, SessionId, State, Ulid};
use git_agent::store::refname::RefName;

type Failure = Box<dyn std::error::Error>;

/// Makes sessions in a repository, all in one state.
pub fn import_sessions(dir: &Path, count: usize, state: State) -> Result<(), Failure> {
    let mut import = Vec::new();
    for index in 0..count {
        let random = (index as u64).to_be_bytes();
        let mut ten = [7; 10];
        ten[..8].copy_from_slice(&random);
        let sid = SessionId::from_parts(Millis(1_794_000_000_000 + index as u64), ten);
        let author = Person {
            name: "Ada".into(),
            email: "ada@example.com".into(),
        };
        let mut session = Session::new(sid, "ada-1a2b".parse()?, format!("task-{index}"), author);
        session.task = format!("Do the {index}th thing that has to be done in this repository");
        session.status = state;
        session.branch = Some(format!("agent/task-{index}"));
        session.seq = 1;
        let record = to_ascii_json(&session.record) + "\n";
        let event = format!("{{\"n\":{index}}}\n");
        write!(
            import,
            "commit {}\ncommitter Ada <ada@example.com> 1794000000 +0000\ndata 12\nagent-log v1\n",
            RefName::Session(sid)
        )?;
        write!(
            import,
            "M 100644 inline v1\ndata 0\n\nM 100644 inline events.jsonl\ndata {}\n{event}\n",
            event.len()
        )?;
        write!(
            import,
            "M 100644 inline state.json\ndata {}\n{record}\n",
            record.len()
        )?;
    }
    let mut child = Command::new("git")
        .args(["fast-import", "--quiet"])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .spawn()?;
    child.stdin.take().ok_or("no input")?.write_all(&import)?;
    if !child.wait()?.success() {
        return Err("the import failed".into());
    }
    let packed = Command::new("git")
        .args(["pack-refs", "--all"])
        .current_dir(dir)
        .status()?;
    if !packed.success() {
        return Err("packing the refs failed".into());
    }
    Ok(())
}

/// Sessions to be made in which something was said.
#[derive(Debug, Clone, Copy)]
pub struct Conversations {
    /// How many sessions.
    pub count: usize,
    /// How many turns each has.
    pub turns: usize,
    /// What has become of them.
    pub state: State,
    /// When, in milliseconds since 1970.
    pub at: u64,
}

/// Of this autumn.
pub const NOW: u64 = 1_794_000_000_000;
/// Half a year before.
pub const LONG_AGO: u64 = 1_778_000_000_000;

impl Conversations {
    /// Returns sessions of this autumn that are ready.
    pub fn now(count: usize, turns: usize) -> Self {
        Conversations {
            count,
            turns,
            state: State::Ready,
            at: NOW,
        }
    }
}

/// Makes them, ten turns a commit, by one import.
pub fn import_conversations(dir: &Path, made: &Conversations) -> Result<(), Failure> {
    let turns = made.turns;
    let mut child = Command::new("git")
        .args(["fast-import", "--quiet"])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .spawn()?;
    let mut out = BufWriter::new(child.stdin.take().ok_or("no input")?);
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
            let state = to_ascii_json(&session.record) + "\n";
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
    if child.wait()?.success() {
        Ok(())
    } else {
        Err("the import failed".into())
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
            from: Sender::Unnamed,
        },
        Body::Assistant { text: words(5, 90) },
        Body::Output {
            stream: OutputStream::Stdout,
            text: words(7, 110),
        },
        Body::Assistant {
            text: words(11, 60),
        },
    ]
}
