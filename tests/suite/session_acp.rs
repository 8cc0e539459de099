//! Sessions with an agent that speaks the Agent Client Protocol.

use git_agent_tests::{Repo, Sandbox, wait_until};

fn lab<'a>(sandbox: &'a Sandbox) -> Repo<'a> {
    let repo = sandbox.repo("r").create();
    let store = sandbox.root().join("conversations");
    std::fs::create_dir_all(&store).expect("the sandbox is writable");
    let command = format!("fake-acp --store '{}'", store.display());
    repo.git(["config", "agent.fake.command", &command])
        .success();
    repo.git(["config", "agent.fake.driver", "acp"]).success();
    repo
}

fn said(repo: &Repo<'_>, name: &str) -> String {
    repo.events(name)
        .iter()
        .filter(|event| event["type"] != "prompt")
        .filter_map(|event| event["text"].as_str())
        // A piece of a message ends in a blank, and the rest follows.
        .map(|text| {
            if text.ends_with(' ') {
                text.to_owned()
            } else {
                format!("{text}\n")
            }
        })
        .collect()
}

fn await_turn(repo: &Repo<'_>, name: &str, turn: u64, state: &str) {
    wait_until(&format!("turn {turn} of {name} is {state}"), || {
        let session = repo.session(name);
        session["turns"] == turn && session["state"] == state
    });
}

#[test]
fn a_question_waits_for_its_answer() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.agent([
        "new",
        "--name",
        "asks",
        "--agent",
        "fake",
        "--ask",
        "ask rm -rf everything\nwrite out.txt x",
    ])
    .success();
    repo.await_state("asks", "waiting");
    assert!(
        repo.events("asks")
            .iter()
            .any(|event| event["type"] == "permission")
    );
    repo.agent(["answer", "asks", "no"]).success();
    repo.await_state("asks", "ready");
    let events = repo.events("asks");
    assert!(
        events
            .iter()
            .any(|event| event["type"] == "answer" && event["by"] == "user"),
        "{events:#?}"
    );
    assert!(said(&repo, "asks").contains("turn=1"));
    repo.agent(["answer", "asks", "no"])
        .failure()
        .assert_says("it has no open question");
    repo.assert_nothing_left_over();
}

#[test]
fn of_several_who_answer_at_once_one_does() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let script = "ask rm -rf everything\nwrite out.txt x";
    repo.agent(["new", "--name", "asks", "--agent", "fake", "--ask", script])
        .success();
    repo.await_state("asks", "waiting");
    let answers = ["yes", "no", "yes", "no"]
        .map(|answer| repo.agent_cmd(["answer", "asks", answer]).spawn())
        .map(|answer| answer.wait().whatever());
    let taken = answers
        .iter()
        .filter(|answer| answer.status().success())
        .count();
    assert_eq!(taken, 1);
    repo.await_state("asks", "ready");
    // A prompt that came too late for its turn is not forgotten, and shown.
    repo.agent(["send", "asks", "ask again"]).success();
    repo.await_state("asks", "waiting");
    repo.agent(["send", "asks", "say what was left"]).success();
    repo.agent(["stop", "asks"]).success();
    let shown = repo.agent(["show", "asks"]).success();
    assert!(
        shown
            .lines()
            .iter()
            .any(|line| line.contains("waits") && line.contains("say what was left")),
        "{}",
        shown.stdout()
    );
    repo.assert_nothing_left_over();
}

#[test]
fn questions_asked_at_once_are_answered_one_after_the_other() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let script = "asks rm one, rm two\nwrite out.txt x";
    repo.agent(["new", "--name", "asks", "--agent", "fake", "--ask", script])
        .success();
    let asked = || {
        let events = repo.events("asks");
        let is_question = |event: &&serde_json::Value| event["type"] == "permission";
        events.iter().filter(is_question).count()
    };
    wait_until("both are asked", || asked() == 2);
    // What is shown is what the next answer is for.
    let shown = || repo.agent(["list"]).success().stdout().to_owned();
    assert!(shown().contains("rm one"), "{}", shown());
    repo.agent(["answer", "asks", "yes"])
        .success()
        .assert_says("answered 'asks': allowed \"rm one\"");
    wait_until("the other is shown", || shown().contains("rm two"));
    let told = repo.agent(["answer", "asks", "no", "--json"]).success();
    told.assert_says("answered 'asks': refused \"rm two\"");
    let told: serde_json::Value = serde_json::from_str(told.stdout()).expect("JSON");
    assert_eq!(told["answers"][0]["title"], "rm two", "{told}");
    assert_eq!(told["sessions"][0]["name"], "asks", "{told}");
    repo.await_state("asks", "ready");
    let told = said(&repo, "asks");
    assert!(
        told.contains("answer=yes") && told.contains("answer=no"),
        "{told}"
    );
    // Nobody answers the next two. A supervisor that has not gone yet would go by what was configured before.
    repo.assert_nothing_left_over();
    repo.git(["config", "agent.answerTimeout", "1s"]).success();
    repo.agent(["send", "asks", script]).success();
    await_turn(&repo, "asks", 2, "ready");
    let answers = repo.events("asks");
    let late = |event: &&serde_json::Value| event["type"] == "answer" && event["by"] == "timeout";
    assert_eq!(answers.iter().filter(late).count(), 2, "{answers:#?}");
    repo.assert_nothing_left_over();
}

#[test]
fn what_policy_decides_waits_for_nobody() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.agent([
        "new",
        "--name",
        "reads",
        "--agent",
        "fake",
        "--ask",
        "--read-only",
        "ask rm x\nsay on\nhang",
    ])
    .success();
    wait_until("it went on", || said(&repo, "reads").contains("on\n"));
    assert_eq!(repo.state("reads"), "running");
    repo.agent(["answer", "reads", "yes"])
        .failure()
        .assert_says("it has no open question");
    repo.agent(["stop", "reads"]).success();
    repo.assert_nothing_left_over();
}

#[test]
fn a_stopped_conversation_is_taken_up_again() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.agent([
        "new",
        "--name",
        "long",
        "--agent",
        "fake",
        "say hello\nhang",
    ])
    .success();
    wait_until("it has spoken", || said(&repo, "long").contains("hello"));
    repo.agent(["stop", "long"]).success();
    assert_eq!(repo.state("long"), "stopped");
    wait_until("nobody is left", || sandbox.survivors().is_empty());
    repo.agent(["restart", "long", "-m", "say again"]).success();
    await_turn(&repo, "long", 2, "ready");
    assert!(
        said(&repo, "long").contains("turn=2"),
        "{}",
        said(&repo, "long")
    );
    repo.agent(["send", "long", "say more"]).success();
    await_turn(&repo, "long", 3, "ready");
    assert!(said(&repo, "long").contains("turn=3"));
    repo.assert_nothing_left_over();
}

#[test]
fn one_that_does_not_hear_the_cancelling_is_ended() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.agent([
        "new",
        "--name",
        "deaf",
        "--agent",
        "fake",
        "say hello\ndeaf",
    ])
    .success();
    wait_until("it has spoken", || said(&repo, "deaf").contains("hello"));
    repo.agent(["stop", "deaf"]).success();
    assert_eq!(repo.state("deaf"), "stopped");
    wait_until("nobody is left", || sandbox.survivors().is_empty());
    repo.assert_nothing_left_over();
}

#[test]
fn trouble_is_told_and_does_not_end_the_conversation() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    for (name, script, state) in [
        ("odd", "odd\ngarbage\nsay fine", "ready"),
        ("big", "big 3000000\nsay fine", "ready"),
        ("crash", "say hello\ncrash 3", "failed"),
        ("eof", "say hello\neof", "failed"),
        ("refuses", "error -32000 no\\smore", "failed"),
    ] {
        repo.agent(["new", "--name", name, "--agent", "fake", script])
            .success();
        await_turn(&repo, name, 1, state);
        repo.agent(["restart", name, "-m", "say once more"])
            .success();
        await_turn(&repo, name, 2, "ready");
        assert!(said(&repo, name).contains("turn="), "{name}");
        let mute = |text: &String| text.contains("closed its output without ending");
        let told = repo.texts(name, "error").iter().any(mute);
        assert_eq!(told, name == "eof", "{name}");
    }
    repo.assert_nothing_left_over();
}

#[test]
fn a_long_conversation_loses_no_line() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    // More than any bound on plain output.
    let script = "big 3000000\nbig 3000000\nbig 3000000\nbig 3000000\nsay the end";
    repo.agent(["new", "--name", "long", "--agent", "fake", script])
        .success();
    await_turn(&repo, "long", 1, "ready");
    let said = said(&repo, "long");
    assert!(
        said.contains("the end") && said.contains("turn=1"),
        "{}",
        said.len()
    );
    repo.assert_nothing_left_over();
}

#[test]
fn one_that_stays_serves_the_next_turn_and_may_die_meanwhile() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.git(["config", "agent.linger", "10m"]).success();
    repo.agent(["new", "--name", "warm", "--agent", "fake", "say one"])
        .success();
    await_turn(&repo, "warm", 1, "ready");
    let agent = || {
        let found = sandbox.survivors();
        let agent = found.iter().find(|one| one.command.contains("fake-acp"));
        agent.map(|agent| agent.pid)
    };
    let first = agent().expect("it stays");
    repo.agent(["send", "warm", "say two"]).success();
    await_turn(&repo, "warm", 2, "ready");
    assert_eq!(agent(), Some(first));
    let pid = rustix::process::Pid::from_raw(first).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    wait_until("it is dead", || agent() != Some(first));
    repo.agent(["send", "warm", "say three"]).success();
    await_turn(&repo, "warm", 3, "ready");
    assert!(
        said(&repo, "warm").contains("turn=3"),
        "{}",
        said(&repo, "warm")
    );
    repo.agent(["stop", "warm"]).success();
    assert_eq!(repo.state("warm"), "ready");
    repo.assert_nothing_left_over();
}

#[test]
fn one_that_stays_makes_room_for_what_needs_the_session() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.git(["config", "agent.linger", "10m"]).success();
    repo.agent(["new", "--name", "warm", "--agent", "fake", "write made 1"])
        .success();
    await_turn(&repo, "warm", 1, "ready");
    let stays = || {
        let found = sandbox.survivors();
        found.iter().any(|one| one.command.contains("fake-acp"))
    };
    assert!(stays());
    // Looking ends nothing.
    repo.agent(["clean", "--dry-run"]).success();
    repo.agent(["merge", "--dry-run", "warm"]).whatever();
    assert!(stays());
    for (turn, words) in [
        &["commit", "warm", "-m", "made"][..],
        &["update", "warm"],
        &["recreate", "warm"],
        &["review", "approve", "warm"],
        &["clean", "warm"],
    ]
    .into_iter()
    .enumerate()
    {
        let done = repo.agent(words).success();
        assert!(done.elapsed().as_secs() < 10, "{words:?} waited");
        assert!(!stays(), "{words:?}");
        let state = if turn < 3 { "ready" } else { "approved" };
        assert_eq!(repo.state("warm"), state, "{words:?}");
        if turn < 3 {
            repo.agent(["send", "warm", "say more"]).success();
            await_turn(&repo, "warm", turn as u64 + 2, "ready");
            assert!(stays());
        }
    }
    repo.assert_nothing_left_over();
}

#[test]
fn what_is_sent_during_an_attach_is_done_after_it() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    // As if somebody typed ^C into it, which reaches everybody on the terminal.
    let script = "echo here >here; kill -INT $PPID; while ! test -e go; do sleep 0.1; done";
    sandbox.program("interface", &format!("#!/bin/sh\n{script}\n"));
    repo.git(["config", "agent.fake.attach", "interface {session}"])
        .success();
    repo.agent(["new", "--name", "held", "--agent", "fake", "say one"])
        .success();
    await_turn(&repo, "held", 1, "ready");
    let worktree = repo.worktree_of("held");
    let attached = repo.agent_cmd(["attach", "held"]).spawn();
    wait_until("it is attached", || worktree.path().join("here").exists());
    repo.agent(["send", "held", "say two"]).success();
    assert_eq!(repo.session("held")["turns"], 1);
    worktree.write("go", "");
    attached.wait().success();
    await_turn(&repo, "held", 2, "ready");
    let told = said(&repo, "held");
    assert!(told.contains("detached; the worktree changed"), "{told}");
    assert!(told.contains("turn=2"), "{told}");
    // One that cannot be opened was not attached to.
    repo.git(["config", "agent.fake.attach", "no-such-interface"])
        .success();
    repo.agent(["attach", "held"])
        .failure()
        .assert_says("no-such-interface");
    assert_eq!(said(&repo, "held").matches("attached to").count(), 1);
    repo.assert_nothing_left_over();
}

#[test]
fn a_secret_is_not_told_in_halves_around_something_that_happens() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let secret = "Zq8vLw2pXr5tKd7mQx3v";
    let (one, other) = secret.split_at(9);
    let (letter, rest) = secret.split_at(1);
    let task = format!(
        "say unknown {one}\nodd\nsay {other} after\nsay call {one}\nbash true\nsay {other} after\n\
         say plan {letter}\nplan 1 2\nsay {rest} after\nsay late {letter}\nsleep 700\nsay {rest} after"
    );
    repo.agent_cmd(["new", "--name", "tells", "--agent", "fake", &task])
        .env("MY_SERVICE_TOKEN", secret)
        .run()
        .success();
    repo.await_state("tells", "ready");
    let told = said(&repo, "tells");
    assert_eq!(told.matches(" after").count(), 4, "{told}");
    for part in [one, other, rest] {
        assert!(!told.contains(part), "{told}");
    }
}

#[test]
fn a_passphrase_is_not_told_in_halves_by_a_program_that_pauses() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let script = "printf 'it is correct horse '; sleep 0.5; echo 'battery stapler9, done'";
    repo.agent_cmd(["new", "--name", "tells", "--", "sh", "-c", script])
        .env("MY_SERVICE_PASSWORD", "correct horse battery stapler9")
        .run()
        .success();
    repo.await_state("tells", "ready");
    let told = said(&repo, "tells");
    assert_eq!(told.trim(), "it is [REDACTED:known-secret], done");
}

#[test]
fn the_last_events_are_whole_messages_and_tell_what_was_used() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let task = "say First words.\nbash true\nstream 3 400 word \nand no more";
    repo.agent(["new", "--name", "speaks", "--agent", "fake", task])
        .success();
    repo.await_state("speaks", "ready");
    let pieces = repo.events("speaks");
    let pieces = pieces.iter().filter(|event| event["type"] == "assistant");
    assert!(pieces.count() > 2, "the message came in pieces");
    let told = |command: &[&str]| {
        let run = repo.agent_cmd(command.iter().copied().chain(["speaks", "--no-color"]));
        let lines: Vec<String> = run
            .run()
            .success()
            .lines()
            .into_iter()
            .map(str::to_owned)
            .collect();
        lines
    };
    let last = [
        "word word word Done. turn=1",
        "-- ready: no changes · so far 100 in, 7 out",
    ];
    let shown = |lines: &[String]| {
        let words = lines.iter().map(|line| line[9..].to_owned());
        words.collect::<Vec<_>>()
    };
    assert_eq!(shown(&told(&["log", "-n", "2"])), last);
    assert_eq!(shown(&told(&["log", "-n", "1"])), last[1..]);
    assert!(told(&["log", "-n", "0"]).is_empty());
    let page = told(&["show"]).join("\n");
    assert!(page.contains(last[0]), "{page}");
    let row = told(&["list"]).join("\n");
    assert!(row.contains(last[0]), "{row}");
}
