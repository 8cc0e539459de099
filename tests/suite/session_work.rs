//! Where a session's work comes from and goes to: carried changes, forks, shared worktrees, versions, drafts, earlier turns.

use std::collections::BTreeMap;
use std::path::PathBuf;

use git_agent_tests::faults::{Action, Plan};
use git_agent_tests::sessions::files_below;
use git_agent_tests::{Repo, Sandbox, wait_until};

fn files(repo: &Repo<'_>) -> BTreeMap<PathBuf, Vec<u8>> {
    files_below(repo.path())
        .into_iter()
        .filter(|path| !path.starts_with(repo.path().join(".git")))
        .map(|path| (path.clone(), std::fs::read(&path).unwrap_or_default()))
        .collect()
}

fn status(repo: &Repo<'_>) -> String {
    repo.git(["status", "--porcelain"])
        .success()
        .stdout()
        .to_owned()
}

/// Leaves staged, unstaged, half-staged, deleted and untracked changes.
fn unfinished<'a>(sandbox: &'a Sandbox) -> Repo<'a> {
    let repo = sandbox.repo("r").create();
    for name in ["staged", "both", "unstaged", "gone", "renamed"] {
        repo.write(name, format!("{name}\n"));
    }
    repo.commit("files");
    repo.write("staged", "staged now\n");
    repo.write("both", "first\n");
    repo.write("new", "new\n");
    repo.git(["add", "staged", "both", "new"]).success();
    repo.git(["mv", "renamed", "other"]).success();
    repo.write("both", "first\nsecond\n");
    repo.write("unstaged", "unstaged now\n");
    std::fs::remove_file(repo.path().join("gone")).expect("ours");
    repo.write("un/tracked", "untracked\n");
    repo
}

#[test]
fn changes_are_carried_over_as_they_are() {
    let sandbox = Sandbox::new();
    let repo = unfinished(&sandbox);
    let before = status(&repo);
    repo.new_session("carried", &["--carry"], &["print go"]);
    repo.await_state("carried", "ready");
    let tree = repo.worktree_of("carried");
    assert_eq!(status(&tree), before);
    assert_eq!(tree.git(["show", ":both"]).success().stdout(), "first\n");
    assert_eq!(tree.read("both"), b"first\nsecond\n");
    assert_eq!(tree.read("un/tracked"), b"untracked\n");
    assert_eq!(status(&repo), "");
    assert_eq!(repo.read("gone"), b"gone\n");
    repo.assert_nothing_left_over();
}

#[test]
fn a_carry_that_fails_leaves_everything_as_it_was() {
    for place in [
        "carry.looked",
        "carry.snapshot.written",
        "carry.kept",
        "carry.applied",
        "carry.compared",
        "carry.cleaned",
    ] {
        for action in [Action::Eio, Action::Enospc, Action::Kill] {
            let sandbox = Sandbox::new();
            let repo = unfinished(&sandbox);
            let (said, content) = (status(&repo), files(&repo));
            let plan = Plan::meet(format!("{place}#1"), action);
            let command =
                repo.agent_cmd(["new", "carried", "--carry", "--", "fake-agent", "print go"]);
            let run = plan.apply(command).run().whatever();
            assert!(plan.fired(), "{place}:{action} was never met: {run}");
            if run.status().success() || status(&repo).is_empty() {
                // The changes are over there: all of them.
                assert_eq!(
                    status(&repo.worktree_of("carried")),
                    said,
                    "{place}:{action}"
                );
            } else {
                assert_eq!(status(&repo), said, "{place}:{action}: {run}");
                assert_eq!(files(&repo), content, "{place}:{action}");
            }
            if action != Action::Kill && !run.status().success() {
                assert!(repo.refs("refs/heads/agent").is_empty(), "{place}:{action}");
                assert!(repo.sessions().is_empty(), "{place}:{action}");
            }
            sandbox.kill_all();
            repo.assert_whole();
        }
    }
}

#[test]
fn what_comes_from_a_session_starts_from_all_of_its_work() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let script =
        "echo a >a.txt; git add -A; git commit -qm a; echo b >b.txt; echo the answer is 42";
    repo.agent(["new", "first", "--", "sh", "-c", script])
        .success();
    repo.await_state("first", "ready");
    repo.agent(["fork", "first", "--name", "second", "try something else"])
        .success();
    repo.await_state("second", "ready");
    let tree = repo.worktree_of("second");
    assert_eq!(tree.read("a.txt"), b"a\n");
    assert_eq!(tree.read("b.txt"), b"b\n");
    let (first, second) = (repo.session("first"), repo.session("second"));
    assert_ne!(second["branch"], first["branch"]);
    repo.new_session("third", &["--from", "first"], &["print here"]);
    repo.await_state("third", "ready");
    let tree = repo.worktree_of("third");
    assert_eq!(tree.read("a.txt"), b"a\n");
    assert_eq!(tree.read("b.txt"), b"b\n");
    repo.assert_nothing_left_over();
}

#[test]
fn one_writes_in_a_shared_worktree_and_many_read() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let root = sandbox.root().to_str().expect("plain").replace(' ', "\\s");
    let within = format!("within {root}/who");
    repo.new_session("host", &[], &["write a.txt a", "commit a"]);
    repo.await_state("host", "ready");
    // A guest's guest is a guest of the same host.
    for (name, host) in [("w1", "host"), ("w2", "host"), ("w3", "w1")] {
        repo.new_session(
            name,
            &["--in", host],
            &[
                &format!("{within} {name}"),
                "sleep 200",
                &format!("write {name}.txt x"),
            ],
        );
    }
    let (gate, here) = (format!("{root}/gate"), format!("{root}/here"));
    for name in ["r1", "r2"] {
        let arrived = format!("write {here}-{name} x");
        repo.new_session(
            name,
            &["--in", "host", "--read-only"],
            &[
                &arrived,
                &format!("until {gate}"),
                "write illegal.txt x",
                // The other reader may hold the index at this moment.
                "try git add -A",
                "try git commit -q -m illegal",
                "print read",
            ],
        );
    }
    wait_until("both readers are there at once", || {
        ["r1", "r2"]
            .iter()
            .all(|name| sandbox.root().join(format!("here-{name}")).exists())
    });
    std::fs::write(sandbox.root().join("gate"), "").expect("the sandbox is writable");
    for name in ["w1", "w2", "w3"] {
        repo.await_state(name, "ready");
    }
    // What either reader wrote is put back by the one that ends first, and told.
    let ended = |name: &str| {
        wait_until("the reader ends", || {
            ["ready", "failed"].contains(&repo.state(name).as_str())
        });
        repo.texts(name, "guard").join("\n")
    };
    let told = ended("r1") + &ended("r2");
    assert!(told.contains("'illegal.txt' changed"), "{told}");
    assert!(!repo.worktree_of("host").path().join("illegal.txt").exists());
    let lines = std::fs::read_to_string(sandbox.root().join("who")).expect("they wrote");
    let mut inside = 0;
    for line in lines.lines() {
        inside += if line.starts_with('+') { 1 } else { -1 };
        assert!(inside <= 1, "two wrote at once: {lines}");
    }
    assert_eq!(
        repo.git(["log", "--format=%s", "main..agent/host"])
            .success()
            .stdout(),
        "a\n"
    );
    let places: Vec<_> = repo
        .sessions()
        .iter()
        .map(|one| one["worktree"].clone())
        .collect();
    assert!(places.windows(2).all(|two| two[0] == two[1]), "{places:?}");
    repo.assert_nothing_left_over();
}

#[test]
fn earlier_turns_come_back_and_so_does_what_was_left() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent(["new", "turns", "--", "sh", "-c", "echo $GIT_AGENT_TURN >>file; git add file; git commit -qm turn; echo $GIT_AGENT_TURN >loose"]).success();
    repo.await_state("turns", "ready");
    for turn in 2..=3 {
        repo.agent(["send", "turns", "again"]).success();
        wait_until("the turn is done", || {
            let session = repo.session("turns");
            session["turns"] == turn && session["state"] == "ready"
        });
    }
    let tree = repo.worktree_of("turns");
    assert_eq!(tree.read("file"), b"1\n2\n3\n");
    let tip = tree.id("HEAD");
    repo.agent(["rewind", "turns", "--turn", "1"]).success();
    assert_eq!(
        (tree.read("file"), tree.read("loose")),
        (b"1\n".to_vec(), b"1\n".to_vec())
    );
    assert_eq!(
        repo.git(["log", "--format=%s", "main..agent/turns"])
            .success()
            .stdout(),
        "turn\n"
    );
    repo.agent(["rewind", "turns", "--turn", "3"]).success();
    assert_eq!(
        (tree.read("file"), tree.read("loose")),
        (b"1\n2\n3\n".to_vec(), b"3\n".to_vec())
    );
    assert_eq!(tree.id("HEAD"), tip);
    repo.agent(["rewind", "turns", "--turn", "0"]).success();
    assert!(!tree.path().join("file").exists());
    assert!(!tree.path().join("loose").exists());
    repo.agent(["rewind", "turns", "--turn", "2"]).success();
    tree.write("precious", "precious\n");
    repo.agent(["recreate", "turns"]).success();
    assert_eq!(tree.read("file"), b"1\n2\n");
    assert!(!tree.path().join("precious").exists());
    let list = repo
        .agent(["snapshot", "--list", "--json", "turns"])
        .success()
        .json();
    let id = list["snapshots"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["reason"] == "before recreate")
        .expect("a snapshot")["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    repo.agent(["rewind", "turns", "--to", &id]).success();
    assert_eq!(tree.read("precious"), b"precious\n");
    repo.assert_nothing_left_over();
}

#[test]
fn versions_are_a_group() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent([
        "new",
        "-n",
        "3",
        "wipe disks",
        "--",
        "fake-agent",
        "write x.txt x",
    ])
    .success();
    let made = repo
        .agent_cmd([
            "new",
            "--name",
            "models",
            "--model",
            "a,b",
            "-F",
            "-",
            "--",
            "sh",
            "-c",
            "echo $GIT_AGENT_MODEL >model",
        ])
        .stdin("compare\n")
        .run();
    made.success();
    repo.agent(["wait", "--all", "--timeout", "100s"]).success();
    let sessions = repo.sessions();
    let group = |name: &str| sessions.iter().filter(|one| one["group"] == name).count();
    assert_eq!(
        (group("wipe-disks"), group("models")),
        (3, 2),
        "{sessions:#?}"
    );
    for (name, model) in [("models-v1", "a"), ("models-v2", "b")] {
        assert_eq!(
            repo.worktree_of(name).read("model"),
            format!("{model}\n").as_bytes()
        );
        assert_eq!(repo.session(name)["model"], model);
    }
    repo.assert_nothing_left_over();
}

#[test]
fn a_draft_waits_until_it_is_resumed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("task.md", "the task\nin two lines\n");
    repo.agent_cmd([
        "new",
        "--no-start",
        "--name",
        "draft",
        "-F",
        "task.md",
        "--",
        "sh",
        "-c",
        "printf %s \"$GIT_AGENT_PROMPT\" >prompt",
    ])
    .run()
    .success();
    assert_eq!(repo.state("draft"), "draft");
    // It has no worktree yet that changes could move into.
    repo.agent(["new", "--carry", "--no-start", "other", "--", "true"])
        .code(129)
        .assert_says("--no-start");
    assert_eq!(repo.sessions().len(), 1);
    assert!(repo.refs("refs/heads/agent").is_empty());
    assert!(sandbox.survivors().is_empty());
    std::fs::remove_file(repo.path().join("task.md")).expect("ours");
    repo.agent(["resume", "draft"]).success();
    repo.await_state("draft", "ready");
    let prompt = repo.worktree_of("draft").read("prompt");
    let prompt = String::from_utf8(prompt).expect("text");
    assert!(prompt.contains("the task\nin two lines"), "{prompt}");
    repo.assert_nothing_left_over();
}

#[test]
fn what_lies_in_a_worktree_now_goes_over_and_nothing_that_was_thrown_away() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write made x"]);
    repo.agent(["wait", "s"]).success();
    let tree = repo.worktree_of("s");
    tree.write("hand.txt", "by hand\n");
    repo.agent(["fork", "s", "--name", "f", "go"]).success();
    let new = ["new", "--from", "s", "--name", "n", "go"];
    repo.agent_cmd(new)
        .args(["--", "echo n >n"])
        .run()
        .success();
    let after = ["new", "--after", "s", "--name", "a", "go"];
    repo.agent_cmd(after)
        .args(["--", "echo a >a"])
        .run()
        .success();
    for name in ["f", "n", "a"] {
        // That it made nothing new is another matter.
        repo.agent(["wait", name]).whatever();
        let other = repo.worktree_of(name);
        assert_eq!(other.read("hand.txt"), b"by hand\n", "{name}");
        assert_eq!(other.read("made"), b"x\n", "{name}");
    }
    repo.write("elsewhere", "new\n");
    repo.commit("elsewhere");
    repo.agent(["update", "s"]).success();
    assert_eq!(tree.read("hand.txt"), b"by hand\n");
    repo.agent(["recreate", "s"]).success();
    repo.agent(["fork", "s", "--name", "g", "go"]).success();
    let other = repo.worktree_of("g");
    assert!(!other.path().join("hand.txt").exists());
    repo.agent(["wait", "g"]).whatever();
}
