//! `git agent show`: everything about one session.

use git_agent_tests::Sandbox;

#[test]
fn a_session_is_shown_whole() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let task = "write out lines\n\nsecond paragraph";
    repo.agent([
        "new",
        task,
        "--name",
        "wipe",
        "--",
        "fake-agent",
        "write f a\\nb",
    ])
    .success();
    repo.agent(["wait", "wipe"]).success();
    let shown = repo.agent(["show", "wipe"]).success();
    let text = shown.stdout();
    for part in [
        "wipe  ready\n",
        "  task      write out lines\n\n            second paragraph\n",
        "  branch    agent/wipe from main, 0 ahead, 0 behind\n",
        "  changes   1 file, +2 -0, 1 not committed\n",
        "/r-worktrees/wipe\n",
        " snapshots, the last after turn 1, ",
        "-- ready",
    ] {
        assert!(text.contains(part), "{part:?} is missing\n{text}");
    }
    let json = repo.agent(["show", "wipe", "--json"]).success().json();
    let session = &json["sessions"][0];
    assert_eq!(session["task"], task);
    assert_eq!(session["changes"]["added"], 2);
    assert_eq!(session["base"], repo.id("HEAD"));
    assert!(session["port"].as_u64().is_some_and(|port| port >= 20_000));
    assert_eq!(session["snapshots"][0]["turn"], 1);
    let events = session["events"].as_array().expect("a list");
    let types: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert!((6..=10).contains(&types.len()), "{types:?}");
    for kind in ["prompt", "snapshot", "status"] {
        assert!(types.contains(&kind), "{kind}: {types:?}");
    }
    repo.agent(["show", "nobody"]).code(128);
    repo.agent(["show"]).code(129);
}

#[test]
fn what_a_session_asks_is_shown_with_the_answers_to_type() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "agent.fake.driver", "acp"]).success();
    let store = sandbox.root().join("conversations");
    let command = format!("fake-acp --store '{}'", store.display());
    repo.git(["config", "agent.fake.command", &command])
        .success();
    let task = "plan 1 3\nask remove everything\nwrite f x";
    repo.agent(["new", task, "--name", "asker", "--agent", "fake", "--ask"])
        .success();
    repo.agent(["wait", "asker", "--state", "waiting", "--timeout", "60s"])
        .success();
    let json = repo.agent(["show", "asker", "--json"]).success().json();
    let request = &json["sessions"][0]["request"];
    assert_eq!(request["kind"], "permission");
    let options = request["options"].as_array().expect("options").len();
    let shown = repo.agent(["show", "asker"]).success();
    let text = shown.stdout();
    assert!(text.starts_with("asker  waiting\n"), "{text}");
    assert!(text.contains("  plan      1 of 3 done\n"), "{text}");
    assert!(text.contains("remove everything"), "{text}");
    for number in 1..=options {
        let line = format!("git agent answer asker {number}\n");
        assert!(text.contains(&line), "{text}");
    }
    let row = repo.agent(["list", "--waiting", "--json"]).success().json();
    assert_eq!(
        row["sessions"][0]["progress"],
        serde_json::json!({"done": 1, "total": 3})
    );
    repo.agent(["answer", "asker", "1"]).success();
    repo.agent(["wait", "asker", "--timeout", "60s"]).success();
    let json = repo.agent(["show", "asker", "--json"]).success().json();
    assert!(json["sessions"][0].get("request").is_none());
}
