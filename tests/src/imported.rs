//! Thousands of sessions made the fast way, by one import into git: for measuring, not for trying what makes a session.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use git_agent::env::Millis;
use git_agent::session::{Person, Session, SessionId, State};
use git_agent::store::refname::RefName;
use git_agent::transcript::to_ascii_json;

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
        session.worktree = Some(format!("/home/ada/app-worktrees/task-{index}"));
        session.seq = 1;
        let record = to_ascii_json(&session) + "\n";
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
