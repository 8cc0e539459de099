//! Worktrees that go away under somebody's hands: whoever is in one keeps it, what git ignores is not lost in silence, an
//! interrupted removal is taken up again, and a verb that takes away the worktree it runs in still ends well.

use git_agent_tests::{Background, Repo, Sandbox};

/// Makes a repository that ignores some things, and a session in it.
fn with_session<'a>(sandbox: &'a Sandbox) -> Repo<'a> {
    let repo = sandbox.repo("r").create();
    repo.write(".gitignore", ".env\ntarget/\n*.o\n");
    repo.commit("ignore");
    repo.new_session("q", &[], &["write q.txt q", "commit work"]);
    repo.await_state("q", "ready");
    repo
}

/// Goes into the worktree and stays there until told to go.
fn visitor(repo: &Repo<'_>) -> Background {
    let script = "echo inside; read word; echo late >late.txt";
    let visitor = repo
        .agent_cmd(["exec", "q", "--", "sh", "-c", script])
        .stdin_open()
        .spawn();
    visitor.wait_for("inside");
    visitor
}

#[test]
fn a_worktree_that_somebody_is_in_stays() {
    let sandbox = Sandbox::new();
    let repo = with_session(&sandbox);
    let tree = repo.worktree_of("q");
    let mut inside = visitor(&repo);
    for args in [&["clean", "q"][..], &["clean", "--dry-run", "q"]] {
        let run = repo.agent(args).success();
        assert!(run.stdout().contains("is in its worktree"), "{run}");
        assert!(run.stdout().contains("kept"), "{run}");
    }
    repo.agent(["recreate", "q"])
        .code(128)
        .assert_says("is in its worktree");
    inside.write("go\n");
    inside.wait().success();
    assert!(tree.path().join("late.txt").exists());
    repo.agent(["clean", "q"]).success();
    assert!(!tree.path().exists());
    repo.agent(["restore", "q"]).success();
    assert_eq!(tree.read("late.txt"), b"late\n");
    assert_eq!(tree.read("q.txt"), b"q\n");
}

#[test]
fn small_ignored_files_come_back_and_the_rest_is_named() {
    let sandbox = Sandbox::new();
    let repo = with_session(&sandbox);
    let tree = repo.worktree_of("q");
    tree.write(".env", "MINE\n");
    tree.write("deep/er/x.o", "o\n");
    tree.write("deep/er/plain", "plain\n");
    tree.write("target/out", "built\n");
    let promised = repo.agent(["clean", "-n", "q"]).success();
    let done = repo.agent(["clean", "q"]).success();
    for run in [&promised, &done] {
        let said = run.stdout();
        assert!(said.contains("kept for 'restore': "), "{run}");
        assert!(said.contains(".env"), "{run}");
        assert!(said.contains("ignored, deleted: target/"), "{run}");
    }
    repo.agent(["restore", "q"]).success();
    assert_eq!(tree.read(".env"), b"MINE\n");
    assert_eq!(tree.read("deep/er/x.o"), b"o\n");
    assert_eq!(tree.read("deep/er/plain"), b"plain\n");
    assert!(!tree.path().join("target").exists());
    let left = std::fs::read_dir(repo.common_dir().join("agents/ignored"));
    assert_eq!(left.expect("it is there").count(), 0);
}

#[test]
fn recreate_asks_before_it_drops_what_is_ignored() {
    let sandbox = Sandbox::new();
    let repo = with_session(&sandbox);
    let tree = repo.worktree_of("q");
    tree.write("target/out", "built\n");
    repo.write(".env", "SHARED\n");
    tree.write(".env", "SHARED\n");
    repo.write(".worktreeinclude", ".env\n");
    let run = repo.agent(["recreate", "q"]).success();
    assert!(run.stderr().contains("target/"), "{run}");
    assert_eq!(tree.read(".env"), b"SHARED\n", "copied anew");
    assert!(!tree.path().join("target").exists());

    tree.write(".env", "MINE\n");
    repo.agent(["recreate", "q"])
        .code(128)
        .assert_says("ignored files that no snapshot keeps: .env");
    assert_eq!(tree.read(".env"), b"MINE\n");
    repo.agent(["recreate", "--yes", "q"]).success();
    assert_eq!(tree.read(".env"), b"SHARED\n");
    assert_eq!(tree.read("q.txt"), b"q\n");
}

#[test]
fn an_interrupted_removal_is_taken_up_again() {
    let sandbox = Sandbox::new();
    let repo = with_session(&sandbox);
    let tree = repo.worktree_of("q");
    tree.write("loose.txt", "loose\n");
    let aside = tree.path().with_file_name(".q.removing");
    std::fs::rename(tree.path(), &aside).expect("ours");
    repo.agent(["restore", "q"])
        .code(128)
        .assert_says("already has its worktree");
    assert_eq!(tree.read("loose.txt"), b"loose\n", "put back");
    std::fs::rename(tree.path(), &aside).expect("ours");
    repo.agent(["clean", "q"]).success();
    assert!(!aside.exists() && !tree.path().exists());
    repo.agent(["restore", "q"]).success();
    assert_eq!(tree.read("loose.txt"), b"loose\n");

    // What was on its way to be deleted is in a snapshot, and never taken for the worktree.
    repo.agent(["snapshot", "q"]).success();
    let removed = tree.path().with_file_name(".q.removed");
    std::fs::rename(tree.path(), &removed).expect("ours");
    std::fs::remove_file(removed.join("loose.txt")).expect("ours");
    repo.agent(["restore", "q"]).success();
    assert_eq!(tree.read("loose.txt"), b"loose\n");
    assert!(!removed.exists());
}

#[test]
fn a_worktree_can_go_from_inside() {
    let sandbox = Sandbox::new();
    let repo = with_session(&sandbox);
    let tree = repo.worktree_of("q");
    let tip = repo.id("agent/q");
    tree.write("loose.txt", "loose\n");
    tree.agent(["recreate"]).success();
    assert!(tree.path().join("q.txt").exists() && !tree.path().join("loose.txt").exists());
    assert_eq!(repo.id("agent/q"), tip);
    tree.write("loose.txt", "again\n");
    repo.git(["merge", "--quiet", "--no-ff", "-m", "merge", "agent/q"])
        .success();
    let run = tree.agent(["clean"]).success();
    assert!(run.stdout().contains("branch agent/q"), "{run}");
    assert!(!run.stdout().contains("kept"), "{run}");
    assert!(!tree.path().exists());
    let noted = repo.texts("q", "notice");
    assert!(noted.iter().any(|text| text.contains("was removed")));
    repo.agent(["restore", "q"]).success();
    assert_eq!(tree.read("loose.txt"), b"again\n");
    let help = repo.agent(["clean", "-h"]).code(129);
    let words: Vec<&str> = help.stdout().split_whitespace().collect();
    let said = words.join(" ");
    assert!(
        said.contains("default: all that are merged or closed"),
        "{said}"
    );
}
