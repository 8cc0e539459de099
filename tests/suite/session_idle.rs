//! Sessions that do nothing: what rests goes on resting whatever else is done to it, and what was done is told.

use std::fs;

use git_agent_tests::sessions::files_below;
use git_agent_tests::{Repo, Sandbox, wait_until};

#[test]
fn what_rests_with_a_prompt_is_not_started_by_something_else() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let script = "echo \"$GIT_AGENT_PROMPT\" >>begun; sleep 60";
    repo.agent(["new", "--name", "s", "first", "--", script])
        .success();
    let tree = repo.worktree_of("s");
    wait_until("the turn has begun", || tree.path().join("begun").exists());
    repo.agent(["send", "s", "second"]).success();
    repo.agent(["stop", "s"]).success();
    repo.write("elsewhere", "new\n");
    repo.commit("elsewhere");
    repo.agent(["update", "s"]).success();
    assert_eq!(tree.read("elsewhere"), b"new\n");
    repo.agent(["recreate", "s"]).success();
    assert_eq!(repo.state("s"), "stopped");
    repo.agent([
        "new",
        "--name",
        "d",
        "--no-start",
        "words",
        "--",
        "echo done",
    ])
    .success();
    for words in [
        &["recreate", "d"][..],
        &["restore", "d"],
        &["rewind", "d", "--turn", "0"],
        &["path", "d"],
        &["exec", "d", "--", "true"],
        &["run", "d"],
        &["commit", "d"],
        &["snapshot", "d"],
        &["attach", "d"],
    ] {
        repo.agent(words)
            .failure()
            .assert_says("session 'd' has not started")
            .assert_says("git agent resume d");
        assert_eq!(repo.state("d"), "draft", "{words:?}");
    }
    repo.assert_nothing_left_over();
    let prompts = repo.events("s");
    let prompts = prompts.iter().filter(|event| event["type"] == "prompt");
    assert_eq!(prompts.count(), 1);
    // What waited is begun when somebody wants that.
    repo.agent(["resume", "d"]).success();
    repo.await_state("d", "ready");
}

#[test]
fn what_acts_on_sessions_tells_them_as_json() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write made x"]);
    repo.agent(["wait", "s"]).success();
    let tell = |words: &[&str]| {
        let told = repo.agent_cmd(words).arg("--json").run().success().json();
        assert_eq!(told["version"], 1, "{words:?}");
        assert_eq!(told["sessions"][0]["name"], "s", "{words:?}");
        told
    };
    let taken = tell(&["snapshot", "s"]);
    assert_eq!(taken["snapshots"].as_array().map(Vec::len), Some(1));
    let made = tell(&["commit", "s"]);
    assert_eq!(made["commits"][0], repo.id("agent/s").as_str());
    let none = tell(&["commit", "s"]);
    assert_eq!(none["commits"].as_array().map(Vec::len), Some(0));
    tell(&["rewind", "s", "--turn", "0"]);
    let path = repo.session("s")["worktree"].clone();
    assert_eq!(tell(&["recreate", "s"])["sessions"][0]["worktree"], path);
    repo.agent(["clean", "s"]).success();
    assert_eq!(tell(&["restore", "s"])["sessions"][0]["worktree"], path);
    for words in [
        &["send", "s", "more"][..],
        &["restart", "s"],
        &["resume", "s"],
    ] {
        tell(words);
        repo.agent(["wait", "s"]).whatever();
    }
    let stopped = tell(&["stop", "s"]);
    assert_eq!(stopped["sessions"][0]["state"], repo.state("s").as_str());
}

#[test]
fn a_prompt_that_is_left_just_before_somebody_else_takes_hold_of_the_session_is_run() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent(["new", "s", "--", "sh", "-c", "echo turn >> turns"])
        .success();
    repo.await_state("s", "ready");
    let sid = repo.session("s")["id"].as_str().expect("an id").to_owned();
    let inbox = repo.common_dir().join("agents/inbox").join(sid);
    let waits = || {
        let mut files = files_below(&inbox).into_iter();
        files.any(|file| file.extension().is_some_and(|end| end == "json"))
    };
    let with = |words: &[&str], fault: &str| {
        let command = repo.command("git").arg("agent").args(words);
        command.env("GIT_AGENT_TEST_FAULT", fault).spawn()
    };
    let send = with(&["send", "s", "again"], "prompt.left:sleep:1500");
    wait_until("the prompt is left", waits);
    // It holds the session when the sender looks who does.
    let commit = with(&["commit", "s", "-m", "work"], "session.held:sleep:3000");
    send.wait().success();
    commit.wait().whatever();
    wait_until("the prompt is taken", || !waits());
    repo.await_state("s", "ready");
    assert_eq!(repo.worktree_of("s").read("turns"), b"turn\nturn\n");
}

/// Leaves a prompt in a session that is ready, as a sender does that is killed before it has started a supervisor.
fn leave_a_prompt<'r>(repo: &Repo<'r>, words: &[&str]) {
    let command = repo.command("git").arg("agent").args(words);
    let fault = command.env("GIT_AGENT_TEST_FAULT", "prompt.left:kill");
    fault.run().failure();
}

#[test]
fn a_prompt_that_rests_is_begun_although_another_command_holds_the_session() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent(["new", "s", "--", "sh", "-c", "echo turn >> turns"])
        .success();
    repo.await_state("s", "ready");
    repo.agent(["review", "comment", "s", "turns:1", "-m", "say more"])
        .success();
    let ways = [
        (&["send", "s", "again"][..], &["restart", "s"][..]),
        (&["review", "send", "s"], &["review", "send", "s"]),
    ];
    for (at, (leave, begin)) in ways.into_iter().enumerate() {
        leave_a_prompt(&repo, leave);
        let held = sandbox.root().join(format!("held-{at}"));
        let hold = repo.command("git").args(["agent", "commit", "s"]);
        let hold = hold
            .env("GIT_AGENT_TEST_FAULT", "session.held:sleep:3000")
            .env("GIT_AGENT_TEST_FAULT_LOG", &held)
            .spawn();
        wait_until("the session is held", || {
            fs::read_to_string(&held).is_ok_and(|log| log.contains("session.held"))
        });
        repo.agent(begin).whatever();
        hold.wait().whatever();
        let turns = "turn\n".repeat(at + 2);
        wait_until("the prompt was begun", || {
            repo.worktree_of("s").read("turns") == turns.as_bytes()
        });
        repo.await_state("s", "ready");
    }
}

#[test]
fn a_prompt_that_comes_while_the_session_stops_is_run_after_those_that_waited() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let script = "echo \"$GIT_AGENT_PROMPT\" >>begun; \
                  if test \"$GIT_AGENT_PROMPT\" = first; then \
                  trap 'echo asked >>asked' TERM INT; while :; do sleep 0.2; done; fi";
    repo.agent(["new", "--name", "s", "first", "--", script])
        .success();
    let tree = repo.worktree_of("s");
    wait_until("the turn has begun", || tree.path().join("begun").exists());
    repo.agent(["send", "s", "second"]).success();
    // This agent does not end when it is asked to, so there is time for another prompt.
    let stop = repo.command("git").args(["agent", "stop", "s"]).spawn();
    wait_until("the agent is asked to end", || {
        tree.path().join("asked").exists()
    });
    repo.agent(["send", "s", "third"]).success();
    repo.agent(["wait", "s"]).success();
    stop.wait().success();
    assert_eq!(repo.state("s"), "ready");
    assert_eq!(tree.read("begun"), b"first\nsecond\nthird\n");
    let events = repo.events("s");
    let states = events.iter().filter(|event| event["type"] == "status");
    let stops = states.filter(|event| event["to"] == "stopped");
    assert_eq!(stops.count(), 1, "the stop is recorded, and once");
}
