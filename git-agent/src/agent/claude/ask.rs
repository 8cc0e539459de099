//! Requests of the agent: to use a tool, or to answer questions.

use serde_json::{Map, Value, json};

use crate::agent::stream::asked;
use crate::agent::stream::tools::kind_of_tool;
use crate::model::event::{Body, Choice};
use crate::model::event_words::{ChoiceKind, RequestKind, ToolKind};

/// The tool with which the agent asks questions.
const QUESTIONS: [&str; 2] = ["AskUserQuestion", "ask_user_question"];

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Request {
    id: Value,
    tool: String,
    input: Value,
    title: String,
    /// The answers so far, by question.
    answers: Map<String, Value>,
}

impl Request {
    /// Parses a request; `None` if its kind is unknown.
    pub fn from_message(message: &Value) -> Option<Self> {
        let request = &message["request"];
        if request["subtype"] != "can_use_tool" {
            return None;
        }
        let tool = request["tool_name"].as_str().unwrap_or("tool").to_owned();
        let input = request["input"].clone();
        let about = [
            "command",
            "file_path",
            "notebook_path",
            "url",
            "query",
            "pattern",
        ]
        .iter()
        .find_map(|key| input.get(*key)?.as_str())
        .or_else(|| request["description"].as_str());
        let title = match about {
            Some(about) => format!("{tool}: {about}"),
            None => tool.clone(),
        };
        Some(Request {
            id: message["request_id"].clone(),
            tool,
            input,
            title,
            answers: Map::new(),
        })
    }

    /// Returns whether the request has this id.
    pub fn is(&self, id: &Value) -> bool {
        self.id == *id
    }

    /// Returns whether the agent asks a question, and not for permission.
    pub fn is_question(&self) -> bool {
        QUESTIONS.contains(&self.tool.as_str()) && self.open_question().is_some()
    }

    /// Returns whether the requested action changes nothing.
    pub fn is_harmless(&self) -> bool {
        matches!(
            kind_of_tool(&self.tool),
            ToolKind::Read | ToolKind::Search | ToolKind::Fetch
        ) || self.is_question()
    }

    /// Returns the event for the request.
    pub fn question(&self, name: &str) -> Body {
        let (kind, title, options) = match self.open_question().filter(|_| self.is_question()) {
            Some(question) => {
                let options = question["options"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|option| option["label"].as_str())
                    .map(|label| choice(label, label, ChoiceKind::Unnamed))
                    .collect();
                (RequestKind::Question, text_of(question).to_owned(), options)
            }
            None => {
                let options = vec![
                    choice("allow", "Allow", ChoiceKind::AllowOnce),
                    choice("deny", "Deny", ChoiceKind::RejectOnce),
                ];
                (RequestKind::Permission, self.title.clone(), options)
            }
        };
        let detail = match kind {
            RequestKind::Permission => asked::detail(&self.input, &Value::Null),
            _ => String::new(),
        };
        Body::Permission {
            request: name.to_owned(),
            kind,
            title,
            options,
            detail,
        }
    }

    /// Handles the user's answer. Returns the message to send, or `None` if the request must be shown again.
    pub fn answer(&mut self, answer: &str) -> Option<Value> {
        let answer = answer.trim();
        if self.is_question() {
            if matches!(answer, "reject_once" | "reject_always") {
                return Some(self.denied());
            }
            if answer.is_empty() {
                return None;
            }
            let question = text_of(self.open_question()?).to_owned();
            self.answers.insert(question, answer.into());
            return self.open_question().is_none().then(|| self.allowed());
        }
        match answer.to_ascii_lowercase().as_str() {
            "allow" | "allow_once" | "allow_always" | "y" | "yes" | "ok" => Some(self.allowed()),
            "deny" | "reject" | "reject_once" | "reject_always" | "n" | "no" => Some(self.denied()),
            _ => None,
        }
    }

    /// Returns the message that allows the request.
    pub fn allowed(&self) -> Value {
        let mut input = self.input.clone();
        if let (false, Some(fields)) = (self.answers.is_empty(), input.as_object_mut()) {
            fields.insert("answers".to_owned(), Value::Object(self.answers.clone()));
        }
        self.response(json!({"behavior": "allow", "updatedInput": input}))
    }

    /// Returns the message that refuses the request.
    pub fn denied(&self) -> Value {
        let words = if self.is_question() {
            "The user is not available: decide yourself."
        } else {
            "This is not allowed here."
        };
        self.response(json!({"behavior": "deny", "message": words}))
    }

    fn response(&self, response: Value) -> Value {
        json!({"type": "control_response", "response":
            {"subtype": "success", "request_id": self.id, "response": response}})
    }

    /// Returns the first question without an answer.
    fn open_question(&self) -> Option<&Value> {
        self.input["questions"].as_array()?.iter().find(|question| {
            !text_of(question).is_empty() && !self.answers.contains_key(text_of(question))
        })
    }
}

fn text_of(question: &Value) -> &str {
    question["question"].as_str().unwrap_or_default()
}

fn choice(id: &str, label: &str, kind: ChoiceKind) -> Choice {
    Choice {
        id: id.to_owned(),
        label: label.to_owned(),
        kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_asked_one_after_the_other() {
        let message = json!({"request_id": "r", "request": {"subtype": "can_use_tool", "tool_name": "AskUserQuestion",
            "input": {"questions": [
                {"question": "Colour?", "options": [{"label": "red"}, {"label": "blue"}]},
                {"question": "Size?", "options": []}]}}});
        let mut request = Request::from_message(&message).expect("a request");
        let Body::Permission {
            kind,
            title,
            options,
            ..
        } = request.question("1.1")
        else {
            panic!("a question")
        };
        assert_eq!(
            (kind.as_str(), title.as_str(), options.len()),
            ("question", "Colour?", 2)
        );
        assert!(request.answer("").is_none());
        assert!(request.answer("red").is_none());
        let answer = request.answer("large, please").expect("all is answered");
        let answers = &answer["response"]["response"]["updatedInput"]["answers"];
        assert_eq!(
            answers,
            &json!({"Colour?": "red", "Size?": "large, please"})
        );
    }

    #[test]
    fn what_is_asked_is_named() {
        let message = json!({"request_id": "r", "request": {"subtype": "can_use_tool", "tool_name": "Bash",
            "input": {"command": "rm x"}, "description": "remove x"}});
        let mut request = Request::from_message(&message).expect("a request");
        let Body::Permission { title, detail, .. } = request.question("1.1") else {
            panic!("a request")
        };
        assert_eq!((title.as_str(), detail.as_str()), ("Bash: rm x", "$ rm x"));
        assert!(!request.is_harmless() && request.answer("hm").is_none());
        let denied = request.answer("no").expect("an answer");
        assert_eq!(denied["response"]["response"]["behavior"], "deny");
        assert!(Request::from_message(&json!({"request": {"subtype": "hook_callback"}})).is_none());
    }
}
