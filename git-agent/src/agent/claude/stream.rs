//! What the lines of the stream mean: text, tools, plans, figures, and how the turn ended.

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
use crate::model::session::Usage;

/// After so many refusals of the key the agent will not be accepted later either; by itself it tries for minutes.
const HOPELESS_ATTEMPTS: u64 = 3;
/// How much of blocks that came in pieces is kept, in bytes: longer ones cannot come whole, no line is so long.
const MOST_PIECES: usize = 4 << 20;
/// How many of them are kept.
const MOST_BLOCKS: usize = 64;

/// What a line asks the driver to do.
#[derive(Debug)]
pub enum Heard {
    /// Nothing.
    Nothing,
    /// The turn is over.
    Ended(Ending),
    /// A request of the agent waits for an answer.
    Asked(Value),
    /// A request with this id needs no answer any more.
    Withdrawn(Value),
    /// Going on makes no sense.
    Hopeless(Trouble),
}

/// How the agent says the turn ended.
#[derive(Debug, Default, PartialEq)]
pub struct Ending {
    /// What is wrong, if anything is.
    pub trouble: Option<Trouble>,
    /// The last words.
    pub text: String,
}

/// A turn's stream.
#[derive(Debug, Default)]
pub struct Stream {
    /// The vendor's id of the conversation, as last told.
    session: Option<String>,
    /// Text being gathered.
    pub text: Streamed,
    /// Text blocks that came in pieces and will come once more, whole.
    pieces: Vec<String>,
    calls: BTreeMap<String, String>,
    tasks: Tasks,
    spending: Spending,
}

impl Stream {
    /// Returns the stream of a turn in a conversation that may be known.
    pub fn new(session: Option<String>) -> Self {
        Stream {
            session,
            ..Stream::default()
        }
    }

    /// Takes in one message.
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
                // What its helpers use is no part of what the result tells.
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
            // Ours was to interrupt it; it shows that it heard.
            "control_response" if message["response"]["request_id"] == "interrupt" => {}
            "keep_alive" | "tool_progress" => {}
            _ => self.keep(message, link)?,
        }
        Ok(Heard::Nothing)
    }

    /// Keeps a message as it came.
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
                    text: "the agent shortened its memory of the conversation".to_owned(),
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
                "the model answered {words}; the agent tries again in {:.1} s ({attempt} of {})",
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

    /// Takes in a piece of a message that will come whole later.
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
                    // What will come whole, or is for the provider's eyes.
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

    /// Makes room for the pieces of a block; at worst, the oldest block is recorded a second time when it comes whole.
    fn begin_block(&mut self) {
        while self.pieces.len() >= MOST_BLOCKS
            || self.pieces.iter().map(String::len).sum::<usize>() >= MOST_PIECES
        {
            self.pieces.remove(0);
        }
        self.pieces.push(String::new());
    }

    fn assistant(&mut self, message: &Value, link: &mut dyn Link) -> Result<()> {
        // The agent's own words for a failed request; the result tells the same.
        if message["is_api_error_message"] == true {
            return Ok(());
        }
        let voice = match is_of_helper(message) {
            true => Voice::Reasoning,
            false => Voice::Assistant,
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

    /// Records a block of text, less what was recorded of it in pieces.
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
            kind: kind_of_tool(name).to_owned(),
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
                && kind_of_tool(name) == "edit"
                && let Some(path) = result["filePath"].as_str()
            {
                let change = match result["type"].as_str() {
                    Some("create") => "add",
                    _ => "change",
                };
                link.event(Body::Edit {
                    path: relative(path, worktree),
                    change: change.to_owned(),
                })?;
            }
        }
        Ok(())
    }

    fn result(&mut self, message: &Value, used: Usage, link: &mut dyn Link) -> Result<Ending> {
        self.text.end(link)?;
        let text = message["result"].as_str().unwrap_or_default().to_owned();
        // `subtype` says "success" also when the provider refused; only `is_error` tells.
        let error = match message["is_error"].as_bool() {
            Some(error) => error,
            None => message["subtype"] != "success",
        };
        // Words that were not said before would be recorded nowhere.
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

/// Returns whether a message is of an agent that the agent started, and not of itself.
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
