//! Replays recorded exchanges with real agents, so that every mapping is tested without installing the agents.
//!
//! A recording under `tests/corpus/streams/<agent>/` is the output of `drive-agent --record`, made smaller: a header,
//! the started program (`$`), its input (`>`), its output (`<`, `!`), its exit (`=`), and the user's actions (`a`
//! answered, `x` cancelled). The expected events and claims are in a file next to it. `GIT_AGENT_TEST_BLESS=1` rewrites
//! that file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::agent::catalog::registry::{self, AgentEntry};
use crate::agent::driver::{Driver, Input, Link, McpServer, Turn, TurnClaim};
use crate::agent::tests::script::{Script, Step, stdout};
use crate::model::event::{Body, to_ascii_json};
use crate::model::event_words::ErrorKind;
use crate::model::session::Usage;

struct Recording {
    name: String,
    path: PathBuf,
    header: Value,
    steps: Vec<Step>,
}

fn recordings() -> Vec<Recording> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/streams");
    let mut found = Vec::new();
    for agent in fs::read_dir(&top)
        .expect("the recordings are there")
        .flatten()
    {
        for file in fs::read_dir(agent.path()).expect("a directory").flatten() {
            let path = file.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "stream")
            {
                found.push(read(&path));
            }
        }
    }
    assert!(found.len() > 20, "the recordings are there");
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

fn read(path: &Path) -> Recording {
    let text = fs::read_to_string(path).expect("a readable recording");
    let mut recording = Recording {
        name: path
            .components()
            .rev()
            .take(2)
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" of "),
        path: path.to_owned(),
        header: Value::Null,
        steps: Vec::new(),
    };
    for line in text.lines() {
        let (mark, rest) = line.split_at_checked(2).unwrap_or((line, ""));
        recording.steps.push(match mark.trim() {
            "#" => {
                recording.header = serde_json::from_str(rest).expect("a header");
                continue;
            }
            "$" => Step::Started(serde_json::from_str(rest).expect("words")),
            ">" => Step::Wrote(rest.to_owned()),
            "<" => Step::Gives(stdout(rest)),
            "!" => Step::Gives(Input::Stderr {
                line: rest.as_bytes().to_vec(),
                cut: 0,
            }),
            "=" => Step::Gives(Input::Exited(serde_json::from_str(rest).expect("an exit"))),
            "x" => Step::Gives(Input::Cancel),
            "a" => {
                let (request, choice) = rest.split_once(' ').expect("a request and a choice");
                Step::Gives(Input::Answer {
                    request: request.to_owned(),
                    choice: choice.to_owned(),
                })
            }
            other => panic!("{}: unknown mark '{other}'", path.display()),
        });
    }
    recording
}

/// Replays a recording; returns the claims and the events.
fn play(recording: &Recording, link: &mut Script) -> Vec<TurnClaim> {
    let header = &recording.header;
    let text = |key: &str| header[key].as_str().map(ToOwned::to_owned);
    let entry = AgentEntry {
        name: text("agent").expect("an agent"),
        command: text("command"),
        driver: text("driver"),
        ..AgentEntry::default()
    };
    let mut spec = registry::require(&entry.name, std::slice::from_ref(&entry)).expect("known");
    let ways = pairs(&header["auth"]);
    spec.auth_methods.extend(ways.iter().cloned());
    // The program must be found, but it is never run.
    let scratch = tempfile::tempdir().expect("a directory");
    let program = scratch.path().join(spec.program());
    fs::write(&program, "").expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let mut driver: Box<dyn Driver> = spec.driver();
    let (mut resume, mut used) = (text("resume"), Usage::default());
    let mut claims = Vec::new();
    let prompts = header["prompts"].as_array().expect("prompts");
    for (index, prompt) in prompts.iter().enumerate() {
        let turn = Turn {
            session: text("session").expect("an id"),
            prompt: prompt.as_str().expect("text").to_owned(),
            number: u32::try_from(index + 1).expect("few"),
            resume: resume.clone(),
            worktree: "/w".into(),
            scratch: scratch.path().into(),
            model: text("model"),
            ask: header["ask"] == true,
            read_only: header["read_only"] == true,
            mcp_servers: pairs(&header["mcp"])
                .into_iter()
                .map(|(name, command)| McpServer {
                    name,
                    command: command.into(),
                    args: vec!["--stdio".to_owned()],
                    env: vec![("A".to_owned(), "b".to_owned())],
                })
                .collect(),
            environment: [
                ("PATH".into(), scratch.path().into()),
                ("IS_SANDBOX".into(), "1".into()),
            ]
            .into_iter()
            .chain(ways.iter().map(|(_, name)| (name.into(), "a key".into())))
            .collect(),
            used,
            ..Turn::default()
        };
        claims.push(driver.turn(&turn, link).expect("a claim"));
        for event in &link.events {
            match event {
                Body::Vendor { session } => resume = Some(session.clone()),
                Body::Usage { usage } => used = *usage,
                _ => {}
            }
        }
        if header["restart"] == true && link.is_running() {
            link.end().expect("ended");
        }
        link.events.push(Body::Notice {
            text: format!("claim: {}", claim_text(claims.last().expect("just pushed"))),
        });
    }
    claims
}

/// Returns the pairs of a header's list.
fn pairs(list: &Value) -> Vec<(String, String)> {
    serde_json::from_value(list.clone()).unwrap_or_default()
}

fn claim_text(claim: &TurnClaim) -> String {
    let trouble = claim
        .trouble
        .as_ref()
        .map(|trouble| format!("{}: {}", ErrorKind::from(trouble.kind), trouble.text));
    let state = match (claim.ok, claim.cancelled) {
        (true, _) => "ok",
        (false, true) => "cancelled",
        (false, false) => "failed",
    };
    to_ascii_json(&json!([state, trouble, claim.final_text]))
}

/// Joins consecutive pieces of text.
fn whole(events: &[Body]) -> Vec<Body> {
    let mut whole: Vec<Body> = Vec::new();
    for event in events {
        match (whole.last_mut(), event) {
            (Some(Body::Assistant { text: said }), Body::Assistant { text })
            | (Some(Body::Reasoning { text: said }), Body::Reasoning { text }) => {
                said.push_str(text);
            }
            _ => whole.push(event.clone()),
        }
    }
    whole
}

/// Returns the recorded events, one per line. Text in pieces is joined, and printed lines are split, because both
/// depend on timing.
fn told(events: &[Body]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut printed: Vec<String> = Vec::new();
    for event in whole(events) {
        match &event {
            Body::Output { stream, text } => {
                printed.extend(text.lines().map(|line| format!("{stream} {line}")));
            }
            event => lines.push(to_ascii_json(event)),
        }
    }
    lines.extend(printed);
    lines.join("\n") + "\n"
}

#[test]
fn every_recording_is_understood_as_before() {
    let bless = std::env::var_os("GIT_AGENT_TEST_BLESS").is_some();
    for recording in recordings() {
        let play_once = || {
            let mut link = Script {
                steps: recording.steps.clone().into(),
                ..Script::default()
            };
            play(&recording, &mut link);
            told(&link.events)
        };
        let mut told = play_once();
        let file = recording.path.with_extension("events");
        if bless {
            fs::write(&file, &told).expect("the events can be written");
        }
        let expected = fs::read_to_string(&file).expect("the events are there");
        // Text that waits for its next piece is cut after a while, which a busy machine can make longer than the recording
        // was.
        for _ in 0..5 {
            if told != expected {
                told = play_once();
            }
        }
        assert_eq!(told, expected, "{}", recording.name);
    }
}

#[test]
fn a_recording_cut_anywhere_ends_honestly() {
    for recording in recordings() {
        let printed = recording
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Gives(Input::Stdout { .. })))
            .count();
        for kept in [0, 1, 2, printed / 3, printed / 2, printed.saturating_sub(1)] {
            let mut left = kept;
            let steps = recording.steps.iter().filter(|step| {
                let line = matches!(step, Step::Gives(Input::Stdout { .. }));
                let keep = !line || left > 0;
                left = left.saturating_sub(usize::from(line));
                keep && !matches!(step, Step::Gives(Input::Exited(_)))
            });
            let mut link = Script {
                steps: steps.cloned().collect(),
                lenient: true,
                ..Script::default()
            };
            let claims = play(&recording, &mut link);
            let last = claims.last().expect("a claim");
            assert!(
                !last.ok && (last.cancelled || last.trouble.is_some()),
                "{} after {kept} lines: {last:?}",
                recording.name
            );
        }
    }
}

#[test]
fn a_garbled_recording_ends_in_a_claim() {
    for recording in recordings() {
        for seed in 1..4_usize {
            let mut link = Script {
                steps: recording
                    .steps
                    .iter()
                    .enumerate()
                    .map(|(index, step)| match step {
                        Step::Gives(Input::Stdout { line, .. }) if index % (seed + 1) == 0 => {
                            Step::Gives(garbled(line, index * seed))
                        }
                        step => step.clone(),
                    })
                    .collect(),
                lenient: true,
                ..Script::default()
            };
            for claim in play(&recording, &mut link) {
                assert!(claim.ok || claim.cancelled || claim.trouble.is_some());
            }
        }
    }
}

fn garbled(line: &[u8], seed: usize) -> Input {
    let mut line = line.to_vec();
    let at = seed % line.len().max(1);
    match seed % 4 {
        0 => line.truncate(at),
        1 => line
            .iter_mut()
            .skip(at)
            .take(3)
            .for_each(|byte| *byte ^= 0x80),
        2 => line.rotate_left(at),
        _ => line.insert(at, b'{'),
    }
    Input::Stdout {
        line,
        cut: if seed.is_multiple_of(5) {
            50_000_000
        } else {
            0
        },
    }
}

#[test]
fn unknown_messages_between_the_known_change_nothing() {
    const STRANGE: [&str; 4] = [
        r#"{"type":"from_the_future","subtype":"x","item":{"type":"y"},"data":[1]}"#,
        r#"{"jsonrpc":"2.0","method":"future/notify","params":{"a":1}}"#,
        r#"{"type":"item.completed","item":{"id":"z","type":"hologram","payload":7}}"#,
        "plain words on a line of their own",
    ];
    for recording in recordings() {
        let mut steps = Vec::new();
        for (index, step) in recording.steps.iter().enumerate() {
            if matches!(step, Step::Gives(Input::Stdout { .. })) {
                steps.push(Step::Gives(stdout(STRANGE[index % STRANGE.len()])));
            }
            steps.push(step.clone());
        }
        let mut link = Script {
            steps: steps.into(),
            ..Script::default()
        };
        let claims = play(&recording, &mut link);
        let mut plain = Script {
            steps: recording.steps.clone().into(),
            ..Script::default()
        };
        let expected = play(&recording, &mut plain);
        for (claim, expected) in claims.iter().zip(&expected) {
            assert_eq!(
                (claim.ok, claim.cancelled),
                (expected.ok, expected.cancelled),
                "{}",
                recording.name
            );
        }
        // Text may come in more pieces, with figures between them; apart from the unknown messages, nothing else
        // differs.
        let known = |script: &Script| -> Vec<&'static str> {
            let mut kinds = Vec::new();
            for event in &script.events {
                let kind = match event {
                    Body::Raw { .. } | Body::Output { .. } | Body::Usage { .. } => continue,
                    Body::Assistant { .. } => "assistant",
                    Body::Reasoning { .. } => "reasoning",
                    Body::ToolCall { .. } => "tool_call",
                    Body::ToolResult { .. } => "tool_result",
                    Body::Edit { .. } => "edit",
                    Body::Permission { .. } => "permission",
                    _ => "other",
                };
                if kinds.last() != Some(&kind) {
                    kinds.push(kind);
                }
            }
            kinds
        };
        assert_eq!(known(&link), known(&plain), "{}", recording.name);
    }
}
