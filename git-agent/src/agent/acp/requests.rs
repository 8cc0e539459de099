//! Handles requests of the agent: policy or the user answers permission requests; all others are refused.

use serde_json::{Value, json};

use crate::agent::acp::dialogue::Dialogue;
use crate::agent::acp::permission::{self, Request};
use crate::agent::acp::wire;
use crate::agent::stream::asked;
use crate::error::Result;
use crate::model::event::{Body, Choice};
use crate::model::event_words::{AnsweredBy, RequestKind, ToolKind};

impl Dialogue<'_> {
    pub(super) fn request(&mut self, id: Value, method: &str, params: Value) -> Result<()> {
        if method != "session/request_permission" {
            let message = format!("'{method}' is not offered");
            self.send(&wire::refusal(&id, wire::METHOD_NOT_FOUND, &message))?;
            return self.keep(&json!({"id": id, "method": method, "params": params}));
        }
        self.text.pause(self.link)?;
        let call = params.get("toolCall").unwrap_or(&Value::Null);
        let call_id = call.get("toolCallId").map(wire::id_text);
        self.calls.asked(call, self.link)?;
        let kind = call_id
            .as_deref()
            .and_then(|id| self.calls.kind(id).cloned());
        let mut request = Request::from_params(id, &params);
        // Most agents have told of the call before, and name only its id here.
        if request.detail.is_empty()
            && let Some(input) = call_id.as_deref().and_then(|id| self.calls.input(id))
        {
            request.detail = asked::detail(input, &Value::Null);
        }
        // Agents reuse an id after its answer; a late answer must not match the next question.
        self.peer.asked += 1;
        let name = format!("{}.{}", self.turn.number, self.peer.asked);
        self.link.event(question(&name, &request))?;
        let harmless = matches!(
            kind,
            Some(ToolKind::Read | ToolKind::Search | ToolKind::Fetch)
        );
        if self.cancelled.is_some() {
            return self.decide(&name, &request, None);
        }
        if self.turn.read_only && !harmless {
            self.refused = true;
            return self.decide(&name, &request, request.refusing());
        }
        if !self.turn.ask {
            return self.decide(&name, &request, request.allowing());
        }
        self.asked.insert(name, request);
        Ok(())
    }

    /// Answers by policy.
    fn decide(&mut self, name: &str, request: &Request, choice: Option<&Choice>) -> Result<()> {
        self.link.event(Body::Answer {
            request: name.to_owned(),
            choice: choice.map_or_else(|| "cancelled".to_owned(), |choice| choice.id.clone()),
            by: AnsweredBy::Policy,
        })?;
        self.send(&wire::answer(&request.id, &permission::outcome(choice)))
    }

    /// Passes on the user's answer; if it matches nothing, asks again. A refusal always matches: if no option refuses,
    /// none is chosen.
    pub(super) fn answered(&mut self, name: &str, answer: &str) -> Result<()> {
        let Some(request) = self.asked.remove(name) else {
            return Ok(());
        };
        let choice = request.chosen(answer);
        if choice.is_none() && !permission::is_no(answer) {
            self.link.event(question(name, &request))?;
            self.asked.insert(name.to_owned(), request);
            return Ok(());
        }
        self.refused |= choice.is_none_or(|choice| choice.kind.refuses());
        self.send(&wire::answer(&request.id, &permission::outcome(choice)))
    }
}

fn question(name: &str, request: &Request) -> Body {
    Body::Permission {
        request: name.to_owned(),
        kind: RequestKind::Permission,
        title: request.title.clone(),
        options: request.options.clone(),
        detail: request.detail.clone(),
    }
}
