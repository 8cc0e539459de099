//! The permission requests of the agent that speaks the Agent Client Protocol.

use serde_json::{Value, json};

/// Returns a request about a call. A title `edit FILE` brings the change, and has the option for ever first.
pub fn permission(id: &Value, session: &str, call: &str, title: &str) -> Value {
    let mut told = json!({"toolCallId": call, "title": title, "kind": "execute"});
    let mut options = vec![
        json!({"optionId": "yes", "name": "Allow", "kind": "allow_once"}),
        json!({"optionId": "always", "name": "Always allow", "kind": "allow_always"}),
        json!({"optionId": "no", "name": "Reject", "kind": "reject_once"}),
    ];
    if let Some(path) = title.strip_prefix("edit ") {
        told["kind"] = "edit".into();
        told["content"] = json!([
            {"type": "diff", "path": path, "oldText": "one\ntwo\n", "newText": "one\nTWO\n"}
        ]);
        options.rotate_left(1);
    }
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission",
        "params": {"sessionId": session, "toolCall": told, "options": options}})
}
