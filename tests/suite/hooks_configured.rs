//! Hooks from the configuration (git 2.54): they run where a person's would, and in none of the product's own calls.

use git_agent_tests::{Git, Repo, Sandbox};

/// Returns whether git runs hooks of the configuration. Older ones run none, and only their silence is tried.
fn has_them() -> bool {
    Git::under_test().version >= (2, 54, 0)
}

/// Defines a hook that writes down which event it ran for.
fn spy(repo: &Repo<'_>, name: &str, events: &[&str], seen: &std::path::Path) {
    let command = format!("echo {name} >>'{}'; cat >/dev/null; true", seen.display());
    repo.git(["config", &format!("hook.{name}.command"), &command])
        .success();
    for event in events {
        repo.git(["config", "--add", &format!("hook.{name}.event"), event])
            .success();
    }
}

const QUIET: [&str; 4] = [
    "post-index-change",
    "reference-transaction",
    "post-checkout",
    "pre-auto-gc",
];

#[test]
fn hooks_of_the_configuration_run_in_no_call_of_ours() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one", "commit x", "write g two"]);
    repo.await_state("s", "ready");
    let seen = sandbox.root().join("seen");
    let worktree = repo.worktree_of("s");
    let calls = || {
        for words in [
            &["snapshot", "s"][..],
            &["list"],
            &["review", "diff", "s"],
            &["review", "approve", "s"],
            &["clean", "s"],
            &["restore", "s"],
            &["merge", "-n", "s"],
        ] {
            repo.agent(words).whatever();
        }
        std::fs::read_to_string(&seen).unwrap_or_default()
    };
    // A name with an equals sign; one that is an event's, beside which git heeds no switch for that event; one that only a
    // worktree's own file defines.
    spy(&repo, "spy", &QUIET, &seen);
    spy(&repo, "a=b", &QUIET, &seen);
    repo.git(["config", "hook.post-index-change.command", "true"])
        .success();
    repo.git(["config", "extensions.worktreeConfig", "true"])
        .success();
    let command = format!("echo own >>'{}'", seen.display());
    for (key, value) in [
        ("hook.own.command", command.as_str()),
        ("hook.own.event", "post-index-change"),
    ] {
        worktree.git(["config", "--worktree", key, value]).success();
    }
    std::fs::remove_file(&seen).unwrap_or_default();
    assert_eq!(calls(), "", "none ran");
    if has_them() {
        repo.git(["update-ref", "refs/heads/new", "HEAD"]).success();
        let text = std::fs::read_to_string(&seen).expect("a person's own git runs them");
        assert!(text.contains("spy") && text.contains("a=b"), "{text}");
    }
}

#[test]
fn hooks_of_the_configuration_run_in_sessions_and_merges() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let seen = sandbox.root().join("seen");
    spy(&repo, "spy", &["pre-commit"], &seen);
    repo.new_session("s", &[], &["write f one", "commit x"]);
    repo.await_state("s", "ready");
    let has = has_them();
    let text = || std::fs::read_to_string(&seen).unwrap_or_default();
    assert_eq!(
        text(),
        if has { "spy\n" } else { "" },
        "once, beside the guard"
    );
    // Switched off for the repository, the guard's own stay on.
    repo.git(["config", "hook.reference-transaction.enabled", "false"])
        .success();
    repo.agent_cmd([
        "new",
        "--json",
        "--name",
        "t",
        "x",
        "--",
        "git branch new; echo tried",
    ])
    .run()
    .success();
    repo.await_state("t", "ready");
    assert!(!repo.refs("refs/heads").contains_key("refs/heads/new"));
    repo.git(["config", "hook.stop.command", "echo not today >&2; exit 1"])
        .success();
    repo.git(["config", "hook.stop.event", "pre-merge-commit"])
        .success();
    repo.agent(["review", "approve", "s"]).success();
    let merged = repo.agent(["merge", "s"]).whatever();
    let refused = merged.stdout().contains("a hook refused it");
    assert_eq!(refused, has, "{merged}");
}

#[test]
fn a_checkout_that_would_stash_loses_nothing_in_a_session() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("f", "one\n");
    repo.commit("one");
    repo.write("f", "two\n");
    repo.commit("two");
    let script =
        "echo mine >f; git checkout -q -m --detach HEAD~1 2>&1; grep -q mine f && echo kept
        git stash list | wc -l";
    repo.agent_cmd([
        "new", "--json", "--name", "s", "x", "--", "sh", "-c", script,
    ])
    .run()
    .success();
    repo.await_state("s", "ready");
    let said = repo.agent(["log", "s"]).success();
    assert!(said.stdout().contains("kept"), "{said}");
    assert!(!repo.refs("refs").contains_key("refs/stash"), "{said}");
}
