//! `git agent doctor` on worktrees whose records in the git directory are damaged: found, said, mended, and no file is lost.

use std::fs;
use std::path::PathBuf;

use git_agent_tests::{RefFormat, Repo, Sandbox};

/// Makes a session with committed, changed, staged and untracked files.
fn session<'a>(repo: &Repo<'a>) -> Repo<'a> {
    repo.new_session("s", &[], &["write first.txt 1", "commit work"]);
    repo.await_state("s", "ready");
    let worktree = repo.worktree_of("s");
    worktree.write("first.txt", "changed\n");
    worktree.write("staged.txt", "staged\n");
    worktree.git(["add", "staged.txt"]).success();
    worktree.write("untracked.txt", "untracked\n");
    worktree
}

fn record(repo: &Repo<'_>) -> PathBuf {
    repo.common_dir().join("worktrees/s")
}

/// Asserts that the doctor says this, that `--fix` mends it, and that all files are there.
#[track_caller]
fn assert_mended(repo: &Repo<'_>, worktree: &Repo<'_>, words: &str) {
    let shown = repo.agent(["doctor", "--json"]).code(1).json();
    assert!(shown.to_string().contains(words), "{shown:#}");
    let fixed = repo.agent(["doctor", "--fix"]).whatever();
    assert!(fixed.status().success(), "{fixed}");
    repo.agent(["doctor"]).success();
    for (name, content) in [
        ("first.txt", "changed\n"),
        ("staged.txt", "staged\n"),
        ("untracked.txt", "untracked\n"),
    ] {
        assert_eq!(worktree.read(name), content.as_bytes(), "{name}");
    }
    let branch = worktree.git(["symbolic-ref", "HEAD"]).success();
    assert_eq!(branch.stdout().trim(), "refs/heads/agent/s");
    repo.assert_whole();
}

/// Asserts that the session goes on as any other.
#[track_caller]
fn assert_goes_on(repo: &Repo<'_>, worktree: &Repo<'_>) {
    let said = worktree.git(["status", "--porcelain"]).success();
    assert!(
        said.stdout().contains(" M first.txt\n"),
        "{}",
        said.stdout()
    );
    repo.agent(["review", "approve", "s"]).success();
    repo.agent(["merge", "--into", "main", "--yes", "s"])
        .success();
    repo.git(["cat-file", "-e", "main:untracked.txt"]).success();
    repo.git(["cat-file", "-e", "main:staged.txt"]).success();
}

#[test]
fn a_damaged_index_is_made_again() {
    for refs in RefFormat::available() {
        for damage in ["garbage", "truncated", "empty", "flipped"] {
            let sandbox = Sandbox::new();
            let repo = sandbox.repo("r").refs(*refs).create();
            let worktree = session(&repo);
            let index = record(&repo).join("index");
            let mut bytes = fs::read(&index).expect("an index");
            let half = bytes.len() / 2;
            match damage {
                "garbage" => bytes = b"garbage".repeat(40),
                "truncated" => bytes.truncate(half),
                "empty" => bytes.clear(),
                _ => bytes[half] ^= 0x55,
            }
            fs::write(&index, &bytes).expect("written");
            assert_mended(&repo, &worktree, "is damaged");
            let lost = fs::read_dir(repo.common_dir().join("agents/lost")).expect("lost");
            let lost: Vec<_> = lost.flatten().map(|entry| entry.path()).collect();
            assert!(
                lost.iter()
                    .any(|path| fs::read(path).is_ok_and(|kept| kept == bytes)),
                "{damage}: {lost:?}"
            );
            assert_goes_on(&repo, &worktree);
        }
    }
}

#[test]
fn an_index_without_a_checksum_is_not_damaged() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "index.skipHash", "true"]).success();
    session(&repo);
    repo.agent(["doctor"]).success();
}

#[test]
fn a_record_that_is_gone_is_made_again() {
    for refs in RefFormat::available() {
        for with_other in [false, true] {
            let sandbox = Sandbox::new();
            let repo = sandbox.repo("r").refs(*refs).create();
            let worktree = session(&repo);
            if with_other {
                repo.new_session("other", &[], &["write other.txt 1", "commit other"]);
                repo.await_state("other", "ready");
                fs::remove_dir_all(record(&repo)).expect("removed");
            } else {
                // git removes the directory with the last record in it.
                fs::remove_dir_all(repo.common_dir().join("worktrees")).expect("removed");
            }
            assert_mended(&repo, &worktree, "is gone: ");
            assert!(record(&repo).is_dir());
            let tmp = fs::read_dir(repo.common_dir().join("agents/tmp"));
            assert_eq!(tmp.into_iter().flatten().count(), 0);
            assert_goes_on(&repo, &worktree);
        }
    }
}

#[test]
fn a_record_is_not_made_again_while_its_branch_is_elsewhere() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let worktree = session(&repo);
    fs::remove_dir_all(record(&repo)).expect("removed");
    repo.git(["switch", "--quiet", "agent/s"]).success();
    let said = repo.agent(["doctor", "--fix", "--json"]).code(1).json();
    assert!(said.to_string().contains("is checked out in"), "{said:#}");
    assert_eq!(worktree.read("first.txt"), b"changed\n");
    assert!(!record(&repo).exists());
    repo.git(["switch", "--quiet", "main"]).success();
    assert_mended(&repo, &worktree, "is gone: ");
}

#[test]
fn a_malformed_mark_of_a_restore_is_mended() {
    for mark in [&b""[..], b"to nowhere\n", b"\xff\xfe"] {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").create();
        let worktree = session(&repo);
        repo.agent(["snapshot", "s"]).success();
        fs::write(record(&repo).join("agent-restoring"), mark).expect("written");
        assert_mended(&repo, &worktree, "is malformed");
        assert!(!record(&repo).join("agent-restoring").exists());
        assert_goes_on(&repo, &worktree);
    }
}

#[test]
fn files_under_a_malformed_mark_that_no_snapshot_holds_are_kept() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let worktree = session(&repo);
    repo.agent(["snapshot", "s"]).success();
    worktree.write("half.txt", "half\n");
    fs::write(record(&repo).join("agent-restoring"), "to").expect("written");
    assert_mended(&repo, &worktree, "is malformed");
    let said = repo.texts("s", "notice").join("\n");
    let (_, kept) = said.rsplit_once("are kept under '").expect("the ref");
    let kept = kept.split('\'').next().unwrap_or_default();
    let held = repo.git(["ls-tree", "-r", "--name-only", kept]).success();
    assert!(held.stdout().contains("half.txt"), "{}", held.stdout());
}
