//! Unit tests of transcripts.

use super::*;
use crate::env::{Env, Terminals};
use crate::model::event::{Choice, PlanEntry};
use crate::model::session::{Exit, State, Ulid};
use crate::output::Options;

fn shown(full: bool, names: &[&str], bodies: Vec<Body>) -> String {
    told(full, names, None, bodies)
}

fn told(full: bool, names: &[&str], width: Option<usize>, bodies: Vec<Body>) -> String {
    let env = Env::new(
        "/".into(),
        [("TZ".into(), "UTC".into())],
        Terminals::default(),
    );
    let ui = match width {
        None => Ui::in_memory(Options::default()),
        Some(width) => Ui::in_memory_screen(width),
    };
    let now = Millis(1_794_000_000_000);
    let mut writer = Writer::new(&ui, Clock::local(&env), now)
        .full(full)
        .whole_turns(names.is_empty())
        .with_names(names.iter().copied());
    writer.introduce("wipe", "claude/opus".into(), Some("/w".into()));
    let mut turn = 0;
    for (index, body) in bodies.into_iter().enumerate() {
        turn += u32::from(matches!(body, Body::Prompt { .. }));
        let event = Event {
            id: Ulid::from_parts(now, [7; 10]),
            seq: 1,
            lc: 1,
            ts: Millis(now.0 + index as u64),
            turn,
            body,
        };
        writer.event("wipe", &event).expect("memory takes all");
    }
    writer.finish().expect("memory takes all");
    drop(writer);
    ui.written().0
}

fn status(to: State) -> Body {
    Body::Status {
        from: State::Running,
        to,
        reason: String::new(),
        exit: None,
    }
}

fn prompt(text: &str) -> Body {
    serde_json::from_value(serde_json::json!({"type": "prompt", "text": text, "from": "user"}))
        .expect("a prompt")
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
21:20:00 turn 1 · claude/opus · 0s
         > add a wipe command
         > and test it
21:20:00 I'll look.
21:20:00 $ cargo test → failed: line 9
21:20:00 ? Run rm?
             1. Allow once
21:20:00 -- failed: no work (exit 3)
"
    );
}

#[test]
fn a_turn_has_one_header_with_model_time_and_cost() {
    let usage = |tokens, cost_usd| Body::Usage {
        usage: Usage {
            input_tokens: Some(tokens),
            output_tokens: Some(20),
            cost_usd,
        },
    };
    let bodies = || {
        vec![
            status(State::Queued),
            prompt("one"),
            status(State::Preparing),
            status(State::Running),
            usage(100, None),
            usage(1200, Some(0.25)),
            status(State::Ready),
            prompt("two"),
            usage(1300, Some(0.262)),
            status(State::Ready),
            status(State::Queued),
        ]
    };
    assert_eq!(
        shown(false, &[], bodies()),
        "\
21:20:00 turn 1 · claude/opus · 0s · 1.2k in, 20 out · $0.25
         > one
21:20:00 -- ready

21:20:00 turn 2 · claude/opus · 0s · 100 in, 0 out · $0.012
         > two
21:20:00 -- ready
21:20:00 -- queued
"
    );
    // Among several sessions the order of time counts, so the end of a turn tells its cost.
    let several = shown(false, &["wipe"], bodies());
    assert!(several.contains("wipe turn 2 · claude/opus\n"), "{several}");
    assert!(
        several.contains("-- ready · 0s · 100 in, 0 out · $0.012\n"),
        "{several}"
    );
}

#[test]
fn lines_fit_the_screen() {
    let long = "word ".repeat(60) + &"日本語".repeat(40);
    let bodies = || {
        vec![
            prompt(&long),
            Body::Assistant { text: long.clone() },
            Body::ToolCall {
                call: "1".into(),
                name: "bash".into(),
                kind: kind("execute"),
                input: serde_json::json!({"command": long}),
            },
            Body::ToolResult {
                call: "1".into(),
                ok: true,
                output: long.clone(),
                attachment: None,
            },
            Body::Notice { text: long.clone() },
        ]
    };
    for width in [40, 80, 120, 200] {
        let text = told(false, &[], Some(width), bodies());
        for line in text.lines() {
            assert!(sanitize::width(line) <= width, "{width}: {line:?}");
        }
        assert_eq!(
            text.matches("$ word").count(),
            1,
            "a call is one line: {text}"
        );
        assert!(
            text.matches("word").count() > 150,
            "nothing said is lost: {text}"
        );
    }
}

#[test]
fn every_vendor_is_told_in_the_same_words() {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/corpus/streams");
    let mut seen = 0;
    for agent in std::fs::read_dir(top).expect("the recordings").flatten() {
        let path = agent.path().join("two-turns.events");
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let bodies = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let bodies: Vec<Body> = bodies
            .filter(|body| !matches!(body, Body::Notice { .. }))
            .collect();
        let log = shown(false, &[], bodies);
        let vendor = agent.file_name();
        assert!(
            !log.contains("{\"") && !log.contains("/w/"),
            "{vendor:?}: {log}"
        );
        let edit = |line: &&str| line.contains("✎ hello.txt");
        assert_eq!(log.lines().filter(edit).count(), 1, "{vendor:?}: {log}");
        if vendor != "aider" {
            // Gemini does not tell the output of a command.
            let output = if vendor == "gemini" {
                ""
            } else {
                " → ?? hello.txt"
            };
            let told = format!(" $ git status --short{output}\n");
            assert_eq!(log.matches(&told).count(), 1, "{vendor:?}: {log}");
        }
        let counted = [
            "claude", "copilot", "goose", "kilo", "opencode", "qwen", "cline",
        ];
        if counted.iter().any(|name| vendor == *name) {
            assert!(log.contains("✎ hello.txt +1\n"), "{vendor:?}: {log}");
        }
        seen += 1;
    }
    assert!(seen >= 11, "{seen}");
}

#[test]
fn a_thing_is_said_once() {
    let status = |to, reason: &str| Body::Status {
        from: State::Ready,
        to,
        reason: reason.into(),
        exit: None,
    };
    let exit = Exit {
        code: Some(3),
        signal: None,
        reason: "exit code 3: oops".into(),
    };
    let bodies = vec![
        status(State::Approved, "approved"),
        Body::Merged {
            into: "main".into(),
            commit: "9bc3".into(),
        },
        status(State::Merged, "in 'main' as 9bc3"),
        status(State::Merged, "its resolution is part of 'fix'"),
        Body::Status {
            from: State::Running,
            to: State::Failed,
            reason: String::new(),
            exit: Some(exit),
        },
    ];
    assert_eq!(
        shown(false, &[], bodies),
        "\
21:20:00 -- approved
21:20:00 -- merged into main as 9bc3
21:20:00 -- merged: its resolution is part of 'fix'
21:20:00 -- failed: exit code 3: oops
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

fn kind<T: serde::de::DeserializeOwned>(word: &str) -> T {
    serde_json::from_value(word.into()).expect("a known word")
}
