//! Ollama's own API. Its compatible endpoints cannot set the size of the context and cut long conversations silently.

use serde_json::{Value, json};

use crate::conversation::{Call, Message};
use crate::provider::failure::Failure;
use crate::provider::{Delta, Fold, MAX_OUTPUT, Model, Reply, Request, Stop, openai};

/// Returns the body of a request.
pub fn body(model: &Model, request: &Request<'_>) -> Value {
    let mut messages = vec![json!({"role": "system", "content": request.system})];
    for message in request.messages {
        match message {
            Message::User { text } => messages.push(json!({"role": "user", "content": text})),
            Message::Assistant { text, calls } => {
                let mut said = json!({"role": "assistant", "content": text});
                if !calls.is_empty() {
                    let call = |call: &Call| json!({"function": {"name": call.name, "arguments": object(&call.input)}});
                    said["tool_calls"] = calls.iter().map(call).collect();
                }
                messages.push(said);
            }
            Message::Tool { results } => messages.extend(
                results
                    .iter()
                    .map(|result| json!({"role": "tool", "content": result.text})),
            ),
        }
    }
    let mut body = json!({
        "model": model.name,
        "stream": true,
        "messages": messages,
        "options": {"num_ctx": model.context, "num_predict": MAX_OUTPUT.min(model.context / 2)},
    });
    if !request.tools.is_empty() {
        body["tools"] = openai::tools(request);
    }
    body
}

fn object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        _ => json!({}),
    }
}

/// Folds the lines of a stream.
#[derive(Debug, Default)]
pub struct Folder {
    reply: Reply,
    complete: bool,
}

impl Fold for Folder {
    fn event(&mut self, event: &Value) -> Result<Vec<Delta>, Failure> {
        if event.get("error").is_some() {
            return Err(Failure::from_body(0, event));
        }
        let message = &event["message"];
        let mut deltas = Vec::new();
        if let Some(text) = message["thinking"].as_str().filter(|text| !text.is_empty()) {
            deltas.push(Delta::Thought(text.to_owned()));
        }
        if let Some(text) = message["content"].as_str().filter(|text| !text.is_empty()) {
            self.reply.text.push_str(text);
            deltas.push(Delta::Text(text.to_owned()));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            self.reply.calls.push(Call {
                // Ollama's calls have no ids; the turn gives them some.
                id: String::new(),
                name: call["function"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                input: call["function"]["arguments"].clone(),
            });
        }
        if event["done"] == true {
            self.complete = true;
            self.reply.input_tokens = event["prompt_eval_count"].as_u64().unwrap_or(0);
            self.reply.output_tokens = event["eval_count"].as_u64().unwrap_or(0);
            if event["done_reason"] == "length" {
                self.reply.stop = Stop::Length;
            }
        }
        Ok(deltas)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn reply(self: Box<Self>) -> Reply {
        self.reply
    }
}
