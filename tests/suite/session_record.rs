//! The record of a session in git: its life is told once, step by step.

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
