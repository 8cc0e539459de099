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
        "-- ready\n",
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
    assert!(
        session["events"]
            .as_array()
            .is_some_and(|events| events.len() == 10)
    );
    repo.agent(["show", "nobody"]).code(128);
    repo.agent(["show"]).code(129);
}
