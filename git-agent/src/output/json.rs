//! Writes `--json`: one object, `{"version":1,"<list>":[…]}`, streamed.
//!
//! It is one line, or indented on a terminal. A key without a value is absent; one whose value could not be determined
//! is null. Control characters are written as `\u` escapes, which any JSON parser decodes.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

use crate::error::{Context, Result};
use crate::output::terminal::sanitize;
use crate::output::{Ui, cannot_write};

/// The version of every envelope. Keys may be added within a version, never changed or removed.
pub const VERSION: u32 = 1;

/// Writes one envelope with a list that may be long.
pub struct List<'a> {
    out: &'a mut dyn Write,
    pretty: bool,
    empty: bool,
}

impl<'a> List<'a> {
    /// Begins an envelope whose list has this key.
    pub fn begin(out: &'a mut dyn Write, key: &str, pretty: bool) -> Result<Self> {
        let key = text(&key, false)?;
        if pretty {
            write!(out, "{{\n  \"version\": {VERSION},\n  {key}: [")
        } else {
            write!(out, "{{\"version\":{VERSION},{key}:[")
        }
        .context(cannot_write)?;
        Ok(List {
            out,
            pretty,
            empty: true,
        })
    }

    /// Writes one item of the list.
    pub fn item(&mut self, item: &impl Serialize) -> Result<()> {
        let item = text(item, self.pretty)?;
        let comma = if self.empty { "" } else { "," };
        self.empty = false;
        if self.pretty {
            write!(self.out, "{comma}\n    {}", item.replace('\n', "\n    "))
        } else {
            write!(self.out, "{comma}{item}")
        }
        .context(cannot_write)
    }

    /// Ends the list and begins another one in the same envelope.
    pub fn next(&mut self, key: &str) -> Result<()> {
        let key = text(&key, false)?;
        match (self.pretty, std::mem::replace(&mut self.empty, true)) {
            (true, false) => write!(self.out, "\n  ],\n  {key}: ["),
            (true, true) => write!(self.out, "],\n  {key}: ["),
            (false, _) => write!(self.out, "],{key}:["),
        }
        .context(cannot_write)
    }

    /// Ends the list and the envelope.
    pub fn end(self) -> Result<()> {
        match (self.pretty, self.empty) {
            (true, false) => writeln!(self.out, "\n  ]\n}}"),
            (true, true) => writeln!(self.out, "]\n}}"),
            (false, _) => writeln!(self.out, "]}}"),
        }
        .context(cannot_write)
    }
}

/// Writes a whole envelope, indented on a terminal.
pub fn write_list<T: Serialize>(
    ui: &Ui,
    key: &str,
    items: impl IntoIterator<Item = T>,
) -> Result<()> {
    let mut out = ui.out();
    let mut list = List::begin(&mut out, key, ui.table_width().is_some())?;
    for item in items {
        list.item(&item)?;
    }
    list.end()
}

/// Writes one value on its own line, for streams of events.
pub fn write_line(out: &mut dyn Write, value: &impl Serialize) -> Result<()> {
    let line = text(value, false)?;
    writeln!(out, "{line}").context(cannot_write)
}

/// Writes one message of a protocol to stdout as a line, at once, and whole even if several threads write.
pub fn send_line(value: &impl Serialize) -> Result<()> {
    let line = text(value, false)?;
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    written.context(cannot_write)
}

/// Returns a value as indented JSON that is safe for a terminal.
pub fn pretty(value: &impl Serialize) -> Result<String> {
    text(value, true)
}

/// Returns a value as JSON that is safe for a terminal.
fn text(value: &impl Serialize, pretty: bool) -> Result<String> {
    let json = if pretty {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    }
    .context(|| "cannot write a value as JSON".into())?;
    Ok(escaped(&json).into_owned())
}

/// Escapes unsafe characters that JSON leaves raw. They occur only inside strings, so no parsing is needed.
fn escaped(json: &str) -> Cow<'_, str> {
    let is_raw = |c: char| c != '\n' && sanitize::is_unsafe(c);
    if !json.chars().any(is_raw) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_raw(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn list(items: &[Value], pretty: bool) -> String {
        let mut out = Vec::new();
        let mut list = List::begin(&mut out, "sessions", pretty).expect("memory takes everything");
        for item in items {
            list.item(item).expect("memory takes everything");
        }
        list.end().expect("memory takes everything");
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn one_line_for_programs() {
        assert_eq!(list(&[], false), "{\"version\":1,\"sessions\":[]}\n");
        assert_eq!(
            list(&[json!({"a": 1}), json!({"a": 2})], false),
            "{\"version\":1,\"sessions\":[{\"a\":1},{\"a\":2}]}\n"
        );
    }

    #[test]
    fn laid_out_for_people() {
        let items = [json!({"a": [1]}), json!({"a": "x\ny"})];
        let whole = json!({"version": 1, "sessions": items});
        let expected = serde_json::to_string_pretty(&whole).expect("valid") + "\n";
        let parsed: Value = serde_json::from_str(&expected).expect("valid");
        assert_eq!(
            serde_json::from_str::<Value>(&list(&items, true)).expect("valid"),
            parsed
        );
        assert_eq!(
            list(&items[..1], true),
            "{\n  \"version\": 1,\n  \"sessions\": [\n    {\n      \"a\": [\n        1\n      ]\n    }\n  ]\n}\n"
        );
        assert_eq!(
            list(&[], true),
            "{\n  \"version\": 1,\n  \"sessions\": []\n}\n"
        );
    }

    proptest! {
        #[test]
        fn safe_on_a_terminal_and_read_back(words in proptest::collection::vec(any::<String>(), 0..5), pretty: bool) {
            let items: Vec<Value> = words.iter().map(|word| json!({"t": word})).collect();
            let shown = list(&items, pretty);
            prop_assert!(!shown.chars().any(|c| c != '\n' && sanitize::is_unsafe(c)));
            let back: Value = serde_json::from_str(&shown).expect("valid JSON");
            prop_assert_eq!(&back["sessions"], &Value::from(items));
        }
    }
}
