//! Landing: one session or several, by every style, into a branch that is checked out or not, and back again.

use std::collections::BTreeMap;
use std::path::Path;

use git_agent_tests::sessions::files_below;
use git_agent_tests::{Repo, Sandbox};

/// A repository where passing tests are enough to land.
pub fn lab(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("lab").create();
    repo.write(".gitignore", "*.ignored\n");
    repo.write("app", "one\ntwo\nthree\n");
    repo.write("other", "other\n");
    repo.commit("the lab");
    repo.git(["config", "agent.mergeStrategy", "auto"])
        .success();
    repo.git(["config", "agent.test", "true"]).success();
    repo
}

/// Runs a session to its end.
#[track_caller]
pub fn session(repo: &Repo<'_>, name: &str, steps: &[&str]) {
    repo.new_session(name, &[], steps);
    repo.await_state(name, "ready");
}

/// Writes a path as one word of a fake agent's step.
pub fn word(path: &Path) -> String {
    path.to_str().expect("plain paths").replace(' ', "\\s")
}

/// Everything of the user's that a merge may touch: branches, files, what is staged, what git says about it.
#[derive(Debug, PartialEq, Eq)]
pub struct State {
    refs: BTreeMap<String, String>,
    files: BTreeMap<String, Vec<u8>>,
    staged: String,
    status: String,
}

/// Returns that state.
#[track_caller]
pub fn state(repo: &Repo<'_>) -> State {
    let mut files = BTreeMap::new();
    for path in files_below(repo.path()) {
        let name = path.strip_prefix(repo.path()).expect("below").to_owned();
        if !name.starts_with(".git") || name == Path::new(".gitignore") {
            let bytes = std::fs::read(&path).expect("readable");
            files.insert(name.display().to_string(), bytes);
        }
    }
    let text = |args: &[&str]| repo.git(args).success().stdout().to_owned();
    State {
        refs: repo.refs("refs/heads"),
        files,
        staged: text(&["ls-files", "--stage"]),
        status: text(&["status", "--porcelain"]),
    }
}

#[test]
fn committed_and_uncommitted_work_lands_by_a_merge_commit() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(
        &repo,
        "fix",
        &[
            "write app changed",
            "commit first",
            "write new untracked",
            "append other more",
        ],
    );
    let before = state(&repo);
    let worktree = repo.worktree_of("fix");
    let files = state(&worktree).files;
    let tip = repo.id("agent/fix");

    let shown = repo.agent(["merge", "--into", "main"]).success();
    assert!(shown.stdout().contains("fix"), "{shown}");
    assert_eq!(repo.state("fix"), "merged");
    let merge = repo.id("main");
    assert_eq!(repo.id("main^1"), before.refs["refs/heads/main"]);
    assert_eq!(repo.id("main^2"), repo.id("agent/fix"));
    assert_eq!(repo.id("agent/fix^"), tip, "what was not committed is now");
    let message = repo.git(["log", "-1", "--format=%B", "main"]).success();
    assert!(
        message.stdout().starts_with("Merge session 'fix'"),
        "{message}"
    );
    let sid = repo.session("fix")["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    for commit in ["main", "agent/fix"] {
        let trailer = repo
            .git([
                "log",
                "-1",
                "--format=%(trailers:key=Agent-Session,valueonly)",
                commit,
            ])
            .success();
        assert_eq!(trailer.stdout().trim(), sid, "{commit}");
    }
    assert_eq!(repo.read("new"), b"untracked\n");
    assert_eq!(repo.read("app"), b"changed\n");
    repo.git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
    worktree
        .git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
    assert_eq!(state(&worktree).files, files, "the session's files stay");
    let event = repo
        .events("fix")
        .into_iter()
        .find(|event| event["type"] == "merged");
    assert_eq!(event.expect("a merged event")["commit"], merge.as_str());
    let notes = repo.refs("refs/agents/notes/provenance");
    assert_eq!(notes.len(), 1, "{notes:?}");

    repo.agent(["merge", "--undo"]).success();
    assert_eq!(state(&repo), before);
    assert_eq!(repo.state("fix"), "ready");
    assert_eq!(
        worktree.git(["status", "--porcelain"]).success().stdout(),
        " M other\n?? new\n"
    );
    repo.agent(["merge", "--undo"])
        .code(128)
        .assert_says("no merge to undo");
    repo.agent(["merge"]).success();
    assert_eq!(repo.state("fix"), "merged");
    repo.assert_nothing_left_over();
}

#[test]
fn every_style_lands_the_same_files_and_goes_back() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(
        &repo,
        "two",
        &["write a 1", "commit add-a", "write b 2", "commit add-b"],
    );
    repo.write("later", "of the user\n");
    repo.commit("the user goes on");
    let before = state(&repo);
    for (style, commits) in [("--no-ff", 3), ("--squash", 1), ("--rebase", 2)] {
        let shown = repo.agent(["merge", style, "two"]).success();
        let range = format!("{}..main", before.refs["refs/heads/main"]);
        let made = repo.git(["rev-list", "--count", &range]).success();
        assert_eq!(made.line(), commits.to_string(), "{style}: {shown}");
        for (file, text) in [("a", "1\n"), ("b", "2\n"), ("later", "of the user\n")] {
            assert_eq!(repo.read(file), text.as_bytes(), "{style}");
        }
        repo.git(["status", "--porcelain"])
            .success()
            .assert_stdout("");
        let trailers = repo
            .git([
                "log",
                "--first-parent",
                "--format=%(trailers:key=Agent-Session,valueonly)",
                &range,
            ])
            .success();
        let sid = repo.session("two")["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        for line in trailers.lines().iter().filter(|line| !line.is_empty()) {
            assert_eq!(*line, sid, "{style}");
        }
        repo.agent(["merge", "--undo"]).success();
        assert_eq!(state(&repo), before, "{style}");
    }
    let refused = repo.agent(["merge", "--ff-only", "two"]).code(1);
    assert!(
        refused.stdout().contains("cannot be fast-forwarded"),
        "{refused}"
    );
    assert_eq!(state(&repo), before);

    session(&repo, "straight", &["write c 3", "commit add-c"]);
    let ready = state(&repo);
    repo.agent(["merge", "--ff-only", "straight"]).success();
    assert_eq!(repo.id("main"), repo.id("agent/straight"));
    repo.agent(["merge", "--undo"]).success();
    assert_eq!(state(&repo), ready);
    repo.git(["config", "agent.mergeStyle", "squash"]).success();
    repo.agent(["merge", "straight"]).success();
    assert_eq!(repo.id("main^"), ready.refs["refs/heads/main"]);
    assert_ne!(repo.id("main"), repo.id("agent/straight"));
    repo.assert_nothing_left_over();
}

#[test]
fn a_squash_keeps_the_authors_and_a_rebase_the_commits() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let worktree_commit = "git -c user.name=Robot -c user.email=robot@example.com \
        commit --quiet --all --message one --author 'Robot <robot@example.com>'";
    repo.agent(["new", "made", "--", "sh", "-c"]).whatever();
    let script = format!("echo x >>app; {worktree_commit}; echo y >>other; {worktree_commit}");
    repo.agent(["new", "--name", "robot", "t", "--", "sh", "-c", &script])
        .success();
    repo.await_state("robot", "ready");
    repo.write("later", "of the user\n");
    repo.commit("the user goes on");
    repo.agent(["merge", "--squash", "robot"]).success();
    let message = repo.git(["log", "-1", "--format=%B%an", "main"]).success();
    assert!(
        message
            .stdout()
            .contains("Co-authored-by: Robot <robot@example.com>"),
        "{message}"
    );
    assert!(!message.stdout().ends_with("Robot\n"), "{message}");
    repo.agent(["merge", "--undo"]).success();
    repo.agent(["merge", "--rebase", "robot"]).success();
    let authors = repo.git(["log", "-2", "--format=%an %s", "main"]).success();
    assert_eq!(authors.lines(), ["Robot one", "Robot one"]);
}

#[test]
fn a_dry_run_changes_nothing_and_says_all() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "one", &["write app left", "commit x"]);
    session(&repo, "two", &["write app right", "commit y"]);
    // A supervisor that says that it is ready still writes its record.
    repo.assert_nothing_left_over();
    let before = (state(&repo), repo.refs("refs/"));
    let shown = repo
        .agent(["merge", "--dry-run", "--json"])
        .success()
        .json();
    let merges = shown["merges"].as_array().expect("a list");
    assert_eq!(merges[0]["name"], "one");
    assert_eq!(merges[0]["result"], "merges");
    assert_eq!(merges[1]["reason"], "conflict");
    assert_eq!((state(&repo), repo.refs("refs/")), before);
    let lines = repo.agent(["merge", "-n", "--porcelain"]).success();
    assert!(lines.lines()[1].contains("\tconflict\tmain\t"), "{lines}");
}

#[test]
fn what_does_not_merge_stays_and_the_rest_lands() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "one", &["write app left", "commit x"]);
    session(&repo, "two", &["write app right", "commit y"]);
    session(&repo, "three", &["write fresh file", "commit z"]);
    let shown = repo.agent(["merge", "one", "two", "three"]).code(1);
    assert!(shown.stdout().contains("conflict in 'app'"), "{shown}");
    assert_eq!(repo.state("three"), "merged");
    let states = [repo.state("one"), repo.state("two")];
    assert!(states.contains(&"merged".into()) && states.contains(&"ready".into()));
    repo.git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
    repo.assert_nothing_left_over();
}

#[test]
fn a_branch_that_is_not_checked_out_moves_alone() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed", "commit x"]);
    repo.git(["switch", "--quiet", "--create", "elsewhere"])
        .success();
    repo.write("app", "dirty\n");
    let before = state(&repo);
    repo.agent(["merge", "--into", "main"]).success();
    let after = state(&repo);
    assert_eq!(
        (after.files, after.staged, after.status),
        (before.files, before.staged, before.status)
    );
    repo.git(["show", "main:app"])
        .success()
        .assert_stdout("changed\n");
}

#[test]
fn a_person_takes_the_last_step_where_that_is_wanted() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.git(["config", "agent.mergeStrategy", "manual"])
        .success();
    session(&repo, "fix", &["write app changed", "commit x"]);
    let before = repo.id("main");
    repo.agent(["merge", "--into", "main", "fix"]).success();
    assert_eq!(repo.id("main"), before);
    assert_eq!(repo.state("fix"), "ready");
    repo.git(["merge", "--quiet", "--ff-only", "agent-merge/main"])
        .success();
    assert_eq!(repo.read("app"), b"changed\n");
    repo.git(["config", "agent.mergeStrategy", "auto"])
        .success();
    repo.git(["config", "--unset", "agent.test"]).success();
    repo.agent(["merge"])
        .code(128)
        .assert_says("without tests nothing may land");
}

#[test]
fn a_merge_that_somebody_built_on_is_undone_by_a_revert_if_a_person_agrees() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "one", &["write one first", "commit one"]);
    session(
        &repo,
        "two",
        &["write two second", "append app more", "commit two"],
    );
    repo.agent(["merge", "one", "two"]).success();
    repo.write("later", "of the user\n");
    repo.commit("later");
    let before = (state(&repo), repo.id("main"));
    let refused = repo.agent(["merge", "--undo"]).failure();
    assert!(refused.stderr().contains("revert"), "{refused}");
    assert_eq!((state(&repo), repo.id("main")), before, "nobody agreed");

    repo.write("dirty", "of the user\n");
    let undone = repo.agent(["merge", "--undo", "--yes"]).success();
    assert!(undone.stderr().contains("reverting the revert"), "{undone}");
    assert_eq!(repo.id("main^"), before.1, "history goes on");
    assert_eq!(repo.read("app"), b"one\ntwo\nthree\n");
    assert_eq!(repo.read("later"), b"of the user\n");
    assert_eq!(repo.read("dirty"), b"of the user\n");
    for gone in ["one", "two"] {
        assert!(!repo.path().join(gone).exists(), "{gone}");
        assert_eq!(repo.state(gone), "ready");
    }
    let status = repo.git(["status", "--porcelain"]).success();
    assert_eq!(status.stdout(), "?? dirty\n");
    repo.git(["revert", "--no-edit", "HEAD"]).success();
    assert_eq!(repo.read("two"), b"second\n");
    repo.assert_nothing_left_over();
}

#[test]
fn a_revert_that_conflicts_with_what_came_later_changes_nothing() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "one", &["write app first", "commit one"]);
    repo.agent(["merge", "one"]).success();
    repo.write("app", "first\nand later\n");
    repo.commit("later");
    let before = (state(&repo), repo.id("main"));
    let refused = repo.agent(["merge", "--undo", "--yes"]).failure();
    assert!(refused.stderr().contains("conflicts in 'app'"), "{refused}");
    assert_eq!((state(&repo), repo.id("main")), before);
    assert_eq!(repo.state("one"), "merged");
}
