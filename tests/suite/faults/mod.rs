//! Every step of a write can fail or be the last: nothing that was durable is lost or doubled, the user's own git goes
//! on at once, and so does ours, without being asked.

mod merge;
mod session;
mod store;
mod update;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use git_agent_tests::faults::{self, Action, Fault, Report};
use git_agent_tests::repo::{Hash, RefFormat, Repo};
use git_agent_tests::sandbox::Sandbox;

/// What the user does all day. The fetch brings something new, so git looks at what all refs reach.
const DAY: &str = "set -e
    git status --porcelain
    git commit --quiet --allow-empty --message 'the user goes on'
    git fetch --quiet origin
    git fsck --strict --no-dangling --no-progress";
/// What happens now and then.
const NIGHT: &str = "set -e
    git gc --quiet --prune=now
    git fsck --strict --no-dangling --no-progress";

/// A place where the same repository is made again and again.
struct Place {
    sandbox: Sandbox,
    hash: Hash,
    refs: RefFormat,
}

impl Place {
    /// Makes the repository that every attempt begins with, at `r` beside its remote.
    fn new(hash: Hash, refs: RefFormat, furnish: impl Fn(&Repo<'_>)) -> Self {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").hash(hash).refs(refs).create();
        repo.write("src/code.rs", "fn main() {}\n");
        repo.commit("write code");
        let remote = repo.clone_to("remote.git", &["--bare"]);
        repo.command("git")
            .args(["remote", "add", "origin"])
            .arg(remote.path())
            .run()
            .success();
        remote
            .git(["update-ref", "refs/heads/news", &repo.id("HEAD~1")])
            .success();
        furnish(&repo);
        fs::rename(sandbox.work(), sandbox.root().join("pattern")).expect("one file system");
        Place {
            sandbox,
            hash,
            refs,
        }
    }

    /// Returns the repository as it was in the beginning, always at the same path.
    fn fresh(&self) -> Repo<'_> {
        let work = self.sandbox.work();
        if work.exists() {
            fs::remove_dir_all(&work).expect("nobody is left to hold it");
        }
        let script = r#"cp -a "$0" "$1""#;
        self.sandbox
            .sh(script)
            .arg(self.sandbox.root().join("pattern"))
            .arg(&work)
            .cwd(self.sandbox.root())
            .run()
            .success();
        Repo::open(&self.sandbox, work.join("r"))
    }

    /// Returns what to try here: death everywhere, errors where most repositories live, and in a long run everything.
    fn actions(&self) -> &'static [Action] {
        let common = (self.hash, self.refs) == (Hash::Sha1, RefFormat::Files);
        if common || faults::rounds() > 1 {
            &[Action::Kill, Action::Eio, Action::Enospc]
        } else {
            &[Action::Kill]
        }
    }

    fn name(&self) -> String {
        format!("{}, {}", self.hash.name(), self.refs.name())
    }
}

/// Every format that refs are kept in, and the long hash once.
fn formats() -> Vec<(Hash, RefFormat)> {
    let mut formats: Vec<(Hash, RefFormat)> = RefFormat::available()
        .iter()
        .map(|refs| (Hash::Sha1, *refs))
        .collect();
    formats.push((Hash::Sha256, RefFormat::Files));
    formats
}

/// Tells what was tried past the capture of a test's output: the number is part of the result.
fn tell(what: &str, place: &Place, report: &Report) {
    let _ = writeln!(std::io::stderr(), "{what} ({}): {report}", place.name());
}

/// Asserts that the user can go on at once. A process that only failed has cleaned up behind itself: there a collection
/// of garbage is tried in long runs only.
#[track_caller]
fn user_goes_on(repo: &Repo<'_>, fault: Option<&Fault>) {
    repo.sandbox().tick();
    repo.sandbox().sh(DAY).cwd(repo.path()).run().success();
    if fault.is_none_or(|fault| fault.action == Action::Kill) || faults::rounds() > 1 {
        repo.sandbox().sh(NIGHT).cwd(repo.path()).run().success();
    }
}

/// Asserts that no lock of git's is left anywhere.
fn no_lock_is_left(repo: &Repo<'_>) {
    let mut left = Vec::new();
    let mut dirs = vec![repo.path().join(".git")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("readable").flatten() {
            let path = entry.path();
            // Those of ours are held by the kernel, and mean nothing when nobody lives.
            if path.is_dir() && path != repo.path().join(".git/agents") {
                dirs.push(path);
            } else if path.extension().is_some_and(|end| end == "lock") {
                left.push(path);
            }
        }
    }
    assert_eq!(left, Vec::<PathBuf>::new(), "locks are left");
}

/// Returns the number and the text of every event in the order of the records.
fn events(lines: &str) -> Vec<(u64, String)> {
    let mut events = Vec::new();
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let event: serde_json::Value = serde_json::from_str(line).expect("an event is JSON");
        let seq = event["seq"].as_u64().expect("an event has a number");
        let kind = event["type"].as_str().expect("an event has a type");
        let text = event["text"].as_str().unwrap_or(kind);
        events.push((seq, text.to_owned()));
    }
    events
}

/// Asserts that events are in order, none twice, and that all of `promised` are among them.
#[track_caller]
fn hold(events: &[(u64, String)], promised: &[(u64, String)], where_: &str) {
    for pair in events.windows(2) {
        assert!(
            pair[0].0 < pair[1].0,
            "out of order in {where_}: {events:?}"
        );
    }
    let mut texts = BTreeMap::new();
    for (_, text) in events.iter().filter(|(_, text)| text.contains('-')) {
        *texts.entry(text).or_insert(0) += 1;
    }
    assert!(
        texts.values().all(|count| *count == 1),
        "doubled in {where_}: {events:?}"
    );
    for event in promised {
        assert!(
            events.contains(event),
            "{event:?} is lost from {where_}: {events:?}"
        );
    }
}
