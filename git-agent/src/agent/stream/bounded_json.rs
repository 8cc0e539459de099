//! Parses JSON in bounded memory: a message of a few megabytes may contain a million small values, each of which takes
//! a hundred times its size in memory.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Shorter messages are parsed without limits.
const SHORT: usize = 32 * 1024;
/// Maximum number of nested values in a message.
const MOST: usize = 20_000;

/// Parses a message. If it has too many values, the first ones are kept, and all scalar members of the outermost
/// object; `cut` then holds its size. Returns `None` if it is not JSON.
pub fn parse(text: &str) -> Option<Value> {
    parse_as_written(text).or_else(|| parse_as_written(&mended(text)?))
}

/// Parses JSON from an agent's own file, of any size.
pub(crate) fn parse_whole(text: &str) -> Option<Value> {
    let read = |text: &str| serde_json::from_str(text).ok();
    read(text).or_else(|| read(&mended(text)?))
}

/// Replaces unpaired surrogates in JSON, if there are any. JavaScript programs write one when they cut a text in the
/// middle of an emoji, and it must not cost the whole message.
fn mended(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        let from = at + found;
        at = match unit(text, from) {
            Some(0xd800..=0xdbff) if matches!(unit(text, from + 6), Some(0xdc00..=0xdfff)) => {
                from + 12
            }
            Some(0xd800..=0xdfff) => {
                out.push_str(&text[copied..from]);
                out.push_str("\\ufffd");
                copied = from + 6;
                copied
            }
            Some(_) => from + 6,
            // A character after a backslash does not begin an escape.
            None => text.ceil_char_boundary(from + 2),
        };
    }
    out.push_str(&text[copied..]);
    (copied > 0).then_some(out)
}

/// Returns the number in an escape such as `\u00e4` at a position.
fn unit(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

fn parse_as_written(text: &str) -> Option<Value> {
    if text.len() <= SHORT {
        return serde_json::from_str(text).ok();
    }
    let mut left = MOST;
    let mut reader = serde_json::Deserializer::from_str(text);
    let reading = Reading {
        depth: 0,
        left: &mut left,
    };
    let mut value = reading.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    if let Some(fields) = value.as_object_mut().filter(|_| left == 0) {
        fields.insert("cut".to_owned(), text.len().into());
    }
    Some(value)
}

struct Reading<'a> {
    depth: usize,
    left: &'a mut usize,
}

impl Reading<'_> {
    /// Returns the reader for a nested value; `None` if there were too many.
    fn inner(&mut self) -> Option<Reading<'_>> {
        if self.depth > 0 {
            *self.left = self.left.saturating_sub(1);
        }
        (self.depth == 0 || *self.left > 0).then_some(Reading {
            depth: self.depth + 1,
            left: self.left,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let Some(inner) = self.inner() else {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(Value::Array(list));
            };
            match items.next_element_seed(inner)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            match self.inner() {
                Some(inner) => {
                    let value = members.next_value_seed(inner)?;
                    fields.insert(key, value);
                }
                None => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_message_is_read_as_any_other() {
        let message = json!({"type": "x", "text": "ä\n".repeat(SHORT), "n": [1, -2, 0.5, null, true, {"a": {}}]});
        assert_eq!(parse(&message.to_string()), Some(message));
        let text = format!(r#"{{"type":"{}""#, "x".repeat(SHORT));
        assert_eq!(parse(&text), None);
        assert_eq!(parse(&format!("{{}} {}", "x".repeat(SHORT))), None);
        assert_eq!(parse(&"[".repeat(SHORT * 2)), None);
    }

    #[test]
    fn half_a_character_costs_no_message() {
        for (written, read) in [
            (r"cut \ud83d", "cut \u{fffd}"),
            (r"\uDE00 cut", "\u{fffd} cut"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
            (r"\ude00\ud83d\u00e4\ud83dä", "\u{fffd}\u{fffd}ä\u{fffd}ä"),
            (r"\\ud83d \ud83d\n", "\\ud83d \u{fffd}\n"),
            (r"\ud83d\\ude00", "\u{fffd}\\ude00"),
        ] {
            for pad in [0, SHORT] {
                let pad = "x".repeat(pad);
                let text = format!(r#"{{"result":"{written}","pad":"{pad}"}}"#);
                let wanted = Some(json!({"result": read, "pad": pad}));
                assert_eq!(parse(&text), wanted, "{written}");
                assert_eq!(parse_whole(&text), wanted, "{written}");
            }
        }
        for broken in [
            r#"{"a":"\ud83d""#,
            r#"{"a":"\ud83d\"#,
            r#"{"a":"\ud8"#,
            r"\ä",
            r#"{"a":"\ud83d\x"}"#,
        ] {
            assert_eq!(parse(broken), None, "{broken}");
        }
        assert_eq!(mended(r#"{"a":"\ud83d\ude00"}"#), None);
    }

    #[test]
    fn of_a_million_values_the_first_are_kept_and_the_end_is_heard() {
        let pad = [r#"{"":0}"#; 500_000].join(",");
        let text = format!(r#"{{"pad":[{pad}],"list":[7],"type":"result","result":"done"}}"#);
        let message = parse(&text).expect("a message");
        assert_eq!(message["type"], "result");
        assert_eq!(message["result"], "done");
        assert_eq!(message["cut"], text.len());
        assert_eq!(message["pad"].as_array().map(Vec::len), Some(MOST / 2));
        assert_eq!(message["list"], json!([]));
    }
}
