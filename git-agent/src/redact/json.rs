//! Redacts JSON: every string as text and, together with its key, as a named value.

use serde_json::{Map, Value};

use crate::redact::Redactor;
use crate::redact::detect::judge::{Promise, Style, is_secret};
use crate::redact::detect::names;

/// Keys whose values are ids, which are kept if they have the form of one.
const ID_KEYS: [&str; 34] = [
    "id",
    "sid",
    "call",
    "call_id",
    "callid",
    "commit",
    "tree",
    "parent",
    "oid",
    "sha",
    "sha1",
    "sha256",
    "hash",
    "attachment",
    "request",
    "uuid",
    "type",
    "session",
    "session_id",
    "sessionid",
    "tool_use_id",
    "tool_call_id",
    "toolcallid",
    "message_id",
    "messageid",
    "thread_id",
    "request_id",
    "parent_session",
    "turn_id",
    "item_id",
    "checkpoint",
    "blob",
    "rev",
    "revision",
];

/// Returns whether a value can be an id: short, one word, and not a provider's token.
fn is_id(value: &str) -> bool {
    (1..=80).contains(&value.len())
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-:.|".contains(&byte))
}

impl Redactor {
    /// Redacts a value in place, and returns whether it contained a secret.
    pub(super) fn walk(&self, value: &mut Value, name: Option<&str>) -> bool {
        match value {
            Value::String(text) => match self.leaf(text, name) {
                Some(clean) => {
                    *text = clean;
                    true
                }
                None => false,
            },
            Value::Number(number) => {
                let digits = number.to_string();
                let password = name
                    .is_some_and(|name| names::promise(name.as_bytes()) == Some(Promise::Password));
                let rule =
                    if password && is_secret(digits.as_bytes(), Promise::Password, Style::Quoted) {
                        "password"
                    } else if self.knows(digits.as_bytes()) {
                        crate::redact::KNOWN
                    } else {
                        return false;
                    };
                *value = Value::String(format!("[REDACTED:{rule}]"));
                true
            }
            Value::Array(items) => self.walk_array(items, name),
            Value::Object(fields) => self.walk_object(fields, &[]),
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Returns a text without its secrets, or nothing if it has none.
    fn leaf(&self, text: &str, name: Option<&str>) -> Option<String> {
        if let Some(name) = name {
            let id_key = ID_KEYS.iter().any(|key| key.eq_ignore_ascii_case(name));
            if id_key && is_id(text) {
                // Only certain secrets are removed from an id.
                return self.certain(text);
            }
            if let Some(promise) = names::promise(name.as_bytes())
                && !crate::redact::is_placeholder(text.as_bytes())
                && is_secret(text.trim().as_bytes(), promise, Style::Quoted)
            {
                // A known shape gives a better name than the key.
                return Some(match self.clean(text) {
                    Some(clean) if crate::redact::is_placeholder(clean.as_bytes()) => clean,
                    _ => format!("[REDACTED:{}]", names::rule(name.as_bytes(), promise)),
                });
            }
            if name.eq_ignore_ascii_case("authorization")
                || name.eq_ignore_ascii_case("cookie")
                || name.eq_ignore_ascii_case("set-cookie")
            {
                // Judged as a header line.
                let line = format!("{name}: {text}");
                if let Some(clean) = self.clean(&line)
                    && let Some(value) = clean.get(name.len() + 2..)
                {
                    return Some(value.to_owned());
                }
            }
        }
        self.clean(text)
    }

    fn walk_array(&self, items: &mut [Value], name: Option<&str>) -> bool {
        let mut option: Option<String> = None;
        let mut changed = false;
        for item in items {
            // In a list of arguments, the option names the next value.
            let named = option.take();
            if let Value::String(text) = &*item
                && text.starts_with("--")
                && !text.contains(['=', ' '])
            {
                option = Some(text.trim_start_matches('-').to_owned());
            }
            changed |= self.walk(item, named.as_deref().or(name));
        }
        changed
    }

    /// Redacts the fields of an object, except some.
    pub(super) fn walk_object(&self, fields: &mut Map<String, Value>, apart: &[&str]) -> bool {
        // `{"name": "API_KEY", "value": "…"}`, as in lists of variables.
        let label = ["name", "key", "variable", "Name", "Key"]
            .iter()
            .find_map(|key| fields.get(*key).and_then(Value::as_str))
            .filter(|label| names::promise(label.as_bytes()).is_some())
            .map(str::to_owned);
        let mut changed = false;
        let mut renamed = Vec::new();
        for (key, value) in fields.iter_mut() {
            if apart.contains(&key.as_str()) {
                continue;
            }
            let named = match &label {
                Some(label) if key.eq_ignore_ascii_case("value") => label.as_str(),
                _ => key.as_str(),
            };
            changed |= self.walk(value, Some(named));
            if let Some(clean) = self.clean(key) {
                renamed.push((key.clone(), clean));
            }
        }
        changed |= !renamed.is_empty();
        for (key, clean) in renamed {
            if let Some(value) = fields.remove(&key) {
                let mut free = clean.clone();
                let mut number = 2;
                while fields.contains_key(&free) {
                    free = format!("{clean} {number}");
                    number += 1;
                }
                fields.insert(free, value);
            }
        }
        changed
    }
}
