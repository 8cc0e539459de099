//! What our side says in the Agent Client Protocol, checked against the published types of the protocol.
//!
//! The messages are those of the recordings under `tests/corpus/streams`, which the drivers' own tests hold to what is
//! written today.

#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a message as a type of the protocol, and holds that nothing of it was lost on the way.
fn check<T: DeserializeOwned + Serialize>(message: &Value) {
    let read: T = serde_json::from_value(message.clone())
        .unwrap_or_else(|error| panic!("{error}: {message}"));
    let written = serde_json::to_value(&read).expect("the protocol's types can be written");
    contains(&written, message);
}

/// Asserts that all of `part` is in `whole`.
fn contains(whole: &Value, part: &Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                // What is left out of the written form is what the protocol assumes anyway.
                match whole.get(key) {
                    Some(known) => contains(known, value),
                    None => assert!(is_default(value), "the protocol knows no '{key}': {value}"),
                }
            }
        }
        (Value::Array(whole), Value::Array(part)) => {
            assert_eq!(whole.len(), part.len());
            for (one, other) in whole.iter().zip(part) {
                contains(one, other);
            }
        }
        (whole, part) => assert_eq!(whole, part),
    }
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Array(items) => items.is_empty(),
        other => other.is_null(),
    }
}

/// Checks one message of ours; returns its method, or what it answers.
fn check_message(message: &Value) -> String {
    assert_eq!(message["jsonrpc"], "2.0");
    let params = &message["params"];
    let Some(method) = message["method"].as_str() else {
        if message["error"].is_null() {
            check::<v1::RequestPermissionResponse>(&message["result"]);
            return "permission".to_owned();
        }
        check::<v1::Error>(&message["error"]);
        return "error".to_owned();
    };
    match method {
        "initialize" => check::<v1::InitializeRequest>(params),
        "authenticate" => check::<v1::AuthenticateRequest>(params),
        "session/new" => check::<v1::NewSessionRequest>(params),
        "session/load" => check::<v1::LoadSessionRequest>(params),
        "session/resume" => check::<v1::ResumeSessionRequest>(params),
        "session/prompt" => check::<v1::PromptRequest>(params),
        "session/cancel" => check::<v1::CancelNotification>(params),
        "session/set_mode" => check::<v1::SetSessionModeRequest>(params),
        "session/set_config_option" => check::<v1::SetSessionConfigOptionRequest>(params),
        // Not part of the stable protocol: of an earlier form, and of one to come.
        "session/set_model" => assert!(params["modelId"].is_string()),
        "session/fork" => check::<v1::LoadSessionRequest>(params),
        other => panic!("the protocol knows no '{other}'"),
    }
    method.to_owned()
}

fn recordings(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the recordings are there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            recordings(&path, found);
        } else if path.extension().is_some_and(|end| end == "stream") {
            found.push(path);
        }
    }
}

#[test]
fn what_was_written_to_agents_is_the_protocol() {
    let mut paths = Vec::new();
    let streams = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/streams");
    recordings(&streams, &mut paths);
    let mut seen = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("a readable recording");
        if !text.contains("\"protocolVersion\"") {
            continue;
        }
        for line in text.lines().filter_map(|line| line.strip_prefix("> ")) {
            let message: Value = serde_json::from_str(line).expect("JSON is written");
            seen.push(check_message(&message));
        }
    }
    for method in [
        "initialize",
        "authenticate",
        "session/new",
        "session/load",
        "session/resume",
        "session/prompt",
        "session/cancel",
        "session/set_mode",
        "session/set_config_option",
        "permission",
        "error",
    ] {
        assert!(seen.iter().any(|known| known == method), "no {method} was recorded");
    }
}
