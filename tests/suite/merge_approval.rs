//! Only what was approved lands: exactly that, and nothing that came later.

use git_agent_tests::{Repo, Sandbox};

use crate::merge_land::{lab, session, state};

/// A lab where an approval is needed, as it is unless somebody says otherwise.
fn strict(sandbox: &Sandbox) -> Repo<'_> {
    let repo = lab(sandbox);
    repo.git(["config", "--unset", "agent.mergeStrategy"])
        .success();
    repo.git(["config", "--unset", "agent.test"]).success();
    repo
}

#[track_caller]
fn refuses(repo: &Repo<'_>, words: &str) {
    let before = state(repo);
    let refused = repo.agent(["merge", "fix"]).code(1);
    assert!(
        refused.stdout().contains(words),
        "'{words}' is not in\n{refused}"
    );
    assert_eq!(state(repo), before);
}

#[test]
fn an_approval_counts_for_exactly_what_was_seen() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    session(
        &repo,
        "fix",
        &["write app changed", "commit x", "write draft uncommitted"],
    );
    let worktree = repo.worktree_of("fix");
    refuses(&repo, "not approved");
    let quiet = repo
        .agent(["merge", "--into", "main", "--porcelain"])
        .code(1);
    assert!(quiet.stdout().contains("\tnot-approved\t"), "{quiet}");

    repo.agent(["review", "approve", "fix"]).success();
    worktree.write("draft", "one more byte\n");
    refuses(&repo, "changed after it was approved");
    worktree.write("draft", "uncommitted\n");
    worktree
        .git(["commit", "--quiet", "--allow-empty", "-m", "one more"])
        .success();
    refuses(&repo, "changed after it was approved");
    repo.agent(["review", "request-changes", "fix", "-m", "no"])
        .success();
    refuses(&repo, "changes are requested");

    repo.agent(["review", "approve", "fix"]).success();
    repo.agent(["merge", "--into", "main"]).success();
    assert_eq!(repo.state("fix"), "merged");
    assert_eq!(repo.read("draft"), b"uncommitted\n");
    repo.agent(["merge", "--undo"]).success();
    assert_eq!(repo.state("fix"), "approved");
    repo.agent(["merge", "--no-test", "fix"]).success();
    let notices = repo.texts("fix", "notice");
    assert!(
        notices.iter().any(|text| text.contains("without tests")),
        "{notices:?}"
    );
    let notes = repo.refs("refs/agents/notes/provenance");
    let name = notes.keys().next().expect("notes");
    let text = repo.git(["grep", "-h", "tests", name]).success();
    assert!(text.stdout().contains(r#""tests":"skipped""#), "{text}");
    repo.agent(["review", "reject", "fix"]).whatever();
}

#[test]
fn bytes_that_come_while_it_lands_stay_out() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    session(&repo, "fix", &["write app changed", "write draft approved"]);
    repo.agent(["review", "approve", "fix"]).success();
    let worktree = repo.worktree_of("fix");
    let late = format!("echo late >>'{}'", worktree.path().join("draft").display());
    repo.agent(["merge", "--test", &late, "fix"]).success();
    assert_eq!(repo.read("draft"), b"approved\n");
    assert_eq!(worktree.read("draft"), b"approved\nlate\n");
    let status = worktree.git(["status", "--porcelain"]).success();
    assert_eq!(
        status.stdout(),
        " M draft
"
    );
    repo.git(["show", "agent/fix:draft"])
        .success()
        .assert_stdout("approved\n");
}

#[test]
fn what_builds_on_others_waits_for_them() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    session(&repo, "base", &["write base 1", "commit x"]);
    repo.new_session("top", &["--after", "base"], &["write top 2", "commit y"]);
    repo.await_state("top", "ready");
    repo.agent(["review", "approve", "top"]).success();
    let refused = repo.agent(["merge", "top"]).code(1);
    assert!(refused.stdout().contains("builds on 'base'"), "{refused}");
    repo.agent(["review", "approve", "base"]).success();
    let shown = repo
        .agent(["merge", "--into", "main", "--porcelain"])
        .success();
    let names: Vec<&str> = shown
        .lines()
        .iter()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(names, ["base", "top"], "{shown}");
    assert_eq!(
        (repo.state("base"), repo.state("top")),
        ("merged".into(), "merged".into())
    );
}

#[test]
fn marks_of_a_conflict_do_not_land() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    let marked = "write app <<<<<<< ours\\none\\n=======\\ntwo\\n>>>>>>> theirs";
    session(&repo, "fix", &[marked, "commit x"]);
    repo.agent(["review", "approve", "fix"]).success();
    refuses(&repo, "conflict markers at app:1");
}
