//! Turns against scripted streams, for cases that the recordings of the real program lack.

use serde_json::{Value, json};

use crate::agent::claude::*;
use crate::agent::driver::{Family, McpServer};
use crate::agent::tests::script::{Script, exited, stdout};
use crate::model::session::Usage;

fn driver() -> Claude {
    Claude {
        spec: AgentSpec::new("x", Family::ClaudeStream, vec!["sh".into()]),
        is_root: || false,
        requests: 0,
    }
}

fn turn() -> Turn {
    Turn {
        session: "s".into(),
        prompt: "do it".into(),
        number: 1,
        worktree: "/w".into(),
        scratch: "/nonexistent".into(),
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        ..Turn::default()
    }
}

fn script(messages: &[Value]) -> Script {
    let mut script = Script::printing(messages.iter().map(Value::to_string));
    script.push(exited(0));
    script
}

fn result(fields: Value) -> Value {
    let mut message =
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "done"});
    for (key, value) in fields.as_object().expect("fields") {
        message[key] = value.clone();
    }
    message
}

fn words(script: &Script) -> Vec<String> {
    let argv = &script.started[0].argv;
    argv.iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

fn said(script: &Script) -> Vec<&str> {
    script
        .events
        .iter()
        .filter_map(|event| match event {
            Body::Assistant { text } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn who_asks_is_decided_by_flags() {
    let asks = |turn: &Turn, driver: &mut Claude| {
        let mut link = script(&[result(json!({}))]);
        driver.turn(turn, &mut link).expect("a claim");
        words(&link).contains(&"--permission-prompt-tool".to_owned())
    };
    assert!(!asks(&turn(), &mut driver()));
    assert!(asks(
        &Turn {
            ask: true,
            ..turn()
        },
        &mut driver()
    ));
    assert!(asks(
        &Turn {
            read_only: true,
            ..turn()
        },
        &mut driver()
    ));
    let root = || Claude {
        is_root: || true,
        ..driver()
    };
    assert!(asks(&turn(), &mut root()));
    let mut sandboxed = turn();
    sandboxed
        .environment
        .insert("IS_SANDBOX".into(), "1".into());
    assert!(!asks(&sandboxed, &mut root()));
}

#[test]
fn one_that_cannot_ask_says_so() {
    for (asking, told) in [(Asking::Never, 1), (Asking::Always, 0)] {
        let mut driver = driver();
        driver.spec.asking = asking;
        let mut link = script(&[result(json!({}))]);
        let turn = Turn {
            ask: true,
            ..turn()
        };
        driver.turn(&turn, &mut link).expect("a claim");
        let says =
            |event: &&Body| matches!(event, Body::Notice { text } if text.contains("cannot ask"));
        assert_eq!(link.events.iter().filter(says).count(), told);
    }
}

#[test]
fn text_that_came_in_pieces_is_not_said_twice() {
    let piece =
        |event: Value| json!({"type": "stream_event", "event": event, "parent_tool_use_id": null});
    let delta = |text: &str| {
        piece(json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}))
    };
    let whole = |text: &str| json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}});
    let mut link = script(&[
        piece(json!({"type": "message_start"})),
        piece(json!({"type": "content_block_start"})),
        delta("Hello "),
        delta("wor"),
        whole("Hello world"),
        whole("and more"),
        result(json!({"result": "and more"})),
    ]);
    let claim = driver().turn(&turn(), &mut link).expect("a claim");
    assert_eq!(said(&link), ["Hello world", "and more"]);
    assert!(claim.ok && claim.final_text == "and more");
}

#[test]
fn half_a_character_in_the_result_does_not_hide_it() {
    let text = result(json!({"result": "cut CUT"})).to_string();
    let mut link = Script::printing([text.replace("CUT", r"\ud83d")]);
    link.push(exited(0));
    let claim = driver().turn(&turn(), &mut link).expect("a claim");
    assert!(claim.ok, "{claim:?}");
    assert_eq!(said(&link), ["cut \u{fffd}"]);
}

#[test]
fn words_that_stand_in_another_place_are_recorded() {
    let mut link = script(&[result(json!({"result": "only here"}))]);
    driver().turn(&turn(), &mut link).expect("a claim");
    assert_eq!(said(&link), ["only here"]);
    let plain = json!({"type": "assistant", "message": {"content": "as a string"}});
    let mut link = script(&[plain, result(json!({"result": "as a string"}))]);
    driver().turn(&turn(), &mut link).expect("a claim");
    assert_eq!(said(&link), ["as a string"]);
    let failed = result(json!({"is_error": true, "result": "overloaded"}));
    let mut link = script(&[failed]);
    driver().turn(&turn(), &mut link).expect("a claim");
    assert!(said(&link).is_empty(), "{:?}", said(&link));
}

#[test]
fn helpers_of_the_agent_do_not_speak_for_it() {
    let mut link = script(&[
        json!({"type": "assistant", "parent_tool_use_id": "t", "message": {"content": [{"type": "text", "text": "inner"}]}}),
        json!({"type": "stream_event", "parent_tool_use_id": "t", "event":
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}}),
        result(json!({})),
    ]);
    driver().turn(&turn(), &mut link).expect("a claim");
    assert_eq!(said(&link), ["done"]);
    assert!(link.kinds().contains(&"reasoning"));
}

#[test]
fn the_result_is_believed_only_where_it_is_honest() {
    for (fields, kind) in [
        (
            json!({"is_error": true, "api_error_status": 401, "result": "bad"}),
            TroubleKind::Auth,
        ),
        (
            json!({"is_error": true, "api_error_status": 529, "result": "later"}),
            TroubleKind::RateLimit,
        ),
        (
            json!({"is_error": true, "result": "Prompt is too long"}),
            TroubleKind::Context,
        ),
        (
            json!({"is_error": true, "subtype": "error_max_turns", "result": null}),
            TroubleKind::Other,
        ),
        (
            json!({"is_error": null, "subtype": "error_during_execution", "errors": ["500 server error"]}),
            TroubleKind::Model,
        ),
    ] {
        let mut link = script(&[result(fields.clone())]);
        let claim = driver().turn(&turn(), &mut link).expect("a claim");
        assert_eq!(
            claim.trouble.map(|trouble| trouble.kind),
            Some(kind),
            "{fields}"
        );
    }
    let claim = driver().turn(&turn(), &mut script(&[])).expect("a claim");
    assert_eq!(
        claim.trouble.map(|trouble| trouble.kind),
        Some(TroubleKind::Protocol)
    );
}

#[test]
fn figures_add_up_over_turns() {
    let mut turn = turn();
    turn.used = Usage {
        input_tokens: Some(10),
        output_tokens: Some(1),
        cost_usd: Some(0.5),
    };
    let fields = json!({"total_cost_usd": 0.75, "usage": {"input_tokens": 5, "cache_read_input_tokens": 3, "output_tokens": 2}});
    let usage = |fields: Value| {
        let mut link = script(&[result(fields)]);
        driver().turn(&turn, &mut link).expect("a claim");
        link.events.into_iter().find_map(|event| match event {
            Body::Usage { usage } => Some(usage),
            _ => None,
        })
    };
    let told = usage(fields.clone()).expect("figures");
    assert_eq!(
        (told.input_tokens, told.output_tokens, told.cost_usd),
        (Some(18), Some(3), Some(0.75))
    );
    let mut since = fields;
    since["model_usage_since_last_result"] = json!({"a": {"costUSD": 0.1}, "b": {"costUSD": 0.15}});
    assert_eq!(usage(since).expect("figures").cost_usd, Some(0.75));
    assert_eq!(usage(json!({"total_cost_usd": 0, "usage": {}})), None);
}

#[test]
fn what_a_turn_uses_is_told_while_it_goes_on_and_counted_once() {
    let mut turn = turn();
    turn.used.input_tokens = Some(10);
    let used = |messages: &[Value]| {
        let mut link = script(messages);
        driver().turn(&turn, &mut link).expect("a claim");
        let figures = link.events.iter().filter_map(|event| match event {
            Body::Usage { usage } => Some((usage.input_tokens?, usage.output_tokens?)),
            _ => None,
        });
        figures.collect::<Vec<_>>()
    };
    let usage = |input: u64, output: u64| json!({"input_tokens": 1, "cache_read_input_tokens": input - 1, "output_tokens": output});
    let piece = |event: Value| json!({"type": "stream_event", "event": event});
    let begin = |id: &str| {
        piece(json!({"type": "message_start", "message": {"id": id, "usage": usage(100, 1)}}))
    };
    let end =
        |output: u64| piece(json!({"type": "message_delta", "usage": {"output_tokens": output}}));
    let whole = |id: &str, output: u64| {
        json!({"type": "assistant", "message":
        {"id": id, "content": [{"type": "tool_use", "id": id, "name": "Bash"}], "usage": usage(100, output)}})
    };
    let mut helper = whole("h", 5);
    helper["parent_tool_use_id"] = "a".into();
    let pieces = [
        begin("a"),
        whole("a", 1),
        whole("a", 1),
        end(20),
        helper,
        begin("b"),
        whole("b", 1),
        end(30),
    ];
    assert_eq!(used(&pieces), [(110, 20), (210, 50)]);
    let ended = |fields: Value| [&pieces[..], &[result(fields)]].concat();
    let same = ended(json!({"usage": usage(200, 50)}));
    assert_eq!(used(&same), [(110, 20), (210, 50)]);
    let more = ended(json!({"usage": usage(300, 60)}));
    assert_eq!(used(&more), [(110, 20), (210, 50), (310, 60)]);
    // An interrupted turn has no figures.
    let none = ended(json!({"is_error": true, "usage": usage(1, 0)["nothing"]}));
    assert_eq!(used(&none), [(110, 20), (210, 50)]);
    let whole = [whole("a", 20), whole("a", 20), whole("b", 30)];
    assert_eq!(used(&whole), [(110, 20), (210, 50)]);
}

#[test]
fn servers_are_offered_in_a_file() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut turn = turn();
    turn.scratch = scratch.path().into();
    turn.mcp_servers = vec![McpServer {
        name: "docs".into(),
        command: "/bin/docs".into(),
        args: vec!["-x".into()],
        env: vec![("A".into(), "b".into())],
    }];
    let mut link = script(&[result(json!({}))]);
    driver().turn(&turn, &mut link).expect("a claim");
    let words = words(&link);
    let option = words
        .iter()
        .position(|word| word == "--mcp-config")
        .expect("offered");
    let written: Value =
        serde_json::from_slice(&std::fs::read(&words[option + 1]).expect("written")).expect("JSON");
    assert_eq!(
        written["mcpServers"]["docs"],
        json!({"command": "/bin/docs", "args": ["-x"], "env": {"A": "b"}})
    );
}

#[test]
fn a_request_of_an_unknown_kind_is_refused_and_a_line_that_is_too_long_is_survived() {
    let mut link = Script::default();
    link.push(stdout(json!({"type": "control_request", "request_id": "r", "request": {"subtype": "hook_callback"}}).to_string()));
    link.push(Input::Stdout {
        line: b"{\"type\":\"user\",\"message\":".to_vec(),
        cut: 50_000_000,
    });
    link.push(stdout("not JSON"));
    link.push(stdout(result(json!({})).to_string()));
    link.push(exited(0));
    let claim = driver().turn(&turn(), &mut link).expect("a claim");
    assert!(claim.ok && link.stdin_closed);
    assert_eq!(
        link.kinds(),
        ["vendor", "raw", "raw", "assistant", "output"]
    );
    let refusal: Value = serde_json::from_slice(&link.written[1]).expect("JSON");
    assert_eq!(refusal["response"]["subtype"], "error");
}

#[test]
fn a_branch_of_a_conversation_gets_an_id_of_its_own() {
    let turn = Turn {
        resume: Some("old".into()),
        fork: true,
        ..turn()
    };
    let mut link = script(&[result(json!({}))]);
    driver().turn(&turn, &mut link).expect("a claim");
    let words = words(&link);
    assert!(words.contains(&"--fork-session".to_owned()) && words.contains(&"old".to_owned()));
    let id = conversation_id(&turn, 0);
    assert!(words.contains(&id));
    assert_eq!(link.events[0], Body::Vendor { session: id });
}

#[test]
fn a_program_with_words_of_its_own_gets_only_those() {
    let entry = crate::agent::catalog::registry::AgentEntry {
        name: "qwen".into(),
        driver: Some("claude-stream".into()),
        ..Default::default()
    };
    let spec = crate::agent::catalog::registry::require("qwen", &[entry]).expect("built in");
    let words = |turn: &Turn| {
        let program = Claude::new(spec.clone()).program(turn, None, Some("id"));
        let argv = program.expect("a program").argv.into_iter();
        argv.map(|word| word.to_string_lossy().into_owned())
            .skip_while(|word| word != "--session-id")
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut turn = turn();
    assert_eq!(words(&turn), "--session-id id --approval-mode yolo");
    (turn.read_only, turn.instructions) = (true, "be kind".into());
    assert_eq!(
        words(&turn),
        "--session-id id --approval-mode default --append-system-prompt be kind"
    );
}

#[test]
fn what_is_not_known_is_kept_as_it_came() {
    let delta = |delta: Value| json!({"type": "stream_event", "event": {"type": "content_block_delta", "delta": delta}});
    let mut link = script(&[
        json!({"type": "user", "message": {"content": [{"type": "hologram", "k": 1}]}}),
        json!({"type": "user", "message": {"content": "words"}}),
        json!({"type": "assistant", "message": null}),
        delta(json!({"type": "hologram_delta", "k": 2})),
        delta(json!({"type": "input_json_delta", "partial_json": "{"})),
        json!({"type": "control_response", "k": 3}),
        json!({"type": "control_response", "response": {"request_id": "interrupt"}}),
        result(json!({})),
    ]);
    driver().turn(&turn(), &mut link).expect("a claim");
    let raw = link.kinds().iter().filter(|kind| **kind == "raw").count();
    assert_eq!(raw, 5, "{:?}", link.events);
}
