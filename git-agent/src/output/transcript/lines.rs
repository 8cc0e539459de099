//! The lines of one event, escaped but neither coloured nor fitted to the screen.

use serde_json::Value;

use crate::model::event::{Body, PlanEntry};
use crate::model::event_words::StepStatus;
use crate::model::session::{Exit, State};
use crate::output::human;
use crate::output::terminal::sanitize;
use crate::output::terminal::style::Slot;
use crate::output::transcript::used;

/// Length of a commit id in a line.
const SHORT_ID: usize = 10;

/// One line of an event.
#[derive(Debug, Clone)]
pub struct Line {
    /// The colour.
    pub slot: Option<Slot>,
    /// The text, escaped.
    pub text: String,
    /// How the line is shown.
    pub shape: Shape,
}

/// How a line is shown.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Text behind a mark, wrapped.
    Text {
        /// The mark.
        mark: String,
    },
    /// A tool call, cut.
    Call {
        /// The result, escaped.
        result: String,
        /// The colour of the result.
        slot: Slot,
    },
    /// An edited file.
    Edit {
        /// Added and deleted lines.
        lines: Option<(u64, u64)>,
    },
}

/// Returns a line of foreign text behind a mark.
pub fn line(slot: Option<Slot>, mark: &str, text: &str) -> Line {
    Line {
        slot,
        text: sanitize::one_line(text).to_string(),
        shape: Shape::Text {
            mark: mark.to_owned(),
        },
    }
}

fn one(slot: Option<Slot>, mark: &str, text: &str) -> Vec<Line> {
    vec![line(slot, mark, text)]
}

/// Returns the lines of a foreign text, each with a mark before it. An empty text yields one empty line.
pub fn block(slot: Option<Slot>, mark: &str, text: &str) -> Vec<Line> {
    let safe = sanitize::block(text).to_text();
    let shape = || Shape::Text {
        mark: mark.to_owned(),
    };
    let mut lines: Vec<Line> = safe
        .trim_end()
        .lines()
        .map(|line| Line {
            slot,
            text: line.to_owned(),
            shape: shape(),
        })
        .collect();
    if lines.is_empty() {
        lines.push(Line {
            slot,
            text: String::new(),
            shape: shape(),
        });
    }
    lines
}

/// Returns the line of a tool call with its result.
pub fn call(text: &str, result: &str, ok: bool) -> Line {
    Line {
        slot: Some(Slot::Tool),
        text: sanitize::one_line(text).to_string(),
        shape: Shape::Call {
            result: sanitize::one_line(result).to_string(),
            slot: if ok { Slot::Dim } else { Slot::Bad },
        },
    }
}

/// Returns the line of an edited file.
pub fn edit(path: &str, change: &str, lines: Option<(u64, u64)>) -> Line {
    let note = match change {
        "delete" => " (deleted)",
        "rename" => " (renamed)",
        _ => "",
    };
    Line {
        slot: Some(Slot::Tool),
        text: format!("✎ {}{note}", sanitize::one_line(path)),
        shape: Shape::Edit { lines },
    }
}

/// Returns the lines of an event that need nothing but the event.
pub fn plain(body: &Body) -> Vec<Line> {
    match body {
        Body::Created { session } => {
            let field = |key: &str| session.get(key).and_then(Value::as_str).unwrap_or("");
            let text = match field("branch") {
                "" => format!("session with agent {}", field("agent")),
                branch => format!("session with agent {} on {branch}", field("agent")),
            };
            one(Some(Slot::Dim), "-- ", &text)
        }
        Body::Set { key, value } => one(
            Some(Slot::Dim),
            "-- ",
            &format!("{key} = {}", inline(value)),
        ),
        Body::Vendor { session } => one(Some(Slot::Dim), "-- ", &format!("conversation {session}")),
        Body::Prompt { text, from } => {
            let mut lines = block(Some(Slot::Prompt), "> ", text);
            if !matches!(from.as_str(), "" | "user") {
                lines.insert(0, line(Some(Slot::Prompt), "> ", &format!("[{from}]")));
            }
            lines
        }
        Body::Assistant { text } => block(None, "", text),
        Body::Reasoning { text } => block(Some(Slot::Dim), "~ ", text),
        Body::ToolCall { name, input, .. } => {
            let mut lines = one(Some(Slot::Tool), "* ", name);
            lines.extend(block(None, "    ", &arguments(input)));
            lines
        }
        Body::ToolResult { ok, output, .. } => tool_result(*ok, output),
        Body::Edit { path, change } => vec![edit(path, change.as_str(), None)],
        Body::Plan { entries } => plan(entries),
        Body::Permission { title, options, .. } => {
            let mut lines = block(Some(Slot::Waiting), "? ", title);
            for (number, option) in options.iter().enumerate() {
                let text = match option.label.as_str() {
                    "" => option.id.as_str(),
                    label => label,
                };
                lines.push(line(None, "    ", &format!("{}. {text}", number + 1)));
            }
            lines
        }
        Body::Answer { choice, by, .. } => {
            one(Some(Slot::Prompt), "> ", &format!("{choice} [{by}]"))
        }
        Body::Status {
            to, reason, exit, ..
        } => vec![status(*to, reason, exit.as_ref())],
        Body::Usage { usage } => one(Some(Slot::Dim), "-- ", &used(usage)),
        Body::Snapshot { commit, .. } => one(Some(Slot::Dim), "-- ", &format!("snapshot {commit}")),
        Body::Output { stream, text } => {
            let slot = (stream.as_str() == "stderr").then_some(Slot::Waiting);
            block(slot, "", text)
        }
        Body::Error { kind, text } => {
            let text = match kind.as_str() {
                "" | "other" => text.clone(),
                kind => format!("{kind}: {text}"),
            };
            block(Some(Slot::Bad), "! ", &text)
        }
        Body::Notice { text } => block(Some(Slot::Dim), "-- ", text),
        Body::Message {
            message,
            from,
            to,
            text,
            ..
        } => {
            let title = format!("message {message} from {from} to {to}");
            let mut lines = block(Some(Slot::Tool), "-- ", &title);
            lines.extend(block(None, "   ", text));
            lines
        }
        Body::Submit { commit } => one(
            Some(Slot::Dim),
            "-- ",
            &format!("offered {} for review", short(commit)),
        ),
        Body::Merged { into, commit } => one(
            Some(Slot::Good),
            "-- ",
            &format!("merged into {into} as {}", short(commit)),
        ),
        Body::Raw { driver, data } => one(
            Some(Slot::Dim),
            "-- ",
            &format!("{driver}: {}", inline(data)),
        ),
        Body::Unknown(fields) => {
            let text = inline(&Value::Object(fields.clone()));
            one(Some(Slot::Dim), "-- ", &format!("{}: {text}", body.kind()))
        }
    }
}

/// Returns the lines of an event with everything in it.
pub fn full(body: &Body) -> Vec<Line> {
    match body {
        Body::Submit { commit } => one(
            Some(Slot::Dim),
            "-- ",
            &format!("offered {commit} for review"),
        ),
        Body::Merged { into, commit } => one(
            Some(Slot::Good),
            "-- ",
            &format!("merged into {into} as {commit}"),
        ),
        Body::Permission { title, options, .. } => {
            let mut lines = block(Some(Slot::Waiting), "? ", title);
            for (number, option) in options.iter().enumerate() {
                let text = format!("{}. {} ({})", number + 1, option.label, option.id);
                lines.push(line(None, "    ", &text));
            }
            lines
        }
        body => plain(body),
    }
}

fn short(commit: &str) -> String {
    commit.chars().take(SHORT_ID).collect()
}

fn tool_result(ok: bool, output: &str) -> Vec<Line> {
    let mut lines = match output.trim_end() {
        "" => Vec::new(),
        text => block(None, "    ", text),
    };
    if !ok {
        lines.push(line(Some(Slot::Bad), "    ", "failed"));
    }
    if lines.is_empty() {
        lines.push(line(Some(Slot::Dim), "    ", "ok"));
    }
    lines
}

fn plan(entries: &[PlanEntry]) -> Vec<Line> {
    let done = entries
        .iter()
        .filter(|entry| entry.status == StepStatus::Completed)
        .count();
    let head = format!("plan {done}/{}", entries.len());
    let mut lines = one(Some(Slot::Running), "= ", &head);
    lines.extend(entries.iter().map(|entry| match entry.status {
        StepStatus::Completed => line(Some(Slot::Dim), "    [x] ", &entry.text),
        StepStatus::InProgress => line(Some(Slot::Running), "    [>] ", &entry.text),
        _ => line(None, "    [ ] ", &entry.text),
    }));
    lines
}

/// Returns the line of a state, dim unless the turn went wrong.
pub fn status(to: State, reason: &str, exit: Option<&Exit>) -> Line {
    let reason = match exit {
        Some(exit) if reason.is_empty() => exit.reason.as_str(),
        _ => reason,
    };
    let ended = match exit {
        Some(Exit {
            code: Some(code @ 1..),
            ..
        }) => format!("exit {code}"),
        Some(Exit {
            signal: Some(signal),
            ..
        }) => format!("signal {signal}"),
        _ => String::new(),
    };
    let told = reason.contains(&ended.replace("exit ", "exit code ")) || reason.contains(&ended);
    let ended = match ended.as_str() {
        ended if ended.is_empty() || told => String::new(),
        ended => format!(" ({ended})"),
    };
    let text = match reason {
        // Older versions recorded the state as its own reason.
        reason if reason.is_empty() || reason == to.as_str() => format!("{to}{ended}"),
        reason => format!("{to}: {reason}{ended}"),
    };
    let slot = match Slot::of_state(to) {
        Slot::Bad => Slot::Bad,
        _ => Slot::Dim,
    };
    line(Some(slot), "-- ", &text)
}

/// Returns the arguments of a tool, one line each.
fn arguments(input: &Value) -> String {
    let Value::Object(fields) = input else {
        return inline(input);
    };
    let one = |(key, value): (&String, &Value)| format!("{key}: {}", inline(value));
    fields.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn inline(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the words for the tokens of a turn, if their number is known.
pub fn tokens(input: Option<u64>, output: Option<u64>) -> Option<String> {
    match (input.unwrap_or(0), output.unwrap_or(0)) {
        (0, 0) => None,
        (input, output) => Some(format!(
            "{} in, {} out",
            human::compact(input),
            human::compact(output)
        )),
    }
}
