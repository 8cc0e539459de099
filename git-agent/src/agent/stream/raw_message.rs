//! Foreign messages that have no place of their own, kept as they came.

use serde_json::{Value, json};

use crate::model::event::Body;

/// The largest foreign message that is kept whole.
const LARGEST: usize = 64 * 1024;
/// How much of a larger one is kept.
const HEAD: usize = 1024;

/// Returns a foreign message as an event, cut down when it is very large.
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

/// Returns what is known of a message that was too long to be read whole.
pub fn cut_message(line: &[u8], cut: u64) -> Value {
    let head = String::from_utf8_lossy(&line[..line.len().min(HEAD)]);
    json!({"cut": line.len() as u64 + cut, "head": head})
}
