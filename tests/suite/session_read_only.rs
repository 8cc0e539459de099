//! Sessions that may only read: what they write is kept, put back and told, in their own worktree and in another's.

use git_agent_tests::{Repo, Sandbox, wait_until};

fn told(repo: &Repo<'_>, name: &str) -> String {
    repo.texts(name, "guard").join("\n")
}

#[test]
fn what_a_session_writes_that_may_only_read_is_kept_and_put_back() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("a", "a\n");
    repo.commit("add a");
    repo.new_session(
        "r",
        &["--read-only"],
        &["write hack.txt x", "append a more", "print done"],
    );
    repo.await_state("r", "failed");
    let worktree = repo.worktree_of("r");
    assert!(!worktree.path().join("hack.txt").exists());
    assert_eq!(worktree.read("a"), b"a\n");
    let session = repo.session("r");
    let reason = session["exit"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("is read-only"), "{session}");
    let said = told(&repo, "r");
    assert!(said.contains("'a', 'hack.txt' changed"), "{said}");
    // What was written can be had.
    let (_, id) = said.rsplit_once(" --to ").expect("the command");
    repo.agent(["rewind", "r", "--to", id.trim()]).success();
    assert_eq!(worktree.read("hack.txt"), b"x\n");
    assert_eq!(worktree.read("a"), b"a\nmore\n");
    repo.assert_nothing_left_over();
}

#[test]
fn a_session_that_reads_and_writes_nothing_is_ready() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("r", &["--read-only"], &["print looked"]);
    repo.await_state("r", "ready");
    assert_eq!(told(&repo, "r"), "");
}

#[test]
fn a_reader_never_adds_to_the_work_it_reads() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session(
        "s",
        &[],
        &["write a a", "commit a", "write dirty dirty", "append a x"],
    );
    repo.await_state("s", "ready");
    repo.new_session(
        "guest",
        &["--in", "s", "--read-only"],
        &[
            "write hack.txt x",
            "remove dirty",
            "try git add -A",
            "print read",
        ],
    );
    repo.await_state("guest", "failed");
    let worktree = repo.worktree_of("s");
    worktree
        .git(["status", "--porcelain"])
        .success()
        .assert_stdout(" M a\n?? dirty\n");
    assert_eq!(worktree.read("dirty"), b"dirty\n");
    assert_eq!(worktree.read("a"), b"a\nx\n");
    assert!(told(&repo, "guest").contains("'hack.txt'"));
    assert_eq!(repo.state("s"), "ready");
    repo.agent(["review", "approve", "s"]).success();
    repo.agent(["merge", "--into", "main", "--yes", "s"])
        .success();
    repo.git(["cat-file", "-e", "main:dirty"]).success();
    repo.git(["cat-file", "-e", "main:hack.txt"]).failure();
    repo.assert_nothing_left_over();
}

#[test]
fn a_reader_waits_for_who_writes_and_keeps_what_was_written() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let go = sandbox.root().join("go");
    let until = format!("until {}", go.display());
    repo.new_session("s", &[], &["write one 1", &until, "write two 2"]);
    wait_until("the writer writes", || {
        repo.worktree_of("s").path().join("one").exists()
    });
    repo.new_session("guest", &["--in", "s", "--read-only"], &["print read"]);
    repo.await_state("guest", "queued");
    std::fs::write(&go, "").expect("written");
    repo.await_state("s", "ready");
    repo.await_state("guest", "ready");
    assert_eq!(repo.worktree_of("s").read("two"), b"2\n");
    assert_eq!(told(&repo, "guest"), "");
    repo.assert_nothing_left_over();
}
