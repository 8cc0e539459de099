//! What a client sees of a turn: updates in the Agent Client Protocol, one JSON message per line.

use git_agent::output::json;
use serde_json::{Value, json};

use crate::tools::Action;

/// Writes one message. A client that is gone is noticed at the end of its input.
pub fn send(message: &Value) {
    let _ = json::send_line(message);
}

/// Answers a request.
pub fn answer(id: &Value, result: &Value) {
    send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

/// Refuses a request.
pub fn refuse(id: &Value, code: i64, message: &str) {
    send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
}

/// The updates of one conversation.
#[derive(Debug, Clone)]
pub struct Screen {
    /// The conversation's id.
    pub session: String,
}

impl Screen {
    fn update(&self, update: Value) {
        let params = json!({"sessionId": self.session, "update": update});
        send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }

    /// Shows a piece of the answer with this number.
    pub fn text(&self, number: u64, text: &str) {
        self.chunk("agent_message_chunk", number, text);
    }

    /// Shows a thought.
    pub fn thought(&self, number: u64, text: &str) {
        self.chunk("agent_thought_chunk", number, text);
    }

    /// Shows an earlier prompt.
    pub fn prompt(&self, text: &str) {
        self.chunk("user_message_chunk", 0, text);
    }

    fn chunk(&self, kind: &str, number: u64, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.update(
            json!({"sessionUpdate": kind, "messageId": format!("m{number}"), "content": content}),
        );
    }

    /// Reports the tokens of one request, and the price of the conversation if the provider says it.
    pub fn usage(
        &self,
        number: u64,
        (input, output): (u64, u64),
        cost: Option<f64>,
        (used, size): (u64, u64),
    ) {
        let content = json!({"type": "text", "text": ""});
        self.update(json!({"sessionUpdate": "agent_message_chunk", "messageId": format!("m{number}"), "content": content,
            "_meta": {"usage": {"inputTokens": input, "outputTokens": output}}}));
        let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": size});
        if let Some(cost) = cost {
            update["cost"] = json!({"amount": cost, "currency": "USD"});
        }
        self.update(update);
    }

    /// Shows a plan.
    pub fn plan(&self, steps: &[(String, String)]) {
        let entries: Vec<Value> = steps
            .iter()
            .map(|(text, status)| json!({"content": text, "status": status, "priority": "medium"}))
            .collect();
        self.update(json!({"sessionUpdate": "plan", "entries": entries}));
    }

    /// Shows that a call begins.
    pub fn begin(&self, call: &Value) {
        let mut update = call.clone();
        update["sessionUpdate"] = "tool_call".into();
        update["status"] = "in_progress".into();
        self.update(update);
    }

    /// Shows how a call ended.
    pub fn end(&self, id: &str, content: Value, failed: bool) {
        let status = if failed { "failed" } else { "completed" };
        self.update(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
            "content": [content]}),
        );
    }
}

/// Returns a call in the protocol's form.
pub fn call(id: &str, action: &Action, input: &Value) -> Value {
    let mut call = json!({"toolCallId": id, "title": action.title(), "kind": action.kind(), "rawInput": input});
    if let Action::Edit(edit) = action {
        call["locations"] = json!([{"path": edit.path}]);
    }
    call
}

/// Returns text as the content of a call.
pub fn text_content(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// Returns a change as the content of a call.
pub fn diff_content(path: &str, before: &str, after: &str) -> Value {
    json!({"type": "diff", "path": path, "oldText": before, "newText": after})
}
