//! The transcript of a session: an ordered list of events, and their text form.
//!
//! One event is one line of ASCII JSON with its keys in a fixed order. An event of an unknown kind is kept whole and
//! never fatal, because newer programs and vendors add kinds.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::env::Millis;
use crate::error::{Context, Error, Result};
use crate::model::event_words::{
    AnsweredBy, ChoiceKind, ErrorKind, FileChange, OutputStream, RequestKind, Sender, StepStatus,
    ToolKind,
};
use crate::model::session::{Exit, Progress, State, Ulid, Usage};

/// One event of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The id by which comments refer to the event.
    pub id: Ulid,
    /// Position in the session, from 1, without gaps.
    pub seq: u64,
    /// Lamport clock.
    pub lc: u64,
    /// The time of the event.
    pub ts: Millis,
    /// The turn it belongs to, from 1; 0 before the first prompt.
    pub turn: u32,
    /// The kind of event, with its fields.
    pub body: Body,
}

/// The kind of event, with its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Body {
    /// The session was created.
    Created {
        /// The initial state.
        session: Map<String, Value>,
    },
    /// A field of the session's state changed.
    Set {
        /// The field; an unknown one goes to the state's `more`.
        key: String,
        /// The new value; null removes the field.
        value: Value,
    },
    /// The vendor named its conversation.
    Vendor {
        /// The vendor's own id.
        session: String,
    },
    /// A prompt for the agent.
    Prompt {
        /// The whole text.
        text: String,
        /// The sender.
        #[serde(default, skip_serializing_if = "Sender::is_unnamed")]
        from: Sender,
    },
    /// A message of the agent.
    Assistant {
        /// The text.
        text: String,
    },
    /// A thought of the agent.
    Reasoning {
        /// The text.
        text: String,
    },
    /// The agent calls a tool. A later event with the same `call` replaces it.
    ToolCall {
        /// The id that links call and result.
        call: String,
        /// The tool, in the vendor's words.
        name: String,
        /// The kind of tool.
        #[serde(default, skip_serializing_if = "ToolKind::is_unnamed")]
        kind: ToolKind,
        /// The arguments.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        input: Value,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id that links call and result.
        call: String,
        /// Whether the call succeeded.
        ok: bool,
        /// The output, shortened; an attachment may hold the whole.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        output: String,
        /// SHA-256 of the attachment that holds the whole output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attachment: Option<String>,
    },
    /// The agent changed a file.
    Edit {
        /// Path relative to the worktree.
        path: String,
        /// How it changed.
        change: FileChange,
    },
    /// The agent's plan. Each one replaces the plan before it.
    Plan {
        /// The steps.
        entries: Vec<PlanEntry>,
    },
    /// The agent asks for a permission, or asks a question.
    Permission {
        /// The id that links request and answer.
        request: String,
        /// The kind of request.
        kind: RequestKind,
        /// The question, in words.
        title: String,
        /// The possible answers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<Choice>,
        /// The command or the lines that would change, shortened.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// The answer to a request.
    Answer {
        /// The id that links request and answer.
        request: String,
        /// The chosen option's id, or free text.
        choice: String,
        /// The source of the answer.
        by: AnsweredBy,
    },
    /// The session's state changed.
    Status {
        /// The state before.
        from: State,
        /// The state after.
        to: State,
        /// The reason, in words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// How the agent's process ended, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<Exit>,
    },
    /// The usage of the session so far.
    Usage {
        /// The vendor's figures.
        #[serde(flatten)]
        usage: Usage,
    },
    /// A snapshot of the worktree was taken.
    Snapshot {
        /// The snapshot commit.
        commit: String,
        /// The tree of the snapshot.
        tree: String,
        /// The tip of the branch at that time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<String>,
    },
    /// A line of a plain command's output.
    Output {
        /// The stream.
        stream: OutputStream,
        /// The text, without its newline.
        text: String,
    },
    /// An error.
    Error {
        /// The kind of error.
        kind: ErrorKind,
        /// The error, in words.
        text: String,
    },
    /// A notice of the supervisor: a limit that applies, a guard that is off, a ref that was restored.
    Notice {
        /// The notice, in words.
        text: String,
    },
    /// A message between sessions, in the transcript of both.
    Message {
        /// The id that an answer names.
        message: String,
        /// The sender's name, or `user`.
        from: String,
        /// The receiver's name.
        to: String,
        /// The message that it answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        re: Option<String>,
        /// The text.
        text: String,
    },
    /// The branch was submitted for review.
    Submit {
        /// The tip of the branch.
        commit: String,
    },
    /// The work was merged.
    Merged {
        /// The target branch.
        into: String,
        /// The commit on the target that contains the work.
        commit: String,
    },
    /// A vendor's event that fits no other kind, as it arrived.
    Raw {
        /// The driver that received it.
        driver: String,
        /// The event in the vendor's form.
        data: Value,
    },
    /// An event of a kind that this version does not know, kept whole.
    #[serde(skip)]
    Unknown(Map<String, Value>),
}

/// One step of an agent's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// The step, in words.
    pub text: String,
    /// How far it is.
    pub status: StepStatus,
}

/// One possible answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The value to answer with.
    pub id: String,
    /// The label for people.
    pub label: String,
    /// Its effect.
    #[serde(default, skip_serializing_if = "ChoiceKind::is_unnamed")]
    pub kind: ChoiceKind,
}

impl Choice {
    /// Returns the options in the order in which they are shown and numbered, whatever the agent's order: once, always,
    /// no. The first one never grants for ever. Options of unknown kinds stay as they are.
    pub fn in_order(mut options: Vec<Choice>) -> Vec<Choice> {
        let once = |option: &Choice| option.kind == ChoiceKind::AllowOnce;
        let has_once = options.iter().any(once);
        let rank = |option: &Choice| match option.kind {
            ChoiceKind::AllowOnce => Some(0),
            ChoiceKind::AllowAlways => Some(if has_once { 1 } else { 4 }),
            ChoiceKind::RejectOnce => Some(2),
            ChoiceKind::RejectAlways => Some(3),
            _ => None,
        };
        if options.iter().all(|option| rank(option).is_some()) {
            options.sort_by_key(rank);
        }
        options
    }
}

/// Pieces of one message are joined up to about this size.
const LONGEST_WHOLE: usize = 64 << 10;

/// Returns whether a recorded text is only a piece of a message. Pieces end in a blank or a newline; messages hardly
/// ever do.
pub fn is_unfinished(text: &str) -> bool {
    text.ends_with([' ', '\t', '\n'])
}

/// Returns whether a program's output ends in the middle of a line. As a rule, only such output ends in a blank.
pub fn is_begun_line(text: &str) -> bool {
    text.ends_with([' ', '\t'])
}

impl Body {
    /// Returns the kind as written in the record.
    pub fn kind(&self) -> &str {
        match self {
            Body::Created { .. } => "created",
            Body::Set { .. } => "set",
            Body::Vendor { .. } => "vendor",
            Body::Prompt { .. } => "prompt",
            Body::Assistant { .. } => "assistant",
            Body::Reasoning { .. } => "reasoning",
            Body::ToolCall { .. } => "tool_call",
            Body::ToolResult { .. } => "tool_result",
            Body::Edit { .. } => "edit",
            Body::Plan { .. } => "plan",
            Body::Permission { .. } => "permission",
            Body::Answer { .. } => "answer",
            Body::Status { .. } => "status",
            Body::Usage { .. } => "usage",
            Body::Snapshot { .. } => "snapshot",
            Body::Output { .. } => "output",
            Body::Error { .. } => "error",
            Body::Notice { .. } => "notice",
            Body::Message { .. } => "message",
            Body::Submit { .. } => "submit",
            Body::Merged { .. } => "merged",
            Body::Raw { .. } => "raw",
            Body::Unknown(fields) => fields
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or("unknown"),
        }
    }

    /// Returns whether the next event continues this message.
    pub fn goes_on_in(&self, next: &Body) -> bool {
        let (said, goes_on) = match (self, next) {
            (Body::Assistant { text }, Body::Assistant { .. })
            | (Body::Reasoning { text }, Body::Reasoning { .. }) => (text, is_unfinished(text)),
            (Body::Output { stream, text }, Body::Output { stream: same, .. })
                if stream == same =>
            {
                (text, is_begun_line(text))
            }
            _ => return false,
        };
        goes_on && said.len() < LONGEST_WHOLE
    }

    /// Appends the next event if it continues this message. Returns whether it did.
    pub fn take_more(&mut self, next: &Body) -> bool {
        let goes_on = self.goes_on_in(next);
        if let (
            true,
            Body::Assistant { text } | Body::Reasoning { text } | Body::Output { text, .. },
            Body::Assistant { text: more }
            | Body::Reasoning { text: more }
            | Body::Output { text: more, .. },
        ) = (goes_on, self, next)
        {
            text.push_str(more);
        }
        goes_on
    }

    /// Returns the progress of a plan.
    pub fn progress(&self) -> Option<Progress> {
        let Body::Plan { entries } = self else {
            return None;
        };
        let count = |entries: &mut dyn Iterator<Item = &PlanEntry>| {
            u32::try_from(entries.count()).unwrap_or(u32::MAX)
        };
        Some(Progress {
            done: count(
                &mut entries
                    .iter()
                    .filter(|entry| entry.status == StepStatus::Completed),
            ),
            total: count(&mut entries.iter()),
        })
    }
}

/// The fields that every event has, beside those of its body.
#[derive(Debug, Clone, Deserialize)]
pub struct Header {
    v: u32,
    /// The id by which comments refer to the event.
    pub id: Ulid,
    /// Position in the session.
    pub seq: u64,
    /// Lamport clock.
    pub lc: u64,
    /// The time of the event.
    pub ts: Millis,
    /// The turn it belongs to.
    pub turn: u32,
}

impl Header {
    /// The keys of the header in a record.
    pub const KEYS: [&str; 6] = ["v", "id", "seq", "lc", "ts", "turn"];

    /// Reads the header of a record, whatever its body holds. A record without a header or a type is not an event.
    pub fn of(record: &Value) -> Result<Self> {
        if !record.is_object() {
            return Err(Error::fatal("event is not a JSON object"));
        }
        let header =
            Header::deserialize(record).context(|| "event lacks its header fields".into())?;
        if header.v != 1 {
            return Err(Error::fatal(format!(
                "event has format {}, written by a newer git-agent",
                header.v
            )));
        }
        if !record.get("type").is_some_and(Value::is_string) {
            return Err(Error::fatal("event has no type"));
        }
        Ok(header)
    }
}

impl Event {
    /// Returns the event as one JSON value.
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        for (key, value) in [
            ("v", Value::from(1)),
            ("id", Value::from(self.id.as_str())),
            ("seq", Value::from(self.seq)),
            ("lc", Value::from(self.lc)),
            ("ts", Value::from(self.ts.0)),
            ("turn", Value::from(self.turn)),
        ] {
            fields.insert(key.to_owned(), value);
        }
        match &self.body {
            Body::Unknown(body) => fields.extend(body.clone()),
            body => match serde_json::to_value(body).expect("bodies are plain data") {
                Value::Object(body) => fields.extend(body),
                _ => unreachable!("a tagged enum is an object"),
            },
        }
        Value::Object(fields)
    }

    /// Returns the record: one line of ASCII JSON, without a newline, keys sorted.
    pub fn to_line(&self) -> String {
        to_ascii_json(&self.to_json())
    }

    /// Parses a record.
    pub fn from_line(line: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(line).context(|| "event is not JSON".into())?;
        Event::from_json(value)
    }

    /// Parses an event from its JSON value.
    pub fn from_json(mut record: Value) -> Result<Self> {
        let header = Header::of(&record)?;
        if let Value::Object(fields) = &mut record {
            for key in Header::KEYS {
                fields.remove(key);
            }
        }
        let body = match (Body::deserialize(&record), record) {
            (Ok(body), _) => body,
            (Err(_), Value::Object(fields)) => Body::Unknown(fields),
            (Err(_), _) => return Err(Error::fatal("event is not a JSON object")),
        };
        Ok(Event {
            id: header.id,
            seq: header.seq,
            lc: header.lc,
            ts: header.ts,
            turn: header.turn,
            body,
        })
    }
}

/// Writes JSON with every character outside printable ASCII as a `\u` escape, so that a terminal can show a record
/// safely.
pub fn to_ascii_json(value: &impl Serialize) -> String {
    let plain = serde_json::to_string(value).expect("plain data serialises");
    if plain.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return plain;
    }
    let mut ascii = String::with_capacity(plain.len() + 16);
    let mut units = [0; 2];
    for c in plain.chars() {
        if matches!(c, ' '..='~') {
            ascii.push(c);
        } else {
            // Such characters occur only in strings, so the escape is always inside quotes.
            for unit in c.encode_utf16(&mut units) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(body: Body) -> Event {
        Event {
            id: Ulid::from_parts(Millis(1), [7; 10]),
            seq: 3,
            lc: 4,
            ts: Millis(5),
            turn: 1,
            body,
        }
    }

    #[test]
    fn pieces_of_a_message_are_put_together_and_messages_are_not() {
        let said = |text: &str| Body::Assistant { text: text.into() };
        let mut whole = said("I ");
        assert!(whole.take_more(&said("see:\n")) && whole.take_more(&said("done")));
        assert_eq!(whole, said("I see:\ndone"));
        assert!(!whole.take_more(&said("Next")));
        let printed = |text: &str| Body::Output {
            stream: "stdout".into(),
            text: text.into(),
        };
        let mut line = printed("Continue? ");
        assert!(line.take_more(&printed("yes")) && !line.take_more(&printed("next line")));
        assert_eq!(line, printed("Continue? yes"));
        let thought = Body::Reasoning { text: "x".into() };
        assert!(!said("I ").take_more(&thought));
    }

    #[test]
    fn a_record_is_ascii_and_reads_back() {
        let bodies = [
            Body::Assistant {
                text: "käse \u{1f9c0} \u{202e} \u{7f} \u{1b}[31m".into(),
            },
            Body::Usage {
                usage: Usage {
                    input_tokens: Some(3),
                    output_tokens: None,
                    cost_usd: Some(0.25),
                },
            },
            Body::Status {
                from: State::Running,
                to: State::ChangesRequested,
                reason: String::new(),
                exit: None,
            },
            Body::Raw {
                driver: "acp".into(),
                data: serde_json::json!({"a": [1, null]}),
            },
        ];
        for body in bodies {
            let event = event(body);
            let line = event.to_line();
            assert!(
                line.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
                "{line}"
            );
            assert_eq!(
                Event::from_line(line.as_bytes()).expect("own record reads"),
                event
            );
        }
    }

    #[test]
    fn an_unknown_kind_is_kept_whole() {
        let mut value = event(Body::Notice { text: "x".into() }).to_json();
        value["type"] = "from_the_future".into();
        value["extra"] = serde_json::json!({"deep": [1]});
        let line = value.to_string();
        let read = Event::from_line(line.as_bytes()).expect("unknown kinds are read");
        assert_eq!(read.body.kind(), "from_the_future");
        assert_eq!(read.to_json(), value);
    }

    #[test]
    fn refuses_what_is_no_event() {
        for bad in ["", "1", "{}", "{\"v\":2}", "[", "{\"v\":1,\"id\":\"x\"}"] {
            assert!(Event::from_line(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
