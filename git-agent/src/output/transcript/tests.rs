//! Unit tests of transcripts.

use super::*;
use crate::env::{Env, Terminals};
use crate::model::event::Choice;
use crate::model::session::Ulid;
use crate::output::Options;

fn shown(full: bool, names: &[&str], bodies: Vec<Body>) -> String {
    let env = Env::new(
        "/".into(),
        [("TZ".into(), "UTC".into())],
        Terminals::default(),
    );
    let ui = Ui::in_memory(Options::default());
    let now = Millis(1_794_000_000_000);
    let mut writer = Writer::new(&ui, Clock::local(&env), now)
        .full(full)
        .with_names(names.iter().copied());
    for body in bodies {
        let event = Event {
            id: Ulid::from_parts(now, [7; 10]),
            seq: 1,
            lc: 1,
            ts: now,
            turn: 1,
            body,
        };
        writer.event("wipe", &event).expect("memory takes all");
    }
    drop(writer);
    ui.written().0
}

#[test]
fn a_conversation_reads_well() {
    let output: String = (1..=9).map(|n| format!("line {n}\n")).collect();
    let bodies = vec![
        Body::Prompt {
            text: "add a wipe command\nand test it".into(),
            from: "user".into(),
        },
        Body::Assistant {
            text: "I'll look.\n".into(),
        },
        Body::ToolCall {
            call: "1".into(),
            name: "bash".into(),
            kind: "execute".into(),
            input: serde_json::json!({"command": "cargo test", "timeout": 5}),
        },
        Body::ToolResult {
            call: "1".into(),
            ok: false,
            output,
            attachment: None,
        },
        Body::Permission {
            request: "r".into(),
            kind: "permission".into(),
            title: "Run rm?".into(),
            detail: String::new(),
            options: vec![Choice {
                id: "once".into(),
                label: "Allow once".into(),
                kind: "allow_once".into(),
            }],
        },
        Body::Set {
            key: "port".into(),
            value: 1.into(),
        },
        Body::Status {
            from: State::Running,
            to: State::Failed,
            reason: "no work".into(),
            exit: Some(Exit {
                code: Some(3),
                ..Exit::default()
            }),
        },
    ];
    assert_eq!(
        shown(false, &[], bodies),
        "\
21:20:00 > add a wipe command
         > and test it
21:20:00 I'll look.
21:20:00 * bash cargo test
21:20:00     line 1
             line 2
             line 3
             line 4
             line 5
             line 6
             … 3 more lines
             failed
21:20:00 ? Run rm?
             1. Allow once (once)
21:20:00 -- failed: no work (exit 3)
"
    );
}

#[test]
fn usage_is_shown_once_at_the_end_of_a_turn() {
    let usage = |tokens, cost_usd| Body::Usage {
        usage: Usage {
            input_tokens: Some(tokens),
            output_tokens: Some(20),
            cost_usd,
        },
    };
    let status = |from, to| Body::Status {
        from,
        to,
        reason: String::new(),
        exit: None,
    };
    let bodies = vec![
        usage(100, None),
        status(State::Preparing, State::Running),
        usage(1200, Some(0.25)),
        status(State::Running, State::Ready),
        status(State::Ready, State::Discarded),
    ];
    assert_eq!(
        shown(false, &[], bodies),
        "\
21:20:00 -- running
21:20:00 -- used so far: 1.2k tokens in, 20 tokens out, $0.25
         -- ready
21:20:00 -- discarded
"
    );
}

#[test]
fn a_thing_is_said_once() {
    let status = |to, reason: &str| Body::Status {
        from: State::Ready,
        to,
        reason: reason.into(),
        exit: None,
    };
    let bodies = vec![
        status(State::Approved, "approved"),
        Body::Merged {
            into: "main".into(),
            commit: "9bc3".into(),
        },
        status(State::Merged, "in 'main' as 9bc3"),
        status(State::Merged, "its resolution is part of 'fix'"),
    ];
    assert_eq!(
        shown(false, &[], bodies),
        "\
21:20:00 -- approved
21:20:00 -- merged into main as 9bc3
21:20:00 -- merged: its resolution is part of 'fix'
"
    );
}

#[test]
fn nothing_foreign_reaches_the_terminal() {
    let evil = "a\u{1b}[2Jb\u{202e}\rc\u{7}";
    let text = || evil.to_owned();
    let bodies = vec![
        Body::Prompt {
            text: text(),
            from: evil.into(),
        },
        Body::Assistant { text: text() },
        Body::Reasoning { text: text() },
        Body::ToolCall {
            call: text(),
            name: text(),
            kind: evil.into(),
            input: serde_json::json!({"x": evil}),
        },
        Body::ToolResult {
            call: text(),
            ok: true,
            output: text(),
            attachment: None,
        },
        Body::Edit {
            path: text(),
            change: evil.into(),
        },
        Body::Plan {
            entries: vec![PlanEntry {
                text: text(),
                status: evil.into(),
            }],
        },
        Body::Permission {
            request: text(),
            kind: evil.into(),
            title: text(),
            detail: text(),
            options: vec![Choice {
                id: text(),
                label: text(),
                kind: evil.into(),
            }],
        },
        Body::Answer {
            request: text(),
            choice: text(),
            by: evil.into(),
        },
        Body::Error {
            kind: evil.into(),
            text: text(),
        },
        Body::Output {
            stream: evil.into(),
            text: text(),
        },
        Body::Notice { text: text() },
        Body::Submit { commit: text() },
        Body::Merged {
            into: text(),
            commit: text(),
        },
        Body::Vendor { session: text() },
        Body::Set {
            key: text(),
            value: text().into(),
        },
    ];
    for full in [false, true] {
        let shown = shown(full, &["a\u{1b}"], bodies.clone());
        assert!(
            !shown.chars().any(|c| c != '\n' && sanitize::is_unsafe(c)),
            "{shown:?}"
        );
    }
}
