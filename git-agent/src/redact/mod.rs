//! Redaction: the only way from foreign text to a git object.
//!
//! Everything that an agent says and does is written into git, and git keeps it. So every string passes here first, and
//! the object writer accepts only [`Redacted`] values, which only this room creates.
//!
//! One pass over the text (`scan`) with an automaton of a few hundred short words (`words`) finds every position to
//! examine. Each examination is bounded, so the time is linear for every text. In order of certainty:
//!
//! | layer | file | finds |
//! |---|---|---|
//! | known values | `known` | values of the environment and of `.env` files, in plain, escaped and encoded form |
//! | shapes | `rules` | tokens with a provider's own prefix |
//! | broken shapes | `wrapped` | such tokens of a fixed length, broken over lines |
//! | armour | `pem` | private keys, also truncated or escaped |
//! | encoded armour | `encoded` | private keys in base64 |
//! | URLs | `url` | passwords and tokens in the user part |
//! | headers, programs | `headers` | `Authorization`, `Cookie`, `curl -u` |
//! | names | `context`, `names`, `judge` | `password = …` in all its spellings |
//! | entropy | `entropy` | long random strings |
//!
//! A secret becomes `[REDACTED:<rule>]`. A placeholder is never examined again, and a text is scanned until no more
//! secrets are found, so that redacting twice changes nothing.

pub mod detect;
mod json;
mod redacted;
mod scan;
#[cfg(test)]
mod tests;
mod text;

use crate::redact::detect::words;

use serde_json::Value;

use crate::model::event::{Body, Event, Header};

use crate::redact::scan::Scanner;
pub use detect::known::KnownSecrets;
pub use redacted::Redacted;

/// The rule of values that are known beforehand.
pub const KNOWN: &str = "known-secret";
const OPENING: &[u8] = b"[REDACTED:";

/// Finds and replaces secrets.
#[derive(Debug)]
pub struct Redactor {
    scanner: Scanner,
}

impl Redactor {
    /// Returns a redactor that also knows these values.
    pub fn new(known: KnownSecrets) -> Self {
        Redactor {
            scanner: Scanner::new(known),
        }
    }

    /// Returns whether it knows exactly these values.
    pub fn is_of(&self, known: &KnownSecrets) -> bool {
        self.scanner.is_of(known)
    }

    pub fn text(&self, text: &str) -> Redacted<String> {
        Redacted::new(self.clean(text).unwrap_or_else(|| text.to_owned()))
    }

    /// Redacts bytes, which need not be text. Keeps every byte outside a secret.
    pub fn bytes(&self, bytes: &[u8]) -> Redacted<Vec<u8>> {
        Redacted::new(self.scanner.clean(bytes).unwrap_or_else(|| bytes.to_vec()))
    }

    /// Redacts the strings of a JSON value, each with regard to its key.
    pub fn json(&self, mut value: Value) -> Redacted<Value> {
        self.walk(&mut value, None);
        Redacted::new(value)
    }

    /// Returns the value without its secrets, or nothing if it has none; consumes the value. For values that are
    /// usually clean, because redacting would copy them first.
    pub fn found_in(&self, mut value: Value) -> Option<Redacted<Value>> {
        self.walk(&mut value, None).then(|| Redacted::new(value))
    }

    /// The same for an event's record; keeps its header.
    pub fn found_in_event(&self, mut record: Value) -> Option<Redacted<Value>> {
        let found = match &mut record {
            Value::Object(fields) => self.walk_object(fields, &Header::KEYS),
            other => self.walk(other, None),
        };
        found.then(|| Redacted::new(record))
    }

    /// Redacts an event; keeps its header and kind.
    pub fn event(&self, event: &Event) -> Redacted<Event> {
        let mut fields = match &event.body {
            Body::Unknown(fields) => Value::Object(fields.clone()),
            body => serde_json::to_value(body).expect("bodies are plain data"),
        };
        let kind = fields.get("type").cloned();
        let mut event = event.clone();
        if !self.walk(&mut fields, None) {
            return Redacted::new(event);
        }
        if let Value::Object(mut fields) = fields {
            if let Some(kind) = kind {
                fields.insert("type".to_owned(), kind);
            }
            event.body = match &event.body {
                Body::Unknown(_) => Body::Unknown(fields),
                // A secret in place of a fixed word leaves a body of an unknown kind, which is kept whole.
                _ => serde_json::from_value(Value::Object(fields.clone()))
                    .unwrap_or(Body::Unknown(fields)),
            };
        }
        Redacted::new(event)
    }

    /// Returns the rule by which code contains a secret: a known value, a provider's shape, or a random value beside
    /// the name of a secret. For text that is examined but never changed.
    pub fn secret_in_code(&self, code: &[u8]) -> Option<&'static str> {
        self.scanner.secret_in_code(code)
    }

    /// The same for known values only.
    pub fn known_in_code(&self, code: &[u8]) -> Option<&'static str> {
        self.scanner.known_in_code(code)
    }

    /// Returns the last position up to `at` where the text may be split, so that no secret, not even one that may start
    /// at its end, lies on both sides.
    pub fn cut(&self, text: &str, at: usize) -> usize {
        let at = text.floor_char_boundary(at);
        text.floor_char_boundary(self.cut_bytes(text.as_bytes(), at))
    }

    /// The same for bytes, which need not be text.
    pub fn cut_bytes(&self, bytes: &[u8], at: usize) -> usize {
        self.scanner.place_to_cut(bytes, at)
    }

    /// Returns the text without its secrets, or nothing if it has none.
    fn clean(&self, text: &str) -> Option<String> {
        let clean = self.scanner.clean(text.as_bytes())?;
        // Only whole characters are removed, so this cannot fail. If it did, losing a character would be right.
        Some(
            String::from_utf8(clean)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        )
    }

    /// Returns the text without its certain secrets, or nothing if it has none.
    fn certain(&self, text: &str) -> Option<String> {
        let clean = self.scanner.clean_certain(text.as_bytes())?;
        String::from_utf8(clean).ok()
    }

    fn knows(&self, value: &[u8]) -> bool {
        self.scanner.knows(value)
    }
}

/// Returns the name of the first rule that replaced something between two versions of a text.
pub fn rule_between(before: &[u8], after: &[u8]) -> String {
    let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    // The difference may begin inside the opening of a placeholder.
    let from = same.saturating_sub(OPENING.len());
    let opening = after[from..]
        .windows(OPENING.len())
        .position(|part| part == OPENING);
    let Some(start) = opening.map(|at| from + at + OPENING.len()) else {
        return "secret".to_owned();
    };
    let end = after[start..].iter().position(|byte| *byte == b']');
    let end = end.map_or(after.len(), |length| start + length);
    String::from_utf8_lossy(&after[start..end]).into_owned()
}

/// Returns whether the whole value is a placeholder.
fn is_placeholder(value: &[u8]) -> bool {
    words::placeholder_at(value, 0) == Some(value.len())
}
