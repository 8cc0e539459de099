//! `clean` takes away only what is saved, says truly beforehand what it will take, and all of it comes back.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use git_agent_tests::sessions::files_below;
use git_agent_tests::{Repo, Sandbox};
use serde_json::Value;

/// Everything in a worktree that a person could miss: content, modes and links.
fn manifest(top: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    files_below(top)
        .into_iter()
        .filter(|path| path != &top.join(".git"))
        .map(|path| {
            let meta = path.symlink_metadata().expect("it is there");
            let bytes = if meta.file_type().is_symlink() {
                std::fs::read_link(&path)
                    .expect("a link")
                    .as_os_str()
                    .as_bytes()
                    .to_vec()
            } else {
                std::fs::read(&path).expect("readable")
            };
            let mode = meta.permissions().mode() & 0o111;
            let place = path.strip_prefix(top).expect("below").to_owned();
            (place, (mode, bytes))
        })
        .collect()
}

fn status(repo: &Repo<'_>) -> String {
    repo.git(["status", "--porcelain", "--ignored"])
        .success()
        .stdout()
        .to_owned()
}

/// Makes a session that committed a file, and merges it if told.
fn made(repo: &Repo<'_>, name: &str, merged: bool) {
    let step = format!("write {name}.txt {name}");
    repo.new_session(name, &[], &[&step, "commit work"]);
    repo.await_state(name, "ready");
    if merged {
        repo.git([
            "merge",
            "--quiet",
            "--no-ff",
            "-m",
            "merge",
            &format!("agent/{name}"),
        ])
        .success();
    }
}

/// Returns what `clean` says, by session.
fn clean(repo: &Repo<'_>, args: &[&str]) -> BTreeMap<String, Value> {
    let said = repo
        .agent_cmd(["clean", "--json"])
        .args(args)
        .run()
        .success();
    let envelope: Value = serde_json::from_slice(said.stdout_bytes()).expect("an envelope");
    let list = envelope["cleaned"].as_array().expect("a list").clone();
    list.into_iter()
        .map(|one| (one["name"].as_str().expect("a name").to_owned(), one))
        .collect()
}

fn with_odd_files(worktree: &Repo<'_>) {
    worktree.write("deep/er/untracked", "untracked\n");
    worktree.write("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(
        worktree.path().join("run.sh"),
        std::fs::Permissions::from_mode(0o755),
    )
    .expect("ours");
    symlink("nowhere/at all", worktree.path().join("link")).expect("ours");
    worktree.write_difficult_names();
    worktree.write("binary", [0_u8, 255, 10, 13, 0]);
}

#[test]
fn only_what_is_saved_goes_and_all_of_it_comes_back() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let gate = sandbox.root().join("gate");
    for name in [
        "merged",
        "dirty",
        "untracked",
        "locked",
        "missing",
        "moved",
        "elsewhere",
    ] {
        made(&repo, name, true);
    }
    made(&repo, "unmerged", false);
    made(&repo, "squashed", false);
    repo.git(["merge", "--quiet", "--squash", "agent/squashed"])
        .success();
    repo.commit("squashed");
    let until = format!("until {}", gate.display());
    repo.new_session(
        "running",
        &[],
        &["write running.txt x", "commit work", &until],
    );
    repo.await_state("running", "running");
    let worktree = |name: &str| repo.worktree_of(name);
    worktree("dirty").write("dirty.txt", "changed\n");
    worktree("dirty").write("staged", "staged\n");
    worktree("dirty").git(["add", "staged"]).success();
    with_odd_files(&worktree("untracked"));
    repo.command("git")
        .args(["worktree", "lock", "--reason", "mine"])
        .arg(worktree("locked").path())
        .run()
        .success();
    let missing = worktree("missing").path().to_owned();
    std::fs::remove_dir_all(&missing).expect("ours");
    let moved = worktree("moved").path().to_owned();
    let aside = moved.with_file_name("moved-away");
    std::fs::rename(&moved, &aside).expect("ours");
    worktree("elsewhere")
        .git(["checkout", "--quiet", "--detach"])
        .success();
    let other = sandbox.work().join("other");
    repo.command("git")
        .args(["worktree", "add", "--quiet"])
        .arg(&other)
        .arg("agent/elsewhere")
        .run()
        .success();

    let before: BTreeMap<&str, _> = ["merged", "dirty", "untracked", "squashed", "unmerged"]
        .into_iter()
        .map(|name| {
            let tree = worktree(name);
            (
                name,
                (manifest(tree.path()), status(&tree), tree.id("HEAD")),
            )
        })
        .collect();
    let refs = repo.refs("");
    let places: Vec<PathBuf> = files_below(&sandbox.work())
        .into_iter()
        .filter(|path| !path.to_string_lossy().contains("/.git/"))
        .collect();
    let promised = clean(&repo, &["--dry-run"]);
    assert_eq!(repo.refs(""), refs, "a dry run moves no ref");
    let still: Vec<PathBuf> = files_below(&sandbox.work())
        .into_iter()
        .filter(|path| !path.to_string_lossy().contains("/.git/"))
        .collect();
    assert_eq!(still, places, "a dry run removes no file");
    let done = clean(&repo, &[]);
    assert_eq!(done, promised, "what was promised is what was done");

    for name in ["merged", "dirty", "untracked", "squashed"] {
        assert!(
            done[name]["worktree"].is_string(),
            "{name}: {:#}",
            done[name]
        );
        assert!(done[name]["branch"].is_string(), "{name}: {:#}", done[name]);
        assert!(
            !repo
                .refs("refs/heads")
                .contains_key(&format!("refs/heads/agent/{name}"))
        );
    }
    assert!(!done.contains_key("unmerged"), "{done:#?}");
    assert!(worktree("unmerged").path().is_dir());
    assert!(worktree("running").path().is_dir());
    assert!(worktree("locked").path().is_dir());
    assert!(
        done["locked"]["kept"][0]
            .as_str()
            .expect("words")
            .contains("mine")
    );
    assert!(aside.join("moved.txt").exists());
    assert!(done["moved"]["kept"].is_array(), "{:#}", done["moved"]);
    assert!(other.join("elsewhere.txt").exists());
    assert!(
        repo.refs("refs/heads")
            .contains_key("refs/heads/agent/elsewhere")
    );
    assert!(
        done["elsewhere"]["kept"].is_array(),
        "{:#}",
        done["elsewhere"]
    );

    let named = clean(&repo, &["unmerged"]);
    assert!(named["unmerged"]["worktree"].is_string());
    assert!(!worktree("unmerged").path().exists());
    assert!(
        repo.refs("refs/heads")
            .contains_key("refs/heads/agent/unmerged")
    );

    for (name, (files, said, head)) in &before {
        repo.agent(["restore", name]).success();
        let tree = worktree(name);
        assert_eq!(&manifest(tree.path()), files, "{name}");
        assert_eq!(&status(&tree), said, "{name}");
        assert_eq!(&tree.id("HEAD"), head, "{name}");
        assert_eq!(
            tree.git(["symbolic-ref", "HEAD"]).success().line(),
            format!("refs/heads/agent/{name}")
        );
    }
    std::fs::write(&gate, "").expect("the sandbox is writable");
    repo.await_state("running", "ready");
    repo.assert_whole();
    repo.git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
}

#[test]
fn work_done_after_the_merge_is_not_lost() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    made(&repo, "more", true);
    let tree = repo.worktree_of("more");
    tree.write("later.txt", "later\n");
    tree.commit("later");
    let tip = tree.id("HEAD");
    let done = clean(&repo, &[]);
    assert!(
        !done.contains_key("more") || done["more"]["branch"].is_null(),
        "{done:#?}"
    );
    assert_eq!(repo.id("agent/more"), tip);
    assert!(tree.path().join("later.txt").exists());
}

#[test]
fn a_worktree_that_is_somewhere_else_than_on_its_branch_keeps_its_commits() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    made(&repo, "off", true);
    let tree = repo.worktree_of("off");
    tree.git(["checkout", "--quiet", "--detach"]).success();
    tree.write("detached.txt", "detached\n");
    let tip = tree.commit("on no branch");
    let files = manifest(tree.path());
    clean(&repo, &["off"]);
    if !tree.path().exists() {
        repo.git(["gc", "--quiet", "--prune=now"]).success();
        repo.agent(["restore", "off"]).success();
    }
    assert_eq!(manifest(tree.path()), files);
    assert_eq!(tree.id("HEAD"), tip);
}

#[test]
fn the_main_worktree_and_the_default_branch_stay_whatever_is_said() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "agent.branchPrefix", ""]).success();
    repo.agent(["new", "main", "--", "fake-agent", "write x x"])
        .failure();
    repo.git(["config", "--unset", "agent.branchPrefix"])
        .success();
    made(&repo, "one", true);
    let tip = repo.id("main");
    let session = repo.session("one");
    // A person takes the session's branch into the main worktree, and the default branch into the session's.
    let tree = repo.worktree_of("one");
    tree.git(["checkout", "--quiet", "--detach"]).success();
    repo.git(["checkout", "--quiet", "agent/one"]).success();
    tree.git(["checkout", "--quiet", "main"]).success();
    for args in [
        &["clean"][..],
        &["clean", "one"],
        &["clean", "--all"],
        &["clean", "main"],
        &["clean", "."],
    ] {
        repo.agent(args).whatever();
        assert!(repo.path().join("README.md").exists(), "{args:?}");
        assert_eq!(repo.id("main"), tip, "{args:?}");
        assert!(
            repo.refs("refs/heads").contains_key("refs/heads/agent/one"),
            "{args:?}"
        );
    }
    assert_eq!(session["branch"], "agent/one");
}

#[test]
fn those_who_share_a_worktree_go_together() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    made(&repo, "host", false);
    repo.new_session("guest", &["--in", "host"], &["write guest.txt x"]);
    repo.await_state("guest", "ready");
    let tree = repo.worktree_of("host");
    for (alone, other) in [("host", "guest"), ("guest", "host")] {
        let said = clean(&repo, &[alone]);
        let kept = format!("it shares its worktree with '{other}'");
        assert_eq!(said[alone]["kept"][0], kept.as_str());
    }
    assert!(tree.path().join("guest.txt").exists());
    for words in [&["--dry-run", "guest", "host"][..], &["guest", "host"]] {
        let said = clean(&repo, words);
        for name in ["host", "guest"] {
            assert_eq!(said[name]["worktree"], tree.path().to_str().expect("plain"));
        }
    }
    assert!(!tree.path().exists());
    repo.assert_nothing_left_over();
    // Either can have it back, with what nobody committed.
    repo.agent(["restore", "guest"]).success();
    assert_eq!(tree.read("guest.txt"), b"x\n");
    assert_eq!(tree.read("host.txt"), b"host\n");
    assert!(clean(&repo, &[]).is_empty());
    assert!(tree.path().exists());
}

#[test]
fn a_prompt_brings_a_worktree_back_that_is_gone() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let script = "echo turn >>loose; git commit -q --allow-empty -m turn; echo done";
    repo.agent(["new", "--json", "--name", "s", "task", "--", script])
        .success();
    repo.await_state("s", "ready");
    let loose = repo.worktree_of("s").path().join("loose");
    let text = || std::fs::read_to_string(&loose).expect("readable");
    clean(&repo, &["s"]);
    assert!(!loose.exists());
    repo.agent(["send", "s", "more"]).success();
    repo.agent(["wait", "--timeout", "60s", "s"]).success();
    assert_eq!(text(), "turn\nturn\n", "what was not committed is there");
    std::fs::remove_dir_all(loose.parent().expect("a worktree")).expect("removable");
    repo.agent(["restart", "s", "-m", "again"]).success();
    repo.agent(["wait", "--timeout", "60s", "s"]).success();
    assert_eq!(text(), "turn\nturn\nturn\n");
    let count = ["rev-list", "--count", "main..agent/s"];
    assert_eq!(repo.git(count).success().line(), "3");
    assert!(
        repo.agent(["log", "s"])
            .success()
            .stdout()
            .contains("the worktree was restored from")
    );
}
