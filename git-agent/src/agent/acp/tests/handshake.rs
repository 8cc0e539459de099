//! Tests how conversations are opened: new, loaded, with a model, with servers.

use crate::agent::acp::tests::*;

#[test]
fn a_conversation_is_loaded_and_its_replay_not_recorded() {
    let play = Play::default()
        .hello(json!({"loadSession": true}))
        .wrote(json!({"id": 2, "method": "session/load", "params": {"sessionId": "c1", "cwd": "/w", "mcpServers": []}}))
        .says("old words")
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "old"}))
        .gives(json!({"id": 2, "result": {}}))
        .says("late old words");
    let (claim, link) = play
        .prompted(3)
        .says("turn=2")
        .ends(3, "end_turn")
        .run(&mut Acp::new(spec()), &turn(2, Some("c1")));
    assert!(claim.ok);
    assert_eq!(link.kinds(), ["assistant"]);
    assert_eq!(claim.final_text, "turn=2");
}

#[test]
fn resume_is_preferred_to_load_and_load_follows_when_it_fails() {
    let place = json!({"sessionId": "c1", "cwd": "/w", "mcpServers": []});
    let play = Play::default()
        .hello(json!({"loadSession": true, "sessionCapabilities": {"resume": {}}}))
        .wrote(json!({"id": 2, "method": "session/resume", "params": place}))
        .gives(json!({"id": 2, "error": {"code": -32603, "message": "not now"}}))
        .wrote(json!({"id": 3, "method": "session/load", "params": place}))
        .gives(json!({"id": 3, "result": null}));
    let (claim, _) = play
        .prompted(4)
        .ends(4, "end_turn")
        .run(&mut Acp::new(spec()), &turn(2, Some("c1")));
    assert!(claim.ok);
}

#[test]
fn a_forgotten_conversation_is_told_again() {
    let history = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(history.path(), "user: earlier words\n").expect("written");
    let mut turn = turn(2, Some("gone"));
    turn.history = Some(history.path().into());
    let prompt = with_history("do it", Some(history.path()));
    assert!(prompt.contains("earlier words"));
    let (claim, link) = Play::default()
        .hello(json!({"loadSession": true}))
        .wrote(json!({"id": 2, "method": "session/load", "params": {"sessionId": "gone", "cwd": "/w", "mcpServers": []}}))
        .gives(json!({"id": 2, "error": {"code": -32002, "message": "no such session"}}))
        .wrote(json!({"id": 3, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}))
        .gives(json!({"id": 3, "result": {"sessionId": "c1"}}))
        .wrote(json!({"id": 4, "method": "session/prompt", "params":
            {"sessionId": "c1", "prompt": [{"type": "text", "text": prompt}]}}))
        .ends(4, "end_turn")
        .run(&mut Acp::new(spec()), &turn);
    assert!(claim.ok);
    assert_eq!(link.kinds(), ["notice", "vendor"]);
}

#[test]
fn authentication_is_tried_when_a_variable_allows_it() {
    let mut spec = spec();
    spec.auth_methods = vec![("key".into(), "X_KEY".into())];
    let place = json!({"cwd": "/w", "mcpServers": []});
    let refused = |id: u64| json!({"id": id, "error": {"code": -32000, "message": "Authentication required"}});
    let begin = || {
        Play::default()
            .hello(json!({}))
            .wrote(json!({"id": 2, "method": "session/new", "params": place}))
            .gives(refused(2))
    };
    let (claim, _) = begin().run(&mut Acp::new(spec.clone()), &turn(1, None));
    let trouble = claim.trouble.expect("not logged in");
    assert_eq!(trouble.kind, TroubleKind::Auth);
    assert!(trouble.text.contains("API key"), "{}", trouble.text);
    let mut turn = turn(1, None);
    turn.environment.insert("X_KEY".into(), "k".into());
    let (claim, _) = begin()
        .wrote(json!({"id": 3, "method": "authenticate", "params": {"methodId": "key"}}))
        .gives(json!({"id": 3, "result": {}}))
        .wrote(json!({"id": 4, "method": "session/new", "params": place}))
        .gives(json!({"id": 4, "result": {"sessionId": "c1"}}))
        .prompted(5)
        .ends(5, "end_turn")
        .run(&mut Acp::new(spec), &turn);
    assert!(claim.ok);
}

#[test]
fn a_model_is_chosen_in_both_forms() {
    let mut turn = turn(1, None);
    turn.model = Some("fast".into());
    let options = json!({"configOptions": [{"id": "m", "category": "model", "currentValue": "p/slow",
        "options": [{"group": "g", "options": [{"value": "p/slow", "name": "Slow"}, {"value": "p/fast", "name": "F"}]}]}]});
    let (claim, _) = Play::default()
        .opened(options.clone())
        .wrote(
            json!({"id": 3, "method": "session/set_config_option", "params":
            {"sessionId": "c1", "configId": "m", "value": "p/fast"}}),
        )
        .gives(json!({"id": 3, "result": {}}))
        .prompted(4)
        .ends(4, "end_turn")
        .run(&mut Acp::new(spec()), &turn);
    assert!(claim.ok);
    let list = json!({"models": {"currentModelId": "a", "availableModels": [
        {"modelId": "a", "name": "Slow"}, {"modelId": "b", "name": "Fast"}]}});
    let (claim, _) = Play::default()
        .opened(list)
        .wrote(json!({"id": 3, "method": "session/set_model", "params": {"sessionId": "c1", "modelId": "b"}}))
        .gives(json!({"id": 3, "result": {}}))
        .prompted(4)
        .ends(4, "end_turn")
        .run(&mut Acp::new(spec()), &turn);
    assert!(claim.ok);
    turn.model = Some("nope".into());
    let (claim, link) = Play::default()
        .opened(options)
        .run(&mut Acp::new(spec()), &turn);
    assert!(claim.trouble.expect("refused").text.contains("p/fast") && link.ended);
    let (claim, link) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .ends(3, "end_turn")
        .run(&mut Acp::new(spec()), &turn);
    assert!(claim.ok && link.kinds().contains(&"notice"));
}

#[test]
fn servers_are_offered_in_the_protocols_form() {
    let mut turn = turn(1, None);
    turn.mcp_servers = vec![McpServer {
        name: "docs".into(),
        command: "/bin/docs".into(),
        args: vec!["-x".into()],
        env: vec![("A".into(), "b".into())],
    }];
    Play::default()
        .hello(json!({}))
        .wrote(json!({"id": 2, "method": "session/new", "params": {"cwd": "/w", "mcpServers": [
            {"name": "docs", "command": "/bin/docs", "args": ["-x"], "env": [{"name": "A", "value": "b"}]}]}}))
        .input(Input::Cancel)
        .run(&mut Acp::new(spec()), &turn);
    // An agent that refuses them in this form gets them from a file at its start.
    let scratch = tempfile::tempdir().expect("a directory");
    turn.scratch = scratch.path().into();
    let mut spec = spec();
    spec.argv = ["cat", "--servers", "@{mcp_file}"].map(Into::into).into();
    let (_, link) = Play::default()
        .opened(json!({}))
        .input(Input::Cancel)
        .run(&mut Acp::new(spec.clone()), &turn);
    let file = scratch.path().join("mcp.json");
    let word = format!("@{}", file.display());
    assert_eq!(link.started[0].argv, ["cat", "--servers", &word]);
    let told = std::fs::read_to_string(&file).expect("written");
    let wanted = json!({"mcpServers": {"docs": {"command": "/bin/docs", "args": ["-x"], "env": {"A": "b"}}}});
    assert_eq!(told, wanted.to_string());
    turn.mcp_servers.clear();
    let (_, link) = Play::default()
        .opened(json!({}))
        .input(Input::Cancel)
        .run(&mut Acp::new(spec), &turn);
    assert_eq!(link.started[0].argv, ["cat"]);
}

#[test]
fn a_young_conversation_is_not_loaded_before_the_minute_is_over() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut turn = turn(2, Some("c1"));
    turn.scratch = scratch.path().into();
    let mut spec = spec();
    spec.loses_young_conversations = true;
    let mut driver = Acp::new(spec);
    let load = || {
        let play = Play::default().hello(json!({"loadSession": true}));
        let play = play
            .wrote(json!({"id": 2, "method": "session/load", "params": {"sessionId": "c1", "cwd": "/w", "mcpServers": []}}))
            .gives(json!({"id": 2, "result": {}}));
        play.prompted(3).ends(3, "end_turn").input(exited(0))
    };
    // Half a second before the minute's end, so that the wait is short.
    driver.clock = || SystemTime::UNIX_EPOCH + Duration::from_millis(600_059_900);
    note(scratch.path(), "c1", 10_000);
    let (_, link) = load().run(&mut driver, &turn);
    assert_eq!(link.kinds(), ["notice"]);
    note(scratch.path(), "c1", 9_999);
    let play = Play::default().hello(json!({"loadSession": true}))
        .wrote(json!({"id": 2, "method": "session/load", "params": {"sessionId": "c1", "cwd": "/w", "mcpServers": []}}))
        .gives(json!({"id": 2, "result": {}}));
    let (_, link) = play.prompted(3).ends(3, "end_turn").run(&mut driver, &turn);
    assert!(link.events.is_empty());
}

fn note(scratch: &Path, conversation: &str, minute: u64) {
    std::fs::write(
        scratch.join("conversation-minute"),
        format!("{conversation} {minute}\n"),
    )
    .expect("written");
}
