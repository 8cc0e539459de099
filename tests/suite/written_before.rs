//! A repository of an earlier version: sessions in many states, reviews, an archive and a merge that was interrupted. All of
//! it is read, finished, shared and cleaned without a loss.
//!
//! `tests/corpus/before` holds all its refs as a bundle, and its private files. It was made by the last version that kept
//! all code of sessions in one folder, in `/srv/shop/app`, with shell commands as agents. The merge of 'approved-work' was
//! killed between the move of the branch and the records of it.

use std::fs;
use std::path::Path;

use git_agent_tests::binaries::workspace;
use git_agent_tests::{Repo, Sandbox};

const STATES: [(&str, &str); 6] = [
    ("done-work", "merged"),
    ("open-work", "ready"),
    ("approved-work", "merged"),
    ("failing", "rejected"),
    ("looker", "ready"),
    ("forked", "ready"),
];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("the corpus").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// Makes the repository anew from the corpus.
fn earlier<'a>(sandbox: &'a Sandbox) -> Repo<'a> {
    let corpus = workspace().join("tests/corpus/before");
    let repo = sandbox.repo("app").create();
    let bundle = corpus.join("repo.bundle");
    let bundle = bundle.to_str().expect("a plain path");
    repo.git(["fetch", "-q", "--update-head-ok", bundle, "+refs/*:refs/*"])
        .success();
    repo.git(["reset", "-q", "--hard", "main"]).success();
    copy(&corpus.join("agents"), &repo.path().join(".git/agents"));
    repo.git(["config", "agent.test", "true"]).success();
    repo
}

/// Runs a command and checks that its answer has these words.
#[track_caller]
fn shows(repo: &Repo<'_>, command: &[&str], words: &[&str]) {
    let run = repo.agent(command).success();
    for word in words {
        assert!(run.stdout().contains(word), "'{word}' is missing: {run}");
    }
}

fn states(repo: &Repo<'_>) -> Vec<(String, String)> {
    let listed = repo.agent(["list", "--all", "--json"]).success().json();
    let sessions = listed["sessions"].as_array().expect("sessions").clone();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    sessions
        .iter()
        .map(|session| (word(&session["name"]), word(&session["state"])))
        .collect()
}

#[test]
fn a_repository_of_an_earlier_version_is_read_finished_shared_and_cleaned() {
    let sandbox = Sandbox::new();
    let repo = earlier(&sandbox);
    let known: Vec<String> = states(&repo).into_iter().map(|(name, _)| name).collect();
    assert_eq!(known, STATES.map(|(name, _)| name));
    for (name, _) in STATES {
        shows(&repo, &["show", name], &[name]);
    }
    shows(&repo, &["log", "done-work"], &["Add c"]);
    shows(
        &repo,
        &["review", "list", "open-work"],
        &["Say why.", "A comment on the whole."],
    );
    // Work that was never committed is in the snapshot.
    shows(
        &repo,
        &["review", "diff", "open-work"],
        &["+more", "loose.txt"],
    );

    // The interrupted merge.
    let main = repo
        .git(["rev-parse", "main"])
        .success()
        .stdout()
        .to_owned();
    repo.agent(["merge", "--continue"]).success();
    assert_eq!(repo.git(["rev-parse", "main"]).success().stdout(), main);
    assert!(!repo.path().join(".git/agents/merge/now.json").exists());
    let expected = STATES.map(|(name, state)| (name.to_owned(), state.to_owned()));
    assert_eq!(states(&repo), expected);

    // Work of that version lands, uncommitted files included.
    repo.agent(["review", "approve", "open-work"]).success();
    repo.agent(["merge", "--into", "main", "--yes", "open-work"])
        .success();
    assert_eq!(
        repo.git(["show", "main:a.txt"]).success().stdout(),
        "one\nmore\n"
    );
    assert_eq!(
        repo.git(["show", "main:loose.txt"]).success().stdout(),
        "loose\n"
    );

    // A teammate gets all of it.
    let bare = repo.path().with_file_name("shared.git");
    let bare = bare.to_str().expect("a plain path");
    repo.git(["init", "-q", "--bare", "-b", "main", bare])
        .success();
    repo.git(["remote", "add", "origin", bare]).success();
    repo.git(["push", "-q", "origin", "main"]).success();
    repo.agent(["push", "--yes", "origin"]).success();
    let other = repo.path().with_file_name("other");
    let place = other.to_str().expect("a plain path");
    repo.git(["clone", "-q", bare, place]).success();
    let other = Repo::open(&sandbox, &other);
    other.agent(["fetch"]).success();
    let mut there: Vec<String> = states(&other).into_iter().map(|(name, _)| name).collect();
    there.sort();
    let mut all = STATES.map(|(name, _)| name.to_owned());
    all.sort();
    assert_eq!(there, all);
    shows(&other, &["review", "list", "open-work"], &["Say why."]);

    repo.agent(["clean"]).success();
    repo.agent(["doctor", "--fix"]).success();
    repo.git(["fsck", "--strict"]).success();
    repo.git(["gc", "-q", "--prune=now"]).success();
    let known: Vec<String> = states(&repo).into_iter().map(|(name, _)| name).collect();
    assert_eq!(known, STATES.map(|(name, _)| name));
}
