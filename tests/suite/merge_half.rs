//! Where a landing finds its files, and what one that stops half-way leaves: everything goes back, and nothing of the
//! user's goes with it.

use std::path::{Path, PathBuf};

use git_agent_tests::faults::{Action, Plan};
use git_agent_tests::{Repo, Sandbox};

use crate::merge_land::{lab, session, state};

/// A lab whose session changes `app`, deletes `other`, adds `big`, `new` and, last of all, `z.slow`.
fn wide(sandbox: &Sandbox) -> Repo<'_> {
    let repo = lab(sandbox);
    let steps = [
        "write app changed",
        "git rm -q other",
        "write big file",
        "write new file",
        "write z.slow file",
        "commit x",
    ];
    session(&repo, "fix", &steps);
    repo
}

/// Gives what ends in `slow` a filter: this script writes the files in the user's checkout, or does not.
fn filter(repo: &Repo<'_>, script: &str) -> PathBuf {
    let path = repo.sandbox().root().join("filter.sh");
    let here = "case \"$(pwd)\" in */lab) ;; *) exec cat ;; esac\n";
    std::fs::write(&path, format!("{here}{script}")).expect("writable");
    let command = format!("sh '{}'", path.display());
    repo.git(["config", "filter.slow.smudge", &command])
        .success();
    repo.git(["config", "filter.slow.required", "true"])
        .success();
    let info = repo.common_dir().join("info");
    std::fs::create_dir_all(&info).expect("a directory");
    std::fs::write(info.join("attributes"), "*.slow filter=slow\n").expect("writable");
    repo.git(["config", "filter.slow.clean", "cat"]).success();
    path
}

#[test]
fn files_go_where_the_checkout_is_wherever_its_git_directory_is() {
    type Move = fn(&Sandbox, &Repo<'_>);
    let moves: [(&str, Move); 3] = [
        ("separate", |sandbox, repo| {
            let store = sandbox.root().join("store");
            let command = repo.git([
                "init",
                "-q",
                "--separate-git-dir",
                store.to_str().expect("plain"),
            ]);
            command.success();
        }),
        ("linked", |sandbox, repo| {
            let store = sandbox.root().join("store");
            std::fs::rename(repo.path().join(".git"), &store).expect("moved");
            std::os::unix::fs::symlink(&store, repo.path().join(".git")).expect("linked");
        }),
        ("elsewhere", |sandbox, repo| {
            let files = sandbox.root().join("files");
            std::fs::create_dir(&files).expect("a directory");
            for name in ["app", "other", ".gitignore", "README.md"] {
                std::fs::rename(repo.path().join(name), files.join(name)).expect("moved");
            }
            repo.git(["config", "core.worktree", files.to_str().expect("plain")])
                .success();
        }),
    ];
    for (name, take) in moves {
        let sandbox = Sandbox::new();
        let repo = lab(&sandbox);
        take(&sandbox, &repo);
        let here = match name {
            "elsewhere" => Repo::open(&sandbox, sandbox.root().join("files")),
            _ => Repo::open(&sandbox, repo.path()),
        };
        let place = repo.path().to_owned();
        // With files far away git itself finds the repository only by its name.
        let agent = |args: &[&str]| match name {
            "elsewhere" => repo.agent(args),
            _ => here.agent(args),
        };
        agent(&[
            "new",
            "fix",
            "--",
            "fake-agent",
            "write new file",
            "write app changed",
            "commit x",
        ])
        .success();
        agent(&["wait", "fix"]).success();
        agent(&["merge", "fix"]).success();
        assert_eq!(here.read("new"), b"file\n", "{name}");
        let status = repo.git(["status", "--porcelain", "-uno"]).success();
        assert_eq!(status.stdout(), "", "{name}");
        assert!(!repo.common_dir().join("new").exists(), "{name}");
        if name == "elsewhere" {
            assert!(!place.join("new").exists(), "{name}");
        }
    }
}

#[test]
fn a_submodule_gets_its_files_and_its_git_directory_none() {
    let sandbox = Sandbox::new();
    let inner = lab(&sandbox);
    let outer = sandbox.repo("outer").create();
    let source = inner.path().to_str().expect("plain");
    outer
        .git([
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "add",
            "-q",
            source,
            "sub",
        ])
        .success();
    outer.commit("with a part");
    let sub = Repo::open(&sandbox, outer.path().join("sub"));
    sub.git(["config", "agent.mergeStrategy", "auto"]).success();
    sub.git(["config", "agent.test", "true"]).success();
    session(
        &sub,
        "fix",
        &[
            "write hooks/post-checkout evil",
            "write new file",
            "commit x",
        ],
    );
    sub.agent(["merge", "fix"]).success();
    assert_eq!(sub.read("new"), b"file\n");
    assert_eq!(sub.git(["status", "--porcelain"]).success().stdout(), "");
    assert!(!sub.common_dir().join("new").exists());
    assert!(!sub.common_dir().join("hooks/post-checkout").exists());
}

#[test]
fn what_the_user_staged_stays_when_a_merge_is_refused() {
    let sandbox = Sandbox::new();
    let repo = wide(&sandbox);
    // The same as the session has, so git itself would not object to it.
    repo.git(["checkout", "-q", "agent/fix", "--", "new", "big"])
        .success();
    repo.write("app", "of the user\n");
    let before = state(&repo);
    let refused = repo.agent(["merge", "fix"]).failure();
    assert!(refused.stderr().contains("staged"), "{refused}");
    assert_eq!(state(&repo), before);
    repo.git(["commit", "-q", "-m", "mine", "--", "new", "big"])
        .success();
    let before = state(&repo);
    let refused = repo.agent(["merge", "fix"]).failure();
    assert!(refused.stderr().contains("'app'"), "{refused}");
    assert_eq!(state(&repo), before);
    repo.git(["checkout", "-q", "app"]).success();
    repo.agent(["merge", "fix"]).success();
    repo.assert_nothing_left_over();
}

#[test]
fn a_refused_merge_is_not_in_the_way_of_the_next() {
    let sandbox = Sandbox::new();
    let repo = wide(&sandbox);
    session(&repo, "free", &["write free file", "commit y"]);
    repo.write("new", "of the user\n");
    repo.agent(["merge", "fix"]).failure();
    repo.agent(["merge", "free"]).success();
    let none = repo.agent(["merge", "--abort"]).failure();
    assert!(none.stderr().contains("no interrupted merge"), "{none}");
    assert_eq!(repo.read("new"), b"of the user\n");
    assert_eq!(repo.read("free"), b"file\n");
}

#[test]
fn a_checkout_that_fails_half_way_goes_back_and_the_reason_is_told() {
    let sandbox = Sandbox::new();
    let repo = wide(&sandbox);
    filter(&repo, "head -c 2; exit 1\n");
    repo.write("mine", "of the user\n");
    let before = state(&repo);
    let failed = repo.agent(["merge", "fix"]).failure();
    assert!(failed.stderr().contains("z.slow"), "{failed}");
    assert!(!failed.stderr().contains("not uptodate"), "{failed}");
    assert_eq!(state(&repo), before);
    // The same when only the files are asked for.
    let failed = repo.agent(["merge", "--apply", "fix"]).failure();
    assert!(failed.stderr().contains("z.slow"), "{failed}");
    assert_eq!(state(&repo), before);
    filter(&repo, "cat\n");
    repo.agent(["merge", "fix"]).success();
    assert_eq!(repo.read("z.slow"), b"file\n");
    assert_eq!(repo.read("mine"), b"of the user\n");
    repo.assert_nothing_left_over();
}

/// Kills everything from the filter up to the program that merges, once.
const KILL: &str = r#"
if [ -e "$0.armed" ]; then
    rm "$0.armed"
    pid=$$
    all=
    while [ "$pid" -gt 1 ]; do
        pid=$(sed 's/.*) . \([0-9]*\) .*/\1/' "/proc/$pid/stat")
        all="$all $pid"
        [ "$(cat "/proc/$pid/comm")" = git-agent-merge ] && break
    done
    kill -9 $all
fi
cat
"#;

#[test]
fn a_merge_killed_half_way_goes_back_and_what_was_written_since_stays() {
    for (name, since) in [("nothing", false), ("edit", true)] {
        let sandbox = Sandbox::new();
        let repo = wide(&sandbox);
        let script = filter(&repo, KILL);
        let before = state(&repo);
        std::fs::write(format!("{}.armed", script.display()), "").expect("writable");
        repo.agent(["merge", "fix"]).whatever();
        assert_ne!(state(&repo), before, "{name}: it was half-way");
        assert!(repo.common_dir().join("index.lock").exists(), "{name}");
        if since {
            // The user's own git goes on once anything of ours was asked for.
            repo.agent(["list"]).success();
            // Another branch at the same commit, and a file of the user's where one was to come.
            repo.git(["checkout", "-q", "-b", "mine"]).success();
            repo.write("app", "changed\nand more\n");
        }
        let back = repo.agent(["merge", "--abort"]).success();
        if since {
            assert!(back.stderr().contains("app' was edited since"), "{back}");
            assert_eq!(repo.read("app"), b"changed\nand more\n");
            repo.git(["checkout", "-q", "app"]).success();
            repo.git(["checkout", "-q", "main"]).success();
            repo.git(["branch", "-q", "-D", "mine"]).success();
        }
        assert_eq!(state(&repo), before, "{name}");
        repo.agent(["merge", "fix"]).success();
        assert_eq!(repo.read("new"), b"file\n");
    }
}

#[test]
fn a_merge_killed_after_its_files_goes_back_over_nothing_of_the_users() {
    let sandbox = Sandbox::new();
    let repo = wide(&sandbox);
    let plan = Plan::meet("land.files.updated".to_owned(), Action::Kill);
    plan.apply(repo.agent_cmd(["merge", "fix"]))
        .run()
        .whatever();
    assert_eq!(repo.read("app"), b"changed\n", "it was there");
    repo.write("app", "changed\nand more\n");
    repo.write("other", "of the user\n");
    let back = repo.agent(["merge", "--abort"]).success();
    for path in ["app", "other"] {
        let said = format!("{path}' was edited since");
        assert!(back.stderr().contains(&said), "{back}");
    }
    assert_eq!(repo.read("app"), b"changed\nand more\n");
    assert_eq!(repo.read("other"), b"of the user\n");
    let status = repo.git(["status", "--porcelain"]).success();
    assert_eq!(status.stdout(), " M app\n M other\n");
}

#[test]
fn taking_applied_changes_back_overwrites_nothing_that_is_ignored() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.write("kept.ignored", "of the project\n");
    repo.git(["add", "-f", "kept.ignored"]).success();
    repo.commit("one that is ignored");
    session(&repo, "fix", &["git rm -q kept.ignored", "commit x"]);
    repo.agent(["merge", "--apply", "fix"]).success();
    assert!(!Path::new(&repo.path().join("kept.ignored")).exists());
    repo.write("kept.ignored", "of the user\n");
    let refused = repo.agent(["merge", "--undo", "--yes"]).failure();
    assert!(refused.stderr().contains("'kept.ignored'"), "{refused}");
    assert_eq!(repo.read("kept.ignored"), b"of the user\n");
    std::fs::remove_file(repo.path().join("kept.ignored")).expect("it is there");
    repo.agent(["merge", "--undo", "--yes"]).success();
    assert_eq!(repo.read("kept.ignored"), b"of the project\n");
}
