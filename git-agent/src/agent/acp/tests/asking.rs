//! Requests for permission, and what cancelling does to them.

use super::*;

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
