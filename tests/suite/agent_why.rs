//! `git agent why`: line → commit → session → prompt, also after a squash and a rebase.

use std::time::Duration;

use git_agent_tests::{Repo, Sandbox};
use serde_json::Value;

fn lab(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("r").create();
    repo.write("f", "first line\n");
    repo.commit("first");
    let script = "case $(wc -l < f) in 1) echo second line >> f; git commit -qam second;; \
                  *) echo third line >> f; git commit -qam third; echo fresh > fresh;; esac";
    repo.agent([
        "new",
        "--name",
        "work",
        "add a second line",
        "--",
        "sh",
        "-c",
        script,
    ])
    .success();
    wait(&repo);
    repo.agent(["send", "work", "and a third one"]).success();
    wait(&repo);
    repo
}

fn wait(repo: &Repo<'_>) {
    repo.agent_cmd(["wait", "--timeout", "100s", "work"])
        .time_limit(Duration::from_secs(130))
        .run()
        .success();
}

/// Returns the session and the prompt that something comes from.
#[track_caller]
fn why(repo: &Repo<'_>, what: &str) -> (String, String) {
    let run = repo.agent(["why", "--json", what]).success();
    let answer: Value = serde_json::from_slice(run.stdout_bytes()).expect("an envelope");
    let session = &answer["why"][0]["sessions"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&session["name"]), text(&session["prompt"]["text"]))
}

fn of(prompt: &str) -> (String, String) {
    ("work".to_owned(), prompt.to_owned())
}

#[test]
fn a_line_leads_to_its_prompt_before_and_after_it_lands() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let worktree = repo.worktree_of("work");
    let (second, third) = (of("add a second line"), of("and a third one"));
    assert_eq!(why(&worktree, "f:2"), second);
    assert_eq!(why(&worktree, "f:3"), third);
    assert_eq!(why(&worktree, "fresh:1"), third, "not committed yet");
    assert_eq!(why(&repo, "agent/work"), third);
    assert_eq!(why(&repo, "agent/work~1"), second);
    // As plain git squashes it: no trailer and no note.
    repo.git(["merge", "--squash", "-q", "agent/work"])
        .success();
    repo.git(["commit", "-qm", "both in one"]).success();
    assert_eq!(why(&repo, "f:2"), second);
    assert_eq!(why(&repo, "f:3"), third);
    let human = repo.agent(["why", "f:2"]).success();
    assert!(human.stdout().contains("add a second line"), "{human}");
    // Somebody's own line comes from nobody's session.
    repo.agent(["why", "f:1"]).code(1);
    repo.agent(["why", "f:9"]).code(128).assert_says("f");
    repo.agent(["why", "nothing"])
        .code(128)
        .assert_says("nothing");
}

#[test]
fn a_rebased_commit_is_recognised_by_its_change() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.write("g", "g\n");
    repo.commit("main goes on");
    repo.git(["cherry-pick", "agent/work~1", "agent/work"])
        .success();
    repo.git(["commit", "--amend", "-qm", "other words"])
        .success();
    assert_eq!(why(&repo, "f:2"), of("add a second line"));
    assert_eq!(why(&repo, "f:3"), of("and a third one"));
    assert_eq!(why(&repo, "HEAD").0, "work");
    repo.agent(["why", "HEAD~2"]).code(1);
}
