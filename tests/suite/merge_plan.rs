//! The plan that is shown, the plan that is asked about and the plan that is carried out are one.

use git_agent_tests::{Repo, Sandbox};

use crate::merge_land::{lab, session};

/// Two sessions that change the same line.
fn rivals(sandbox: &Sandbox) -> Repo<'_> {
    let repo = lab(sandbox);
    session(&repo, "first", &["write app first"]);
    session(&repo, "second", &["write app second"]);
    repo
}

#[test]
fn a_session_that_conflicts_with_another_is_not_asked_about() {
    let sandbox = Sandbox::new();
    let repo = rivals(&sandbox);
    let asked = repo
        .agent_cmd(["merge"])
        .env("GIT_TERMINAL_PROMPT", "1")
        .on_terminal()
        .stdin("y\n")
        .run()
        .whatever();
    let text = asked.stdout();
    let question = text.find("Merge 1 session into 'main'?");
    let left = text.find("left out");
    assert!(left < question && question.is_some(), "{asked}");
    assert_eq!(repo.state("first"), "merged");
    assert_eq!(repo.state("second"), "ready");
}

#[test]
fn what_builds_on_a_session_that_is_left_out_is_left_out_of_the_plan() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "first", &["write app first"]);
    session(&repo, "zero", &["write other zero"]);
    session(&repo, "second", &["write app second", "write other second"]);
    repo.new_session("third", &["--after", "second"], &["write more file"]);
    repo.await_state("third", "ready");
    let shown = repo.agent(["merge", "-n", "--porcelain"]).success();
    assert!(shown.stdout().contains("\tneeds\t"), "{shown}");
    let done = repo.agent(["merge", "--porcelain"]).whatever();
    let words = |text: &str| -> Vec<String> {
        let word = |line: &str| line.split('\t').nth(2).unwrap_or_default().to_owned();
        text.lines().map(word).collect()
    };
    assert_eq!(
        words(shown.stdout()),
        ["merges", "merges", "conflict", "needs"]
    );
    assert_eq!(
        words(done.stdout()),
        ["merged", "merged", "conflict", "needs"]
    );
}

#[test]
fn who_is_asked_while_something_changes_is_asked_again() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write new file"]);
    session(&repo, "rest", &["write rest file"]);
    let mut asked = repo
        .agent_cmd(["merge"])
        .env("GIT_TERMINAL_PROMPT", "1")
        .on_terminal()
        .stdin_open()
        .spawn();
    asked.wait_for("Merge 2 sessions into 'main'?");
    // The target goes on, and the work of a session is not what was shown.
    repo.write("mine", "of the user\n");
    repo.commit("the user goes on");
    repo.worktree_of("rest").write("rest", "more\n");
    let before = repo.id("main");
    asked.write("y\n");
    asked.wait_for("the plan is out of date");
    assert_eq!(repo.id("main"), before);
    asked.write("y\n");
    let done = asked.wait().success();
    let times = done.stdout().matches("Merge 2 sessions into").count();
    assert_eq!(times, 2, "{done}");
    assert_eq!(repo.read("rest"), b"more\n");
    assert_eq!(repo.read("mine"), b"of the user\n");
}

#[test]
fn commits_tell_the_first_line_of_a_task_unless_all_or_nothing_is_wanted() {
    for (setting, first, rest) in [
        (None, true, false),
        (Some("first-line"), true, false),
        (Some("full"), true, true),
        (Some("none"), false, false),
    ] {
        for style in ["--no-ff", "--squash", "--rebase"] {
            let sandbox = Sandbox::new();
            let repo = lab(&sandbox);
            if let Some(setting) = setting {
                repo.git(["config", "agent.mergeMessage", setting])
                    .success();
            }
            repo.git(["config", "agent.plain.command", "fake-agent"])
                .success();
            let begin = |name: &str, task: &str| {
                repo.agent(["new", "--name", name, "--agent", "plain", task])
                    .success();
                repo.await_state(name, "ready");
            };
            begin("fix", "write title file\nwrite secret plan");
            begin("own", "write own-title file\nwrite own-secret plan");
            repo.agent(["commit", "own"]).success();
            repo.agent(["merge", style]).success();
            let log = repo.git(["log", "--format=%B", "main"]).success();
            let text = log.stdout();
            assert_eq!(text.contains("write title"), first, "{setting:?} {log}");
            assert_eq!(text.contains("write own-title"), first, "{setting:?} {log}");
            assert_eq!(text.contains("secret"), rest, "{setting:?} {log}");
            assert!(text.contains("Agent-Session: "), "{log}");
        }
    }
}
