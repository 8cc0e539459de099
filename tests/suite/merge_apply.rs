//! Applying without committing, and picking one of several versions.

use git_agent_tests::Sandbox;

use crate::merge_land::{lab, session, state};

#[test]
fn changes_are_applied_uncommitted_and_taken_away_again() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(
        &repo,
        "fix",
        &[
            "write app changed",
            "write sub/new file",
            "remove other",
            "commit x",
            "write late untracked",
        ],
    );
    repo.write("later", "of the user\n");
    repo.commit("the user goes on");
    repo.write("draft", "of the user\n");
    let before = state(&repo);
    let shown = repo.agent(["merge", "--apply", "fix"]).success();
    assert_eq!(shown.lines(), ["app", "late", "other", "sub/new"]);
    let status = repo.git(["status", "--porcelain"]).success();
    assert_eq!(
        status.stdout(),
        " M app\n D other\n?? draft\n?? late\n?? sub/\n"
    );
    let after = state(&repo);
    assert_eq!(repo.id("main"), repo.id("HEAD"));
    repo.agent(["merge", "--undo"]).success();
    assert_eq!(state(&repo), before);

    repo.agent(["merge", "--apply", "fix"]).success();
    assert_eq!(state(&repo), after);
    repo.write("app", "changed and more\n");
    let touched = state(&repo);
    repo.agent(["merge", "--undo"])
        .code(128)
        .assert_says("cannot undo the changes");
    assert_eq!(state(&repo), touched, "what was changed since stays");
}

#[test]
fn nothing_is_overwritten_by_applying() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(
        &repo,
        "fix",
        &[
            "write app changed",
            "write new file",
            "write n.ignored x",
            "git add -f n.ignored",
            "commit x",
        ],
    );
    for (file, words) in [
        ("app", "unstaged changes"),
        ("new", "'new'"),
        ("n.ignored", "'n.ignored'"),
    ] {
        repo.write(file, "of the user\n");
        let before = state(&repo);
        repo.agent(["merge", "--apply", "fix"])
            .code(128)
            .assert_says(words);
        assert_eq!(state(&repo), before, "{file}");
        repo.git(["stash", "--include-untracked", "--all", "--quiet"])
            .success();
        repo.git(["stash", "drop", "--quiet"]).success();
    }
    repo.write("app", "ours\n");
    repo.commit("ours");
    let before = state(&repo);
    repo.agent(["merge", "--apply", "fix"])
        .code(128)
        .assert_says("conflicts");
    assert_eq!(state(&repo), before);
    repo.assert_nothing_left_over();
}

#[test]
fn the_winner_of_a_group_lands_and_the_others_can_come_back() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    for name in ["v1", "v2", "v3"] {
        repo.new_session(
            name,
            &["--group", "versions"],
            &[
                &format!("write app {name}"),
                "commit x",
                "write draft unsaved",
            ],
        );
    }
    for name in ["v1", "v2", "v3"] {
        repo.await_state(name, "ready");
    }
    repo.agent(["merge", "--pick", "v2"]).success();
    assert_eq!(repo.read("app"), b"v2\n");
    assert_eq!(repo.state("v2"), "merged");
    for name in ["v1", "v3"] {
        assert_eq!(repo.state(name), "discarded");
        let path = repo.path().with_file_name("lab-worktrees").join(name);
        assert!(!path.exists(), "its worktree is gone");
        repo.agent(["restore", name]).success();
        assert_eq!(
            std::fs::read(path.join("draft")).expect("it is back"),
            b"unsaved\n"
        );
        assert_eq!(
            std::fs::read(path.join("app")).expect("it is back"),
            format!("{name}\n").as_bytes()
        );
        assert_eq!(repo.state(name), "ready", "and can be judged again");
        repo.agent(["review", "approve", name]).success();
    }
    repo.git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
}
