//! What `clean` takes away `restore` brings back byte for byte; what no snapshot holds is named, and keeps the worktree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use git_agent_tests::sessions::files_below;
use git_agent_tests::{Repo, Sandbox};

fn manifest(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files_below(top)
        .into_iter()
        .filter(|path| path != &top.join(".git"))
        .map(|path| {
            let bytes = std::fs::read(&path).unwrap_or_default();
            (path.strip_prefix(top).expect("below").to_owned(), bytes)
        })
        .collect()
}

fn session<'a>(repo: &Repo<'a>) -> Repo<'a> {
    repo.new_session("s", &[], &["write first.txt 1", "commit work"]);
    repo.await_state("s", "ready");
    repo.worktree_of("s")
}

/// Asserts that a session's worktree goes and comes back as it is.
#[track_caller]
fn assert_comes_back(repo: &Repo<'_>, worktree: &Repo<'_>) {
    let before = manifest(worktree.path());
    let status = |worktree: &Repo<'_>| {
        let said = worktree.git(["status", "--porcelain", "--untracked-files=all"]);
        said.success().stdout().to_owned()
    };
    let said = status(worktree);
    repo.agent(["clean", "s"]).success();
    assert!(!worktree.path().exists());
    repo.agent(["restore", "s"]).success();
    assert_eq!(manifest(worktree.path()), before);
    assert_eq!(status(worktree), said);
    repo.agent(["doctor"]).success();
}

/// Asserts that a session's worktree stays, for a reason that says this.
#[track_caller]
fn assert_stays(repo: &Repo<'_>, worktree: &Repo<'_>, why: &str) {
    let before = manifest(worktree.path());
    for options in [&["--dry-run"][..], &[]] {
        let said = repo
            .agent_cmd(["clean", "--json", "s"])
            .args(options)
            .run()
            .whatever();
        let told = said.json()["cleaned"][0].clone();
        assert!(told["worktree"].is_null(), "{told:#}");
        let kept = told["kept"].to_string();
        assert!(kept.contains(why), "{kept}");
    }
    assert_eq!(manifest(worktree.path()), before);
}

#[test]
fn names_that_other_systems_cannot_have_come_back() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let worktree = session(&repo);
    for path in ["git~1/z", ".git /b", "a/.git./b", "plain"] {
        worktree.write(path, format!("{path}\n"));
    }
    assert_comes_back(&repo, &worktree);
    for number in 0..300 {
        worktree.write(format!("GIT~1/{number}"), "many\n");
    }
    assert_comes_back(&repo, &worktree);
}

#[test]
fn files_outside_of_a_sparse_cone_come_back() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    for path in ["in/a", "out/a", "out/b", "far/a"] {
        repo.write(path, "committed\n");
    }
    repo.commit("base");
    repo.git(["sparse-checkout", "set", "--cone", "in"])
        .success();
    let worktree = session(&repo);
    assert!(!worktree.path().join("out/a").exists());
    worktree.write("out/new", "untracked\n");
    worktree.write("out/a", "changed\n");
    worktree.write("in/new", "untracked\n");
    let before = manifest(worktree.path());
    repo.agent(["clean", "s"]).success();
    repo.agent(["restore", "s"]).success();
    assert_eq!(manifest(worktree.path()), before);
}

#[test]
fn a_worktree_on_another_branch_stays() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let worktree = session(&repo);
    worktree.git(["checkout", "--quiet", "-b", "x"]).success();
    worktree.write("mine", "mine\n");
    worktree.commit("mine");
    worktree.write("more", "more\n");
    let own = repo.id("agent/s");
    assert_stays(&repo, &worktree, "on branch 'x'");
    assert_eq!(repo.id("agent/s"), own);
}

#[test]
fn what_git_takes_for_its_own_is_named_and_stays() {
    for path in ["fixture/.git/config", ".GIT/x", "sub/.git", "sub/.Git"] {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").create();
        let worktree = session(&repo);
        worktree.write(path, "not a repository\n");
        worktree.write("sub/other", "other\n");
        let name = path.trim_end_matches("/config").trim_end_matches("/x");
        assert_stays(&repo, &worktree, name);
    }
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let worktree = session(&repo);
    std::os::unix::fs::symlink("first.txt", worktree.path().join(".gitmodules")).expect("ours");
    assert_stays(&repo, &worktree, ".gitmodules");
}

#[test]
fn line_ends_come_back_as_they_were() {
    for eol in ["core.autocrlf=true", "core.eol=crlf"] {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").create();
        repo.write(".gitattributes", "*.txt text\n");
        repo.commit("attributes");
        let (key, value) = eol.split_once('=').expect("a pair");
        repo.git(["config", key, value]).success();
        repo.write("base.txt", "a\r\nb\r\n");
        repo.commit("base");
        let worktree = session(&repo);
        worktree.write("lf.txt", "one\ntwo\n");
        worktree.write("crlf.txt", "one\r\ntwo\r\n");
        worktree.commit("both");
        worktree.write("later.txt", "one\ntwo\n");
        worktree.write("none.txt", "no end");
        assert_comes_back(&repo, &worktree);
    }
}

/// Begins something in a worktree that git does not come to the end of.
fn begin(repo: &Repo<'_>, worktree: &Repo<'_>, what: &str) {
    repo.write("first.txt", "theirs\n");
    repo.commit("theirs");
    match what {
        "merge" => worktree.git(["merge", "main"]).failure(),
        "cherry-pick" => worktree.git(["cherry-pick", "main"]).failure(),
        "revert" => {
            worktree.write("first.txt", "later\n");
            worktree.commit("later");
            worktree.git(["revert", "--no-edit", "HEAD~1"]).failure()
        }
        "bisect" => worktree.git(["bisect", "start"]).success(),
        _ => worktree.git(["rebase", "main"]).failure(),
    };
}

#[test]
fn a_worktree_in_the_middle_of_an_operation_stays() {
    for (what, mark, why) in [
        ("merge", "MERGE_HEAD", "a merge is in progress"),
        (
            "cherry-pick",
            "CHERRY_PICK_HEAD",
            "a cherry-pick is in progress",
        ),
        ("revert", "REVERT_HEAD", "a revert is in progress"),
        ("bisect", "BISECT_LOG", "a bisect is in progress"),
        ("rebase", "rebase-merge", "a rebase is in progress"),
    ] {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").create();
        let worktree = session(&repo);
        begin(&repo, &worktree, what);
        let status = |worktree: &Repo<'_>| worktree.git(["status"]).success().stdout().to_owned();
        let before = status(&worktree);
        assert_stays(&repo, &worktree, why);
        repo.agent(["recreate", "--yes", "s"]).failure();
        let mark = repo.common_dir().join("worktrees/s").join(mark);
        assert!(mark.exists(), "{what}");
        assert_eq!(status(&worktree), before, "{what}");
    }
}

#[test]
fn temporary_files_of_the_dead_are_removed() {
    for look in [&["list"][..], &["doctor", "--fix"]] {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").create();
        session(&repo);
        let tmp = repo.common_dir().join("agents/tmp");
        std::fs::create_dir_all(tmp.join("worktree-999999999-1")).expect("ours");
        let own = format!("ref-{}-1", std::process::id());
        let names = [
            "ref-999999999-1f",
            "index-999999999-1f.lock",
            "reflog-999999999-1f",
            "locks-999999999-1f",
            "writer-999999999",
            "own-before-999999999",
            own.as_str(),
        ];
        std::fs::create_dir_all(tmp.join("merges-999999999-1/ab")).expect("ours");
        let old = SystemTime::now() - Duration::from_secs(120);
        for name in names
            .iter()
            .chain(&["worktree-999999999-1", "merges-999999999-1"])
        {
            let path = tmp.join(name);
            if !path.is_dir() {
                std::fs::write(&path, "x").expect("ours");
            }
            let file = std::fs::File::open(&path).expect("ours");
            file.set_modified(old).expect("ours");
        }
        repo.agent(look).success();
        let left: Vec<_> = std::fs::read_dir(&tmp)
            .expect("there")
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(left, [own.as_str()], "{look:?}");
    }
}
