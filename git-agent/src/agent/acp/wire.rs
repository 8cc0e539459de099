//! The messages of JSON-RPC 2.0, one per line. Parsing is lenient: agents differ in detail, and that must not be fatal.

use serde_json::{Value, json};

use crate::agent::driver::{Trouble, TroubleKind};
use crate::agent::stream::bounded_json;

/// JSON-RPC's code for an invalid message.
pub const INVALID_REQUEST: i64 = -32600;
/// JSON-RPC's code for an unknown method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC's code for an internal error.
pub const INTERNAL_ERROR: i64 = -32603;
/// The protocol's code for a missing authentication.
pub const AUTH_REQUIRED: i64 = -32000;

/// A message from the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// The answer to a request of ours.
    Response {
        /// The request's id.
        id: Value,
        /// The result, or the error.
        result: Result<Value, Fault>,
    },
    /// A request to us.
    Request {
        /// The id to repeat in the answer; a number or a string.
        id: Value,
        method: String,
        /// The parameters.
        params: Value,
    },
    Notification {
        method: String,
        /// The parameters.
        params: Value,
    },
    /// A message that cannot be parsed, with the parts that are known.
    Broken {
        /// The request's id.
        id: Value,
        /// The method; `None` for an answer.
        method: Option<String>,
    },
    /// JSON that is not a message.
    Odd(Value),
    /// Not JSON.
    Noise,
}

/// Why a request failed, in the agent's words.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// JSON-RPC's code, or sometimes an HTTP status.
    pub code: i64,
    /// The error message.
    pub message: String,
    /// Details.
    pub data: Value,
}

impl Fault {
    fn from_json(error: &Value) -> Self {
        Fault {
            code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
            message: match error.get("message").and_then(Value::as_str) {
                Some(message) => message.to_owned(),
                None => error.to_string(),
            },
            data: error.get("data").cloned().unwrap_or(Value::Null),
        }
    }

    /// Returns message and details as one text.
    pub fn text(&self) -> String {
        let message = words_in(&self.message);
        let details = match &self.data {
            Value::String(text) => text.as_str(),
            data => ["details", "message", "error"]
                .iter()
                .find_map(|key| data.get(*key)?.as_str())
                .unwrap_or_default(),
        };
        let details = words_in(details);
        if details.is_empty() || message.contains(&details) {
            message
        } else {
            format!("{message}: {details}")
        }
    }

    pub fn trouble(&self) -> Trouble {
        let text = self.text();
        let by_code = match self.code {
            AUTH_REQUIRED => Some(TroubleKind::Auth),
            code => u64::try_from(code).ok().and_then(TroubleKind::from_status),
        };
        let kind = by_code
            .or_else(|| TroubleKind::from_words(&format!("error {} {}", self.message, self.data)))
            .unwrap_or(match self.code {
                METHOD_NOT_FOUND | INVALID_REQUEST | -32602 | -32700 => TroubleKind::Protocol,
                _ => TroubleKind::Other,
            });
        Trouble::new(kind, text)
    }
}

/// Returns the message in a text that may be a provider's whole answer in JSON.
fn words_in(account: &str) -> String {
    let account = account.trim();
    let inner = bounded_json::parse_whole(account).and_then(|json| {
        let message = json
            .pointer("/error/message")
            .or_else(|| json.get("message"))?;
        message.as_str().map(ToOwned::to_owned)
    });
    inner.unwrap_or_else(|| account.to_owned())
}

/// Parses a line.
pub fn parse(line: &[u8]) -> Message {
    // An invalid character inside a text must not cost the whole message.
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return Message::Noise;
    }
    let Some(mut value) = bounded_json::parse(text) else {
        // One side may wait for it, or for its answer.
        return match parse_head(line) {
            (Some(id), method) => Message::Broken { id, method },
            (None, _) => Message::Noise,
        };
    };
    let Some(fields) = value.as_object_mut() else {
        return Message::Odd(value);
    };
    let method = fields
        .get("method")
        .and_then(Value::as_str)
        .map(ToOwned::to_owned);
    let id = fields.get("id").filter(|id| !id.is_null()).cloned();
    let params = fields.remove("params").unwrap_or(Value::Null);
    match (method, id) {
        (Some(method), Some(id)) => Message::Request { id, method, params },
        (Some(method), None) => Message::Notification { method, params },
        (None, Some(id)) => {
            let result = match fields.get("error").filter(|error| !error.is_null()) {
                Some(error) => Err(Fault::from_json(error)),
                None => Ok(fields.remove("result").unwrap_or(Value::Null)),
            };
            Message::Response { id, result }
        }
        (None, None) => Message::Odd(value),
    }
}

/// Parses the known part of a truncated message: its id and its method, if they came early enough.
pub fn parse_head(line: &[u8]) -> (Option<Value>, Option<String>) {
    let text = String::from_utf8_lossy(line);
    let member = |name: &str| -> Option<Value> {
        let start = top_level_value(&text, name)?;
        serde_json::Deserializer::from_str(start)
            .into_iter::<Value>()
            .next()?
            .ok()
            .filter(|value| value.is_string() || value.is_number())
    };
    let method = member("method").and_then(|method| method.as_str().map(ToOwned::to_owned));
    (member("id"), method)
}

/// Returns the text that begins with the value of a member of the outermost object.
fn top_level_value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut depth = 0;
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}', '[', ']', '"']) {
        match rest.as_bytes()[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {
                let string = &rest[at..];
                let mut strings = serde_json::Deserializer::from_str(string).into_iter::<String>();
                let read = strings.next()?.ok()?;
                let after = &string[strings.byte_offset()..];
                if depth == 1
                    && read == name
                    && let Some(value) = after.trim_start().strip_prefix(':')
                {
                    return Some(value);
                }
                rest = after;
                continue;
            }
        }
        rest = &rest[at + 1..];
    }
    None
}

/// Returns whether an id in an answer is ours: some agents return numbers as strings.
pub fn same_id(ours: u64, theirs: &Value) -> bool {
    theirs.as_u64() == Some(ours) || theirs.as_str().is_some_and(|text| text.parse() == Ok(ours))
}

pub fn id_text(id: &Value) -> String {
    match id {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Writes a request.
pub fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// Writes a notification.
pub fn notification(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// Writes an answer.
pub fn answer(id: &Value, result: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Writes a refusal.
pub fn refusal(id: &Value, code: i64, message: &str) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let response = parse(br#"{"jsonrpc":"2.0","id":"3","result":{"a":1}}"#);
        assert_eq!(
            response,
            Message::Response {
                id: json!("3"),
                result: Ok(json!({"a": 1}))
            }
        );
        assert!(matches!(
            parse(br#"{"id":3,"error":null,"result":null}"#),
            Message::Response {
                result: Ok(Value::Null),
                ..
            }
        ));
        assert!(matches!(
            parse(br#"{"id":"x","method":"m"}"#),
            Message::Request { .. }
        ));
        assert!(matches!(
            parse(br#"{"method":"m","id":null,"params":[]}"#),
            Message::Notification { .. }
        ));
        for odd in [&b"{}"[..], b"[]", b"[{\"id\":1}]"] {
            assert!(matches!(parse(odd), Message::Odd(_)));
        }
        for noise in [
            &b""[..],
            b"hello",
            b"{",
            b"7",
            b"\"x\"",
            b"{\"id\":",
            b"{\"result\":{\"id\":1",
            b"\xff",
        ] {
            assert_eq!(parse(noise), Message::Noise);
        }
        assert!(matches!(
            parse(b"{\"method\":\"m\",\"params\":\"a\xffb\"}"),
            Message::Notification { params: Value::String(text), .. } if text == "a\u{fffd}b"
        ));
    }

    #[test]
    fn a_message_that_cannot_be_read_still_tells_whose_it_is() {
        let deep = format!("{{\"id\":4,\"result\":{}", "[".repeat(100_000));
        let broken = |method: Option<&str>| Message::Broken {
            id: json!(4),
            method: method.map(ToOwned::to_owned),
        };
        assert_eq!(parse(deep.as_bytes()), broken(None));
        assert_eq!(
            parse(br#"{"id":4,"method":"m","params":{"#),
            broken(Some("m"))
        );
    }

    #[test]
    fn faults_are_understood() {
        let trouble = |json: Value| Fault::from_json(&json).trouble();
        for (error, kind) in [
            (
                json!({"code": -32000, "message": "Authentication required"}),
                TroubleKind::Auth,
            ),
            (json!({"code": 401, "message": "nope"}), TroubleKind::Auth),
            (
                json!({"code": -32603, "message": "Internal error", "data": {"details": "statusCode 429: Too Many Requests"}}),
                TroubleKind::RateLimit,
            ),
            (
                json!({"code": -32601, "message": "Method not found"}),
                TroubleKind::Protocol,
            ),
            (
                json!({"code": -32603, "message": "Internal error"}),
                TroubleKind::Other,
            ),
            (json!("oops"), TroubleKind::Other),
        ] {
            assert_eq!(trouble(error.clone()).kind, kind, "{error}");
        }
        assert_eq!(
            trouble(json!({"code": 1, "message": "a", "data": "b"})).text,
            "a: b"
        );
        let nested = r#"{"type":"error","error":{"message":"bad key","code":401}}"#;
        assert_eq!(
            trouble(json!({"code": 401, "message": nested})).text,
            "bad key"
        );
    }

    #[test]
    fn the_head_of_a_cut_message_tells_what_it_was() {
        let head = |text: &str| parse_head(text.as_bytes());
        assert_eq!(
            head(r#"{"jsonrpc":"2.0","id":7,"result":{"id":9,"method":"x","text":"aaa"#),
            (Some(json!(7)), None)
        );
        assert_eq!(
            head(r#"{"method":"session/update","params":{"id":"no","x":["\"id\":1"#),
            (None, Some("session/update".into()))
        );
        assert_eq!(
            head(r#"{"id":"a b","method":"m","params":"#).0,
            Some(json!("a b"))
        );
        for nothing in [
            "",
            "{",
            "\"id\":1",
            "[{\"id\":1",
            "{\"id",
            "{\"id\":",
            "}}}{",
        ] {
            assert_eq!(head(nothing), (None, None), "{nothing}");
        }
    }

    #[test]
    fn ids_come_back_as_numbers_or_strings() {
        assert!(same_id(3, &json!(3)) && same_id(3, &json!("3")) && !same_id(3, &json!("x")));
        assert_eq!(
            (id_text(&json!(3)), id_text(&json!("x"))),
            ("3".into(), "x".into())
        );
    }
}
