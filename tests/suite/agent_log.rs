//! `git agent log`: the whole story of sessions, its end, and what is being said right now.

use std::time::{Duration, Instant};

use git_agent_tests::{Repo, Sandbox};
use serde_json::Value;

fn start(repo: &Repo<'_>, name: &str, steps: &[&str]) {
    let mut words = vec!["new", name, "--", "fake-agent"];
    words.extend(steps);
    repo.agent(words).success();
}

/// Returns what was said, without the times; a turn took no time.
fn said(repo: &Repo<'_>, options: &[&str]) -> Vec<String> {
    let log = repo.agent([&["log"], options].concat()).success();
    let text = |line: &str| match line.split_once(" · command · ") {
        Some((turn, _)) => format!("{} · command · 0s", turn.get(9..).unwrap_or_default()),
        None => line.get(9..).unwrap_or_default().to_owned(),
    };
    log.lines().into_iter().map(text).collect()
}

#[test]
fn a_session_is_told_from_its_beginning() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "wipe", &["print one", "error two", "write f x"]);
    repo.agent(["wait", "wipe"]).success();
    assert_eq!(
        said(&repo, &["wipe"]),
        [
            "-- session with agent command on agent/wipe",
            "",
            "turn 1 · command · 0s",
            "> wipe",
            "one",
            "two",
            "-- ready",
        ]
    );
    assert_eq!(said(&repo, &["wipe", "-n", "2"]), ["two", "-- ready"]);
    assert_eq!(said(&repo, &["wipe", "--turn", "2"]), [""; 0]);
    assert_eq!(said(&repo, &["wipe", "--since", "1h"]).len(), 7);
    assert_eq!(said(&repo, &["wipe", "--since", "2126-01-01"]), [""; 0]);
    assert!(
        said(&repo, &["wipe", "--full"])
            .iter()
            .any(|line| line.starts_with("-- snapshot ")),
        "everything includes snapshots"
    );
    repo.agent(["log", "wipe", "--since", "soon"])
        .code(129)
        .assert_says("'soon' is not a time");
    repo.agent(["log", "wipe", "--porcelain"]).code(129);
}

#[test]
fn machines_get_records() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "wipe", &["print one"]);
    repo.agent(["wait", "wipe"]).success();
    let raw = repo.agent(["log", "--raw", "wipe"]).success();
    let mut last = 0;
    for line in raw.lines() {
        let event: Value = serde_json::from_str(line).expect("one object a line");
        let seq = event["seq"].as_u64().expect("a number");
        assert_eq!(seq, last + 1, "no event is missing");
        last = seq;
    }
    let whole = repo.agent(["log", "--json", "wipe"]).success().json();
    let events = whole["events"].as_array().expect("a list");
    assert_eq!(events.len() as u64, last);
    assert!(events.iter().all(|event| event["name"] == "wipe"));
}

#[test]
fn several_sessions_are_told_in_the_order_of_time() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "first", &["print a", "until go", "print c"]);
    repo.agent(["wait", "first", "--state", "running"])
        .success();
    start(&repo, "second", &["print b"]);
    repo.agent(["wait", "second"]).success();
    repo.write("../r-worktrees/first/go", "");
    repo.agent(["wait", "first"]).success();
    let story = said(&repo, &[]);
    let output: Vec<&String> = story
        .iter()
        .filter(|line| line.len() < 9 && line.len() > 6 && !line.contains("--"))
        .collect();
    assert_eq!(output, ["first  a", "second b", "first  c"]);
    assert_eq!(
        said(&repo, &["-n", "1"]),
        ["first  -- ready"],
        "the last event of all"
    );
}

#[test]
fn following_shows_each_event_once_and_ends_with_the_session() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "live", &["print one", "until go", "print two"]);
    let follower = repo.agent_cmd(["log", "-f", "live"]).spawn();
    follower.wait_for("one");
    repo.write("../r-worktrees/live/go", "");
    follower.wait_for("two");
    let seen = follower.wait().success();
    // A follower learns time and cost of a turn at its end, not in its header.
    let lines = |text: &str| {
        let line = |line: &str| line.split(" · ").next().unwrap_or_default().to_owned();
        text.lines().map(line).collect::<Vec<_>>()
    };
    let whole = repo.agent(["log", "live"]).success();
    assert_eq!(
        lines(seen.stdout()),
        lines(whole.stdout()),
        "nothing twice, nothing missing"
    );
    // One that has ended already is shown, and that is it.
    let again = repo.agent(["log", "-f", "live"]).success();
    assert_eq!(lines(again.stdout()), lines(whole.stdout()));
}

#[test]
fn an_event_is_seen_soon_after_it_happened() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(
        &repo,
        "live",
        &["print one", "until go", "print two", "until end"],
    );
    let follower = repo.agent_cmd(["log", "-f", "--raw", "live"]).spawn();
    follower.wait_for("\"text\":\"one\"");
    repo.write("../r-worktrees/live/go", "");
    follower.wait_for("\"two\"");
    let seen = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a time after 1970");
    let text = String::from_utf8(follower.stdout_so_far()).expect("records are text");
    let line = text
        .lines()
        .find(|line| line.contains("\"two\""))
        .expect("it was seen");
    let event: Value = serde_json::from_str(line).expect("a record");
    let happened = Duration::from_millis(event["ts"].as_u64().expect("a time"));
    let late = seen.saturating_sub(happened);
    // 50 ms on a quiet machine; a busy one must not fail the test.
    assert!(late < Duration::from_secs(2), "{late:?}");
    repo.write("../r-worktrees/live/end", "");
    follower.wait().success();
}

#[test]
fn following_all_takes_in_new_sessions_and_goes_on() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let follower = repo.agent_cmd(["log", "-f"]).spawn();
    start(&repo, "first", &["print one"]);
    follower.wait_for("one");
    start(&repo, "second", &["print two"]);
    follower.wait_for("two");
    repo.agent(["wait", "first", "second"]).success();
    follower.signal(rustix::process::Signal::INT);
    follower.wait().signal(2);
}

#[test]
fn a_follower_learns_that_the_supervisor_died() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "doomed", &["print one", "until never"]);
    let follower = repo.agent_cmd(["log", "-f", "doomed"]).spawn();
    follower.wait_for("one");
    let rows = repo.agent(["list", "--json"]).success().json();
    let pid = rows["sessions"][0]["pid"].as_i64().expect("it runs");
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is ours");
    let seen = follower.wait().success();
    assert!(
        seen.stdout()
            .contains("-- interrupted: the supervisor died"),
        "{seen}"
    );
}

#[test]
fn a_follower_leaves_with_its_reader() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "quiet", &["print one", "until go"]);
    repo.agent(["wait", "quiet", "--state", "running"])
        .success();
    let started = Instant::now();
    sandbox
        .sh("git agent log -f quiet | head -n 1")
        .cwd(repo.path())
        .run()
        .success();
    assert!(started.elapsed() < Duration::from_secs(20));
    repo.write("../r-worktrees/quiet/go", "");
    repo.agent(["wait", "quiet"]).success();
}

#[test]
fn nothing_an_agent_prints_reaches_the_terminal_unescaped() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "loud", &["escapes", "invalid"]);
    repo.agent(["wait", "loud"]).success();
    let shown = repo
        .agent_cmd(["log", "loud", "--no-color", "--full"])
        .env("GIT_PAGER", "cat")
        .on_terminal()
        .run()
        .success();
    assert!(shown.stdout().contains("\\x1b[31mred"), "{shown}");
    let bad = |c: char| c.is_control() && !matches!(c, '\n' | '\r');
    assert!(!shown.stdout().contains(bad), "{shown}");
}

#[test]
fn versions_of_a_task_can_be_told_apart() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let names = ["make-tests-parser-faster-v1", "make-tests-parser-faster-v2"];
    for name in names {
        start(&repo, name, &["print done"]);
        repo.agent(["wait", name]).success();
    }
    let log = ["log", names[0], names[1], "--no-color"];
    let whole = repo.agent(log).success();
    let shown = repo
        .agent_cmd(log)
        .env("GIT_PAGER", "cat")
        .on_terminal()
        .run()
        .success();
    for (name, cut) in names.iter().zip(["v1", "v2"]) {
        assert!(
            whole.stdout().contains(&format!(" {name} done\n")),
            "{whole}"
        );
        let cut = format!(" make-tests-parse…ster-{cut} done");
        assert!(shown.stdout().contains(&cut), "{shown}");
    }
}
