//! Tests turns from the prompt to the claim, also with agents that misbehave.

use crate::agent::acp::tests::*;

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
fn an_end_in_silence_after_the_conversation_was_shortened_is_no_success() {
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "ls", "status": "completed"});
    for (silent, written, last_words, fails) in [
        (true, 0, None, true),
        (true, 7, None, false),
        (true, 0, Some("Compaction complete"), false),
        (false, 0, None, false),
    ] {
        let mut spec = spec();
        spec.overflows_silently = silent;
        let mut play = Play::default()
            .opened(json!({}))
            .prompted(3)
            .says("Let me see.")
            .update(call.clone());
        if let Some(words) = last_words {
            play = play.says(words);
        }
        let usage = json!({"inputTokens": 127, "outputTokens": written});
        let (claim, _) = play
            .gives(json!({"id": 3, "result": {"stopReason": "end_turn", "usage": usage}}))
            .run(&mut Acp::new(spec), &turn(1, None));
        assert_eq!(claim.ok, !fails);
        let kind = claim.trouble.map(|trouble| trouble.kind);
        assert_eq!(kind, fails.then_some(TroubleKind::Context));
    }
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

#[test]
fn an_answer_that_cannot_be_read_ends_the_wait() {
    let deep = format!(
        "{{\"id\":3,\"result\":{}{}}}",
        "[".repeat(9999),
        "]".repeat(9999)
    );
    for line in [deep.as_str(), r#"{"id":3,"result":{"stopReason":"end_tu"#] {
        let (claim, link) = Play::default()
            .opened(json!({}))
            .prompted(3)
            .line(r#"{"id":9,"method":"fs/read_text_file","params":{"path":"#)
            .wrote(
                json!({"id": 9, "error": {"code": -32603, "message": "the message cannot be read"}}),
            )
            .line(line)
            .run(&mut Acp::new(spec()), &turn(1, None));
        let kind = claim.trouble.map(|trouble| trouble.kind);
        assert_eq!(kind, Some(TroubleKind::Protocol));
        assert!(link.kinds().contains(&"output"), "it is shown");
    }
}

#[test]
fn what_others_are_told_and_told_too_late_is_kept_apart() {
    let chunk = |session: &str, text: &str| {
        json!({"method": "session/update", "params": {"sessionId": session,
        "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}})
    };
    let mut driver = Acp::new(spec());
    let (claim, mut link) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .gives(chunk("c2", "not ours"))
        .gives(json!({"id": 2, "result": {"sessionId": "c9"}}))
        .gives(json!({"id": null, "result": {"stopReason": "refusal"}}))
        .says("Ours.")
        .ends(3, "end_turn")
        .gives(json!({"id": 3, "result": {"stopReason": "refusal"}}))
        .says(" And this.")
        .run(&mut driver, &turn(1, None));
    assert!(claim.ok);
    assert_eq!(claim.final_text, "Ours. And this.");
    let mut kinds = link.kinds();
    // A message may come in pieces.
    kinds.dedup_by(|one, other| one == other && *one == "assistant");
    assert_eq!(kinds, ["vendor", "raw", "raw", "assistant"]);
    // The end of the last turn is not the end of this one.
    link.steps = Play::default()
        .prompted(4)
        .gives(json!({"id": 3, "result": {"stopReason": "end_turn"}}))
        .ends(4, "refusal")
        .0
        .steps;
    let claim = driver
        .turn(&turn(2, Some("c1")), &mut link)
        .expect("a claim");
    assert!(!claim.ok && claim.trouble.is_some());
}

#[test]
fn figures_beyond_all_measure_are_survived() {
    let mut turn = turn(1, None);
    turn.used.input_tokens = Some(u64::MAX - 1);
    let (claim, link) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .update(json!({"sessionUpdate": "usage_update", "cost": {"amount": -7.0}}))
        .update(json!({"sessionUpdate": "usage_update", "cost": {"amount": "much"}}))
        .gives(json!({"id": 3, "result": {"stopReason": "end_turn",
            "usage": {"inputTokens": u64::MAX, "outputTokens": u64::MAX}}}))
        .run(&mut Acp::new(spec()), &turn);
    assert!(claim.ok);
    assert_eq!(link.kinds(), ["vendor", "usage"]);
}
