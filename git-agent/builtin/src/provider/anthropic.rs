//! Anthropic's messages.
//!
//! The end of the system prompt and the last message carry cache markers: every request repeats the one before it, so
//! all but the newest message is read from the cache.

use serde_json::{Map, Value, json};

use crate::conversation::{Call, Message};
use crate::provider::failure::Failure;
use crate::provider::{Delta, Fold, MAX_OUTPUT, Model, Reply, Request, Stop, arguments};

/// Returns the body of a request.
pub fn body(model: &Model, request: &Request<'_>) -> Value {
    let cached = json!({"type": "ephemeral"});
    let mut messages: Vec<Value> = request.messages.iter().map(message).collect();
    let last = messages
        .last_mut()
        .and_then(|message| message["content"].as_array_mut()?.last_mut());
    if let Some(last) = last {
        last["cache_control"] = cached.clone();
    }
    let mut body = json!({
        "model": model.name,
        "max_tokens": MAX_OUTPUT,
        "stream": true,
        "system": [{"type": "text", "text": request.system, "cache_control": cached}],
        "messages": messages,
    });
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema()})
        });
        body["tools"] = tools.collect();
    }
    body
}

fn message(message: &Message) -> Value {
    match message {
        Message::User { text } => json!({"role": "user", "content": [text_block(text)]}),
        Message::Assistant { text, calls } => {
            let mut blocks = Vec::new();
            if !text.trim().is_empty() {
                blocks.push(text_block(text));
            }
            blocks.extend(calls.iter().map(|call| {
                // Only objects are accepted back; the result already says that this one was broken.
                let input = match &call.input {
                    Value::Object(_) => call.input.clone(),
                    _ => json!({}),
                };
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
            }));
            if blocks.is_empty() {
                blocks.push(text_block("(nothing)"));
            }
            json!({"role": "assistant", "content": blocks})
        }
        Message::Tool { results } => {
            let blocks = results.iter().map(|result| {
                let mut block = json!({"type": "tool_result", "tool_use_id": result.id, "content": result.text});
                if result.failed {
                    block["is_error"] = true.into();
                }
                block
            });
            json!({"role": "user", "content": blocks.collect::<Vec<_>>()})
        }
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Folds the events of a stream.
#[derive(Debug, Default)]
pub struct Folder {
    reply: Reply,
    /// The open call: id, name, arguments so far.
    call: Option<(String, String, String)>,
    complete: bool,
}

impl Fold for Folder {
    fn event(&mut self, event: &Value) -> Result<Vec<Delta>, Failure> {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.count(&event["message"]["usage"]),
            "content_block_start" => {
                let block = &event["content_block"];
                if block["type"] == "tool_use" {
                    // Some gateways send the arguments here instead of in pieces.
                    let whole = block["input"].as_object().filter(|input| !input.is_empty());
                    let whole = whole.map(|input| Value::Object(Map::clone(input)).to_string());
                    self.call = Some((
                        text(block, "id"),
                        text(block, "name"),
                        whole.unwrap_or_default(),
                    ));
                }
                return Ok(self.said(text(block, "text")));
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                match delta["type"].as_str().unwrap_or_default() {
                    "text_delta" => return Ok(self.said(text(delta, "text"))),
                    "thinking_delta" => return Ok(vec![Delta::Thought(text(delta, "thinking"))]),
                    "input_json_delta" => {
                        if let Some((_, _, input)) = &mut self.call {
                            input.push_str(delta["partial_json"].as_str().unwrap_or_default());
                        }
                    }
                    _ => {}
                }
            }
            "content_block_stop" => self.close_call(),
            "message_delta" => {
                self.count(&event["usage"]);
                self.reply.stop = match event["delta"]["stop_reason"].as_str() {
                    Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
                    Some("refusal") => Stop::Refused,
                    _ => Stop::End,
                };
            }
            "message_stop" => self.complete = true,
            "error" => return Err(Failure::from_body(0, event)),
            _ => {}
        }
        Ok(Vec::new())
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn reply(mut self: Box<Self>) -> Reply {
        self.close_call();
        self.reply
    }
}

impl Folder {
    fn said(&mut self, text: String) -> Vec<Delta> {
        self.reply.text.push_str(&text);
        if text.is_empty() {
            Vec::new()
        } else {
            vec![Delta::Text(text)]
        }
    }

    fn close_call(&mut self) {
        if let Some((id, name, input)) = self.call.take() {
            self.reply.calls.push(Call {
                id,
                name,
                input: arguments(&input),
            });
        }
    }

    fn count(&mut self, usage: &Value) {
        let number = |key: &str| usage[key].as_u64().unwrap_or(0);
        let input = number("input_tokens")
            + number("cache_creation_input_tokens")
            + number("cache_read_input_tokens");
        self.reply.input_tokens = self.reply.input_tokens.max(input);
        self.reply.output_tokens = self.reply.output_tokens.max(number("output_tokens"));
    }
}
