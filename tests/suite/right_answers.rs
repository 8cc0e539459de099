//! Small answers that are right: one sentence where there is nothing to do, and hints that name what exists.

use git_agent_tests::{Sandbox, wait_until};

use crate::merge_land::{lab, session};

#[test]
fn nothing_to_do_is_said_in_one_sentence() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.agent(["wait"])
        .success()
        .assert_stdout("")
        .assert_says("nothing is running");
    session(&repo, "look", &["print it is fine"]);
    repo.agent(["review", "diff", "look"])
        .success()
        .assert_stdout("")
        .assert_says("no changes");
    repo.agent(["doctor"])
        .success()
        .assert_says("no problems found");
    repo.agent(["merge", "queue", "run"])
        .success()
        .assert_says("the queue is empty");
}

#[test]
fn a_wait_is_for_all_unless_the_first_failure_is_enough() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.new_session("bad", &[], &["exit 4"]);
    repo.new_session("slow", &[], &["until go", "write app x"]);
    repo.await_state("bad", "failed");
    repo.await_state("slow", "running");
    repo.agent(["wait", "--fail-fast", "bad", "slow"])
        .code(1)
        .assert_says("'bad' is failed: exit code 4");
    repo.agent(["wait", "bad", "slow", "--timeout", "300ms"])
        .code(124)
        .assert_says("'slow' is still running");
    let waiting = repo.agent_cmd(["wait", "bad", "slow"]).spawn();
    repo.write("../lab-worktrees/slow/go", "");
    waiting.wait().code(1).assert_says("'bad' is failed");
    assert_eq!(repo.state("slow"), "ready");
}

#[test]
fn why_names_what_it_needs() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.agent(["why", "app"])
        .code(128)
        .assert_says("hint: name a line: git agent why app:1");
    repo.agent(["why", "nope.txt:1"])
        .code(128)
        .assert_says("fatal: no file 'nope.txt' here");
    repo.agent(["why", "nope"])
        .code(128)
        .assert_says("'nope' is not a commit");
}

#[test]
fn places_without_a_session_are_explained() {
    let sandbox = Sandbox::new();
    let outside = sandbox.root().join("outside");
    std::fs::create_dir_all(&outside).expect("the sandbox is writable");
    sandbox
        .command("git")
        .args(["agent", "list"])
        .cwd(&outside)
        .run()
        .code(128)
        .assert_says("hint: cd into a repository first");
    let bare = sandbox.repo("bare").bare().unborn().create();
    bare.agent(["new", "x", "--", "true"])
        .code(128)
        .assert_says("hint: push a first commit to it");
}

#[test]
fn a_change_since_the_last_look_is_named_without_ids() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    repo.agent(["review", "diff", "fix"]).success();
    repo.worktree_of("fix").write("other", "more\n");
    repo.agent(["review", "approve", "fix"])
        .success()
        .assert_says("hint: git agent review diff fix\n");
}

#[test]
fn only_what_is_gone_is_named_after_a_recreate() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.write(".worktreeinclude", "*.ignored\n");
    repo.commit("include");
    repo.write("set.ignored", "a setting\n");
    session(
        &repo,
        "fix",
        &["write app changed", "write built.ignored x"],
    );
    let told = repo.agent(["recreate", "--yes", "fix"]).success();
    told.assert_says("deleted ignored files: built.ignored");
    assert!(!told.stderr().contains("set.ignored"), "{told}");
}

#[test]
fn time_does_not_run_backwards_when_a_supervisor_dies() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.new_session("fix", &[], &["print begun", "sleep 60000"]);
    let seconds = || repo.session("fix")["elapsed_seconds"].as_u64().unwrap_or(0);
    wait_until("it worked for some seconds", || seconds() >= 3);
    let before = seconds();
    let pid = repo.session("fix")["pid"].as_u64().expect("a pid");
    sandbox.sh(format!("kill -9 {pid}")).run().success();
    repo.await_state("fix", "interrupted");
    assert!(seconds() >= before, "{} after {before}", seconds());
}

#[test]
fn a_fetched_clone_and_a_forgotten_session_are_told_as_they_are() {
    let sandbox = Sandbox::new();
    let hub = sandbox.repo("hub").bare().create();
    let repo = lab(&sandbox);
    let address = hub.path().to_str().expect("a plain path");
    repo.git(["remote", "add", "origin", address]).success();
    repo.git(["push", "--quiet", "origin", "main"]).success();
    session(&repo, "one", &["write app changed"]);
    session(&repo, "two", &["write other changed"]);
    repo.agent(["push", "--yes"]).success();

    let other = repo.clone_to("other", &[]);
    other
        .git(["remote", "set-url", "origin", address])
        .success();
    other.agent(["fetch"]).success();
    let told = other.agent(["list"]).success();
    told.assert_stdout("");
    told.assert_says("no sessions of your own; 2 sessions of teammates");
    told.assert_says("hint: git agent list --all");
    let json = other.agent(["list", "--json"]).success().json();
    assert_eq!(json["sessions"].as_array().map(Vec::len), Some(0));

    repo.agent(["discard", "--forget", "one"]).success();
    repo.agent(["fetch"]).success();
    for words in [
        &["list", "--all", "--porcelain"][..],
        &["review", "--porcelain"],
    ] {
        let listed = repo.agent(words).success();
        assert!(!listed.stdout().contains("\tone\t"), "{listed}");
        assert!(listed.stdout().contains("two"), "{listed}");
    }
    // It can still be deleted for everyone.
    repo.agent(["forget", "--remote", "one"]).success();
    other.agent(["fetch"]).success();
    let left = other.agent(["list", "--all", "--porcelain"]).success();
    assert!(!left.stdout().contains("\tone\t"), "{left}");
}
