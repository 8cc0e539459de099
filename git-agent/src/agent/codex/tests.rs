//! Turns against scripted streams, for cases that the recordings of the real program lack.

use serde_json::{Value, json};

use crate::agent::codex::*;
use crate::agent::driver::{Family, McpServer};
use crate::agent::tests::script::{Script, exited};
use crate::model::session::Usage;

fn turn() -> Turn {
    Turn {
        prompt: "do it".into(),
        number: 1,
        worktree: "/w".into(),
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        ..Turn::default()
    }
}

fn run(turn: &Turn, events: &[Value], code: i32) -> (TurnClaim, Script) {
    let mut link = Script::printing(events.iter().map(Value::to_string));
    link.push(exited(code));
    let spec = AgentSpec::new("x", Family::CodexJson, vec!["sh".into()]);
    let claim = Codex::new(spec).turn(turn, &mut link).expect("a claim");
    (claim, link)
}

fn words(link: &Script) -> Vec<String> {
    let argv = &link.started[0].argv;
    argv.iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

#[test]
fn every_kind_of_item_has_its_place() {
    let item = |kind: &str, item: Value| json!({"type": kind, "item": item});
    let (claim, link) = run(
        &turn(),
        &[
            json!({"type": "thread.started", "thread_id": "t"}),
            item(
                "item.completed",
                json!({"id": "0", "type": "reasoning", "text": "hm"}),
            ),
            item(
                "item.started",
                json!({"id": "1", "type": "todo_list", "items": [{"text": "a", "completed": false}]}),
            ),
            item(
                "item.updated",
                json!({"id": "1", "type": "todo_list", "items": [{"text": "a", "completed": true}]}),
            ),
            item(
                "item.started",
                json!({"id": "2", "type": "mcp_tool_call", "server": "s", "tool": "t", "arguments": {}}),
            ),
            item(
                "item.completed",
                json!({"id": "2", "type": "mcp_tool_call", "status": "failed", "error": {"message": "no"}}),
            ),
            item(
                "item.completed",
                json!({"id": "3", "type": "web_search", "query": "q"}),
            ),
            item(
                "item.completed",
                json!({"id": "4", "type": "file_change", "status": "completed",
                "changes": [{"path": "/w/a", "kind": "delete"}, {"path": "/w/b", "kind": "update"}]}),
            ),
            item(
                "item.completed",
                json!({"id": "5", "type": "error", "message": "careful"}),
            ),
            item("item.completed", json!({"id": "6", "type": "hologram"})),
            item(
                "item.started",
                json!({"id": "7", "type": "command_execution", "command": "sleep 9"}),
            ),
            json!({"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 1}}),
        ],
        0,
    );
    assert!(claim.ok);
    assert_eq!(
        link.kinds(),
        [
            "vendor",
            "reasoning",
            "plan",
            "plan",
            "tool_call",
            "tool_result",
            "tool_call",
            "tool_result",
            "tool_call",
            "tool_result",
            "edit",
            "edit",
            "notice",
            "raw",
            "tool_call",
            "usage",
            "tool_result"
        ]
    );
}

#[test]
fn failures_are_told_by_their_words_or_by_the_exit() {
    let failed = json!({"type": "turn.failed", "error": {"message": "exceeded retry limit, last status: 429 Too Many Requests"}});
    let (claim, _) = run(&turn(), &[failed], 1);
    assert_eq!(
        claim.trouble.map(|trouble| trouble.kind),
        Some(TroubleKind::RateLimit)
    );
    let (claim, _) = run(
        &turn(),
        &[json!({"type": "error", "message": "stream error"})],
        1,
    );
    assert_eq!(
        claim.trouble.map(|trouble| trouble.kind),
        Some(TroubleKind::Model)
    );
    let (claim, _) = run(&turn(), &[], 0);
    assert_eq!(
        claim.trouble.map(|trouble| trouble.kind),
        Some(TroubleKind::Protocol)
    );
    let (claim, _) = run(&turn(), &[], 101);
    assert_eq!(
        claim.trouble.map(|trouble| trouble.kind),
        Some(TroubleKind::Crash)
    );
}

#[test]
fn figures_count_the_whole_conversation() {
    let used = Usage {
        input_tokens: Some(10),
        output_tokens: Some(2),
        cost_usd: None,
    };
    let completed =
        json!({"type": "turn.completed", "usage": {"input_tokens": 15, "output_tokens": 3}});
    let input = |resume: Option<&str>| {
        let turn = Turn {
            resume: resume.map(ToOwned::to_owned),
            used,
            ..turn()
        };
        let (_, link) = run(&turn, std::slice::from_ref(&completed), 0);
        match link.events.last() {
            Some(Body::Usage { usage }) => usage.input_tokens,
            other => panic!("no figures: {other:?}"),
        }
    };
    assert_eq!((input(Some("t")), input(None)), (Some(15), Some(25)));
}

#[test]
fn what_is_allowed_is_decided_by_flags() {
    let words_of = |turn: Turn| words(&run(&turn, &[], 0).1).join(" ");
    assert!(words_of(turn()).contains("--dangerously-bypass-approvals-and-sandbox -"));
    assert!(
        words_of(Turn {
            read_only: true,
            ..turn()
        })
        .contains("--sandbox read-only")
    );
    assert!(
        words_of(Turn {
            ask: true,
            ..turn()
        })
        .contains("--sandbox workspace-write")
    );
    let resumed = Turn {
        resume: Some("t".into()),
        ..turn()
    };
    assert!(words_of(resumed.clone()).ends_with("resume t -"));
    assert!(
        words_of(Turn {
            fork: true,
            ..resumed
        })
        .ends_with("fork t -")
    );
}

#[test]
fn servers_are_offered_and_their_secrets_are_no_words_of_the_command() {
    let server = McpServer {
        name: "the docs".into(),
        command: "/bin/docs".into(),
        args: vec!["a\"b".into()],
        env: vec![
            ("K".into(), "secret".into()),
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("HOME".into(), "/elsewhere".into()),
        ],
    };
    let mut turn = Turn {
        mcp_servers: vec![server],
        ..turn()
    };
    turn.environment.insert("HOME".into(), "/home".into());
    let (_, link) = run(&turn, &[], 0);
    let wanted = r#"mcp_servers.the_docs={command="/bin/docs",args=["a\"b"],env_vars=["K","PATH"],env={"HOME"="/elsewhere"}}"#;
    assert!(
        words(&link).iter().any(|word| word == wanted),
        "{:?}",
        words(&link)
    );
    assert_eq!(link.started[0].env, [("K".into(), "secret".into())]);
}

#[test]
fn a_plan_that_is_no_list_is_kept_as_it_came() {
    let item = json!({"id": "1", "type": "todo_list", "items": "all"});
    let (_, link) = run(&turn(), &[json!({"type": "item.updated", "item": item})], 1);
    assert_eq!(link.kinds(), ["raw"]);
}

#[test]
fn an_agent_that_waits_for_the_network_for_ever_is_given_up() {
    let mut link = Script::default();
    let mut stream = Stream::new(None);
    let mut tell = |stream: &mut Stream, event: Value| {
        let known = stream.event(
            &event,
            std::path::Path::new("/w"),
            Usage::default(),
            &mut link,
        );
        known.expect("recorded");
    };
    let again = json!({"type": "error", "message": "Reconnecting... waiting for network (Connection failed)"});
    assert!(stream.gives_up().is_none());
    tell(&mut stream, again.clone());
    let (at, trouble) = stream.gives_up().expect("a bound");
    assert_eq!(trouble.kind, TroubleKind::Model);
    tell(&mut stream, again.clone());
    let later = stream.gives_up().expect("a bound").0;
    assert_eq!(later, at, "it counts from the first time");
    let call = |kind: &str| json!({"type": kind, "item": {"id": "1", "type": "command_execution", "command": "make"}});
    tell(&mut stream, call("item.started"));
    tell(&mut stream, again);
    assert!(stream.gives_up().is_none(), "a tool works");
    tell(&mut stream, call("item.completed"));
    assert!(stream.gives_up().is_none(), "it went on");
}
