//! Sessions that wait for others: what a wait costs, and that every one of them comes to its turn, in order.

use std::io::Write;
use std::path::{Path, PathBuf};

use git_agent_tests::{Repo, Sandbox, wait_until};

/// Gives a program limits of its own.
const UNSHARE: &str = "/usr/bin/unshare";

/// Returns how many inotify instances the supervisors of a repository hold.
fn inotify_instances(repo: &Repo<'_>) -> usize {
    let run = repo.common_dir().join("agents/run");
    let notes = std::fs::read_dir(run).expect("supervisors run").flatten();
    let pids = notes.filter_map(|note| {
        let text = std::fs::read(note.path()).ok()?;
        let note: serde_json::Value = serde_json::from_slice(&text).ok()?;
        note["supervisor"]["pid"].as_u64()
    });
    let is_inotify = |path: PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target == Path::new("anon_inode:inotify"))
    };
    pids.flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/fd")))
        .flatten()
        .flatten()
        .filter(|descriptor| is_inotify(descriptor.path()))
        .count()
}

fn tickets(repo: &Repo<'_>) -> usize {
    let queue = repo.common_dir().join("agents/slots/queue");
    let entries = std::fs::read_dir(queue).into_iter().flatten().flatten();
    let shown = |name: std::ffi::OsString| !name.as_encoded_bytes().starts_with(b".");
    entries.filter(|entry| shown(entry.file_name())).count()
}

#[test]
fn of_all_waiting_sessions_only_the_next_takes_an_inotify_instance() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "agent.maxParallel", "1"]).success();
    let gate = sandbox.root().join("gate");
    let wait = format!("until {}", gate.display());
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        repo.new_session(name, &[], &[&wait, &format!("write {name} x")]);
    }
    repo.new_session("after", &["--after", "e"], &["write after x"]);
    wait_until("four wait", || tickets(&repo) == 4);
    wait_until("one watches", || inotify_instances(&repo) <= 1);
    // A message reaches one that waits, and leaving the queue hands the place on.
    repo.agent(["stop", "c"]).success();
    assert_eq!(repo.state("c"), "stopped");
    wait_until("three wait", || tickets(&repo) == 3);
    std::fs::write(&gate, "").expect("the sandbox is writable");
    for name in ["a", "b", "d", "e", "after"] {
        repo.await_state(name, "ready");
    }
    repo.assert_nothing_left_over();
    let bells = repo.common_dir().join("agents/slots/bells");
    assert_eq!(std::fs::read_dir(bells).expect("there").count(), 0);
}

#[test]
fn where_no_inotify_instance_is_left_sessions_look_instead() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "agent.maxParallel", "1"]).success();
    let none = "echo 0 >/proc/sys/user/max_inotify_instances";
    let limited = |script: &str| {
        let script = format!("{none} && {{ {script}; }}");
        repo.command(UNSHARE).args(["-Ur", "sh", "-c", &script])
    };
    if !Path::new(UNSHARE).exists() || !limited("true").run().whatever().status().success() {
        // The nearest thing is a unit test of `process::wait`.
        let note = "this machine lets nobody limit inotify instances: being without is not tried";
        let _ = writeln!(std::io::stderr(), "{note}");
        return;
    }
    let script = "for name in a b c; do git agent new $name -- 'echo x >made' || exit; done
        git agent new guest --in c -- 'echo y >more'
        git agent wait a b c guest && git agent log -f guest";
    limited(script).run().success();
    for name in ["a", "b", "c", "guest"] {
        assert_eq!(repo.state(name), "ready");
    }
}

#[test]
fn prompts_are_taken_in_the_order_in_which_they_were_sent_whatever_the_clock_says() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let gate = sandbox.root().join("gate");
    let script = format!(
        "until test -e '{}'; do sleep 0.05; done; echo \"$GIT_AGENT_PROMPT\" >>order",
        gate.display()
    );
    repo.agent(["new", "--name", "s", "first", "--", &script])
        .success();
    repo.await_state("s", "running");
    let hour = 3_600_000;
    let mut clock = 4_000_000_000_000;
    for prompt in ["second", "third", "fourth", "fifth"] {
        let sent = repo.agent_cmd(["send", "s", prompt]).clock(clock);
        sent.run().success();
        clock -= hour;
    }
    std::fs::write(&gate, "").expect("the sandbox is writable");
    repo.agent(["wait", "s"]).success();
    assert_eq!(
        String::from_utf8_lossy(&repo.worktree_of("s").read("order")),
        "first\nsecond\nthird\nfourth\nfifth\n"
    );
}

#[test]
fn who_waits_for_a_lock_says_so() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let locks = repo.common_dir().join("agents/locks");
    repo.new_session("first", &[], &["write made x"]);
    repo.await_state("first", "ready");
    let lock = std::fs::File::options()
        .write(true)
        .open(locks.join("create"))
        .expect("a lock that was used");
    lock.lock().expect("nobody holds it");
    let script = "exec git agent new second -- 'echo x >made' 2>&1";
    let waiting = repo.command("sh").args(["-c", script]).spawn();
    waiting.wait_for("locks/create', which another process holds");
    drop(lock);
    waiting.wait().success();
    repo.await_state("second", "ready");
}

#[test]
fn a_stop_ends_a_snapshot_and_leaves_nothing_of_it() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let begun = sandbox.root().join("begun");
    let filter = format!("touch '{}'; sleep 600; cat", begun.display());
    repo.git(["config", "filter.slow.clean", &filter]).success();
    repo.write(".gitattributes", "*.slow filter=slow\n");
    repo.commit("a slow filter");
    repo.new_session("s", &[], &["write a.slow x"]);
    wait_until("the snapshot has begun", || begun.exists());
    repo.agent(["stop", "s"]).success();
    assert_eq!(repo.state("s"), "stopped");
    wait_until("nobody works on it", || sandbox.survivors().is_empty());
    let tmp = repo.common_dir().join("agents/tmp");
    let left: Vec<_> = std::fs::read_dir(tmp).into_iter().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(repo.worktree_of("s").read("a.slow"), b"x\n");
}

#[test]
fn a_file_that_is_too_large_is_in_no_snapshot_and_everybody_says_so() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "agent.maxSnapshot", "1m"]).success();
    let script = "truncate -s 2m big; echo x >small";
    repo.agent(["new", "--name", "s", "go", "--", script])
        .success();
    repo.agent(["wait", "s"]).success();
    let told = "'big' (larger than agent.maxSnapshot)";
    let notices = repo.texts("s", "notice").concat();
    assert!(notices.contains(told), "{notices}");
    let tree = repo.worktree_of("s");
    repo.agent(["review", "approve", "s"])
        .success()
        .assert_says(told);
    repo.agent(["merge", "--yes", "s"])
        .success()
        .assert_says(&format!("'s': {told} is not merged"));
    assert_eq!(repo.read("small"), b"x\n");
    assert!(!repo.path().join("big").exists());
    let kept = repo.agent(["clean", "s"]).success();
    assert!(kept.stdout().contains(told), "{}", kept.stdout());
    assert_eq!(tree.read("big").len(), 2 << 20);
    // What it was when it was small is not put over what it is now.
    repo.new_session("t", &[], &["write grows x"]);
    repo.agent(["wait", "t"]).success();
    let tree = repo.worktree_of("t");
    tree.write("grows", vec![b'y'; 2 << 20]);
    repo.agent(["rewind", "t", "--turn", "1"]).whatever();
    assert_eq!(tree.read("grows").len(), 2 << 20);
}

#[test]
fn a_large_file_that_has_not_changed_is_not_read_again() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let script = "truncate -s 9m big; touch -d 2020-01-01 big";
    repo.agent(["new", "--name", "s", "go", "--", script])
        .success();
    repo.agent(["wait", "s"]).success();
    let trace = sandbox.root().join("trace");
    let reads = |words: &[&str]| {
        let _ = std::fs::remove_file(&trace);
        let run = repo.agent_cmd(words).env("GIT_TRACE", &trace).run();
        run.success();
        let text = std::fs::read_to_string(&trace).unwrap_or_default();
        text.contains("update-index")
    };
    assert!(!reads(&["snapshot", "s"]));
    assert!(!reads(&["review", "diff", "s"]));
    let big = repo.worktree_of("s").path().join("big");
    let id = |path: &Path| {
        let path = path.to_str().expect("text");
        let hashed = repo.git(["hash-object", "--", path]).success();
        hashed.line().to_owned()
    };
    let kept = |id: &str| {
        let shown = repo.git(["rev-parse", &format!("{id}:big")]).success();
        shown.line().to_owned()
    };
    let taken = repo.agent(["snapshot", "s"]).success();
    assert_eq!(kept(taken.line()), id(&big));
    // The same size, and the time of last year.
    std::fs::write(&big, vec![b'y'; 9 << 20]).expect("writes");
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_577_836_800);
    let file = std::fs::File::options().write(true).open(&big);
    file.and_then(|file| file.set_modified(old)).expect("ours");
    assert!(reads(&["snapshot", "s"]));
    let taken = repo.agent(["snapshot", "s"]).success();
    assert_eq!(kept(taken.line()), id(&big));
}
