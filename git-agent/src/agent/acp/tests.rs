//! Whole turns against scripted agents: what is written to them, what is recorded, what is claimed.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::*;
use crate::agent::testing::{Script, Step, exited, stdout};
use crate::agent::{Family, McpServer};
use crate::session::Exit;

fn spec() -> AgentSpec {
    AgentSpec::new("x", Family::Acp, vec!["sh".into(), "--acp".into()])
}

fn turn(number: u32, resume: Option<&str>) -> Turn {
    Turn {
        session: "s".into(),
        prompt: "do it".into(),
        number,
        resume: resume.map(ToOwned::to_owned),
        worktree: "/w".into(),
        scratch: "/nonexistent".into(),
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        ..Turn::default()
    }
}

/// A script in the notation of the tests: `>` must have been written, `<` is given.
#[derive(Default)]
struct Play(Script);

impl Play {
    fn wrote(mut self, message: Value) -> Self {
        let mut message = message;
        message["jsonrpc"] = "2.0".into();
        self.0.steps.push_back(Step::Wrote(message.to_string()));
        self
    }

    fn gives(mut self, message: Value) -> Self {
        self.0.push(stdout(message.to_string()));
        self
    }

    fn line(mut self, line: &str) -> Self {
        self.0.push(stdout(line));
        self
    }

    fn input(mut self, input: Input) -> Self {
        self.0.push(input);
        self
    }

    fn update(self, update: Value) -> Self {
        self.gives(
            json!({"method": "session/update", "params": {"sessionId": "c1", "update": update}}),
        )
    }

    fn says(self, text: &str) -> Self {
        self.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
    }

    /// The handshake, and the answer to it.
    fn hello(self, capabilities: Value) -> Self {
        self.wrote(json!({"id": 1, "method": "initialize", "params": {
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "git-agent", "version": env!("CARGO_PKG_VERSION")}}}))
            .gives(json!({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": capabilities,
                "authMethods": [{"id": "key", "name": "API key"}]}}))
    }

    /// A new conversation `c1`, opened by request 2, and the prompt as request 3.
    fn opened(self, settings: Value) -> Self {
        let mut result = settings;
        result["sessionId"] = "c1".into();
        self.hello(json!({"loadSession": true}))
            .wrote(json!({"id": 2, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}))
            .gives(json!({"id": 2, "result": result}))
    }

    fn prompted(self, id: u64) -> Self {
        self.wrote(json!({"id": id, "method": "session/prompt", "params":
            {"sessionId": "c1", "prompt": [{"type": "text", "text": "do it"}]}}))
    }

    fn ends(self, id: u64, reason: &str) -> Self {
        self.gives(json!({"id": id, "result": {"stopReason": reason}}))
    }

    fn run(mut self, driver: &mut Acp, turn: &Turn) -> (Claim, Script) {
        let claim = driver.turn(turn, &mut self.0).expect("a claim");
        let left: Vec<&Step> = self
            .0
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Wrote(_)))
            .collect();
        assert!(left.is_empty(), "never written: {left:?}");
        (claim, self.0)
    }
}

fn ask_permission(id: Value) -> Value {
    json!({"id": id, "method": "session/request_permission", "params": {"sessionId": "c1",
        "toolCall": {"toolCallId": "t1", "title": "rm -r", "kind": "execute"},
        "options": [{"optionId": "once", "name": "Once", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"}]}})
}

#[test]
fn a_turn_is_asked_told_and_claimed() {
    let play = Play::default()
        .opened(json!({}))
        .prompted(3)
        .says("Step ")
        .says("1.")
        .update(json!({"sessionUpdate": "plan", "entries": [
            {"content": "a", "priority": "high", "status": "completed"}, {"content": "b"}, 7]}))
        .update(json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}))
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "ls", "kind": "execute", "status": "completed"}))
        .update(json!({"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": {"amount": 0.5, "currency": "USD"}}))
        .update(json!({"sessionUpdate": "available_commands_update", "availableCommands": []}))
        .update(json!({"sessionUpdate": "from_the_future", "x": 1}))
        .says("Done.")
        .gives(json!({"id": "3", "result": {"stopReason": "end_turn", "usage": {"inputTokens": 10, "outputTokens": 2}}}));
    let mut driver = Acp::new(spec());
    let mut turn = turn(1, None);
    turn.used.input_tokens = Some(5);
    let (claim, link) = play.run(&mut driver, &turn);
    assert!(claim.ok && claim.trouble.is_none() && !link.ended);
    assert_eq!(claim.final_text, "Done.");
    assert_eq!(
        link.kinds(),
        [
            "vendor",
            "assistant",
            "plan",
            "reasoning",
            "tool_call",
            "tool_result",
            "usage",
            "raw",
            "usage",
            "assistant"
        ]
    );
    let Body::Usage { usage } = &link.events[8] else {
        panic!("usage")
    };
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.cost_usd),
        (Some(15), Some(2), Some(0.5))
    );
}

#[test]
fn the_process_serves_the_next_turn() {
    let mut driver = Acp::new(spec());
    let (_, mut link) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .ends(3, "end_turn")
        .run(&mut driver, &turn(1, None));
    link.steps = Play::default().prompted(4).ends(4, "end_turn").0.steps;
    let claim = driver
        .turn(&turn(2, Some("c1")), &mut link)
        .expect("a claim");
    assert!(claim.ok);
    assert_eq!(link.started.len(), 1);
    link.push(exited(0));
    driver.close(&mut link).expect("closed");
    assert!(link.stdin_closed && link.ended);
}

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
fn policy_allows_once_and_says_so() {
    let (claim, link) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .gives(ask_permission(json!("p-0")))
        .wrote(json!({"id": "p-0", "result": {"outcome": {"outcome": "selected", "optionId": "once"}}}))
        .ends(3, "end_turn")
        .run(&mut Acp::new(spec()), &turn(1, None));
    assert!(claim.ok);
    assert_eq!(
        link.kinds(),
        ["vendor", "tool_call", "permission", "answer", "tool_result"]
    );
    let Body::Answer {
        request,
        choice,
        by,
    } = &link.events[3]
    else {
        panic!("an answer")
    };
    assert_eq!(
        (request.as_str(), choice.as_str(), by.as_str()),
        ("1.p-0", "once", "policy")
    );
}

#[test]
fn who_may_change_nothing_is_refused_by_policy() {
    let mut turn = turn(1, None);
    turn.read_only = true;
    let modes = json!({"modes": {"currentModeId": "code", "availableModes": [{"id": "code"}, {"id": "plan"}]}});
    let (claim, _) = Play::default()
        .opened(modes)
        .wrote(json!({"id": 3, "method": "session/set_mode", "params": {"sessionId": "c1", "modeId": "plan"}}))
        .gives(json!({"id": 3, "result": null}))
        .prompted(4)
        .gives(ask_permission(json!(0)))
        .wrote(json!({"id": 0, "result": {"outcome": {"outcome": "selected", "optionId": "no"}}}))
        .ends(4, "cancelled")
        .run(&mut Acp::new(spec()), &turn);
    let trouble = claim.trouble.expect("it stopped");
    assert!(!claim.ok && !claim.cancelled && trouble.text.contains("refused"));
}

#[test]
fn a_person_is_asked_until_the_answer_fits() {
    let mut turn = turn(1, None);
    turn.ask = true;
    let answer = |choice: &str| Input::Answer {
        request: "1.0".into(),
        choice: choice.into(),
    };
    let (claim, link) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .gives(ask_permission(json!(0)))
        .input(Input::Answer {
            request: "1.99".into(),
            choice: "yes".into(),
        })
        .input(answer("perhaps"))
        .input(answer("yes"))
        .wrote(json!({"id": 0, "result": {"outcome": {"outcome": "selected", "optionId": "once"}}}))
        .ends(3, "end_turn")
        .run(&mut Acp::new(spec()), &turn);
    assert!(claim.ok);
    assert_eq!(
        link.kinds(),
        [
            "vendor",
            "tool_call",
            "permission",
            "permission",
            "tool_result"
        ]
    );
}

#[test]
fn cancelling_answers_what_was_asked_and_keeps_the_process() {
    let mut turn = turn(1, None);
    turn.ask = true;
    let (claim, link) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .gives(ask_permission(json!(0)))
        .input(Input::Cancel)
        .input(Input::Cancel)
        .wrote(json!({"method": "session/cancel", "params": {"sessionId": "c1"}}))
        .wrote(json!({"id": 0, "result": {"outcome": {"outcome": "cancelled"}}}))
        .ends(3, "cancelled")
        .run(&mut Acp::new(spec()), &turn);
    assert!(claim.cancelled && !claim.ok && claim.trouble.is_none() && !link.ended);
}

#[test]
fn cancelling_before_the_prompt_ends_the_process() {
    let (claim, link) = Play::default()
        .hello(json!({}))
        .input(Input::Cancel)
        .run(&mut Acp::new(spec()), &turn(1, None));
    assert!(claim.cancelled && link.ended);
}

#[test]
fn a_process_that_ends_in_the_middle_has_crashed() {
    let (claim, link) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .says("half a ")
        .input(Input::Stderr {
            line: b"Segmentation fault".to_vec(),
            cut: 0,
        })
        .input(exited(139))
        .run(&mut Acp::new(spec()), &turn(1, None));
    let trouble = claim.trouble.expect("it crashed");
    assert_eq!(trouble.kind, TroubleKind::Crash);
    assert!(trouble.text.contains("139") && trouble.text.contains("Segmentation"));
    assert_eq!(
        claim.exit,
        Some(Exit {
            code: Some(139),
            ..Exit::default()
        })
    );
    assert_eq!(link.kinds(), ["vendor", "assistant", "output"]);
}

#[test]
fn of_an_agents_own_log_only_its_troubles_are_heard() {
    let mut spec = spec();
    spec.murmurs = Some("X_LOG");
    let mut play = Play::default().opened(json!({})).prompted(3);
    for line in [
        "[2026-01-02T03:04:05.678Z] [DEBUG] Experiments loaded {",
        "  flags: []",
        "}",
        "[2026-01-02T03:04:06.678Z] [WARN] Attempt 1 failed with status 429. Retrying with backoff...",
        "    at somewhere",
        "a plain complaint",
        "  and its second line",
    ] {
        play = play.input(Input::Stderr {
            line: line.into(),
            cut: 0,
        });
    }
    let (claim, link) = play
        .says("done")
        .ends(3, "end_turn")
        .run(&mut Acp::new(spec), &turn(1, None));
    assert!(claim.ok, "{claim:?}");
    let told: String = link
        .events
        .iter()
        .filter_map(|body| match body {
            Body::Output { text, .. } => Some(format!("{text}\n")),
            _ => None,
        })
        .collect();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 3, "{told}");
    assert!(lines[0].contains("status 429"));
    assert_eq!(lines[1..], ["a plain complaint", "  and its second line"]);
    let started = &link.started[0];
    assert!(
        started
            .env
            .contains(&("X_LOG".into(), "/dev/stderr".into()))
    );
}

#[test]
fn garbage_and_unknown_requests_are_survived() {
    let (claim, link) = Play::default()
        .line("Welcome to the agent!")
        .opened(json!({}))
        .prompted(3)
        .line("{\"jsonrpc\":\"2.0\",\"method\":\"session/upd")
        .line("[]")
        .gives(json!({"id": 77, "result": {"not": "ours"}}))
        .gives(json!({"method": "_auth/status_update", "params": {"ok": true}}))
        .gives(json!({"id": "q", "method": "craft/drain", "params": {}}))
        .wrote(json!({"id": "q", "error": {"code": -32601, "message": "'craft/drain' is not offered"}}))
        .ends(3, "end_turn")
        .run(&mut Acp::new(spec()), &turn(1, None));
    assert!(claim.ok);
    let raws = link.kinds().iter().filter(|kind| **kind == "raw").count();
    let lines: usize = link
        .events
        .iter()
        .map(|event| match event {
            Body::Output { text, .. } => text.lines().count(),
            _ => 0,
        })
        .sum();
    assert_eq!((raws, lines), (3, 2));
}

#[test]
fn a_message_that_is_too_long_does_not_leave_anybody_waiting() {
    let cut = |line: &str| Input::Stdout {
        line: line.as_bytes().to_vec(),
        cut: 50_000_000,
    };
    let (claim, link) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .input(cut(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"c1","#))
        .input(cut(r#"{"jsonrpc":"2.0","id":5,"method":"fs/write_text_file","params":{"#))
        .wrote(json!({"id": 5, "error": {"code": -32603, "message": "a message of 50000064 bytes is too long"}}))
        .input(cut(r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","#))
        .run(&mut Acp::new(spec()), &turn(1, None));
    assert_eq!(
        claim.trouble.map(|trouble| trouble.kind),
        Some(TroubleKind::Protocol)
    );
    assert_eq!(link.kinds(), ["vendor", "raw", "raw", "raw"]);
}

#[test]
fn refusals_are_told_apart_and_a_login_starts_anew() {
    let error =
        |code: i64, message: &str| json!({"id": 3, "error": {"code": code, "message": message}});
    for (error, kind, ended) in [
        (
            error(-32000, "Authentication required"),
            TroubleKind::Auth,
            true,
        ),
        (
            error(-32603, "Internal error: 500 Internal Server Error"),
            TroubleKind::Model,
            false,
        ),
        (error(429, "slow down"), TroubleKind::RateLimit, false),
    ] {
        let (claim, link) = Play::default()
            .opened(json!({}))
            .prompted(3)
            .gives(error)
            .run(&mut Acp::new(spec()), &turn(1, None));
        assert_eq!(claim.trouble.map(|trouble| trouble.kind), Some(kind));
        assert_eq!(link.ended, ended);
    }
}

#[test]
fn a_failed_model_told_as_success_is_no_success() {
    let mut spec = spec();
    spec.failure_texts = vec!["Ran into this error:".into()];
    let (claim, _) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .says("Let me see.")
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "ls"}))
        .says("Ran into this error: Server error: 500.")
        .ends(3, "end_turn")
        .run(&mut Acp::new(spec), &turn(1, None));
    assert_eq!(
        claim.trouble.map(|trouble| trouble.kind),
        Some(TroubleKind::Model)
    );
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
    // One that refuses them in this form takes them from a file, when it is started.
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

#[test]
fn a_setback_counts_only_while_the_model_is_asked() {
    let (spec, turn) = (spec(), turn(1, None));
    let mut peer = Peer {
        conversation: Some(("c1".to_owned(), Value::Null)),
        ..Peer::default()
    };
    let call = |status: &str| json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "make", "kind": "execute", "status": status});
    let grumble = || Input::Stderr {
        line: b"telemetry: fetch failed, will retry".to_vec(),
        cut: 0,
    };
    let mut play = Play::default()
        .input(grumble())
        .update(call("in_progress"))
        .input(grumble())
        .update(call("completed"))
        .input(grumble())
        .0;
    play.running = true;
    let mut dialogue = Dialogue::new(&spec, &turn, &mut peer, &mut play);
    dialogue.begin_prompt();
    let mut counts = Vec::new();
    for _ in 0..5 {
        dialogue.wait(None).expect("something is heard");
        counts.push(dialogue.hopeless().is_some());
    }
    assert_eq!(counts, [true, false, false, false, true]);
}
