//! Permission requests: the possible answers, and the answer of our policy if the user is not asked.

use serde_json::{Value, json};

use crate::agent::driver::{NOBODY, REFUSALS};
use crate::agent::stream::asked;
use crate::model::event::Choice;

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Request {
    /// The agent's id of the request, which the answer repeats.
    pub id: Value,
    /// The action in question.
    pub title: String,
    /// The possible answers.
    pub options: Vec<Choice>,
    /// The command or the change.
    pub detail: String,
}

impl Request {
    /// Parses a request.
    pub fn from_params(id: Value, params: &Value) -> Self {
        let text = |value: &Value, key: &str| {
            value
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let call = params.get("toolCall").unwrap_or(&Value::Null);
        let options = params
            .get("options")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|option| Choice {
                id: text(option, "optionId"),
                label: match text(option, "name") {
                    name if name.is_empty() => text(option, "optionId"),
                    name => name,
                },
                kind: text(option, "kind").as_str().into(),
            })
            .filter(|choice| !choice.id.is_empty())
            .collect();
        let title = match text(call, "title") {
            title if title.is_empty() => "use a tool".to_owned(),
            title => title,
        };
        let null = Value::Null;
        let part = |key: &str| call.get(key).unwrap_or(&null);
        Request {
            id,
            title,
            options: Choice::in_order(options),
            detail: asked::detail(part("rawInput"), part("content")),
        }
    }

    /// Returns the option that allows, preferably once only.
    pub fn allowing(&self) -> Option<&Choice> {
        self.by_kind("allow_once")
            .or_else(|| self.by_kind("allow_always"))
            .or_else(|| self.options.iter().find(|choice| choice.kind.allows()))
            // Options without kinds usually have the positive answer first.
            .or_else(|| {
                self.options
                    .first()
                    .filter(|choice| choice.kind.is_unnamed())
            })
    }

    /// Returns the option that refuses, preferably once only.
    pub fn refusing(&self) -> Option<&Choice> {
        self.by_kind("reject_once")
            .or_else(|| self.by_kind("reject_always"))
            .or_else(|| self.options.iter().find(|choice| choice.kind.refuses()))
    }

    /// Returns the option that an answer means: an id, a kind, a label, or a plain yes or no.
    pub fn chosen(&self, answer: &str) -> Option<&Choice> {
        let answer = answer.trim();
        self.options
            .iter()
            .find(|choice| choice.id == answer)
            .or_else(|| self.by_kind(answer))
            .or_else(|| {
                self.options
                    .iter()
                    .find(|choice| choice.label.eq_ignore_ascii_case(answer))
            })
            .or_else(|| match answer.to_ascii_lowercase().as_str() {
                "y" | "yes" | "ok" | "allow" => self.allowing(),
                "never" => self.by_kind("reject_always").or_else(|| self.refusing()),
                _ if is_no(answer) => self.refusing(),
                _ => None,
            })
    }

    fn by_kind(&self, kind: &str) -> Option<&Choice> {
        self.options
            .iter()
            .find(|choice| !kind.is_empty() && choice.kind.as_str() == kind)
    }
}

/// Returns whether an answer refuses, whatever the options are.
pub fn is_no(answer: &str) -> bool {
    let answer = answer.trim().to_ascii_lowercase();
    answer == NOBODY || REFUSALS.contains(&answer.as_str())
}

/// Returns the protocol's form of a chosen option; without one, that the request was cancelled.
pub fn outcome(choice: Option<&Choice>) -> Value {
    match choice {
        Some(choice) => json!({"outcome": {"outcome": "selected", "optionId": choice.id}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(options: Value) -> Request {
        Request::from_params(
            json!(0),
            &json!({"toolCall": {"title": "rm -r"}, "options": options}),
        )
    }

    #[test]
    fn answers_are_understood_in_many_forms() {
        let request = request(json!([
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
            {"name": "without an id"},
        ]));
        let chosen = |answer| request.chosen(answer).map(|choice| choice.id.as_str());
        for (answer, id) in [
            ("always", Some("always")),
            ("allow once", Some("once")),
            ("allow_once", Some("once")),
            ("YES", Some("once")),
            ("n", Some("no")),
            ("reject", Some("no")),
            ("Never", Some("no")),
            ("maybe", None),
            ("", None),
        ] {
            assert_eq!(chosen(answer), id, "{answer}");
        }
        let kinds: Vec<&str> = request
            .options
            .iter()
            .map(|one| one.kind.as_str())
            .collect();
        assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
        assert_eq!(request.title, "rm -r");
    }

    #[test]
    fn strange_options_are_survived() {
        let plain = request(json!([{"optionId": "a"}, {"optionId": "b"}]));
        assert_eq!(plain.allowing().map(|choice| choice.id.as_str()), Some("a"));
        assert!(plain.refusing().is_none());
        let none = request(json!("x"));
        assert!(none.allowing().is_none());
        assert_eq!(outcome(None), json!({"outcome": {"outcome": "cancelled"}}));
        let refusing_only = request(json!([{"optionId": "r", "kind": "reject_always"}]));
        assert!(refusing_only.allowing().is_none());
        assert!(refusing_only.refusing().is_some());
    }
}
