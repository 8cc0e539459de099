//! Places where a session can hardly be made: it works there, or one clear message says why not and nothing is left.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use git_agent_tests::sandbox::write_program;
use git_agent_tests::{Output, Repo, Sandbox, wait_until};

/// Asserts that a refused session left no trace.
#[track_caller]
fn assert_no_trace(repo: &Repo<'_>, output: &Output) {
    let said = output.stderr();
    let errors = said
        .lines()
        .filter(|line| line.starts_with("fatal:") || line.starts_with("error:"));
    assert_eq!(errors.count(), 1, "one message: {said}");
    assert!(repo.refs("refs/agents").is_empty(), "a record is left");
    assert!(repo.refs("refs/heads/agent").is_empty(), "a branch is left");
    let worktrees = repo.git(["worktree", "list", "--porcelain"]).success();
    let count = worktrees
        .lines()
        .iter()
        .filter(|line| line.starts_with("worktree "))
        .count();
    assert_eq!(count, 1, "a worktree is left");
    for place in ["inbox", "spool", "run"] {
        let dir = repo.common_dir().join("agents").join(place);
        let left: Vec<_> = std::fs::read_dir(&dir)
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        assert!(left.is_empty(), "{left:?} is left");
    }
    let home = repo.path().parent().expect("somewhere");
    let left: Vec<_> = std::fs::read_dir(home)
        .expect("readable")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().ends_with("-worktrees"))
        .filter(|entry| std::fs::read_dir(entry.path()).is_ok_and(|mut dir| dir.next().is_some()))
        .collect();
    assert!(left.is_empty(), "{left:?} is left");
    repo.assert_whole();
}

/// Makes a session, and asserts that it ends ready.
#[track_caller]
fn assert_works(repo: &Repo<'_>) {
    repo.new_session("probe", &[], &["write out.txt hello", "commit work"]);
    repo.await_state("probe", "ready");
    assert_eq!(repo.worktree_of("probe").read("out.txt"), b"hello\n");
    repo.git(["rev-parse", "--verify", "agent/probe:out.txt"])
        .success();
    repo.assert_nothing_left_over();
}

fn try_new(repo: &Repo<'_>) -> Output {
    repo.agent(["new", "probe", "--", "fake-agent", "write out.txt hello"])
        .failure()
}

#[test]
fn a_failing_hook_is_told_and_stops_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let hooks = repo.path().join(".git/hooks");
    std::fs::create_dir_all(&hooks).expect("the sandbox is writable");
    write_program(
        &hooks.join("post-checkout"),
        "#!/bin/sh\necho broken >&2\nexit 3\n",
    );
    assert_works(&repo);
    let said: String = repo
        .events("probe")
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(said.contains("post-checkout"), "{said}");
}

#[test]
fn a_failing_setup_is_tried_again_by_restart() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "agent.setup", "echo preparing; exit 7"])
        .success();
    repo.new_session("probe", &[], &["write out.txt hello"]);
    repo.await_state("probe", "failed");
    let session = repo.session("probe");
    assert!(
        session.to_string().contains("setup command exited with 7"),
        "{session:#}"
    );
    assert!(!repo.worktree_of("probe").path().join("out.txt").exists());
    repo.agent(["restart", "probe"]).success();
    repo.await_state("probe", "failed");
    repo.git(["config", "agent.setup", "echo ready >set-up.txt"])
        .success();
    repo.agent(["restart", "probe"]).success();
    repo.await_state("probe", "ready");
    let worktree = repo.worktree_of("probe");
    assert_eq!(worktree.read("out.txt"), b"hello\n");
    assert_eq!(worktree.read("set-up.txt"), b"ready\n");
    repo.assert_nothing_left_over();
}

#[test]
fn a_full_disk_leaves_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let noise: Vec<u8> = (0..6_000_000_u32)
        .map(|n| {
            n.wrapping_mul(2_654_435_761)
                .rotate_left(n % 31)
                .to_le_bytes()[2]
        })
        .collect();
    repo.write("large", &noise);
    repo.commit("large");
    match sandbox.small_disk(3) {
        Ok(disk) => {
            let home = disk.join("worktrees");
            repo.command("git")
                .args(["config", "agent.worktreeDir"])
                .arg(&home)
                .run()
                .success();
            let output = try_new(&repo);
            assert!(output.stderr().contains("space"), "{output}");
            assert_no_trace(&repo, &output);
            let left = std::fs::read_dir(&home).map(Iterator::count).unwrap_or(0);
            assert_eq!(left, 0, "a part of the worktree is left");
            // With room again it works.
            repo.git(["config", "--unset", "agent.worktreeDir"])
                .success();
            assert_works(&repo);
        }
        Err(why) => {
            let note = format!("{why}; the fault points of the checkout stand in\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
            for place in ["worktree.registered", "worktree.filled"] {
                let output = repo
                    .agent_cmd(["new", "probe", "--", "fake-agent", "write out.txt hello"])
                    .env("GIT_AGENT_TEST_FAULT", format!("{place}:enospc"))
                    .run()
                    .whatever();
                if !output.status().success() {
                    assert_no_trace(&repo, &output);
                }
            }
        }
    }
}

#[test]
fn a_taken_branch_or_place_is_refused() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let home = sandbox.work().join("r-worktrees");
    std::fs::create_dir_all(home.join("probe")).expect("the sandbox is writable");
    std::fs::write(home.join("probe/precious"), "mine\n").expect("the sandbox is writable");
    let output = try_new(&repo);
    assert!(output.stderr().contains("probe"), "{output}");
    assert_eq!(
        std::fs::read(home.join("probe/precious")).expect("kept"),
        b"mine\n"
    );
    std::fs::remove_dir_all(&home).expect("ours");
    assert_no_trace(&repo, &output);
    repo.git(["branch", "agent/probe"]).success();
    let tip = repo.id("agent/probe");
    let output = try_new(&repo);
    assert!(output.stderr().contains("agent/probe"), "{output}");
    assert_eq!(repo.id("agent/probe"), tip);
    repo.git(["branch", "-D", "agent/probe"]).success();
    assert_no_trace(&repo, &output);
    // A branch named like the prefix leaves no room for any below it.
    repo.git(["branch", "agent"]).success();
    let output = try_new(&repo);
    repo.git(["branch", "-D", "agent"]).success();
    assert_no_trace(&repo, &output);
}

#[test]
fn a_repository_without_a_commit_says_what_is_missing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").unborn().create();
    let output = try_new(&repo);
    assert!(output.stderr().contains("commit"), "{output}");
    assert_no_trace(&repo, &output);
}

#[test]
fn a_command_with_a_name_needs_no_task_in_words() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent(["new", "--name", "short", "--", "fake-agent", "print go"])
        .success();
    repo.await_state("short", "ready");
    let task = |name: &str| {
        let shown = repo.agent(["show", "--json", name]).success();
        shown.json()["sessions"][0]["task"].clone()
    };
    assert_eq!(task("short"), "fake-agent print go");
    repo.agent_cmd([
        "new",
        "-",
        "--name",
        "piped",
        "--",
        "fake-agent",
        "print go",
    ])
    .stdin("from elsewhere\n")
    .run()
    .success();
    assert_eq!(task("piped"), "from elsewhere");
    repo.await_state("piped", "ready");
    // Nobody types it again for a byte that is no letter.
    repo.agent_cmd([
        "new",
        "-F",
        "-",
        "--name",
        "latin",
        "--",
        "fake-agent",
        "print go",
    ])
    .stdin(b"caf\xe9\n")
    .run()
    .success();
    assert_eq!(task("latin"), "caf\u{fffd}");
    repo.await_state("latin", "ready");
    repo.assert_nothing_left_over();
}

#[test]
fn a_detached_head_is_a_place_to_start() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["checkout", "--quiet", "--detach"]).success();
    assert_works(&repo);
}

#[test]
fn a_bare_repository_has_sessions_too() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create().clone_to("bare.git", &["--bare"]);
    assert_works(&repo);
}

#[test]
fn a_shallow_clone_has_sessions_too() {
    let sandbox = Sandbox::new();
    let first = sandbox.repo("r").create();
    for number in 0..3 {
        first.write("file", format!("{number}\n"));
        first.commit("more");
    }
    let repo = first.clone_to("shallow", &["--depth=1"]);
    assert_works(&repo);
    assert!(repo.path().join(".git/shallow").exists());
}

#[test]
fn submodules_are_there_as_git_would_have_them() {
    let sandbox = Sandbox::new();
    let part = sandbox.repo("part").create();
    let repo = sandbox.repo("r").create();
    let url = format!("file://{}", part.path().display());
    repo.git(["submodule", "--quiet", "add", &url, "part"])
        .success();
    repo.commit("a submodule");
    assert_works(&repo);
    let worktree = repo.worktree_of("probe");
    assert!(worktree.path().join("part").is_dir());
    worktree
        .git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
}

#[test]
fn a_sparse_checkout_stays_sparse() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("in/file", "in\n");
    repo.write("out/file", "out\n");
    repo.commit("two directories");
    repo.git(["sparse-checkout", "set", "in"]).success();
    repo.new_session("probe", &[], &["write in/new.txt hello", "commit work"]);
    repo.await_state("probe", "ready");
    let worktree = repo.worktree_of("probe");
    worktree
        .git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
    assert!(worktree.path().join("in/file").exists());
    // Nothing outside the cone may look deleted in what the agent committed.
    repo.git(["rev-parse", "--verify", "agent/probe:out/file"])
        .success();
    repo.assert_nothing_left_over();
}

#[test]
fn odd_paths_work_or_are_refused_in_words() {
    for name in [
        &b"with space"[..],
        b"quote\"and'quote",
        b"new\nline",
        b"not-utf8-\xff",
        b"-dash",
        b"$(id);x",
        b"esc\x1b[31m",
    ] {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo(OsStr::from_bytes(name)).create();
        let run = repo
            .agent_cmd([
                "new",
                "probe",
                "--",
                "fake-agent",
                "write out.txt hello",
                "commit work",
            ])
            .run()
            .whatever();
        let shown = String::from_utf8_lossy(name).into_owned();
        if run.status().success() {
            repo.await_state("probe", "ready");
            repo.git(["rev-parse", "--verify", "agent/probe:out.txt"])
                .success();
            repo.assert_nothing_left_over();
        } else {
            assert!(
                name.contains(&0xff) || name.contains(&b'\n'),
                "{shown:?}: {run}"
            );
            assert_no_trace(&repo, &run);
        }
        repo.assert_user_can_work();
    }
}

#[test]
fn a_stop_during_setup_is_a_stop() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let began = sandbox.root().join("began");
    let setup = format!("touch '{}'; sleep 600", began.display());
    repo.git(["config", "agent.setup", &setup]).success();
    repo.agent(["new", "early", "--", "true"]).success();
    wait_until("the setup runs", || began.exists());
    repo.agent(["stop", "early"]).success();
    assert_eq!(repo.state("early"), "stopped");
    repo.git(["config", "agent.timeout", "1s"]).success();
    repo.agent(["new", "late", "--", "true"]).success();
    repo.await_state("late", "failed");
    let session = repo.session("late");
    assert_eq!(
        session["exit"]["reason"],
        "over the time limit of 1 seconds"
    );
    repo.assert_nothing_left_over();
}
