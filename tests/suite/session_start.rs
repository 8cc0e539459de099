//! A session whose supervisor cannot be launched is undone: nothing that it took or made stays.

use git_agent_tests::{Repo, Sandbox};

/// Tries to start a session with a command that a supervisor refuses.
fn refused(repo: &Repo<'_>, options: &[&str]) {
    let command = ["--", "echo", "[REDACTED:token]"];
    let words = [&["new", "probe"], options, &command].concat();
    repo.agent(words)
        .code(128)
        .assert_says("contained a secret");
}

#[track_caller]
fn assert_undone(repo: &Repo<'_>) {
    let listed = repo.agent(["list", "--all", "--porcelain"]).success();
    assert!(!listed.stdout().contains("probe"), "{}", listed.stdout());
    assert!(repo.refs("refs/heads/agent/probe").is_empty());
    let worktrees = repo.git(["worktree", "list"]).success();
    assert!(!worktrees.stdout().contains("probe"), "a worktree is left");
    repo.assert_whole();
}

#[test]
fn a_session_that_cannot_be_launched_is_undone() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    refused(&repo, &[]);
    assert_undone(&repo);
    assert!(repo.refs("refs/agents").is_empty(), "a record is left");
}

#[test]
fn changes_that_were_carried_over_go_back() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("kept", "one\n");
    repo.commit("add a file");
    repo.write("kept", "two\n");
    repo.write("new", "three\n");
    let before = repo.git(["status", "--porcelain"]).success();
    refused(&repo, &["--carry"]);
    assert_undone(&repo);
    let after = repo.git(["status", "--porcelain"]).success();
    assert_eq!(after.stdout(), before.stdout());
    assert_eq!(repo.read("kept"), b"two\n");
    assert_eq!(repo.read("new"), b"three\n");
}

#[test]
fn the_host_of_a_guest_keeps_its_worktree() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("host", &[], &["write f x"]);
    repo.await_state("host", "ready");
    refused(&repo, &["--in", "host"]);
    assert_undone(&repo);
    assert_eq!(repo.worktree_of("host").read("f"), b"x\n");
    assert!(!repo.refs("refs/heads/agent/host").is_empty());
}
