//! Landing in one step: the plan and the work are shown, and one question approves exactly that and merges it.

use git_agent_tests::{Output, Repo, Sandbox};

use crate::merge_land::{lab, session, state};

fn strict(sandbox: &Sandbox) -> Repo<'_> {
    let repo = lab(sandbox);
    repo.git(["config", "--unset", "agent.mergeStrategy"])
        .success();
    repo
}

#[track_caller]
fn merge(repo: &Repo<'_>, words: &[&str], typed: &str, code: i32) -> Output {
    let words = [&["merge"], words].concat();
    repo.agent_cmd(words)
        .env("GIT_TERMINAL_PROMPT", "1")
        .on_terminal()
        .stdin(typed)
        .run()
        .code(code)
}

#[test]
fn one_question_approves_merges_and_cleans() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    session(&repo, "fix", &["write app changed", "write new file"]);
    repo.agent(["review", "comment", "fix", "app:1", "-m", "why?"])
        .success();
    let before = state(&repo);
    let said = merge(&repo, &["fix"], "n\n", 1);
    for words in [
        "2 files, +2 -3",
        "1 open comment",
        "+1 -3       ",
        "the result is tested before it lands: true",
        "Approve exactly this and merge it into 'main'?",
        "nothing was approved or merged",
    ] {
        assert!(said.stdout().contains(words), "'{words}' is not in {said}");
    }
    assert_eq!(state(&repo), before);
    assert_eq!(repo.state("fix"), "ready");

    let said = merge(&repo, &["--clean", "fix"], "y\n", 0);
    assert_eq!(said.stdout().matches("[y/N]").count(), 1, "{said}");
    assert_eq!(repo.read("app"), b"changed\n");
    assert_eq!(repo.state("fix"), "merged");
    assert!(
        said.stdout()
            .contains("removed the worktree and branch of fix"),
        "{said}"
    );
    assert!(!said.stdout().contains("git agent clean"), "{said}");
    assert!(repo.refs("refs/heads/agent").is_empty());
    let verdicts = repo.agent(["review", "list", "--everything", "--json", "fix"]);
    let verdicts = verdicts.success();
    assert!(verdicts.stdout().contains("approve"), "{verdicts}");
}

#[test]
fn scripts_still_need_an_approval() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    let before = state(&repo);
    for words in [&["merge", "fix"][..], &["merge", "--yes", "fix"]] {
        let refused = repo.agent(words).code(1);
        assert!(refused.stdout().contains("not approved"), "{refused}");
    }
    let refused = merge(&repo, &["--yes", "fix"], "", 1);
    assert!(refused.stdout().contains("not approved"), "{refused}");
    assert_eq!(state(&repo), before);
    repo.agent(["review", "approve", "fix"]).success();
    repo.agent(["merge", "--yes", "--clean", "fix"]).success();
    assert_eq!(repo.state("fix"), "merged");
    assert!(repo.refs("refs/heads/agent").is_empty());
}

#[test]
fn work_that_changes_under_the_question_is_not_approved() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    let worktree = repo.worktree_of("fix");
    // The editor of the question is the user's terminal: what changes before the answer was not shown.
    let mut asked = repo
        .agent_cmd(["merge", "fix"])
        .env("GIT_TERMINAL_PROMPT", "1")
        .on_terminal()
        .stdin_open()
        .spawn();
    asked.wait_for("[y/N]");
    worktree.write("app", "other work\n");
    asked.write("y\n");
    let refused = asked.wait().code(1);
    assert!(
        refused.stdout().contains("has changed since it was shown"),
        "{refused}"
    );
    assert_eq!(repo.state("fix"), "ready");
    assert_eq!(repo.read("app"), b"one\ntwo\nthree\n");
}

#[test]
fn a_conflict_and_a_rejection_are_not_offered() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    repo.write("app", "main\n");
    repo.commit("main changes it too");
    let said = merge(&repo, &["fix"], "y\n", 1);
    assert!(said.stdout().contains("conflict"), "{said}");
    assert!(!said.stdout().contains("Approve exactly this"), "{said}");
    session(&repo, "bad", &["write other changed"]);
    repo.agent(["review", "reject", "bad"]).success();
    let said = merge(&repo, &["bad"], "y\n", 1);
    assert!(!said.stdout().contains("Approve exactly this"), "{said}");
}

#[test]
fn an_agent_gets_no_offer() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    repo.new_session("rogue", &[], &["try git agent merge fix"]);
    repo.await_state("rogue", "ready");
    assert_eq!(repo.state("fix"), "ready");
    assert_eq!(repo.read("app"), b"one\ntwo\nthree\n");
}
