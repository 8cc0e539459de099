//! `git agent update`: the parent into the session, with uncommitted work as it was.

use std::time::Duration;

use git_agent_tests::{Repo, Sandbox};

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

fn lab(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("r").create();
    repo.write("f", LINES);
    repo.write("keep", "keep\n");
    repo.write("staged", "staged\n");
    repo.commit("first");
    repo
}

fn session(repo: &Repo<'_>, name: &str, script: &str) {
    repo.agent(["new", name, "--", "sh", "-c", script])
        .success();
    repo.agent_cmd(["wait", "--timeout", "100s", name])
        .time_limit(Duration::from_secs(130))
        .run()
        .success();
}

/// Everything of a worktree that a person could miss.
fn state(worktree: &Repo<'_>) -> Vec<String> {
    let git = |words: &[&str]| worktree.git(words.iter()).success().stdout().to_owned();
    let mut state = vec![
        git(&["status", "--porcelain", "--untracked-files=all"]),
        git(&["diff", "--cached"]),
        git(&["diff"]),
    ];
    for file in ["f", "keep", "staged", "untracked", "odd"] {
        let bytes = std::fs::read(worktree.path().join(file)).unwrap_or_default();
        state.push(format!("{file}: {}", String::from_utf8_lossy(&bytes)));
    }
    state
}

#[test]
fn uncommitted_work_stays_as_it_is() {
    let sandbox = Sandbox::new();
    for style in ["--merge", "--rebase"] {
        let repo = sandbox.repo(format!("r{style}")).create();
        repo.write("f", LINES);
        repo.write("keep", "keep\n");
        repo.write("staged", "staged\n");
        repo.commit("first");
        session(
            &repo,
            "work",
            "sed -i 's/^9$/nine/' f; git commit -qam nine; echo more >> keep; echo x > untracked; \
             printf 'a\\r\\nb\\n' > odd; echo now >> staged; git add staged; echo later >> staged",
        );
        let worktree = repo.worktree_of("work");
        let before = state(&worktree);
        repo.write("f", LINES.replace("1\n", "one\n"));
        repo.write("fresh", "fresh\n");
        repo.commit("main goes on");
        repo.agent(["update", style, "work"])
            .success()
            .assert_says("updated with 1 commit");
        let after = state(&worktree);
        let f = "one\n2\n3\n4\n5\n6\n7\n8\nnine\n";
        assert_eq!(
            after[3],
            format!("f: {f}"),
            "{style}: both changes are there"
        );
        assert_eq!(
            before[..3],
            after[..3],
            "{style}: nothing else is committed or lost"
        );
        assert_eq!(before[4..], after[4..], "{style}");
        assert_eq!(worktree.read("fresh"), b"fresh\n");
        let merges = repo.git(["rev-list", "--count", "--merges", "agent/work"]);
        let expected = if style == "--merge" { "1" } else { "0" };
        assert_eq!(merges.success().line(), expected);
        repo.git(["merge-base", "--is-ancestor", "main", "agent/work"])
            .success();
        assert_eq!(repo.session("work")["behind"], 0);
        let again = repo.agent(["update", "--porcelain", "work"]).success();
        assert_eq!(again.line().split('\t').nth(1), Some("current"));
        assert_eq!(state(&worktree), after);
        repo.assert_nothing_left_over();
    }
}

#[test]
fn a_conflict_changes_nothing() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(
        &repo,
        "work",
        "sed -i 's/^5$/five/' f; git commit -qam five; echo x > untracked",
    );
    session(&repo, "loose", "sed -i 's/^5$/loose/' f");
    repo.write("f", LINES.replace("5\n", "main\n"));
    repo.commit("the same line");
    for (name, result) in [("work", "conflict"), ("loose", "uncommitted-conflict")] {
        let worktree = repo.worktree_of(name);
        let (before, tip) = (state(&worktree), worktree.id("HEAD"));
        let run = repo.agent(["update", "--porcelain", name]).code(1);
        assert_eq!(run.line().split('\t').nth(1), Some(result), "{run}");
        assert_eq!(run.line().split('\t').next_back(), Some("f"), "{run}");
        assert_eq!(state(&worktree), before);
        assert_eq!(worktree.id("HEAD"), tip);
    }
    let human = repo.agent(["update", "work"]).code(1);
    human.assert_says("git agent update --auto work");
    repo.agent(["update", "--from", "nowhere", "work"])
        .code(128)
        .assert_says("nowhere");
    repo.assert_nothing_left_over();
}

#[test]
fn nothing_happens_while_a_turn_runs() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let go = sandbox.root().join("go");
    let until = format!("until {}", go.to_str().expect("plain paths"));
    repo.new_session("busy", &[], &["write x y", &until]);
    repo.await_state("busy", "running");
    repo.write("fresh", "fresh\n");
    repo.commit("main goes on");
    repo.agent(["update", "busy"])
        .code(128)
        .assert_says("at work");
    std::fs::write(&go, "").expect("written");
    repo.agent_cmd(["wait", "--timeout", "100s", "busy"])
        .time_limit(Duration::from_secs(130))
        .run()
        .success();
    repo.agent(["update", "busy"]).success();
    let worktree = repo.worktree_of("busy");
    assert_eq!(worktree.read("fresh"), b"fresh\n");
    assert_eq!(worktree.read("x"), b"y\n");
}
