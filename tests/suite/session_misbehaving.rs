//! Agents that do what they must not: they are contained, what they did is recorded, and everybody else goes on.

use std::time::{Duration, Instant};

use git_agent_tests::sessions::{files_below, rounds};
use git_agent_tests::{Repo, Sandbox, wait_until};

/// Returns everything that a session's transcript says about the guard.
fn guarded(repo: &Repo<'_>, name: &str) -> String {
    repo.events(name)
        .iter()
        .filter(|event| event["kind"] == "guard")
        .filter_map(|event| event["text"].as_str().map(|text| format!("{text}\n")))
        .collect()
}

#[test]
fn refs_of_others_stay_where_they_are() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["branch", "precious"]).success();
    repo.git(["tag", "v1"]).success();
    repo.new_session(
        "victim",
        &[],
        &["write kept.txt kept", "commit kept", "write more.txt more"],
    );
    repo.await_state("victim", "ready");
    let before = repo.refs("refs/heads");
    let victim = repo.worktree_of("victim");
    let other = repo.session("victim")["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let log = repo
        .refs("refs/agents")
        .into_keys()
        .find(|name| name.ends_with(&other));
    let log = log.expect("the log of the other session");
    repo.new_session(
        "villain",
        &[],
        &[
            "write own.txt own",
            "commit own",
            "write dirty.txt dirty",
            "stash",
            "steal main",
            "steal precious",
            "try git push . HEAD:precious",
            "try git push . HEAD:main",
            "try git push . HEAD:refs/heads/new-branch",
            "try git tag -f v1",
            "try git update-ref refs/agents/sessions/2026-01/01jcxxxxxxxxxxxxxxxxxxxxxx HEAD",
            &format!("ref {log}"),
            &format!("try git update-ref -d {log}"),
            "try git branch -D precious",
            "try git branch -m precious stolen",
            "checkout main",
            "try git checkout -b mine",
            "try git reset --hard HEAD",
            "write end.txt end",
            "commit end",
        ],
    );
    repo.await_state("villain", "ready");
    let mut after = repo.refs("refs/heads");
    after.remove("refs/heads/agent/villain");
    assert_eq!(after, before);
    assert!(repo.refs("refs/stash").is_empty());
    assert!(repo.refs("refs/agents").contains_key(&log));
    assert_eq!(victim.read("more.txt"), b"more\n");
    let said = guarded(&repo, "villain");
    for name in ["refs/stash", "refs/heads/precious", "refs/tags/v1", &log] {
        assert!(said.contains(name), "{name} is not in the record: {said}");
    }
    repo.git(["rev-parse", "agent/villain:end.txt"]).success();
    repo.await_state("victim", "ready");
    repo.assert_nothing_left_over();
    repo.assert_user_can_work();
}

#[test]
fn a_worktree_that_another_agent_removes_comes_back() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session(
        "victim",
        &[],
        &["write kept.txt kept", "commit kept", "write more.txt more"],
    );
    repo.await_state("victim", "ready");
    let victim = repo.worktree_of("victim");
    let place = victim.path().to_str().expect("plain").replace(' ', "\\s");
    repo.new_session(
        "villain",
        &[],
        &[
            &format!("try git worktree remove --force {place}"),
            "write x.txt x",
        ],
    );
    repo.await_state("villain", "ready");
    if !victim.path().exists() {
        repo.agent(["restore", "victim"]).success();
    }
    assert_eq!(victim.read("kept.txt"), b"kept\n");
    assert_eq!(victim.read("more.txt"), b"more\n");
    victim
        .git(["status", "--porcelain"])
        .success()
        .assert_stdout("?? more.txt\n");
    repo.agent(["send", "victim", "go on"]).success();
    wait_until("the victim goes on", || {
        let session = repo.session("victim");
        session["turns"] == 2 && session["state"] != "running"
    });
    repo.assert_nothing_left_over();
}

#[test]
fn what_an_agent_leaves_running_is_ended() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session(
        "litter",
        &[],
        &[
            "daemon 90000",
            "orphan 90000",
            "child 90000",
            "noisy 90000",
            "write x.txt x",
        ],
    );
    repo.await_state("litter", "ready");
    wait_until("nobody is left", || sandbox.survivors().is_empty());
    repo.assert_nothing_left_over();
}

#[test]
fn an_agent_that_ignores_every_word_is_ended() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session(
        "deaf",
        &[],
        &[
            "ignore TERM",
            "ignore INT",
            "ignore HUP",
            "daemon 90000",
            "print deaf",
            "sleep 90000",
        ],
    );
    wait_until("it runs", || {
        repo.events("deaf")
            .iter()
            .any(|event| event["text"].as_str() == Some("deaf"))
    });
    let started = Instant::now();
    repo.agent(["stop", "deaf"]).success();
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(repo.state("deaf"), "stopped");
    wait_until("nobody is left", || sandbox.survivors().is_empty());
    repo.assert_nothing_left_over();
}

#[test]
fn a_flood_is_kept_in_bounds() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let gate = sandbox.root().join("gate");
    let done = sandbox.root().join("done");
    let bytes = rounds(200) as u64 * 1_000_000;
    repo.new_session(
        "flood",
        &[],
        &[
            &format!("bytes {bytes}"),
            &format!(
                "write {} x",
                done.to_str().expect("plain").replace(' ', "\\s")
            ),
            &format!("until {}", gate.display()),
            "write x.txt x",
            "print the end",
        ],
    );
    repo.new_session("calm", &[], &["write y.txt y"]);
    wait_until("everything is printed", || done.exists());
    repo.await_state("calm", "ready");
    let pid = repo.session("flood")["pid"].as_u64().expect("a supervisor");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    std::fs::write(&gate, "").expect("the sandbox is writable");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: u64 = peak
        .and_then(|text| text.trim().strip_suffix(" kB"))
        .and_then(|text| text.trim().parse().ok())
        .expect("a peak");
    assert!(peak <= 64 << 10, "the supervisor took {peak} kB");
    repo.await_state("flood", "ready");
    let hooks = repo.common_dir().join("agents/hooks");
    let kept: u64 = files_below(&repo.common_dir())
        .iter()
        .filter(|path| !path.starts_with(&hooks))
        .filter_map(|path| Some(path.metadata().ok()?.len()))
        .sum();
    assert!(kept < 40 << 20, "{kept} bytes were kept of {bytes}");
    let events = repo.events("flood");
    let text: String = events.iter().map(ToString::to_string).collect();
    assert!(text.contains("not recorded"), "the gap is told");
    assert!(text.contains("the end"), "the end is kept");
    repo.assert_nothing_left_over();
    let note = format!("{bytes} bytes printed, {kept} kept, peak {peak} kB\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
}

#[test]
fn nothing_an_agent_prints_reaches_the_terminal_raw() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent_cmd(["new", "--name", "odd", "-F", "-", "--", "fake-agent"])
        .args([
            "escapes",
            "invalid",
            "raw \\0\\x01\\x02\\xff\\xfe\\x9b31m\\n",
        ])
        .args(["error \\e]0;evil\\x07", "write out\\e[31m.txt x", "exit 4"])
        .stdin("task \u{1b}[31m with \u{202e} colours\n")
        .run()
        .success();
    repo.await_state("odd", "failed");
    for args in [
        &["log", "odd"][..],
        &["log", "--full", "odd"],
        &["log", "--raw", "odd"],
        &["list"],
        &["list", "--all"],
        &["list", "--json"],
        &["list", "--porcelain"],
    ] {
        let plain = repo.agent(args).success();
        let bad = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let control = |c: char| c.is_control() && !"\n\t".contains(c);
            let hidden = |c: char| "\u{202e}\u{2066}\u{200b}\u{feff}".contains(c);
            text.chars().find(|c| control(*c) || hidden(*c))
        };
        assert_eq!(bad(plain.stdout_bytes()), None, "{args:?}");
        let shown = repo.agent_cmd(args).on_terminal().run().success();
        let bytes = shown.stdout_bytes();
        let text = String::from_utf8_lossy(bytes);
        for evil in [
            "\u{1b}]",
            "\u{1b}[2J",
            "\u{1b}[1;1H",
            "\u{9b}",
            "\u{202e}",
            "\u{8}",
            "\u{7}",
        ] {
            assert!(!text.contains(evil), "{args:?} shows {evil:?}");
        }
    }
    repo.assert_nothing_left_over();
}

#[test]
fn a_worktree_that_points_elsewhere_harms_nobody() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let trap = sandbox.repo("trap").create();
    let proof = sandbox.root().join("proof");
    let hook = format!("#!/bin/sh\ntouch '{}'\n", proof.display());
    git_agent_tests::sandbox::write_program(&sandbox.root().join("run-me"), &hook);
    let program = sandbox.root().join("run-me");
    trap.git([
        "config",
        "core.fsmonitor",
        &format!("'{}'", program.display()),
    ])
    .success();
    let dir = trap.path().join(".git");
    repo.new_session(
        "liar",
        &[],
        &[
            "write x.txt x",
            &format!(
                "write .git gitdir:\\s{}",
                dir.to_str().expect("plain").replace(' ', "\\s")
            ),
        ],
    );
    repo.new_session("calm", &[], &["write y.txt y"]);
    repo.await_state("calm", "ready");
    wait_until("the liar has ended", || {
        ["ready", "failed"].contains(&repo.state("liar").as_str())
    });
    repo.agent(["list", "--all"]).success();
    repo.agent(["log", "liar"]).success();
    repo.agent(["clean", "liar"]).whatever();
    assert!(!proof.exists(), "a program of the agent's choice was run");
    trap.git(["-c", "core.fsmonitor=false", "fsck"]).success();
    assert!(trap.path().join("README.md").exists());
}

#[test]
fn what_is_done_to_the_hooks_of_a_repository_does_nothing_to_the_program() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write x x"]);
    repo.await_state("s", "ready");
    let hooks = repo.common_dir().join("agents/hooks");
    let mut programs = files_below(&hooks);
    programs.retain(|path| path.ends_with("git-agent"));
    assert_eq!(programs.len(), 1, "{programs:?}");
    for program in &programs {
        let links = std::fs::metadata(program).expect("a program").nlink();
        assert_eq!(links, 1, "it has another name");
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o000)).expect("changed");
    }
    repo.agent(["list"]).success();
    // The next turn is guarded again.
    let steps = ["write x x", "commit x", "write dirty x", "stash"];
    repo.new_session("t", &[], &steps);
    repo.await_state("t", "ready");
    assert!(guarded(&repo, "t").contains("refs/stash"));
    repo.assert_nothing_left_over();
}

#[test]
fn an_agent_that_hides_the_users_configuration_knows_who_commits() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "--global", "user.name", "Ada"])
        .success();
    repo.git(["config", "--global", "user.email", "ada@example.org"])
        .success();
    sandbox.program(
        "gemini",
        "#!/bin/sh\nGIT_CONFIG_GLOBAL=/dev/null git commit -q --allow-empty -m by-gemini\nexit 1\n",
    );
    let mut new = repo.agent_cmd(["new", "--name", "g", "--agent", "gemini", "task"]);
    for name in [
        "AUTHOR_NAME",
        "AUTHOR_EMAIL",
        "COMMITTER_NAME",
        "COMMITTER_EMAIL",
    ] {
        new = new.env_remove(format!("GIT_{name}"));
    }
    new.run().success();
    repo.await_state("g", "failed");
    let format = "--format=%s %an <%ae> %cn <%ce>";
    repo.git(["log", "-1", format, "agent/g"])
        .success()
        .assert_stdout("by-gemini Ada <ada@example.org> Ada <ada@example.org>\n");
}
