//! The store through separate processes and judged by plain git: nothing lost, nothing doubled, readable by people.

use std::collections::BTreeSet;

use git_agent_tests::{RefFormat, Repo, Sandbox};

const PROCESSES: usize = 8;

fn hammer(repo: &Repo<'_>, words: &[&str]) -> String {
    let run = repo.command("store-hammer").args(words).run().success();
    run.stdout().to_owned()
}

fn create(repo: &Repo<'_>, name: &str, events: &str) -> String {
    hammer(repo, &["create", name, events]).trim().to_owned()
}

/// Returns the full name of a session's ref.
fn ref_of(repo: &Repo<'_>, sid: &str) -> String {
    let refs = repo.refs("refs/agents/sessions");
    let found = refs.into_keys().find(|name| name.ends_with(sid));
    found.expect("the session has a ref")
}

#[test]
fn ten_thousand_events_read_back_identical_and_survive_everything_git_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let sid = create(&repo, "long", "10000");
    let name = ref_of(&repo, &sid);
    let events = hammer(&repo, &["events", &sid]);
    assert_eq!(events.lines().count(), 10_001);
    for (at, line) in events.lines().skip(1).enumerate() {
        let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(event["seq"], at + 2);
        assert_eq!(event["text"], format!("event {at} of long \u{1f9c0}"));
    }

    // What a person with plain git sees.
    let log = repo
        .git(["log", "--first-parent", "--format=%s%n%b", &name])
        .success();
    assert!(log.stdout().contains("agent-log v1"));
    assert!(log.stdout().contains(&format!("Agent-Session: {sid}")));
    assert!(log.stdout().contains("long: draft, events 1-1"));
    let commits = repo
        .git(["rev-list", "--count", &name])
        .success()
        .line()
        .to_owned();
    let commits: usize = commits.parse().expect("a number");
    assert!(commits < 40, "{commits} commits for 10,000 events");
    let shown = repo
        .git(["show", "--name-only", "--format=%an", &name])
        .success();
    assert!(shown.stdout().contains("events.jsonl") && shown.stdout().contains("Ada"));
    let state = repo
        .git(["cat-file", "-p", &format!("{name}:state.json")])
        .success();
    assert_eq!(state.json()["seq"], 10_001);
    assert_eq!(state.json()["name"], "long");
    let mut plain = String::new();
    let chain = repo
        .git(["rev-list", "--reverse", "--first-parent", &name])
        .success();
    for commit in chain.lines() {
        plain += repo
            .git(["cat-file", "-p", &format!("{commit}:events.jsonl")])
            .success()
            .stdout();
    }
    assert_eq!(plain, events, "plain git reads the same bytes");

    repo.assert_whole();
    repo.git(["gc", "--quiet", "--prune=now"]).success();
    repo.git(["repack", "-adfq"]).success();
    repo.assert_user_can_work();
    assert_eq!(hammer(&repo, &["events", &sid]), events);
    let mirror = repo.clone_to("mirror", &["--mirror"]);
    assert_eq!(hammer(&mirror, &["events", &sid]), events);
    repo.agent(["list", "--porcelain", "--all"]).success();
}

#[test]
fn eight_processes_write_eight_sessions_and_one_notes_ref_at_once() {
    for refs in RefFormat::available() {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").refs(*refs).create();
        let sids: Vec<String> = (0..PROCESSES)
            .map(|number| create(&repo, &format!("s{number}"), "0"))
            .collect();
        let mut running = Vec::new();
        for (number, sid) in sids.iter().enumerate() {
            let word = format!("p{number}");
            let append = repo
                .command("store-hammer")
                .args(["append", sid, "100", &word]);
            running.push(append.spawn());
            let note = repo.command("store-hammer").args(["note", "25", &word]);
            running.push(note.spawn());
        }
        for process in running {
            process.wait().success();
        }
        for (number, sid) in sids.iter().enumerate() {
            let events = hammer(&repo, &["events", sid]);
            let texts: Vec<String> = events
                .lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
                .filter_map(|event| Some(event["text"].as_str()?.to_owned()))
                .collect();
            let expected: Vec<String> = (0..100).map(|at| format!("p{number} {at}")).collect();
            assert_eq!(texts, expected, "{}: session {number}", refs.name());
        }
        let notes = hammer(&repo, &["notes"]);
        let lines: BTreeSet<&str> = notes.lines().collect();
        assert_eq!(
            lines.len(),
            notes.lines().count(),
            "{}: doubled",
            refs.name()
        );
        assert_eq!(lines.len(), PROCESSES * 25, "{}: lost", refs.name());
        repo.assert_user_can_work();
    }
}

#[test]
fn folded_sessions_are_listed_only_when_asked_for_and_read_as_before() {
    for refs in RefFormat::available() {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").refs(*refs).create();
        let sid = create(&repo, "old", "20");
        create(&repo, "young", "0");
        hammer(&repo, &["close", &sid]);
        let before = hammer(&repo, &["events", &sid]);
        assert_eq!(hammer(&repo, &["fold"]).trim(), "1");
        assert_eq!(repo.refs("refs/agents/sessions").len(), 1);
        assert_eq!(repo.refs("refs/agents/archive").len(), 1);
        repo.assert_user_can_work();
        assert_eq!(hammer(&repo, &["events", &sid]), before);
        let names = |args: &[&str]| -> Vec<String> {
            let json = repo.agent(args).success().json();
            let sessions = json["sessions"].as_array().expect("a list").clone();
            sessions
                .iter()
                .map(|one| format!("{} {}", one["name"], one["archived"]))
                .collect()
        };
        assert_eq!(names(&["list", "--json"]), ["\"young\" null"]);
        let all = names(&["list", "--json", "--all"]);
        assert!(all.contains(&"\"old\" true".to_owned()), "{all:?}");
        assert_eq!(names(&["list", "--json", "old"]), ["\"old\" true"]);
        let log = repo.agent(["log", "old"]).success();
        assert!(log.stdout().contains("event 19 of old"), "{log}");
        // Written to again, it is a session like any other.
        hammer(&repo, &["append", &sid, "1", "again"]);
        assert_eq!(repo.refs("refs/agents/sessions").len(), 2);
        assert!(hammer(&repo, &["events", &sid]).starts_with(&before));
    }
}
