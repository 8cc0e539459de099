//! Names that git refuses to check out: snapshots keep them, and no commit of ours that lands has one.

use git_agent_tests::{Repo, Sandbox};

use crate::merge_land::{lab, session, state};

/// What git takes for its own directory, on some file system.
const NAMES: [&str; 3] = ["git~1/config", "a/.git::$INDEX_ALLOCATION/x", "b/.git /x"];

/// Makes a commit with a file of this name on a session's branch, as plumbing lets anybody.
fn commit_with(repo: &Repo<'_>, name: &str, bad: &str) {
    let worktree = repo.worktree_of(name);
    let blob = worktree
        .git(["rev-parse", "HEAD:app"])
        .success()
        .stdout()
        .trim()
        .to_owned();
    let tree = |listing: String| {
        let made = worktree.command("git").args(["mktree"]).stdin(listing);
        made.run().success().stdout().trim().to_owned()
    };
    let mut inner = format!("100644 blob {blob}");
    for part in bad.rsplit('/') {
        let id = tree(format!("{inner}\t{part}\n"));
        inner = format!("040000 tree {id}");
    }
    let id = inner.rsplit(' ').next().expect("an id").to_owned();
    let head = worktree.git(["ls-tree", "HEAD"]).success();
    let entry = worktree.git(["ls-tree", &id]).success();
    let whole = tree(format!("{}{}", head.stdout(), entry.stdout()));
    let made = worktree
        .git(["commit-tree", &whole, "-p", "HEAD", "-m", "bad"])
        .success();
    let made = made.stdout().trim().to_owned();
    worktree
        .git(["update-ref", "refs/heads/agent/bad", &made])
        .success();
}

#[test]
fn what_nobody_can_check_out_is_not_approved_committed_or_merged() {
    for bad in NAMES {
        let sandbox = Sandbox::new();
        let repo = lab(&sandbox);
        let step = format!("write {} evil", bad.replace(' ', "\\s"));
        session(&repo, "bad", &[&step, "write fine file"]);
        session(&repo, "good", &["write new file"]);
        let worktree = repo.worktree_of("bad");
        assert_eq!(worktree.read(bad), b"evil\n");
        let (dir, _) = bad.rsplit_once('/').expect("a file in a directory");
        let before = repo.id("main");

        let refused = repo.agent(["review", "approve", "bad"]).failure();
        assert!(refused.stderr().contains(dir), "{refused}");
        let refused = repo.agent(["commit", "bad"]).failure();
        assert!(refused.stderr().contains(dir), "{refused}");
        assert_eq!(repo.id("agent/bad"), before);

        let shown = repo.agent(["merge", "-n", "--porcelain"]).success();
        assert!(shown.stdout().contains("\tbad-path\t"), "{shown}");
        let merged = repo.agent(["merge", "--porcelain"]).whatever();
        assert!(merged.stdout().contains("\tbad-path\t"), "{merged}");
        assert!(merged.stdout().contains(dir), "{merged}");
        assert_eq!(repo.state("good"), "merged", "{merged}");
        assert_ne!(repo.id("main"), before);
        // What is there stays there.
        assert_eq!(worktree.read(bad), b"evil\n");
        let elsewhere = sandbox.root().join("clone");
        repo.git(["clone", "-q", ".", elsewhere.to_str().expect("plain")])
            .success();
    }
}

#[test]
fn a_commit_with_such_a_name_does_not_land_but_what_is_squashed_without_it_does() {
    for style in ["--no-ff", "--rebase", "--ff-only", "--squash"] {
        let sandbox = Sandbox::new();
        let repo = lab(&sandbox);
        session(&repo, "bad", &["write fine file", "commit fine"]);
        // The files do not have it: after this commit it is deleted, and that is not committed.
        commit_with(&repo, "bad", "deep/.GIT/hooks");
        repo.worktree_of("bad")
            .git(["reset", "-q", "--mixed"])
            .whatever();
        let before = state(&repo);
        let merged = repo.agent(["merge", style, "--porcelain", "bad"]);
        if style == "--squash" {
            merged.success();
            let files = repo.git(["ls-tree", "-r", "--name-only", "main"]).success();
            assert!(!files.stdout().contains("deep"), "{files}");
            assert!(files.stdout().contains("fine"), "{files}");
            continue;
        }
        let merged = merged.failure();
        assert!(merged.stdout().contains("\tbad-path\t"), "{merged}");
        assert!(merged.stdout().contains("deep/.GIT"), "{merged}");
        assert_eq!(state(&repo), before, "{style}");
    }
}
