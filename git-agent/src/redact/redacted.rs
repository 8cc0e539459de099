//! The type of redacted values, the only ones that the object writer accepts.

use serde_json::Value;

use crate::model::event::{Event, to_ascii_json};

/// A value without any secret that the redactor can find.
///
/// Only the parent module can create one from foreign data, so that code which forgets to redact does not compile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Marks a value as redacted. For the redactor only.
    pub(super) fn new(value: T) -> Self {
        Redacted(value)
    }

    /// Returns the value for reading.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// Returns the value without its mark.
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
    /// Accepts constant text of our own, which needs no redaction.
    pub fn trusted(text: &'static str) -> Self {
        Redacted(text.to_owned())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Concatenates redacted pieces.
    pub fn concat<'a>(pieces: impl IntoIterator<Item = &'a Redacted<String>>) -> Self {
        Redacted(pieces.into_iter().map(Redacted::as_str).collect())
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

    /// Adds a checksum to an object. It cannot contain a secret.
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
