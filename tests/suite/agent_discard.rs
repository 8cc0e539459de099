//! `git agent discard`: one step to be rid of a session, and one to have it back.

use git_agent_tests::{Sandbox, wait_until};

use crate::merge_land::{lab, session};

#[test]
fn a_discarded_session_is_gone_and_comes_back_whole() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(
        &repo,
        "fix",
        &["write app changed", "commit x", "write draft uncommitted"],
    );
    let tip = repo.id("agent/fix");
    let place = repo.worktree_of("fix").path().to_owned();
    repo.agent(["discard", "fix"])
        .success()
        .assert_stdout("discarded: fix\n")
        .assert_says("git agent restore fix");
    assert_eq!(repo.state("fix"), "discarded");
    assert!(!place.exists());
    assert!(repo.refs("refs/heads/agent").is_empty());

    repo.agent(["restore", "fix"]).success();
    assert_eq!(repo.id("agent/fix"), tip);
    let worktree = repo.worktree_of("fix");
    assert_eq!(worktree.read("draft"), b"uncommitted\n");
    assert_eq!(worktree.read("app"), b"changed\n");
}

#[test]
fn a_running_session_is_ended_first() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.new_session("busy", &[], &["write half done", "until never"]);
    repo.await_state("busy", "running");
    let half = repo.worktree_of("busy").path().join("half");
    wait_until("it has begun", || half.exists());
    let told = repo.agent(["discard", "busy", "--json"]).success().json();
    assert_eq!(told["discarded"][0]["name"], "busy");
    assert_eq!(repo.state("busy"), "discarded");
    repo.agent(["restore", "busy"]).success();
    assert!(half.exists());
}

#[test]
fn forget_leaves_nothing_of_it_in_our_directory() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    let sid = repo.session("fix")["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    repo.agent(["discard", "--forget", "fix"])
        .success()
        .assert_stdout("discarded and forgotten: fix\n");
    let mut places = vec![repo.common_dir().join("agents")];
    let mut left = Vec::new();
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(&place).expect("readable").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.contains(&sid) {
                left.push(entry.path());
            } else if entry.path().is_dir() {
                places.push(entry.path());
            }
        }
    }
    assert!(left.is_empty(), "{left:?}");
    session(&repo, "fix", &["write app again"]);
}

#[test]
fn an_agent_cannot_discard() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    repo.new_session("rogue", &[], &["try git agent discard fix"]);
    repo.await_state("rogue", "ready");
    assert_eq!(repo.state("fix"), "ready");
}

#[test]
fn a_branch_without_commits_counts_as_merged() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "look", &["print it is fine"]);
    session(&repo, "busy", &["write app changed"]);
    // The one that changed nothing goes, the one with uncommitted work stays.
    let told = repo.agent(["clean"]).success();
    assert!(
        told.stdout()
            .contains("look: removed worktree and branch agent/look"),
        "{told}"
    );
    assert!(!told.stdout().contains("busy"), "{told}");
    let told = repo.agent(["clean", "busy"]).success();
    assert!(
        told.stdout()
            .contains("busy: removed worktree and branch agent/busy"),
        "{told}"
    );
    repo.agent(["restore", "busy"]).success();
    assert_eq!(repo.worktree_of("busy").read("app"), b"changed\n");
    repo.agent(["discard", "--forget", "look"]).success();
    repo.new_session("look", &[], &["print again"]);
    repo.await_state("look", "ready");
}
