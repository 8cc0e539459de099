//! The type that says "this went through the redactor": the only thing the object writer takes.

use serde_json::Value;

use crate::model::event::{Event, to_ascii_json};

/// A value that holds no secret the redactor knows how to find.
///
/// Only this module's parent can make one from foreign data, so a path to an object that forgets to redact does not
/// compile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Marks a value as redacted: for the redactor alone.
    pub(super) fn new(value: T) -> Self {
        Redacted(value)
    }

    /// Returns the value for reading.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// Returns the value and forgets that it was redacted.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: AsRef<[u8]>> Redacted<T> {
    /// Returns the bytes to be written.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl Redacted<String> {
    /// Takes constant text of our own, which needs no redaction.
    pub fn trusted(text: &'static str) -> Self {
        Redacted(text.to_owned())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Puts redacted pieces together.
    pub fn concat<'a>(pieces: impl IntoIterator<Item = &'a Redacted<String>>) -> Self {
        Redacted(pieces.into_iter().map(Redacted::as_str).collect())
    }

    /// Puts redacted pieces together with constant text between them.
    pub fn join<'a>(
        pieces: impl IntoIterator<Item = &'a Redacted<String>>,
        separator: &'static str,
    ) -> Self {
        let mut joined = String::new();
        for (index, piece) in pieces.into_iter().enumerate() {
            if index > 0 {
                joined.push_str(separator);
            }
            joined.push_str(&piece.0);
        }
        Redacted(joined)
    }

    /// Returns the text as bytes.
    pub fn into_bytes(self) -> Redacted<Vec<u8>> {
        Redacted(self.0.into_bytes())
    }
}

impl Redacted<Value> {
    /// Returns one line of ASCII JSON, without a newline.
    pub fn to_line(&self) -> Redacted<String> {
        Redacted(to_ascii_json(&self.0))
    }

    /// Adds a sum over something to an object: no secret is in it.
    pub fn with_sum(mut self, key: &'static str, sum: String) -> Self {
        if let Value::Object(fields) = &mut self.0 {
            fields.insert(key.to_owned(), sum.into());
        }
        self
    }

    /// Returns an object without one of its fields.
    pub fn without(&self, key: &str) -> Self {
        let mut value = self.0.clone();
        if let Value::Object(fields) = &mut value {
            fields.remove(key);
        }
        Redacted(value)
    }
}

impl Redacted<Event> {
    /// Returns the event's record: one line of ASCII JSON, without a newline.
    pub fn to_line(&self) -> Redacted<String> {
        Redacted(self.0.to_line())
    }
}
