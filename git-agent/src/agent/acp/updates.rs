//! Handles the agent's reports about its work: text, thoughts, tool calls, plans, and usage.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::acp::dialogue::{AFTERMATH, Dialogue, Halt};
use crate::agent::acp::{raw, wire};
use crate::agent::catalog::spec::Tokens;
use crate::agent::stream::text::Voice;
use crate::agent::stream::usage::{Figures, Noted};
use crate::error::Result;
use crate::model::event::{Body, PlanEntry};

/// How long an agent may take to write the usage file after the end of a turn.
const NOTED: Duration = Duration::from_secs(2);

impl Dialogue<'_> {
    pub(super) fn update(&mut self, update: &Value) -> Result<()> {
        let kind = update
            .get("sessionUpdate")
            .and_then(Value::as_str)
            .unwrap_or_default();
        match kind {
            "agent_message_chunk" => self.chunk(Voice::Assistant, update),
            "agent_thought_chunk" => self.chunk(Voice::Reasoning, update),
            "tool_call" | "tool_call_update" => {
                self.setback = None;
                self.text.pause(self.link)?;
                self.calls.update(update, &self.turn.worktree, self.link)
            }
            "plan" | "plan_update" => {
                self.text.pause(self.link)?;
                let entries = update
                    .get("entries")
                    .or_else(|| update.get("plan")?.get("entries"));
                match entries.and_then(Value::as_array) {
                    Some(entries) => self.link.event(Body::Plan {
                        entries: entries.iter().filter_map(plan_entry).collect(),
                    }),
                    None => self.link.event(raw(update)),
                }
            }
            "usage_update" => {
                // Text continues after it, so it must not end the message.
                let cost = update.get("cost");
                let dollars = cost
                    .filter(|cost| cost.get("currency").is_none_or(|unit| unit == "USD"))
                    .and_then(|cost| cost.get("amount")?.as_f64());
                self.note_usage(None, dollars)
            }
            // Our own messages, and menus for an editor.
            "user_message_chunk"
            | "available_commands_update"
            | "config_option_update"
            | "session_info_update" => Ok(()),
            _ => self.keep(update),
        }
    }

    fn chunk(&mut self, voice: Voice, update: &Value) -> Result<()> {
        self.setback = None;
        let content = update.get("content").unwrap_or(&Value::Null);
        let Some(text) = content.get("text").and_then(Value::as_str) else {
            return self.keep(update);
        };
        if let Some((input, output)) = tokens_in(update) {
            // Figures of one request, sent with its last piece of text.
            self.requests.0 = self.requests.0.saturating_add(input);
            self.requests.1 = self.requests.1.saturating_add(output);
            self.note_usage(Some(self.requests), None)?;
        }
        let message = update.get("messageId").map(wire::id_text);
        if message.is_some() && self.message != message {
            self.text.pause(self.link)?;
            self.message = message;
        }
        self.text.push(voice, text, self.link)
    }

    /// Returns the usage in the agent's file, if it reports it only there.
    pub(super) fn noted(&self) -> Option<Noted> {
        let environment = &self.turn.environment;
        self.spec.figures.noted(environment, self.conversation())
    }

    /// Records the turn's usage from the agent's file, after waiting a moment for it.
    pub(super) fn take_noted(&mut self, before: Option<Noted>) -> Result<(), Halt> {
        if self.spec.figures != Figures::Cline {
            return Ok(());
        }
        let patience = Instant::now() + NOTED;
        loop {
            if let Some(now) = self.noted().filter(|now| Some(*now) != before) {
                let before = before.unwrap_or_default();
                let input = now.input.saturating_sub(before.input);
                let output = now.output.saturating_sub(before.output);
                self.note_usage(Some((input, output)), Some(now.cost))?;
                return Ok(());
            }
            let moment = Instant::now();
            if moment >= patience {
                return Ok(());
            }
            match self.wait(Some(moment + AFTERMATH)) {
                Err(Halt::Exited(..)) => return Ok(()),
                Err(halt) => return Err(halt),
                Ok(_) => {}
            }
        }
    }

    /// Records figures if they are new.
    pub(super) fn note_usage(
        &mut self,
        tokens: Option<(u64, u64)>,
        cost: Option<f64>,
    ) -> Result<()> {
        let mut usage = self.usage;
        // Zeros before the first request are not figures.
        let cost = cost.filter(|cost| *cost > 0.0);
        if let Some((input, output)) = tokens.filter(|tokens| *tokens != (0, 0)) {
            let before = match self.spec.tokens {
                Tokens::Process => self.peer.used_before,
                Tokens::Turn | Tokens::LastRequest => self.turn.used,
            };
            usage.input_tokens = Some(before.input_tokens.unwrap_or(0).saturating_add(input));
            usage.output_tokens = Some(before.output_tokens.unwrap_or(0).saturating_add(output));
        }
        if let Some(cost) = cost {
            let total = self.peer.cost_before + cost;
            usage.cost_usd = Some(total.max(self.usage.cost_usd.unwrap_or(0.0)));
        }
        if usage == self.usage {
            return Ok(());
        }
        self.usage = usage;
        self.link.event(Body::Usage { usage })
    }
}

fn plan_entry(entry: &Value) -> Option<PlanEntry> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    Some(PlanEntry {
        text: text("content")?.to_owned(),
        status: text("status").unwrap_or("pending").into(),
    })
}

/// Finds the input and output tokens in the answer to a prompt; agents put them in different places.
pub(super) fn tokens_in(result: &Value) -> Option<(u64, u64)> {
    let number = |value: &Value, names: [&str; 2]| {
        names
            .iter()
            .find_map(|name| value.get(*name).and_then(Value::as_u64))
    };
    let usage = result
        .get("usage")
        .filter(|usage| usage.is_object())
        .or_else(|| result.pointer("/_meta/quota/token_count"))
        .or_else(|| result.pointer("/_meta/usage"))?;
    let input = number(usage, ["inputTokens", "input_tokens"]);
    let output = number(usage, ["outputTokens", "output_tokens"]);
    Some((input?, output.unwrap_or(0)))
}
