//! `git agent wait`: exit codes for scripts, and no waiting for what will not come.

use git_agent_tests::{Repo, Sandbox};

fn start(repo: &Repo<'_>, name: &str, steps: &[&str]) {
    let mut words = vec!["new", name, "--", "fake-agent"];
    words.extend(steps);
    repo.agent(words).success();
}

#[test]
fn it_ends_as_the_session_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "good", &["sleep 300", "write f x"]);
    start(&repo, "bad", &["sleep 100", "exit 4"]);
    repo.agent(["wait", "good"])
        .success()
        .assert_stdout("")
        .assert_quiet();
    repo.agent(["wait", "bad"])
        .code(1)
        .assert_stdout("")
        .assert_says("error: 'bad' is failed");
    repo.agent(["wait", "bad", "--state", "ready,failed"])
        .success();
    repo.agent(["wait", "good", "bad"]).code(1);
    repo.agent(["wait", "bad", "good", "--any"]).success();
    let told = repo.agent(["wait", "bad", "--json"]).code(1).json();
    assert_eq!(told["sessions"][0]["state"], "failed");
}

#[test]
fn it_gives_up_in_time() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "slow", &["print begun", "until go"]);
    repo.agent(["wait", "slow", "--state", "running"]).success();
    repo.agent(["wait", "--timeout", "200ms", "slow"])
        .code(124)
        .assert_says("'slow' is still running");
    repo.write("../r-worktrees/slow/go", "");
    repo.agent(["wait"]).success();
    repo.agent(["wait", "slow", "--timeout", "soon"]).code(129);
    repo.agent(["wait", "slow", "--state", "well"]).code(129);
}

#[test]
fn a_state_that_passed_quickly_counts() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "quick", &["print begun", "until go"]);
    let waiting = repo
        .agent_cmd(["wait", "quick", "--state", "preparing,running"])
        .spawn();
    waiting.wait().success();
    repo.write("../r-worktrees/quick/go", "");
    repo.agent(["wait", "quick"]).success();
}

#[test]
fn a_prompt_that_was_sent_is_waited_for() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent(["new", "talk", "--", "fake-agent"]).success();
    repo.agent(["wait", "talk"]).success();
    for turn in 2..5 {
        repo.agent(["send", "talk", &format!("sleep 50\nprint turn {turn}")])
            .success();
        repo.agent(["wait", "talk"]).success();
        let log = repo.agent(["log", "talk"]).success();
        assert!(log.stdout().contains(&format!(" turn {turn}\n")), "{log}");
    }
}
