//! A server of the Model Context Protocol for the agent of a session: messages, artifacts, the other sessions, progress.
//!
//! It acts as the session that it runs in, which the process tree proves, and as no other: no tool takes a sender.

use std::time::Duration;

use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::listing::row;
use crate::model::event::PlanEntry;
use crate::session::caller;
use crate::session::exchange::artifacts;
use crate::session::exchange::messages::{self, Draft};
use crate::session::list as sessions;
use crate::session::supervisor::inbox::{Inbox, Message};
use crate::store::list::Scope;

/// The versions of the protocol that are spoken, the newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The longest request, in bytes.
pub const LONGEST: u64 = 8 << 20;
/// The longest wait for an answer to a message, in seconds.
const LONGEST_WAIT: u64 = 600;
/// The most steps of a plan.
const MOST_STEPS: usize = 100;

// The codes of JSON-RPC.
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const UNKNOWN_METHOD: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// Answers one line; `None` for a notification.
pub fn answer(context: &Context<'_>, line: &str) -> Option<Value> {
    let Ok(request) = serde_json::from_str::<Value>(line) else {
        return Some(failure(Value::Null, PARSE_ERROR, "not JSON"));
    };
    let id = request.get("id").cloned();
    let Some(method) = request.get("method").and_then(Value::as_str) else {
        // An answer to a request that was never sent.
        let is_answer = request.get("result").is_some() || request.get("error").is_some();
        let id = id.unwrap_or(Value::Null);
        return (!is_answer).then(|| failure(id, INVALID_REQUEST, "no method"));
    };
    let id = id?;
    let params = request.get("params").cloned().unwrap_or(Value::Null);
    let result = match method {
        "initialize" => Ok(initialize(&params)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": tools() })),
        "tools/call" => call(context, &params),
        _ => Err((UNKNOWN_METHOD, format!("unknown method '{method}'"))),
    };
    Some(match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, words)) => failure(id, code, &words),
    })
}

fn failure(id: Value, code: i64, words: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": words}})
}

fn initialize(params: &Value) -> Value {
    let wanted = params["protocolVersion"].as_str().unwrap_or_default();
    let known = VERSIONS.into_iter().find(|version| *version == wanted);
    json!({
        "protocolVersion": known.unwrap_or(VERSIONS[0]),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "git-agent", "version": env!("CARGO_PKG_VERSION")},
        "instructions": "Tools for working beside other agents in this repository. Answers to messages come as prompts."
    })
}

fn tools() -> Value {
    let text = |words: &str| json!({"type": "string", "description": words});
    let object = |properties: Value, required: &[&str]| {
        json!({"type": "object", "properties": properties, "required": required,
            "additionalProperties": false})
    };
    json!([
        {
            "name": "message",
            "description": "Send a message to another session. Its agent gets it when its turn ends.",
            "inputSchema": object(json!({
                "to": text("The name of the session"),
                "text": text("The message"),
                "re": text("The id of the message that this one answers"),
                "wait_seconds": {"type": "integer", "minimum": 1, "maximum": LONGEST_WAIT,
                    "description": "Wait this long for the answer"}
            }), &["to", "text"])
        },
        {
            "name": "artifact",
            "description": "Leave a text file for other sessions, read one of theirs, or list them.",
            "inputSchema": object(json!({
                "action": {"type": "string", "enum": ["put", "get", "list"]},
                "name": text("NAME, or SESSION/NAME to get one"),
                "content": text("The content to put")
            }), &["action"])
        },
        {
            "name": "sessions",
            "description": "List the other sessions: names, states, tasks, and conflicts with their parent.",
            "inputSchema": object(json!({}), &[])
        },
        {
            "name": "progress",
            "description": "Tell how far the work is: all steps of the plan, each with its status.",
            "inputSchema": object(json!({
                "steps": {"type": "array", "maxItems": MOST_STEPS, "items": object(json!({
                    "text": text("The step"),
                    "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}
                }), &["text", "status"])}
            }), &["steps"])
        }
    ])
}

/// Calls a tool. Its failure is a result that the model can read.
fn call(context: &Context<'_>, params: &Value) -> Result<Value, (i64, String)> {
    let name = params["name"].as_str().unwrap_or_default();
    let arguments = match &params["arguments"] {
        Value::Null => json!({}),
        Value::Object(_) => params["arguments"].clone(),
        _ => return Err((INVALID_PARAMS, "the arguments are not an object".to_owned())),
    };
    let outcome = match name {
        "message" => send(context, &arguments),
        "artifact" => artifact(context, &arguments),
        "sessions" => list(context),
        "progress" => progress(context, &arguments),
        _ => return Err((INVALID_PARAMS, format!("unknown tool '{name}'"))),
    };
    let (text, failed) = match outcome {
        Ok(text) => (text, false),
        Err(error) => {
            let mut words = error.with_causes();
            for hint in error.hints() {
                words = format!("{words}\nhint: {hint}");
            }
            (words, true)
        }
    };
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": failed}))
}

fn required<'v>(arguments: &'v Value, key: &str) -> Result<&'v str> {
    let value = arguments[key].as_str();
    value.ok_or_else(|| Error::usage(format!("'{key}' is missing, or is not a text")))
}

fn send(context: &Context<'_>, arguments: &Value) -> Result<String> {
    let re = arguments["re"].as_str().map(str::parse).transpose()?;
    let wait = arguments["wait_seconds"].as_u64();
    let sent = messages::send(
        context,
        &Draft {
            to: required(arguments, "to")?,
            text: required(arguments, "text")?,
            re,
            wait: wait.map(|seconds| Duration::from_secs(seconds.min(LONGEST_WAIT))),
        },
    )?;
    Ok(match (&sent.answer, sent.timed_out) {
        (Some(answer), _) => format!("answer from {}:\n{}", answer.from, answer.text),
        (None, true) => format!("sent as {}; no answer yet, it comes as a prompt", sent.id),
        (None, false) => format!("sent as {}", sent.id),
    })
}

fn artifact(context: &Context<'_>, arguments: &Value) -> Result<String> {
    match required(arguments, "action")? {
        "list" => {
            let all = artifacts::list(context, None)?;
            let line = |one: &artifacts::Artifact| {
                format!("{}/{} ({} bytes)", one.session, one.name, one.bytes)
            };
            Ok(all.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        "get" => {
            let (_, content) = artifacts::get(context, required(arguments, "name")?)?;
            String::from_utf8(content).map_err(|_| {
                Error::fatal("this artifact is not text; read it in $GIT_AGENT_ARTIFACTS")
            })
        }
        "put" => {
            let own = own(context)?;
            let name = required(arguments, "name")?;
            let content = required(arguments, "content")?;
            let put = artifacts::put(context, &own, name, content.as_bytes())?;
            let note = if put.redacted {
                "; a secret in it was redacted"
            } else {
                ""
            };
            Ok(format!("kept as {name}{note}"))
        }
        other => Err(Error::usage(format!("unknown action '{other}'"))),
    }
}

fn list(context: &Context<'_>) -> Result<String> {
    let own = caller::own(context)?.map(|own| own.sid);
    let mut listing = sessions::list(context, Scope::Mine)?;
    let sessions = &mut listing.sessions;
    sessions.retain(|listed| !listed.session.status.is_closed() && Some(listed.session.sid) != own);
    let rows = row::summarize(context, sessions);
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({"name": row.name, "state": row.state, "task": row.task, "role": row.role,
                "group": row.group, "branch": row.branch, "conflicts": row.conflicts.known()})
        })
        .collect();
    serde_json::to_string_pretty(&rows)
        .map_err(|error| Error::fatal("cannot write the sessions").because(error))
}

fn progress(context: &Context<'_>, arguments: &Value) -> Result<String> {
    let own = own(context)?;
    let steps = arguments["steps"].clone();
    let entries: Vec<PlanEntry> = serde_json::from_value(steps)
        .map_err(|error| Error::usage("'steps' is not a list of steps").because(error))?;
    if entries.len() > MOST_STEPS {
        return Err(Error::usage(format!("more than {MOST_STEPS} steps")));
    }
    let inbox = Inbox::open(&context.store, own.sid)?;
    inbox.put(context.env, &Message::Progress { entries })?;
    Ok("noted".to_owned())
}

/// Returns the session that the server runs in.
fn own(context: &Context<'_>) -> Result<crate::model::session::Session> {
    caller::own(context)?.ok_or_else(|| Error::fatal("this server does not run in a session"))
}
