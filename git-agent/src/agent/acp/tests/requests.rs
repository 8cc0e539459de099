//! Tests permission requests, and the effect of cancelling on them.

use crate::agent::acp::tests::*;

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
        ("1.1", "once", "policy")
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
        request: "1.1".into(),
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
fn an_id_that_is_used_again_is_another_question() {
    let mut turn = turn(1, None);
    turn.ask = true;
    let answer = |request: &str, choice: &str| Input::Answer {
        request: request.into(),
        choice: choice.into(),
    };
    let chosen = |id: Value, option: &str| json!({"id": id, "result": {"outcome": {"outcome": "selected", "optionId": option}}});
    let (claim, link) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .gives(ask_permission(json!(0)))
        .gives(ask_permission(json!("0")))
        .input(answer("1.2", "no"))
        .wrote(chosen(json!("0"), "no"))
        .input(answer("1.1", "yes"))
        .wrote(chosen(json!(0), "once"))
        .gives(ask_permission(json!(0)))
        // Late, and for another request.
        .input(answer("1.1", "yes"))
        .input(answer("1.3", "no"))
        .wrote(chosen(json!(0), "no"))
        .ends(3, "end_turn")
        .run(&mut Acp::new(spec()), &turn);
    assert!(claim.ok);
    let names: Vec<&str> = link
        .events
        .iter()
        .filter_map(|event| match event {
            Body::Permission { request, .. } => Some(request.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["1.1", "1.2", "1.3"]);
}

#[test]
fn what_is_asked_after_cancelling_is_answered_at_once() {
    let mut turn = turn(1, None);
    turn.ask = true;
    let (claim, link) = Play::default()
        .opened(json!({}))
        .prompted(3)
        .input(Input::Cancel)
        .wrote(json!({"method": "session/cancel", "params": {"sessionId": "c1"}}))
        .gives(ask_permission(json!(7)))
        .wrote(json!({"id": 7, "result": {"outcome": {"outcome": "cancelled"}}}))
        .ends(3, "cancelled")
        .run(&mut Acp::new(spec()), &turn);
    assert!(claim.cancelled && !link.ended);
    assert!(link.kinds().contains(&"answer"), "nothing is left open");
}

#[test]
fn files_and_terminals_are_not_offered_wherever_they_are() {
    let refused = |id: u64, method: &str| json!({"id": id, "error": {"code": -32601, "message": format!("'{method}' is not offered")}});
    let mut play = Play::default().opened(json!({})).prompted(3);
    for (id, method) in [
        (0, "fs/read_text_file"),
        (1, "fs/write_text_file"),
        (2, "terminal/create"),
        (3, "terminal/wait_for_exit"),
    ] {
        // An id of the agent may equal one of ours: it is still a request.
        play = play
            .gives(json!({"id": id, "method": method, "params": {"sessionId": "c1", "path": "/etc/passwd"}}))
            .wrote(refused(id, method));
    }
    let (claim, link) = play
        .ends(3, "end_turn")
        .run(&mut Acp::new(spec()), &turn(1, None));
    assert!(claim.ok);
    assert_eq!(link.kinds(), ["vendor", "raw", "raw", "raw", "raw"]);
}
