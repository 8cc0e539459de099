//! Counts the usage of a turn, message by message, so that a budget can end a running turn.

use std::collections::VecDeque;

use serde_json::Value;

use crate::model::session::Usage;

/// How many messages are remembered: a message comes in several lines, and each has the figures of the whole message.
const REMEMBERED: usize = 64;

/// Input and output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Tokens {
    input: u64,
    output: u64,
}

/// The usage of a turn's messages.
#[derive(Debug, Default)]
pub struct Spending {
    total: Tokens,
    messages: VecDeque<(String, Tokens)>,
    /// The message that comes in pieces and has its figures at the end.
    begun: Option<String>,
    /// The last reported usage.
    told: Option<Usage>,
}

impl Spending {
    /// Handles the beginning of a message that comes in pieces.
    pub fn begin(&mut self, message: &Value) {
        self.begun = message["id"].as_str().map(ToOwned::to_owned);
        // An agent without figures here sends them with the whole message.
        self.begun.take_if(|_| !message["usage"].is_object());
        if let Some(id) = self.begun.clone() {
            self.note(&id, &message["usage"]);
        }
    }

    /// Handles the end of that message. Returns the session's usage if it changed.
    pub fn end(&mut self, event: &Value, used: Usage) -> Option<Usage> {
        let id = self.begun.take()?;
        self.note(&id, &event["usage"]);
        self.news(used)
    }

    /// Handles a whole message or a part of one. Returns the session's usage if it changed.
    pub fn message(&mut self, message: &Value, used: Usage) -> Option<Usage> {
        let id = message["id"].as_str()?;
        self.note(id, &message["usage"]);
        if self.begun.as_deref() == Some(id) {
            None
        } else {
            self.news(used)
        }
    }

    /// Handles a result, whose figures are those of the whole turn. Returns the session's usage if it changed.
    pub fn result(&mut self, message: &Value, used: Usage) -> Option<Usage> {
        let tokens = Tokens::read(&message["usage"]);
        // An interrupted turn may have no figures.
        if tokens != Tokens::default() {
            self.total = tokens;
        }
        let mut usage = self.usage(used);
        // The total counts the whole conversation, also its part before a resume; the other figure counts only this
        // run.
        let run = message["model_usage_since_last_result"]
            .as_object()
            .map(|models| {
                let costs = models
                    .values()
                    .filter_map(|model| model["costUSD"].as_f64());
                used.cost_usd.unwrap_or(0.0) + costs.sum::<f64>()
            });
        let total = message["total_cost_usd"].as_f64();
        let cost = run.or(total.map(|total| total.max(used.cost_usd.unwrap_or(0.0))));
        usage.cost_usd = cost.filter(|cost| *cost > 0.0).or(used.cost_usd);
        self.tell(usage, used)
    }

    /// Adds the new part of a message's figures.
    fn note(&mut self, id: &str, figures: &Value) {
        let told = Tokens::read(figures);
        let known = self.messages.iter_mut().find(|(known, _)| known == id);
        let before = known
            .as_ref()
            .map_or(Tokens::default(), |(_, known)| *known);
        let now = Tokens {
            input: told.input.max(before.input),
            output: told.output.max(before.output),
        };
        match known {
            Some((_, known)) => *known = now,
            None => {
                self.messages.truncate(REMEMBERED - 1);
                self.messages.push_front((id.to_owned(), now));
            }
        }
        self.total.input = self.total.input.saturating_add(now.input - before.input);
        self.total.output = self.total.output.saturating_add(now.output - before.output);
    }

    fn news(&mut self, used: Usage) -> Option<Usage> {
        self.tell(self.usage(used), used)
    }

    fn tell(&mut self, usage: Usage, used: Usage) -> Option<Usage> {
        let before = self.told.unwrap_or(used);
        self.told = Some(usage);
        (usage != before).then_some(usage)
    }

    /// Returns the session's usage with this turn.
    fn usage(&self, used: Usage) -> Usage {
        if self.total == Tokens::default() {
            return used;
        }
        let sum = |before: Option<u64>, more: u64| Some(before.unwrap_or(0).saturating_add(more));
        Usage {
            input_tokens: sum(used.input_tokens, self.total.input),
            output_tokens: sum(used.output_tokens, self.total.output),
            ..used
        }
    }
}

impl Tokens {
    fn read(figures: &Value) -> Self {
        let number = |key: &str| figures[key].as_u64().unwrap_or(0);
        let input = [
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ];
        Tokens {
            input: input.into_iter().map(number).fold(0, u64::saturating_add),
            output: number("output_tokens"),
        }
    }
}
