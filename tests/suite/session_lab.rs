//! Sessions side by side: two at once in a lab, fifty made in one moment, and a terminal that is closed under them.

use std::path::Path;
use std::time::Duration;

use git_agent_tests::sessions::rounds;
use git_agent_tests::{Repo, Sandbox, wait_until};
use rustix::process::{Pid, Signal};

/// Writes a path as one word of a fake agent's step.
fn word(path: &Path) -> String {
    path.to_str().expect("plain paths").replace(' ', "\\s")
}

fn await_ready(repo: &Repo<'_>, seconds: u64) {
    let timeout = format!("{seconds}s");
    repo.agent_cmd(["wait", "--all", "--timeout", &timeout])
        .time_limit(Duration::from_secs(seconds + 30))
        .run()
        .success();
}

#[test]
fn two_agents_work_at_the_same_time_and_each_has_its_own_world() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("lab").create();
    repo.write(".gitignore", "data/\n.env\n");
    repo.write(".worktreeinclude", ".env\n");
    repo.write("app.txt", "one\ntwo\nthree\n");
    repo.commit("the lab");
    repo.write(".env", "KEY=of-the-user\n");
    repo.write("data/db", "of the user\n");
    let meet = sandbox.root().join("meet");
    std::fs::create_dir(&meet).expect("the sandbox is writable");
    for (name, other) in [("left", "right"), ("right", "left")] {
        // Each ends only after it has seen the other at work.
        let script = format!(
            r#"set -e
            mkdir data
            for word in "$PORT" "$COMPOSE_PROJECT_NAME" "$WORKTREE_PATH" "$REPO_PATH" "$GIT_AGENT_SESSION"; do
                printf '%s\n' "$word"
            done >data/env
            echo {name} >data/db
            echo {name} >>.env
            touch '{0}/{name}'
            while ! test -e '{0}/{other}'; do sleep 0.05; done
            echo "{name} was here" >{name}.txt
            git add -A
            git commit -q -m "{name}: work"
            echo done"#,
            meet.display()
        );
        repo.agent(["new", name, "--", "sh", "-c", &script])
            .success();
    }
    repo.agent(["wait", "left", "right", "--timeout", "100s"])
        .success();
    let mut worlds = Vec::new();
    for name in ["left", "right"] {
        assert_eq!(repo.state(name), "ready");
        let worktree = repo.worktree_of(name);
        let world = String::from_utf8(worktree.read("data/env")).expect("text");
        let words: Vec<String> = world.lines().map(str::to_owned).collect();
        assert_eq!(words.len(), 5, "{world}");
        assert!(words.iter().all(|word| !word.is_empty()), "{world}");
        assert_eq!(Path::new(&words[2]), worktree.path());
        assert_eq!(Path::new(&words[3]), repo.path());
        assert_eq!(worktree.read("data/db"), format!("{name}\n").as_bytes());
        assert_eq!(
            worktree.read(".env"),
            format!("KEY=of-the-user\n{name}\n").as_bytes()
        );
        let subject = repo.git(["log", "--format=%s", &format!("main..agent/{name}")]);
        assert_eq!(subject.success().line(), format!("{name}: work"));
        worlds.push(words);
    }
    for (index, what) in ["PORT", "COMPOSE_PROJECT_NAME", "WORKTREE_PATH"]
        .into_iter()
        .enumerate()
    {
        assert_ne!(worlds[0][index], worlds[1][index], "{what}");
    }
    assert_eq!(repo.read(".env"), b"KEY=of-the-user\n");
    assert_eq!(repo.read("data/db"), b"of the user\n");
    repo.git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
    repo.assert_nothing_left_over();
    repo.assert_user_can_work();
}

#[test]
fn many_made_in_one_moment_all_come_to_be() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("busy").create();
    let count = rounds(16).min(50);
    let all: Vec<_> = (0..count)
        .map(|_| {
            repo.agent_cmd(["new", "the same words", "--", "sh", "-c"])
                .arg("echo $PORT >port.txt; echo done")
                .time_limit(Duration::from_secs(300))
                .spawn()
        })
        .collect();
    for one in all {
        one.wait().success();
    }
    await_ready(&repo, 400);
    let sessions = repo.sessions();
    assert_eq!(sessions.len(), count);
    for session in &sessions {
        assert_eq!(session["state"], "ready", "{session:#}");
    }
    for key in ["name", "branch", "worktree"] {
        let mut values: Vec<&str> = sessions
            .iter()
            .filter_map(|one| one[key].as_str())
            .collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), count, "every {key} is another");
    }
    let mut ports: Vec<Vec<u8>> = sessions
        .iter()
        .filter_map(|one| one["worktree"].as_str())
        .map(|path| std::fs::read(Path::new(path).join("port.txt")).expect("it wrote one"))
        .collect();
    ports.sort();
    ports.dedup();
    assert_eq!(ports.len(), count, "every port is another");
    assert_eq!(repo.refs("refs/heads/agent").len(), count);
    repo.assert_nothing_left_over();
}

#[test]
fn a_closed_terminal_interrupts_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let gate = sandbox.root().join("gate");
    let terminal = repo
        .command("sh")
        .arg("-c")
        .arg("git agent new quiet -- fake-agent \"$@\"; exec sleep 100")
        .args(["sh", "print before", &format!("until {}", gate.display())])
        .args(["write out.txt hello", "print after"])
        .on_terminal()
        .spawn();
    wait_until("the session runs", || {
        repo.sessions()
            .iter()
            .any(|session| session["state"] == "running")
    });
    wait_until("it has spoken", || {
        repo.events("quiet")
            .iter()
            .any(|event| event.to_string().contains("before"))
    });
    let pid = repo.session("quiet")["pid"].as_i64().expect("a supervisor");
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    // What holds the terminal dies, so the kernel hangs up on all that had it; a direct word does no harm either.
    terminal.signal(Signal::KILL);
    rustix::process::kill_process(pid, Signal::HUP).expect("the supervisor lives");
    terminal.wait().signal(9);
    assert_eq!(repo.state("quiet"), "running");
    let follower = repo.agent_cmd(["log", "-f", "quiet"]).spawn();
    follower.wait_for("before");
    repo.agent(["send", "quiet", "once more"]).success();
    assert_eq!(repo.state("quiet"), "running");
    assert_eq!(repo.session("quiet")["turns"], 1, "it waits its turn");
    std::fs::write(&gate, "").expect("the sandbox is writable");
    wait_until("both turns are done", || {
        let session = repo.session("quiet");
        session["turns"] == 2 && session["state"] == "ready"
    });
    follower.wait_for("after");
    follower.wait().success();
    let events = repo.events("quiet");
    for (said, times) in [("before", 2), ("after", 2)] {
        let seen = events
            .iter()
            .filter(|event| event["type"] != "created")
            .filter(|event| {
                event["text"]
                    .as_str()
                    .is_some_and(|text| text.contains(said))
            });
        assert!(seen.count() >= times, "{said}: {events:#?}");
    }
    let bad = ["interrupted", "failed"];
    assert!(
        !events
            .iter()
            .any(|event| bad.iter().any(|state| event["to"] == *state)),
        "{events:#?}"
    );
    repo.assert_nothing_left_over();
}

#[test]
fn a_supervisor_that_waits_holds_no_code_and_works_on_when_woken() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let gate = sandbox.root().join("gate");
    let until = format!("until {}", gate.display());
    repo.new_session("calm", &[], &["print before", &until, "print after"]);
    repo.await_state("calm", "running");
    let pid = repo.session("calm")["pid"].as_i64().expect("a supervisor");
    let kilobytes = |field: &str| -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with(field))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    // Beside its own peak: how much comes back with one page of code is the kernel's matter, which maps a whole piece of
    // the file, and how large its pieces are depends on how the file was written and read.
    wait_until("the supervisor has given its code back", || {
        let (Some(most), Some(now)) = (kilobytes("VmHWM:"), kilobytes("VmRSS:")) else {
            return false;
        };
        now < most * 3 / 4
    });
    std::fs::write(&gate, "").expect("the sandbox is writable");
    repo.await_state("calm", "ready");
    assert!(repo.texts("calm", "output").concat().contains("after"));
    repo.assert_nothing_left_over();
}

#[test]
fn never_more_run_than_there_are_places_and_all_come_after_what_they_wait_for() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "agent.maxParallel", "2"]).success();
    let who = sandbox.root().join("who");
    let within = |name: &str| format!("within {} {name}", word(&who));
    let start = |name: &str, options: &[&str], steps: &[&str]| {
        let mut all = vec![within(name)];
        all.extend(steps.iter().map(|step| (*step).to_owned()));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        repo.new_session(name, options, &all)
    };
    // The first leaves work uncommitted, one of the two in the middle commits, the other does not.
    start("a", &[], &["sleep 300", "write a.txt from-a"]);
    start(
        "b",
        &["--after", "a"],
        &[
            "sleep 100",
            "git cat-file -e HEAD:a.txt",
            "write b.txt from-b",
            "commit b",
        ],
    );
    start(
        "c",
        &["--after", "a"],
        &["sleep 100", "write c.txt from-c", "write a.txt from-a"],
    );
    start(
        "d",
        &["--after", "b", "--after", "c"],
        &["write d.txt from-d"],
    );
    for name in ["e", "f", "g", "h", "i", "j"] {
        start(
            name,
            &[],
            &["sleep 100", &format!("write {name}.txt from-{name}")],
        );
    }
    await_ready(&repo, 200);
    for session in repo.sessions() {
        assert_eq!(session["state"], "ready", "{session:#}");
    }
    let mut running: Vec<String> = Vec::new();
    let mut begun: Vec<String> = Vec::new();
    let mut ended: Vec<String> = Vec::new();
    let lines = String::from_utf8(std::fs::read(&who).expect("the agents wrote")).expect("text");
    for line in lines.lines() {
        let (sign, name) = line.split_at(1);
        if sign == "+" {
            let needs: &[&str] = match name {
                "b" | "c" => &["a"],
                "d" => &["b", "c"],
                _ => &[],
            };
            for need in needs {
                assert!(
                    ended.iter().any(|one| one == need),
                    "{name} came too early: {lines}"
                );
            }
            running.push(name.to_owned());
            begun.push(name.to_owned());
        } else {
            running.retain(|one| one != name);
            ended.push(name.to_owned());
        }
        assert!(running.len() <= 2, "{running:?} ran at once: {lines}");
    }
    assert_eq!((begun.len(), ended.len()), (10, 10), "{lines}");
    let last = repo.worktree_of("d");
    for name in ["a", "b", "c", "d"] {
        assert_eq!(
            last.read(format!("{name}.txt")),
            format!("from-{name}\n").as_bytes()
        );
    }
    repo.git(["merge-base", "--is-ancestor", "agent/b", "agent/d"])
        .success();
    last.git(["status", "--porcelain"])
        .success()
        .assert_stdout("?? d.txt\n");
    repo.assert_nothing_left_over();
}

#[test]
fn what_waits_for_a_failure_is_blocked_and_says_so() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let gate = sandbox.root().join("gate");
    repo.new_session("x", &[], &[&format!("until {}", gate.display()), "exit 3"]);
    repo.new_session("y", &["--after", "x"], &["write y.txt y"]);
    repo.new_session("z", &["--after", "y"], &["write z.txt z"]);
    assert_eq!(repo.state("y"), "queued");
    std::fs::write(&gate, "").expect("the sandbox is writable");
    for (name, state, words) in [
        ("x", "failed", "exit code 3"),
        ("y", "blocked", "needs x, which is failed"),
        ("z", "blocked", "needs y, which is blocked"),
    ] {
        repo.await_state(name, state);
        let session = repo.session(name).to_string();
        assert!(session.contains(words), "{session}");
    }
    repo.assert_nothing_left_over();
}

#[test]
fn two_results_that_conflict_block_the_one_that_needs_both() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("one", &[], &["write README.md one", "commit one"]);
    repo.new_session("two", &[], &["write README.md two"]);
    repo.new_session(
        "both",
        &["--after", "one", "--after", "two"],
        &["write x.txt x"],
    );
    repo.await_state("both", "blocked");
    let session = repo.session("both").to_string();
    assert!(
        session.contains("two and one conflict in README.md"),
        "{session}"
    );
    repo.assert_nothing_left_over();
}
