//! The gate: what is tested lands, what makes the tests fail goes back, and the queue does it by itself.

use std::path::{Path, PathBuf};

use git_agent_tests::{Repo, Sandbox, wait_until};
use rustix::process::Signal;

use crate::merge_land::{lab, session, state, word};

/// Six sessions of which the second and the fifth break the tests only together.
fn six(repo: &Repo<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for number in 1..=6 {
        let name = format!("s{number}");
        session(
            repo,
            &name,
            &[&format!("write part{number} {number}"), "commit x"],
        );
        names.push(name);
    }
    names
}

const TOGETHER: &str = "echo ran >>\"$HOME/runs\"; ls; ! { test -e part2 && test -e part5; }";

/// Asserts that the branch never was at a commit with which the tests fail.
fn never_red(repo: &Repo<'_>) {
    let reflog = repo.git(["reflog", "--format=%H", "main"]).success();
    for commit in reflog.lines() {
        let files = repo.git(["ls-tree", "--name-only", commit]).success();
        let has = |name: &str| files.lines().contains(&name);
        assert!(!(has("part2") && has("part5")), "{commit} was red");
    }
}

#[test]
fn two_that_break_together_cost_only_the_later_one() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let names = six(&repo);
    repo.agent(
        ["merge", "queue", "add"]
            .into_iter()
            .chain(names.iter().map(String::as_str)),
    )
    .success();
    repo.git(["config", "agent.test", TOGETHER]).success();
    let shown = repo.agent(["merge", "queue", "run", "--return"]).success();
    assert!(shown.stdout().contains("the tests fail with it"), "{shown}");
    for name in ["s1", "s2", "s3", "s4", "s6"] {
        assert_eq!(repo.state(name), "merged", "{name}");
    }
    never_red(&repo);
    let prompts = repo.texts("s5", "prompt");
    let last = prompts.last().expect("a prompt");
    assert!(
        last.contains("part2") && last.contains("The end of its log"),
        "{last}"
    );
    repo.agent(["merge", "queue", "list", "--porcelain"])
        .success()
        .assert_stdout("");
    // Its agent does the same again, whatever it is asked.
    repo.agent(["wait", "s5", "--state=ready,failed", "--timeout=60s"])
        .success();
    repo.assert_nothing_left_over();
}

#[test]
fn results_are_remembered_by_what_was_tested() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed", "commit x"]);
    let runs = || std::fs::read_to_string(sandbox.home().join("runs")).unwrap_or_default();
    let test = "echo ran >>\"$HOME/runs\"";
    repo.agent(["merge", "--test", test, "fix"]).success();
    repo.agent(["merge", "--undo"]).success();
    repo.agent(["merge", "--test", test, "fix"])
        .success()
        .assert_says("remembered");
    assert_eq!(runs(), "ran\n");
    repo.agent(["merge", "--undo"]).success();
    repo.agent(["merge", "--test", test, "--retest", "fix"])
        .success();
    assert_eq!(runs(), "ran\nran\n");
}

#[test]
fn a_failing_test_keeps_everything_as_it_was() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed", "commit x"]);
    let before = state(&repo);
    let refused = repo
        .agent(["merge", "--test", "echo noise; ! grep changed app", "fix"])
        .code(1);
    assert!(
        refused.stdout().contains("the tests fail with it"),
        "{refused}"
    );
    assert_eq!(state(&repo), before);
    repo.agent(["merge", "--test", "echo noise; ! grep changed app", "fix"])
        .code(1)
        .assert_says("(remembered; '--retest' runs them again)");
    let red = repo.agent(["merge", "--test", "false", "fix"]).code(128);
    red.assert_says("tests of the target fail without any session");
    assert_eq!(state(&repo), before);
    repo.assert_nothing_left_over();
    repo.git(["config", "agent.mergeStrategy", "manual"])
        .success();
    repo.git(["config", "agent.mergeStrategy", "auto"])
        .success();
    repo.agent(["merge", "--no-test", "fix"])
        .code(128)
        .assert_says("which needs tests");
}

#[test]
fn tests_see_a_world_of_their_own_and_leave_nothing_running() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed", "commit x"]);
    let out = sandbox.root().join("home/world");
    let test = format!(
        "{{ pwd; echo \"$WORKTREE_PATH\"; echo \"$REPO_PATH\"; echo \"${{PORT:+port}}\"; echo \"${{GIT_DIR-unset}}\"; \
         echo \"${{GIT_AGENT_SESSION-unset}}\"; git rev-parse --show-toplevel; }} >'{}'; sleep 1000 & true",
        out.display()
    );
    repo.agent(["merge", "--test", &test, "fix"]).success();
    let seen = std::fs::read_to_string(&out).expect("it ran");
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[0], lines[1], "{seen}");
    assert_eq!(lines[2], repo.path().to_str().expect("plain"));
    let mark = format!(
        "{}/test",
        repo.session("fix")["id"].as_str().expect("an id")
    );
    assert_eq!(lines[3..6], ["port", "unset", &mark]);
    assert_eq!(lines[6], lines[0]);
    assert!(!std::path::Path::new(lines[0]).exists(), "it is gone");
    repo.assert_nothing_left_over();
}

#[test]
fn a_queue_in_the_background_waits_and_can_be_paused() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let go = sandbox.root().join("home/go");
    repo.new_session(
        "slow",
        &[],
        &[&format!("until {}", word(&go)), "write slow 1", "commit x"],
    );
    session(&repo, "fast", &["write fast 1", "commit x"]);
    repo.agent(["merge", "queue", "add", "slow", "fast"])
        .success();
    repo.agent(["merge", "queue", "run", "--background"])
        .success();
    wait_until("the fast one has landed", || repo.state("fast") == "merged");
    let listed = repo.agent(["merge", "queue", "--json"]).success().json();
    assert_eq!(listed["queue"][0]["name"], "slow");
    std::fs::write(&go, "").expect("writable");
    wait_until("the slow one has landed", || repo.state("slow") == "merged");
    wait_until("the queue has ended", || {
        let shown = repo.agent(["merge", "queue", "list"]).success();
        !shown.stderr().contains("the queue is running")
    });
    session(&repo, "third", &["write third 1", "commit x"]);
    repo.agent(["merge", "queue", "add", "third"]).success();
    repo.agent(["merge", "queue", "pause"]).success();
    repo.agent(["merge", "queue", "list"])
        .success()
        .assert_says("paused");
    repo.agent(["merge", "queue", "remove", "third"]).success();
    repo.agent(["merge", "queue", "list"])
        .success()
        .assert_says("empty");
    assert_eq!(repo.state("third"), "ready");
    repo.assert_nothing_left_over();
}

/// A test that stays, with a process in the background and one that left its session; it says which they are.
const STAYS: &str = "sleep 1400 & one=$!; setsid sleep 1400 & \
    echo $$ $one $! >\"$HOME/staying.new\"; mv \"$HOME/staying.new\" \"$HOME/staying\"; sleep 1400; true";

/// Waits for that test to run and returns its processes.
fn staying(sandbox: &Sandbox) -> Vec<PathBuf> {
    let file = sandbox.home().join("staying");
    wait_until("the test runs", || file.exists());
    let pids = std::fs::read_to_string(&file).expect("it was written");
    std::fs::remove_file(&file).expect("it is ours");
    let pids = pids.split_whitespace();
    pids.map(|pid| Path::new("/proc").join(pid)).collect()
}

#[test]
fn an_interrupted_merge_ends_its_test_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed", "commit x"]);
    let before = state(&repo);
    let now = repo.common_dir().join("agents/merge/now.json");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let merge = repo.agent_cmd(["merge", "--test", STAYS, "fix"]).spawn();
        let processes = staying(&sandbox);
        // As a terminal does: git is told, too, and passes it on once more.
        merge.signal_group(signal);
        merge.wait().signal(signal.as_raw());
        for process in processes {
            assert!(!process.exists(), "{} goes on", process.display());
        }
        assert!(!now.exists(), "the journal is left");
        assert_eq!(state(&repo), before);
        repo.assert_nothing_left_over();
    }
}

#[test]
fn the_test_of_a_killed_merge_ends_with_it() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed", "commit x"]);
    let merge = repo
        .command("git-agent-merge")
        .args(["--test", STAYS, "fix"])
        .spawn();
    let processes = staying(&sandbox);
    merge.signal(Signal::KILL);
    merge.wait().signal(Signal::KILL.as_raw());
    wait_until("nothing of the test is left", || {
        !processes.iter().any(|process| process.exists())
    });
    repo.agent(["merge", "--test", "true", "fix"])
        .success()
        .assert_says("an interrupted merge had changed nothing");
    repo.assert_nothing_left_over();
}

#[test]
fn tests_that_take_too_long_are_told_and_not_remembered() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed", "commit x"]);
    let test = "test -e \"$HOME/fast\" || sleep 1400";
    repo.git(["config", "agent.testTimeout", "1s"]).success();
    repo.agent(["merge", "--test", test, "fix"])
        .code(128)
        .assert_says("the tests did not end in time ('agent.testTimeout')");
    let logs = std::fs::read_dir(repo.common_dir().join("agents/merge/tests")).expect("logs");
    for log in logs {
        let path = log.expect("readable").path();
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(text.contains("stopped after 1s"), "{}", path.display());
    }
    std::fs::write(sandbox.home().join("fast"), "").expect("writes");
    repo.git(["config", "--unset", "agent.testTimeout"])
        .success();
    let merged = repo.agent(["merge", "--test", test, "fix"]).success();
    assert!(!merged.stderr().contains("remembered"), "{merged}");
}

#[test]
fn a_lock_that_cannot_be_taken_is_no_other_merge() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed", "commit x"]);
    let lock = repo.common_dir().join("agents/locks/merge");
    std::fs::create_dir_all(&lock).expect("a directory in its place");
    let refused = repo.agent(["merge", "fix"]).code(128);
    refused.assert_says("Is a directory");
    assert!(!refused.stderr().contains("another merge"), "{refused}");
    std::fs::remove_dir(&lock).expect("it is ours");
    repo.agent(["merge", "fix"]).success();
}
