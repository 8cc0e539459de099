//! What can go wrong with a request, in words that the driver classifies, and what a retry helps against.

use serde_json::Value;

/// The longest message of a provider that is passed on.
const LONGEST: usize = 1_000;

/// Where a failure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// The provider's answer, or this program.
    #[default]
    Request,
    /// There was no connection.
    Connection,
    /// No provider can be used.
    NoProvider,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failure {
    /// Where it comes from.
    pub origin: Origin,
    /// The HTTP status; 0 if there is none.
    pub status: u16,
    /// The message.
    pub message: String,
    /// Seconds after which the provider accepts requests again.
    pub retry_after: Option<u64>,
}

impl Failure {
    /// Returns a failure without an answer of the provider.
    pub fn new(message: impl Into<String>) -> Self {
        Failure {
            message: message.into(),
            ..Failure::default()
        }
    }

    /// Returns the failure to connect to a provider.
    pub fn connection(message: impl Into<String>) -> Self {
        Failure {
            origin: Origin::Connection,
            ..Failure::new(message)
        }
    }

    /// Returns the failure in a provider's answer.
    pub fn from_body(status: u16, body: &Value) -> Self {
        let error = body.get("error").unwrap_or(body);
        let message = error["message"].as_str().or_else(|| error.as_str());
        let kind = error["type"].as_str().or_else(|| error["code"].as_str());
        let mut message = match (message, kind) {
            (Some(message), Some(kind)) if !message.contains(kind) => format!("{kind}: {message}"),
            (Some(message), _) => message.to_owned(),
            (None, Some(kind)) => kind.to_owned(),
            (None, None) => "no reason given".to_owned(),
        };
        let end = message.floor_char_boundary(LONGEST);
        message.truncate(end);
        Failure {
            status: match status {
                0 => status_of(kind.unwrap_or_default()),
                status => status,
            },
            ..Failure::new(message)
        }
    }

    /// Returns the failure in an answer that may not be JSON, such as a login page.
    pub fn from_answer(status: u16, body: &[u8], retry_after: Option<u64>) -> Self {
        let failure = match serde_json::from_slice(body) {
            Ok(body) => Failure::from_body(status, &body),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                let line = text.lines().find(|line| !line.trim().is_empty());
                let line: String = line
                    .unwrap_or("no reason given")
                    .chars()
                    .take(200)
                    .collect();
                Failure {
                    status,
                    ..Failure::new(line.trim())
                }
            }
        };
        Failure {
            retry_after,
            ..failure
        }
    }

    /// Returns whether the same request may succeed in a moment. A limit is not among these: all sessions of the
    /// provider must wait for it, and their supervisors see to that.
    pub fn is_passing(&self) -> bool {
        matches!(self.status, 500 | 502 | 503 | 504) || self.origin == Origin::Connection
    }

    /// Returns whether the conversation is too long for the model.
    pub fn is_overflow(&self) -> bool {
        let text = self.message.to_ascii_lowercase();
        let words = [
            "too long",
            "context length",
            "context window",
            "maximum context",
            "too many tokens",
        ];
        self.status == 413 || words.iter().any(|word| text.contains(word))
    }

    /// Returns whether the server does not know tools for this model.
    pub fn is_without_tools(&self) -> bool {
        let text = self.message.to_ascii_lowercase();
        self.status == 400 && text.contains("support") && text.contains("tool")
    }

    /// Returns the words for the user, with the model in question.
    pub fn words(&self, model: &str) -> String {
        let status = match self.status {
            0 => String::new(),
            status => format!(" (HTTP status {status})"),
        };
        let wait = match self.retry_after {
            Some(seconds) => format!("; retry after {seconds} s"),
            None => String::new(),
        };
        format!("{model}: {}{status}{wait}", self.message)
    }
}

/// Returns the status that an error inside a stream stands for.
fn status_of(kind: &str) -> u16 {
    match kind {
        "overloaded_error" => 529,
        "rate_limit_error" | "rate_limit_exceeded" => 429,
        "authentication_error" | "permission_error" => 401,
        "api_error" | "server_error" => 500,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_error_has_words() {
        for (body, words) in [
            (
                r#"{"error":{"message":"bad key","type":"authentication_error"}}"#,
                "authentication_error: bad key",
            ),
            (r#"{"error":"model 'x' not found"}"#, "model 'x' not found"),
            (r#"{"message":"no"}"#, "no"),
            ("<html>\n <b>Log in</b>", "<html>"),
            ("", "no reason given"),
        ] {
            assert_eq!(
                Failure::from_answer(400, body.as_bytes(), None).message,
                words
            );
        }
        let limit = Failure::from_answer(429, b"{}", Some(17));
        assert_eq!(
            limit.words("a/b"),
            "a/b: no reason given (HTTP status 429); retry after 17 s"
        );
        assert!(
            !limit.is_passing()
                && Failure {
                    status: 503,
                    ..limit
                }
                .is_passing()
        );
    }

    #[test]
    fn errors_inside_a_stream_have_a_status() {
        let event = serde_json::json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
        assert_eq!(Failure::from_body(0, &event).status, 529);
        assert!(Failure::new("prompt is too long: 210000 tokens").is_overflow());
    }
}
