//! Interprets the lines of the stream: text, tools, plans, usage, and the end of the turn.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::agent::claude::tasks::Tasks;
use crate::agent::claude::usage::Spending;
use crate::agent::driver::{Link, Trouble, TroubleKind};
use crate::agent::stream::raw_message;
use crate::agent::stream::text::{Streamed, Voice};
use crate::agent::stream::tools::{kind_of_tool, relative};
use crate::error::Result;
use crate::model::event::Body;
use crate::model::event_words::{FileChange, ToolKind};
use crate::model::session::Usage;

/// After this many refusals of the key, retrying is hopeless; the agent would retry for minutes.
const HOPELESS_ATTEMPTS: u64 = 3;
/// Maximum number of bytes kept of blocks that came in pieces: longer blocks cannot come whole, because no line is that
/// long.
const MOST_PIECES: usize = 4 << 20;
/// Maximum number of such blocks.
const MOST_BLOCKS: usize = 64;

/// The reaction that a line needs.
#[derive(Debug)]
pub enum Heard {
    /// None.
    Nothing,
    /// The turn is over.
    Ended(Ending),
    /// A request of the agent waits for an answer.
    Asked(Value),
    /// The request with this id was withdrawn.
    Withdrawn(Value),
    /// Continuing is hopeless.
    Hopeless(Trouble),
}

/// The agent's report about the end of the turn.
#[derive(Debug, Default, PartialEq)]
pub struct Ending {
    /// The trouble, if there was one.
    pub trouble: Option<Trouble>,
    /// The last message.
    pub text: String,
}

/// A turn's stream.
#[derive(Debug, Default)]
pub struct Stream {
    /// The vendor's last reported id of the conversation.
    session: Option<String>,
    /// Text being gathered.
    pub text: Streamed,
    /// Text blocks that came in pieces and will come again as a whole.
    pieces: Vec<String>,
    calls: BTreeMap<String, String>,
    tasks: Tasks,
    spending: Spending,
}

impl Stream {
    /// Returns the stream of a turn in a new or a known conversation.
    pub fn new(session: Option<String>) -> Self {
        Stream {
            session,
            ..Stream::default()
        }
    }

    /// Handles one message.
    pub fn message(
        &mut self,
        message: &Value,
        worktree: &Path,
        used: Usage,
        link: &mut dyn Link,
    ) -> Result<Heard> {
        let text = |key: &str| message.get(key).and_then(Value::as_str);
        match text("type").unwrap_or_default() {
            "system" => return self.system(message, link),
            "stream_event" => self.piece(message, used, link)?,
            "assistant" => {
                self.assistant(message, link)?;
                // The usage of subagents is not part of the result.
                if !is_of_helper(message) {
                    let usage = self.spending.message(&message["message"], used);
                    tell_usage(usage, link)?;
                }
            }
            "user" => self.user(message, worktree, link)?,
            "result" => return self.result(message, used, link).map(Heard::Ended),
            "control_request" => {
                self.text.pause(link)?;
                return Ok(Heard::Asked(message.clone()));
            }
            "control_cancel_request" => {
                return Ok(Heard::Withdrawn(message["request_id"].clone()));
            }
            // The confirmation of our interrupt.
            "control_response" if message["response"]["request_id"] == "interrupt" => {}
            "keep_alive" | "tool_progress" => {}
            _ => self.keep(message, link)?,
        }
        Ok(Heard::Nothing)
    }

    /// Records a message as it came.
    pub fn keep(&mut self, message: &Value, link: &mut dyn Link) -> Result<()> {
        self.text.pause(link)?;
        link.event(raw_message::raw("claude-stream", message))
    }

    fn system(&mut self, message: &Value, link: &mut dyn Link) -> Result<Heard> {
        match message
            .get("subtype")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "init" => {
                if let Some(id) = message.get("session_id").and_then(Value::as_str)
                    && self.session.as_deref() != Some(id)
                {
                    self.session = Some(id.to_owned());
                    link.event(Body::Vendor {
                        session: id.to_owned(),
                    })?;
                }
            }
            "status" => {}
            "api_retry" | "retry" => return self.retry(message, link),
            "compact_boundary" => {
                self.text.pause(link)?;
                link.event(Body::Notice {
                    text: "the agent compacted the conversation".to_owned(),
                })?;
            }
            _ => self.keep(message, link)?,
        }
        Ok(Heard::Nothing)
    }

    fn retry(&mut self, message: &Value, link: &mut dyn Link) -> Result<Heard> {
        self.text.pause(link)?;
        let number = |key: &str| message.get(key).and_then(Value::as_u64);
        let error = message
            .get("error")
            .and_then(Value::as_str)
            .unwrap_or("an error");
        let status = number("error_status");
        let words = match status {
            Some(status) => format!("{error} ({status})"),
            None => error.to_owned(),
        };
        let attempt = number("attempt").unwrap_or(0);
        link.event(Body::Notice {
            text: format!(
                "the model answered {words}; the agent retries in {:.1} s ({attempt} of {})",
                number("retry_delay_ms").unwrap_or(0) as f64 / 1000.0,
                number("max_retries").unwrap_or(0)
            ),
        })?;
        let kind = status.and_then(TroubleKind::from_status);
        if let Some(kind) = kind {
            let delay = number("retry_delay_ms").map(|delay| delay.div_ceil(1000));
            link.setback(&Trouble {
                kind,
                text: words.clone(),
                retry_after: delay,
            })?;
        }
        if kind == Some(TroubleKind::Auth) && attempt >= HOPELESS_ATTEMPTS {
            return Ok(Heard::Hopeless(Trouble::new(TroubleKind::Auth, words)));
        }
        Ok(Heard::Nothing)
    }

    /// Handles a piece of a message that will come as a whole later.
    fn piece(&mut self, message: &Value, used: Usage, link: &mut dyn Link) -> Result<()> {
        if is_of_helper(message) {
            return Ok(());
        }
        let event = &message["event"];
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.pieces.clear();
                self.spending.begin(&event["message"]);
            }
            "message_delta" => {
                let usage = self.spending.end(event, used);
                tell_usage(usage, link)?;
            }
            "content_block_start" => self.begin_block(),
            "content_block_delta" => {
                let delta = &event["delta"];
                let (voice, text) = match delta["type"].as_str() {
                    Some("text_delta") => (Voice::Assistant, &delta["text"]),
                    Some("thinking_delta") => (Voice::Reasoning, &delta["thinking"]),
                    // These come as a whole later, or are only for the provider.
                    Some("input_json_delta" | "signature_delta" | "citations_delta") => {
                        return Ok(());
                    }
                    _ => return self.keep(message, link),
                };
                let text = text.as_str().unwrap_or_default();
                if let Some(piece) = self.pieces.last_mut() {
                    if piece.len() < MOST_PIECES {
                        piece.push_str(text);
                    }
                    self.text.push(voice, text, link)?;
                }
            }
            "content_block_stop" | "message_stop" | "ping" | "goal_state" => {}
            _ => self.keep(message, link)?,
        }
        Ok(())
    }

    /// Makes room for the pieces of a block. At worst, the oldest block is recorded again when it comes as a whole.
    fn begin_block(&mut self) {
        while self.pieces.len() >= MOST_BLOCKS
            || self.pieces.iter().map(String::len).sum::<usize>() >= MOST_PIECES
        {
            self.pieces.remove(0);
        }
        self.pieces.push(String::new());
    }

    fn assistant(&mut self, message: &Value, link: &mut dyn Link) -> Result<()> {
        // The agent's own message about a failed request; the result repeats it.
        if message["is_api_error_message"] == true {
            return Ok(());
        }
        let voice = if is_of_helper(message) {
            Voice::Reasoning
        } else {
            Voice::Assistant
        };
        let content = &message["message"]["content"];
        if content.is_string() {
            return self.say(voice, content.as_str(), link);
        }
        let Some(blocks) = content.as_array() else {
            return self.keep(message, link);
        };
        for block in blocks {
            let text = |key: &str| block.get(key).and_then(Value::as_str);
            match text("type").unwrap_or_default() {
                "text" => self.say(voice, text("text"), link)?,
                "thinking" => self.say(Voice::Reasoning, text("thinking"), link)?,
                "tool_use" => self.tool_use(block, link)?,
                "redacted_thinking" => {}
                _ => self.keep(block, link)?,
            }
        }
        Ok(())
    }

    /// Records a block of text without the part that was recorded in pieces.
    fn say(&mut self, voice: Voice, text: Option<&str>, link: &mut dyn Link) -> Result<()> {
        let text = text.unwrap_or_default();
        let streamed = self
            .pieces
            .iter()
            .position(|piece| !piece.is_empty() && text.starts_with(piece.as_str()));
        let told = streamed.map_or(0, |index| self.pieces.remove(index).len());
        self.text.push(voice, &text[told..], link)?;
        self.text.pause(link)
    }

    fn tool_use(&mut self, block: &Value, link: &mut dyn Link) -> Result<()> {
        self.text.pause(link)?;
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        let (call, name, input) = (text("id"), text("name"), &block["input"]);
        self.calls.insert(call.to_owned(), name.to_owned());
        link.event(Body::ToolCall {
            call: call.to_owned(),
            name: name.to_owned(),
            kind: kind_of_tool(name),
            input: input.clone(),
        })?;
        match self.tasks.called(call, name, input) {
            Some(plan) => link.event(plan),
            None => Ok(()),
        }
    }

    fn user(&mut self, message: &Value, worktree: &Path, link: &mut dyn Link) -> Result<()> {
        let Some(blocks) = message["message"]["content"].as_array() else {
            return self.keep(message, link);
        };
        for block in blocks {
            if block["type"] != "tool_result" {
                self.keep(block, link)?;
                continue;
            }
            self.text.pause(link)?;
            let call = block["tool_use_id"].as_str().unwrap_or_default();
            let ok = block["is_error"] != true;
            let output = output_text(&block["content"]);
            if let Some(plan) = self
                .tasks
                .returned(call, &output, &message["tool_use_result"])
            {
                link.event(plan)?;
            }
            link.event(Body::ToolResult {
                call: call.to_owned(),
                ok,
                output,
                attachment: None,
            })?;
            let name = self.calls.get(call).map(String::as_str).unwrap_or_default();
            let result = &message["tool_use_result"];
            if ok
                && kind_of_tool(name) == ToolKind::Edit
                && let Some(path) = result["filePath"].as_str()
            {
                let change = match result["type"].as_str() {
                    Some("create") => FileChange::Add,
                    _ => FileChange::Change,
                };
                link.event(Body::Edit {
                    path: relative(path, worktree),
                    change,
                })?;
            }
        }
        Ok(())
    }

    fn result(&mut self, message: &Value, used: Usage, link: &mut dyn Link) -> Result<Ending> {
        self.text.end(link)?;
        let text = message["result"].as_str().unwrap_or_default().to_owned();
        // `subtype` is "success" even if the provider refused; only `is_error` tells.
        let error = match message["is_error"].as_bool() {
            Some(error) => error,
            None => message["subtype"] != "success",
        };
        // Record a message that has not come before.
        if !error && self.text.last().trim().is_empty() {
            self.say(Voice::Assistant, Some(&text), link)?;
        }
        tell_usage(self.spending.result(message, used), link)?;
        if !error {
            return Ok(Ending {
                text,
                ..Ending::default()
            });
        }
        let mut words: Vec<&str> = message["errors"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        words.extend(message["error"]["message"].as_str());
        if !text.is_empty() {
            words.insert(0, &text);
        }
        let mut words = words.join("; ");
        if words.is_empty() {
            words = format!(
                "the agent ended the turn: {}",
                message["subtype"].as_str().unwrap_or("error")
            );
        }
        let by_status = message["api_error_status"]
            .as_u64()
            .and_then(TroubleKind::from_status);
        let trouble = match by_status {
            Some(kind) => Trouble::new(kind, &words),
            None => Trouble::from_words(&words, TroubleKind::Other),
        };
        Ok(Ending {
            trouble: Some(trouble),
            text: self.text.last().to_owned(),
        })
    }
}

/// Returns whether a message comes from a subagent.
fn is_of_helper(message: &Value) -> bool {
    !message["parent_tool_use_id"].is_null()
}

fn tell_usage(usage: Option<Usage>, link: &mut dyn Link) -> Result<()> {
    match usage {
        Some(usage) => link.event(Body::Usage { usage }),
        None => Ok(()),
    }
}

fn output_text(content: &Value) -> String {
    match content {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let text = |block: &Value| match block["text"].as_str() {
                Some(text) => text.to_owned(),
                None => json!({"type": block["type"]}).to_string(),
            };
            blocks.iter().map(text).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}
