//! The record of a session in git: its life is told once, step by step, and nothing of this machine is in it.

use std::fs;
use std::path::PathBuf;

use git_agent_tests::{Repo, Sandbox, wait_until};
use serde_json::Value;

/// Returns the states of a session in the order in which its log in git tells them, read with plain git.
fn life(repo: &Repo<'_>) -> Vec<String> {
    let refs = repo.refs("refs/agents/sessions");
    let tip = refs.keys().next().expect("a session").clone();
    let log = repo.git(["rev-list", "--first-parent", "--reverse", &tip]);
    let mut states = Vec::new();
    for commit in log.success().lines() {
        let events = repo.git(["cat-file", "blob", &format!("{commit}:events.jsonl")]);
        for line in events.success().lines() {
            let event: Value = serde_json::from_str(line).expect("an event");
            let state = match event["type"].as_str() {
                Some("created") => &event["session"]["status"],
                Some("status") => &event["to"],
                _ => continue,
            };
            states.push(state.as_str().expect("a state").to_owned());
        }
    }
    states
}

/// Waits until the log in git is as long as it must be, and compares.
#[track_caller]
fn assert_life(repo: &Repo<'_>, expected: &[&str]) {
    wait_until("the end of the turn is in git", || {
        life(repo).len() >= expected.len()
    });
    assert_eq!(life(repo), expected);
}

#[test]
fn each_step_of_a_life_is_recorded_once() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("work", &[], &["append f x"]);
    repo.agent(["wait", "work"]).success();
    let first = ["draft", "queued", "preparing", "running", "ready"];
    assert_life(&repo, &first);
    repo.agent(["send", "work", "more"]).success();
    repo.agent(["wait", "work"]).success();
    let second = ["queued", "running", "ready"];
    assert_life(&repo, &[&first[..], &second].concat());
}

#[test]
fn a_draft_that_is_started_later_has_the_same_life() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("work", &["--no-start"], &["write f x"]);
    assert_eq!(life(&repo), ["draft"]);
    repo.agent(["resume", "work"]).success();
    repo.agent(["wait", "work"]).success();
    let whole = ["draft", "queued", "preparing", "running", "ready"];
    assert_life(&repo, &whole);
}

/// Returns everything that a session's log holds in git, read with plain git: commits, trees and files.
fn all_of_it(repo: &Repo<'_>) -> String {
    let refs = repo.refs("refs/agents/sessions");
    let mut all = String::new();
    for name in refs.keys() {
        let log = repo.git(["rev-list", "--first-parent", name]).success();
        for commit in log.lines() {
            all += repo.git(["cat-file", "commit", commit]).success().stdout();
            let tree = repo.git(["ls-tree", "-r", commit]).success();
            for line in tree.lines() {
                let id = line.split_whitespace().nth(2).expect("an id").to_owned();
                let blob = repo.git(["cat-file", "blob", &id]).success();
                all += &String::from_utf8_lossy(blob.stdout_bytes());
            }
        }
    }
    all
}

fn local_file(repo: &Repo<'_>, name: &str) -> PathBuf {
    let sid = repo.session(name)["id"].as_str().expect("an id").to_owned();
    let dir = repo.common_dir().join("agents/local");
    dir.join(format!("{sid}.json"))
}

fn local(repo: &Repo<'_>, name: &str) -> Value {
    let bytes = fs::read(local_file(repo, name)).expect("the file of this clone");
    serde_json::from_slice(&bytes).expect("an object")
}

#[test]
fn nothing_of_this_machine_is_in_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "agent.setup", "echo ready"]).success();
    let steps = ["write f x", "until go", "print done"];
    repo.new_session("host", &[], &steps);
    repo.await_state("host", "running");
    let pid = repo.session("host")["pid"].as_u64().expect("a supervisor");
    fs::write(repo.worktree_of("host").path().join("go"), "").expect("a file");
    repo.agent(["wait", "host"]).success();
    repo.new_session("guest", &["--in", "host"], &["print there"]);
    repo.agent(["wait", "guest"]).success();
    repo.new_session("draft", &["--no-start"], &["print later"]);
    let old = repo.worktree_of("host").path().to_owned();
    let new = sandbox.work().join("elsewhere");
    repo.command("git")
        .args(["worktree", "move"])
        .args([&old, &new])
        .run()
        .success();
    repo.agent(["send", "host", "go on"]).success();
    repo.agent(["wait", "host"]).success();
    repo.agent(["snapshot", "host"]).success();

    // The facts are known in this clone.
    let shown = repo.agent(["show", "host", "--json"]).success().json();
    let port = shown["sessions"][0]["port"].as_u64().expect("a port");
    assert_eq!(local(&repo, "host")["port"], port);
    assert_eq!(repo.worktree_of("host").path(), new);
    // And nowhere else.
    wait_until("everything is in git", || {
        !repo
            .common_dir()
            .join("agents/run")
            .read_dir()
            .is_ok_and(|dir| {
                dir.flatten()
                    .any(|entry| entry.path().extension().is_some_and(|end| end == "json"))
            })
    });
    let all = all_of_it(&repo);
    assert!(all.contains("go on") && all.contains("\"seq\":"), "{all}");
    for place in [sandbox.work().as_path(), repo.path(), &new, &old] {
        let place = place.to_str().expect("a plain path");
        assert!(!all.contains(place), "{place} is in git:\n{all}");
    }
    for fact in [
        "\"port\"".to_owned(),
        "\"pid\"".to_owned(),
        "\"worktree\"".to_owned(),
        "\"spool\"".to_owned(),
        "\"set_up\"".to_owned(),
        "\"inbox_done\"".to_owned(),
        format!(":{port},"),
        format!(":{port}}}"),
        format!(":{pid},"),
        format!(":{pid}}}"),
    ] {
        assert!(!all.contains(&fact), "{fact} is in git:\n{all}");
    }
}

#[test]
fn a_session_whose_facts_were_lost_goes_on_in_its_worktree() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let note = sandbox.work().join("set-up");
    let setup = format!("echo once >>'{}'", note.display());
    repo.git(["config", "agent.setup", &setup]).success();
    repo.new_session("lost", &[], &["append f x"]);
    repo.agent(["wait", "lost"]).success();
    let before = repo.worktree_of("lost").path().to_owned();
    for damage in ["", "{\"worktree\":", "\u{0}"] {
        let file = local_file(&repo, "lost");
        if damage.is_empty() {
            fs::remove_file(&file).expect("removed");
        } else {
            fs::write(&file, damage).expect("spoiled");
        }
        assert_eq!(repo.worktree_of("lost").path(), before);
        repo.agent(["send", "lost", "go on"]).success();
        repo.agent(["wait", "lost"]).success();
        assert_eq!(repo.state("lost"), "ready");
        let facts = local(&repo, "lost");
        assert_eq!(facts["worktree"], before.to_str().expect("a plain path"));
        assert_eq!(facts["set_up"], true);
        assert!(facts["port"].is_u64(), "{facts}");
    }
    assert_eq!(repo.worktree_of("lost").read("f"), b"x\nx\nx\nx\n");
    assert_eq!(fs::read_to_string(&note).expect("set up"), "once\n");
    repo.assert_nothing_left_over();
}

#[test]
fn doctor_finds_lost_facts_and_facts_of_no_session() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("lost", &[], &["write f x"]);
    repo.agent(["wait", "lost"]).success();
    wait_until("nobody is at work", || {
        repo.session("lost")["pid"].is_null()
    });
    repo.agent(["doctor"]).success();
    let file = local_file(&repo, "lost");
    let before = local(&repo, "lost");
    fs::remove_file(&file).expect("removed");
    let stray = file.with_file_name("01m7p0bye1h05gam0bsb6dz6zj.json");
    fs::write(&stray, "{}").expect("written");
    let found = repo.agent(["doctor"]).success();
    for words in [
        "session 'lost' is missing or damaged",
        "no session has this file",
    ] {
        assert!(found.stdout().contains(words), "{found}");
    }
    assert!(stray.exists() && !file.exists());
    repo.agent(["doctor", "--fix"]).success();
    assert!(!stray.exists());
    assert_eq!(local(&repo, "lost")["worktree"], before["worktree"]);
    repo.agent(["doctor"]).success();
}

#[test]
fn a_cleaned_session_without_its_facts_comes_back_at_the_usual_place() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("lost", &[], &["write f x"]);
    repo.agent(["wait", "lost"]).success();
    let before = repo.worktree_of("lost").path().to_owned();
    wait_until("nobody is at work", || {
        repo.session("lost")["pid"].is_null()
    });
    repo.agent(["clean", "lost"]).success();
    assert!(!before.exists());
    fs::remove_file(local_file(&repo, "lost")).expect("removed");
    repo.agent(["restore", "lost"]).success();
    assert_eq!(repo.worktree_of("lost").path(), before);
    assert_eq!(repo.worktree_of("lost").read("f"), b"x\n");
}
