//! The answer in the client's form, whole or as a stream.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::ask::{Ask, Form};
use super::script::Plan;

/// One part of a stream.
pub enum Frame {
    /// An event, perhaps with a name.
    Event(Option<&'static str>, String),
    /// Where a slow model is slow.
    Pause,
}

/// Returns an id that no other answer has.
fn id(prefix: &str) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{:08x}{number:08x}", std::process::id())
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ').filter(|piece| !piece.is_empty())
}

/// Returns the answer whole.
pub fn whole(ask: &Ask, plan: &Plan) -> Value {
    match ask.form {
        Form::Chat => {
            let mut message = json!({"role": "assistant", "content": plan.text});
            if let Some(calls) = chat_calls(plan) {
                message["tool_calls"] = calls;
            }
            let mut answer = chat_base(ask, "chat.completion");
            answer["choices"] =
                json!([{"index": 0, "message": message, "finish_reason": chat_end(plan)}]);
            answer["usage"] = chat_usage(plan);
            answer
        }
        Form::Responses => response(ask, plan, &response_items(plan)),
        Form::Messages => message(ask, plan, &message_blocks(plan)),
        Form::Gemini => gemini(ask, plan, &gemini_parts(plan), true),
        Form::Ollama => ollama(ask, plan, &plan.text, true),
    }
}

/// Returns the answer as a stream.
pub fn streamed(ask: &Ask, plan: &Plan) -> Vec<Frame> {
    match ask.form {
        Form::Ollama => {
            let line = |value: Value| Frame::Event(None, value.to_string());
            let mut frames: Vec<Frame> = pieces(&plan.text)
                .map(|piece| line(ollama(ask, plan, piece, false)))
                .collect();
            frames.push(Frame::Pause);
            frames.push(line(ollama(ask, plan, "", true)));
            frames
        }
        Form::Chat => chat_stream(ask, plan),
        Form::Responses => response_stream(ask, plan),
        Form::Messages => message_stream(ask, plan),
        Form::Gemini => {
            let parts = gemini_parts(plan);
            let (first, rest) = parts.split_at(1);
            let event = |value: Value| Frame::Event(None, value.to_string());
            vec![
                event(gemini(ask, plan, first, false)),
                Frame::Pause,
                event(gemini(ask, plan, rest, true)),
            ]
        }
    }
}

fn chat_base(ask: &Ask, object: &str) -> Value {
    json!({"id": id("chatcmpl-"), "object": object, "created": 1_700_000_000, "model": ask.model})
}

fn ollama(ask: &Ask, plan: &Plan, text: &str, last: bool) -> Value {
    let mut message = json!({"role": "assistant", "content": text});
    if let Some(call) = plan.call.as_ref().filter(|_| last) {
        message["tool_calls"] = json!([{"function": {"name": call.name, "arguments": call.input}}]);
    }
    let mut answer = json!({"model": ask.model, "created_at": "2025-01-01T00:00:00Z", "message": message,
        "done": last});
    if last {
        answer["done_reason"] = "stop".into();
        answer["prompt_eval_count"] = plan.usage.0.into();
        answer["eval_count"] = plan.usage.1.into();
    }
    answer
}

/// Returns arguments as text; those that are text already may be broken.
fn input_text(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        input => input.to_string(),
    }
}

fn chat_calls(plan: &Plan) -> Option<Value> {
    let call = plan.call.as_ref()?;
    let function = json!({"name": call.name, "arguments": input_text(&call.input)});
    Some(json!([{"index": 0, "id": id("call_"), "type": "function", "function": function}]))
}

fn chat_end(plan: &Plan) -> &'static str {
    if plan.call.is_some() {
        "tool_calls"
    } else {
        "stop"
    }
}

fn chat_usage(plan: &Plan) -> Value {
    let (input, output) = plan.usage;
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}

fn chat_stream(ask: &Ask, plan: &Plan) -> Vec<Frame> {
    let base = chat_base(ask, "chat.completion.chunk");
    let chunk = |delta: Value, end: Option<&str>| {
        let mut chunk = base.clone();
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": end}]);
        Frame::Event(None, chunk.to_string())
    };
    let mut frames = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    frames.extend(pieces(&plan.text).map(|piece| chunk(json!({"content": piece}), None)));
    frames.push(Frame::Pause);
    frames.extend(chat_calls(plan).map(|calls| chunk(json!({"tool_calls": calls}), None)));
    frames.push(chunk(json!({}), Some(chat_end(plan))));
    let mut last = base.clone();
    last["choices"] = json!([]);
    last["usage"] = chat_usage(plan);
    frames.push(Frame::Event(None, last.to_string()));
    frames.push(Frame::Event(None, "[DONE]".to_owned()));
    frames
}

fn response_items(plan: &Plan) -> Vec<Value> {
    let said = json!([{"type": "output_text", "text": plan.text, "annotations": []}]);
    let mut items = vec![
        json!({"type": "message", "id": id("msg_"), "role": "assistant", "status": "completed", "content": said}),
    ];
    items.extend(plan.call.as_ref().map(|call| match &call.input {
        Value::String(text) => {
            json!({"type": "custom_tool_call", "id": id("ctc_"), "call_id": id("call_"),
            "name": call.name, "input": text, "status": "completed"})
        }
        input => json!({"type": "function_call", "id": id("fc_"), "call_id": id("call_"),
            "name": call.name, "arguments": input.to_string(), "status": "completed"}),
    }));
    items
}

fn response(ask: &Ask, plan: &Plan, items: &[Value]) -> Value {
    let (input, output) = plan.usage;
    json!({"id": id("resp_"), "object": "response", "created_at": 1_700_000_000, "model": ask.model,
        "status": "completed", "output": items, "parallel_tool_calls": false, "tools": [], "tool_choice": "auto",
        "error": null, "incomplete_details": null, "instructions": null, "metadata": {}, "temperature": 1, "top_p": 1,
        "usage": {"input_tokens": input, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + output}})
}

fn response_stream(ask: &Ask, plan: &Plan) -> Vec<Frame> {
    let items = response_items(plan);
    let done = response(ask, plan, &items);
    let mut begun = done.clone();
    begun["status"] = "in_progress".into();
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    let mut frames: Vec<Frame> = Vec::new();
    let mut number = 0;
    let mut tell = |frames: &mut Vec<Frame>, name: &'static str, mut data: Value| {
        data["type"] = name.into();
        data["sequence_number"] = number.into();
        number += 1;
        frames.push(Frame::Event(Some(name), data.to_string()));
    };
    tell(&mut frames, "response.created", json!({"response": begun}));
    tell(
        &mut frames,
        "response.in_progress",
        json!({"response": begun}),
    );
    for (index, item) in items.iter().enumerate() {
        let of = |mut data: Value| {
            data["output_index"] = index.into();
            data["item_id"] = item["id"].clone();
            data
        };
        let mut opened = item.clone();
        opened["status"] = "in_progress".into();
        if item["type"] == "message" {
            opened["content"] = json!([]);
            tell(
                &mut frames,
                "response.output_item.added",
                of(json!({"item": opened})),
            );
            let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
            tell(
                &mut frames,
                "response.content_part.added",
                of(json!({"content_index": 0, "part": part("")})),
            );
            for piece in pieces(&plan.text) {
                let delta = json!({"content_index": 0, "delta": piece, "logprobs": []});
                tell(&mut frames, "response.output_text.delta", of(delta));
            }
            frames.push(Frame::Pause);
            let text = json!({"content_index": 0, "text": plan.text, "logprobs": []});
            tell(&mut frames, "response.output_text.done", of(text));
            let part = part(&plan.text);
            tell(
                &mut frames,
                "response.content_part.done",
                of(json!({"content_index": 0, "part": part})),
            );
        } else {
            let (key, delta, end) = if item["type"] == "custom_tool_call" {
                (
                    "input",
                    "response.custom_tool_call_input.delta",
                    "response.custom_tool_call_input.done",
                )
            } else {
                (
                    "arguments",
                    "response.function_call_arguments.delta",
                    "response.function_call_arguments.done",
                )
            };
            opened[key] = "".into();
            tell(
                &mut frames,
                "response.output_item.added",
                of(json!({"item": opened})),
            );
            tell(&mut frames, delta, of(json!({"delta": item[key]})));
            let mut all = of(json!({}));
            all[key] = item[key].clone();
            tell(&mut frames, end, all);
        }
        tell(
            &mut frames,
            "response.output_item.done",
            of(json!({"item": item})),
        );
    }
    tell(&mut frames, "response.completed", json!({"response": done}));
    frames
}

fn message_blocks(plan: &Plan) -> Vec<Value> {
    let mut blocks = vec![json!({"type": "text", "text": plan.text})];
    blocks.extend(plan.call.as_ref().map(|call| {
        json!({"type": "tool_use", "id": id("toolu_"), "name": call.name, "input": call.input})
    }));
    blocks
}

fn message(ask: &Ask, plan: &Plan, blocks: &[Value]) -> Value {
    let (input, output) = plan.usage;
    json!({"id": id("msg_"), "type": "message", "role": "assistant", "model": ask.model, "content": blocks,
        "stop_reason": message_end(plan), "stop_sequence": null,
        "usage": {"input_tokens": input, "output_tokens": output, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0}})
}

fn message_end(plan: &Plan) -> &'static str {
    if plan.call.is_some() {
        "tool_use"
    } else {
        "end_turn"
    }
}

fn message_stream(ask: &Ask, plan: &Plan) -> Vec<Frame> {
    let tell = |name: &'static str, mut data: Value| {
        data["type"] = name.into();
        Frame::Event(Some(name), data.to_string())
    };
    let blocks = message_blocks(plan);
    let mut begun = message(ask, plan, &[]);
    begun["stop_reason"] = Value::Null;
    begun["usage"]["output_tokens"] = 1.into();
    let mut frames = vec![tell("message_start", json!({"message": begun}))];
    for (index, block) in blocks.iter().enumerate() {
        let mut opened = block.clone();
        let said = block["type"] == "text";
        if said {
            opened["text"] = "".into()
        } else {
            opened["input"] = json!({})
        }
        frames.push(tell(
            "content_block_start",
            json!({"index": index, "content_block": opened}),
        ));
        let delta = |delta: Value| {
            tell(
                "content_block_delta",
                json!({"index": index, "delta": delta}),
            )
        };
        if said {
            let piece = |text: &str| delta(json!({"type": "text_delta", "text": text}));
            frames.extend(pieces(&plan.text).map(piece));
            frames.push(Frame::Pause);
        } else {
            let input = input_text(&block["input"]);
            frames.push(delta(
                json!({"type": "input_json_delta", "partial_json": input}),
            ));
        }
        frames.push(tell("content_block_stop", json!({"index": index})));
    }
    let end = json!({"delta": {"stop_reason": message_end(plan), "stop_sequence": null},
        "usage": {"output_tokens": plan.usage.1}});
    frames.push(tell("message_delta", end));
    frames.push(tell("message_stop", json!({})));
    frames
}

fn gemini_parts(plan: &Plan) -> Vec<Value> {
    let mut parts = vec![json!({"text": plan.text})];
    parts.extend(plan.call.as_ref().map(
        |call| json!({"functionCall": {"id": id("call_"), "name": call.name, "args": call.input}}),
    ));
    parts
}

fn gemini(ask: &Ask, plan: &Plan, parts: &[Value], last: bool) -> Value {
    let (input, output) = plan.usage;
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if last {
        candidate["finishReason"] = "STOP".into();
    }
    json!({"candidates": [candidate], "modelVersion": ask.model, "responseId": id("r"),
        "usageMetadata": {"promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output}})
}
