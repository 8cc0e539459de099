//! OpenAI's chat completions, as OpenAI and everything compatible speaks them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::conversation::{Call, Message};
use crate::provider::failure::Failure;
use crate::provider::{Delta, Fold, MAX_OUTPUT, Model, Reply, Request, Stop, arguments};

/// Returns the body of a request.
pub fn body(model: &Model, request: &Request<'_>) -> Value {
    let mut body = json!({
        "model": model.name,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": messages(request),
    });
    // OpenAI's own models refuse the old name of this limit. Servers with a small context refuse a large limit, and use
    // all that is left without one.
    match model.provider.as_str() {
        "openai" if model.context >= 4 * MAX_OUTPUT => {
            body["max_completion_tokens"] = MAX_OUTPUT.into();
        }
        "openrouter" | "gemini" => body["max_tokens"] = MAX_OUTPUT.into(),
        _ => {}
    }
    if model.provider == "openrouter" {
        body["usage"] = json!({"include": true});
    }
    if !request.tools.is_empty() {
        body["tools"] = tools(request);
    }
    body
}

/// Returns the tools in the form that Ollama shares.
pub fn tools(request: &Request<'_>) -> Value {
    let tools = request.tools.iter().map(|tool| {
        let function =
            json!({"name": tool.name, "description": tool.description, "parameters": tool.schema()});
        json!({"type": "function", "function": function})
    });
    tools.collect()
}

fn messages(request: &Request<'_>) -> Vec<Value> {
    let mut all = vec![json!({"role": "system", "content": request.system})];
    for message in request.messages {
        match message {
            Message::User { text } => all.push(json!({"role": "user", "content": text})),
            Message::Assistant { text, calls } => {
                let mut said = json!({"role": "assistant", "content": text});
                if !calls.is_empty() {
                    said["tool_calls"] = calls.iter().map(call).collect();
                }
                all.push(said);
            }
            Message::Tool { results } => all.extend(results.iter().map(
                |result| json!({"role": "tool", "tool_call_id": result.id, "content": result.text}),
            )),
        }
    }
    all
}

fn call(call: &Call) -> Value {
    let input = match &call.input {
        Value::Object(_) => call.input.to_string(),
        _ => "{}".to_owned(),
    };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": input}})
}

/// Folds the chunks of a stream.
#[derive(Debug, Default)]
pub struct Folder {
    reply: Reply,
    /// Calls so far, by the index that the provider gives them: id, name, arguments.
    calls: BTreeMap<u64, (String, String, String)>,
    complete: bool,
}

impl Fold for Folder {
    fn event(&mut self, event: &Value) -> Result<Vec<Delta>, Failure> {
        if event.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Failure::from_body(0, event));
        }
        let usage = &event["usage"];
        if let Some(input) = usage["prompt_tokens"].as_u64() {
            self.reply.input_tokens = input;
            self.reply.output_tokens = usage["completion_tokens"].as_u64().unwrap_or(0);
            self.reply.cost = usage["cost"].as_f64();
        }
        let choice = &event["choices"][0];
        let delta = &choice["delta"];
        let mut deltas = Vec::new();
        for key in ["reasoning_content", "reasoning"] {
            if let Some(text) = delta[key].as_str().filter(|text| !text.is_empty()) {
                deltas.push(Delta::Thought(text.to_owned()));
                break;
            }
        }
        if let Some(text) = delta["content"].as_str().filter(|text| !text.is_empty()) {
            self.reply.text.push_str(text);
            deltas.push(Delta::Text(text.to_owned()));
        }
        for (place, part) in delta["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            self.add(place as u64, part);
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.complete = true;
            self.reply.stop = match reason {
                "length" => Stop::Length,
                "content_filter" => Stop::Refused,
                _ => Stop::End,
            };
        }
        Ok(deltas)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn reply(mut self: Box<Self>) -> Reply {
        let calls = std::mem::take(&mut self.calls);
        self.reply.calls = calls
            .into_values()
            .map(|(id, name, input)| Call {
                id,
                name,
                input: arguments(&input),
            })
            .collect();
        self.reply
    }
}

impl Folder {
    fn add(&mut self, place: u64, part: &Value) {
        let index = part["index"].as_u64().unwrap_or(place);
        let call = self.calls.entry(index).or_default();
        if let Some(id) = part["id"].as_str().filter(|id| !id.is_empty()) {
            call.0 = id.to_owned();
        }
        let function = &part["function"];
        call.1
            .push_str(function["name"].as_str().unwrap_or_default());
        match &function["arguments"] {
            Value::String(text) => call.2.push_str(text),
            Value::Null => {}
            whole => call.2 = whole.to_string(),
        }
    }
}
