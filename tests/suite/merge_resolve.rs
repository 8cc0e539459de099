//! `git agent merge resolve`: by hand, and by an agent whose result must hold what both sides did.

use std::time::Duration;

use git_agent_tests::{Repo, Sandbox};

/// Resolves an open conflict by keeping both sides, or makes the conflict in the first place.
const BOTH: &str = "if grep -q '^<<<<<<< ' f; then \
    sed -i -e '/^<<<<<<< /d' -e '/^||||||| /,/^=======$/d' -e '/^>>>>>>> /d' f; \
    else sed -i 's/^5$/session/' f; git commit -qam session; echo x > untracked; fi";
/// The same, but takes one side.
const ONE: &str = "if grep -q '^<<<<<<< ' f; then \
    sed -i -e '/^<<<<<<< /d' -e '/^||||||| /,/^>>>>>>> /d' f; \
    else sed -i 's/^5$/session/' f; git commit -qam session; fi";

fn lab<'s>(sandbox: &'s Sandbox, script: &str) -> Repo<'s> {
    let repo = sandbox.repo("r").create();
    let lines = |five: &str| format!("1\n2\n3\n4\n{five}\n6\n7\n8\n9\n");
    repo.write("f", lines("5"));
    repo.commit("first");
    repo.agent(["new", "work", "--", "sh", "-c", script])
        .success();
    repo.agent_cmd(["wait", "--timeout", "100s", "work"])
        .time_limit(Duration::from_secs(130))
        .run()
        .success();
    repo.write("f", lines("main"));
    repo.commit("the same line");
    repo
}

#[test]
fn by_hand_in_a_worktree_of_its_own() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox, BOTH);
    let opened = repo.agent(["merge", "resolve", "work"]).success();
    let place = Repo::open(&sandbox, opened.line());
    let text = String::from_utf8(place.read("f")).expect("text");
    assert!(text.contains("<<<<<<< "), "{text}");
    repo.agent(["merge", "resolve", "work"])
        .code(128)
        .assert_says("--continue");
    repo.agent(["merge", "resolve", "--continue", "work"])
        .code(128)
        .assert_says("line 5 is a conflict marker");
    repo.agent(["merge", "resolve", "--abort", "work"])
        .success();
    assert!(!place.path().exists(), "nothing is left of it");

    repo.agent(["merge", "resolve", "work"]).success();
    place.write("f", "1\n2\n3\n4\nsession and main\n6\n7\n8\n9\n");
    let commit = repo
        .agent(["merge", "resolve", "--continue", "work"])
        .success();
    assert_eq!(repo.id("agent/work"), commit.line());
    let worktree = repo.worktree_of("work");
    let text = String::from_utf8(worktree.read("f")).expect("text");
    assert!(text.contains("session and main"), "{text}");
    worktree
        .git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
    assert!(!place.path().exists());
    repo.agent(["merge", "conflicts"]).success();
    repo.agent(["merge", "resolve", "work"]).success();
    repo.agent(["merge", "resolve", "--abort", "work"])
        .code(128)
        .assert_says("session 'work' has no open resolution");
    repo.assert_nothing_left_over();
}

#[test]
fn an_agent_resolves_and_both_sides_survive() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox, BOTH);
    repo.agent(["merge", "resolve", "--auto", "work"])
        .code(128)
        .assert_says("--yes");
    let made = repo
        .agent_cmd(["merge", "resolve", "--auto", "--yes", "work"])
        .args(["--test", "grep -q session f && grep -q main f"])
        .time_limit(Duration::from_secs(150))
        .run()
        .success();
    assert_eq!(repo.id("agent/work"), made.line());
    let worktree = repo.worktree_of("work");
    assert_eq!(
        worktree.read("f"),
        b"1\n2\n3\n4\nsession\nmain\n6\n7\n8\n9\n"
    );
    assert_eq!(
        worktree.read("untracked"),
        b"x\n",
        "committed first, not lost"
    );
    repo.git(["merge-base", "--is-ancestor", "main", "agent/work"])
        .success();
    let prompt = repo.texts("resolve-work", "prompt").concat();
    for words in [
        "Merging main into work",
        "Keep both",
        "the same line",
        "- f (contents)",
    ] {
        assert!(
            prompt.contains(words),
            "the prompt lacks '{words}': {prompt}"
        );
    }
    assert_eq!(repo.state("resolve-work"), "merged");
    repo.agent(["merge", "conflicts"]).success();
    repo.git(["show-ref", "--verify", "refs/heads/agent/resolve-work"])
        .failure();
    repo.assert_nothing_left_over();
}

#[test]
fn a_resolution_that_lost_a_side_is_not_taken() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox, ONE);
    let tip = repo.id("agent/work");
    let run = repo
        .agent_cmd(["merge", "resolve", "--auto", "--yes", "work"])
        .time_limit(Duration::from_secs(200))
        .run()
        .code(128);
    run.assert_says("'f' lacks line 5 of main: main");
    assert_eq!(repo.id("agent/work"), tip, "the session is as it was");
    assert_eq!(
        repo.texts("resolve-work", "prompt").len(),
        2,
        "it was told once"
    );
}

/// Takes one side, or both once the file `both` is beside the repository.
const ONE_THEN_BOTH: &str = "if grep -q '^<<<<<<< ' f; then \
    if test -e \"$REPO_PATH/../both\"; \
    then sed -i -e '/^<<<<<<< /d' -e '/^||||||| /,/^=======$/d' -e '/^>>>>>>> /d' f; \
    else echo > junk; sed -i -e '/^<<<<<<< /d' -e '/^||||||| /,/^>>>>>>> /d' f; fi; \
    else sed -i 's/^5$/session/' f; git commit -qam session; fi";

#[test]
fn a_failed_resolution_is_offered_to_nobody_and_tried_again() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox, ONE_THEN_BOTH);
    let resolve = || {
        repo.agent_cmd(["merge", "resolve", "--auto", "--yes", "work"])
            .time_limit(Duration::from_secs(200))
            .run()
    };
    resolve().code(128);
    let failed = repo.session("resolve-work");
    assert_eq!(failed["state"], "failed");
    let reason = failed["exit"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("'f' lacks line 5 of main"), "{failed}");
    let shown = repo.agent(["show", "resolve-work"]).success();
    let shown = shown.stdout();
    assert!(shown.contains("failed"), "{shown}");
    assert!(shown.contains("'f' lacks line 5 of main"), "{shown}");

    // It is in no table, in no hint and in no plan, by name neither.
    let review = repo.agent(["review"]).success();
    review.assert_says("review diff work");
    assert!(!review.to_string().contains("resolve-work"), "{review}");
    repo.agent(["review", "approve", "resolve-work"])
        .code(128)
        .assert_says("resolves a conflict of 'work'");
    repo.agent(["config", "set", "agent.mergeStrategy", "manual"])
        .success();
    let plan = repo
        .agent(["merge", "-n", "--into", "agent/work", "resolve-work"])
        .whatever();
    assert!(plan.stdout().contains("resolves a conflict"), "{plan}");
    let plan = repo
        .agent(["merge", "-n", "--into", "agent/work"])
        .whatever();
    assert!(!plan.to_string().contains("resolve-work"), "{plan}");

    // The next try goes on with it, from the conflict as it is now.
    resolve().code(128);
    let resolvers = |repo: &Repo<'_>| {
        let names = repo.sessions().into_iter();
        let names = names.filter_map(|session| session["name"].as_str().map(str::to_owned));
        names.filter(|name| name.starts_with("resolve-")).count()
    };
    assert_eq!(resolvers(&repo), 1);
    assert_eq!(repo.texts("resolve-work", "prompt").len(), 4);
    std::fs::write(repo.path().join("../both"), "").expect("written");
    repo.agent(["clean", "resolve-work"]).success();
    resolve().success();
    assert_eq!(resolvers(&repo), 1);
    assert_eq!(repo.state("resolve-work"), "merged");
    let worktree = repo.worktree_of("work");
    assert_eq!(
        worktree.read("f"),
        b"1\n2\n3\n4\nsession\nmain\n6\n7\n8\n9\n"
    );
    assert!(
        !worktree.path().join("junk").exists(),
        "an earlier try left a file"
    );
    repo.assert_nothing_left_over();
}

#[test]
fn a_failed_resolution_is_cleaned_with_its_session() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox, ONE);
    repo.agent_cmd(["merge", "resolve", "--auto", "--yes", "work"])
        .time_limit(Duration::from_secs(200))
        .run()
        .code(128);
    let place = repo.worktree_of("resolve-work");
    assert!(place.path().exists());
    repo.agent(["clean"]).success();
    assert!(place.path().exists(), "its session is still of use");
    repo.agent(["clean", "work"]).success();
    assert!(!place.path().exists());
    repo.git(["show-ref", "--verify", "refs/heads/agent/resolve-work"])
        .failure();
    repo.git(["show-ref", "--verify", "refs/heads/agent/work"])
        .success();
    assert_eq!(repo.state("resolve-work"), "discarded");
    repo.assert_nothing_left_over();
}

#[test]
fn a_resolution_that_was_killed_is_followed_by_one_that_lands() {
    let resolve = |repo: &Repo<'_>| {
        let words = ["merge", "resolve", "--auto", "--yes", "work"];
        repo.agent_cmd(words).time_limit(Duration::from_secs(200))
    };
    let killed = |repo: &Repo<'_>, point: &str| {
        let fault = format!("{point}:kill");
        let command = resolve(repo).env("GIT_AGENT_TEST_FAULT", fault);
        command.run().failure();
    };
    // While its session is created: the session may have no worktree, or half of one, and its prompt waits.
    for point in ["worktree.registered", "worktree.filled"] {
        let sandbox = Sandbox::new();
        let repo = lab(&sandbox, BOTH);
        killed(&repo, point);
        resolve(&repo).run().success();
        let text = String::from_utf8(repo.worktree_of("work").read("f")).expect("text");
        assert!(
            text.contains("session\n") && text.contains("main\n"),
            "{text}"
        );
        repo.assert_nothing_left_over();
    }
    // When the agent of an earlier try has been asked again: it is not asked twice.
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox, ONE_THEN_BOTH);
    resolve(&repo).run().code(128);
    std::fs::write(repo.path().join("../both"), "").expect("written");
    let before = repo.texts("resolve-work", "prompt").len();
    killed(&repo, "prompt.left");
    resolve(&repo).run().success();
    assert_eq!(repo.texts("resolve-work", "prompt").len(), before + 1);
}

#[test]
fn where_nothing_conflicts_nothing_is_committed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent(["new", "work", "--", "sh", "-c", "echo x > untracked"])
        .success();
    repo.agent_cmd(["wait", "--timeout", "100s", "work"])
        .time_limit(Duration::from_secs(130))
        .run()
        .success();
    let before = repo.id("agent/work");
    repo.agent(["merge", "resolve", "work"])
        .success()
        .assert_says("no conflict");
    assert_eq!(repo.id("agent/work"), before);
    repo.worktree_of("work")
        .git(["status", "--porcelain"])
        .success()
        .assert_stdout("?? untracked\n");
}
