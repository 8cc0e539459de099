//! Records unknown messages as they came.

use serde_json::{Value, json};

use crate::model::event::Body;

/// Maximum size of a message that is recorded whole.
const LARGEST: usize = 64 * 1024;
/// Number of bytes recorded of a larger one.
const HEAD: usize = 1024;

/// Returns an unknown message as an event, truncated if it is very large.
pub fn raw(driver: &str, data: &Value) -> Body {
    let text = data.to_string();
    let data = if text.len() > LARGEST {
        json!({"cut": text.len(), "head": text[..text.floor_char_boundary(HEAD)]})
    } else {
        data.clone()
    };
    Body::Raw {
        driver: driver.to_owned(),
        data,
    }
}

/// Returns the known part of a message that was too long to read.
pub fn cut_message(line: &[u8], cut: u64) -> Value {
    let head = String::from_utf8_lossy(&line[..line.len().min(HEAD)]);
    json!({"cut": line.len() as u64 + cut, "head": head})
}
