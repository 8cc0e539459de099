//! The front matter of Markdown files: the part of YAML that such files use, which is keys with texts and lists.

use std::collections::BTreeMap;

/// A file's front matter and its body.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The values of each key; a text alone is a list of one.
    pub fields: BTreeMap<String, Vec<String>>,
    /// The text after the front matter.
    pub body: String,
}

impl Document {
    /// Returns a field that has one value.
    pub fn text(&self, key: &str) -> Option<&str> {
        let values = self.fields.get(key)?;
        values.first().map(String::as_str)
    }

    /// Returns the values of a field; a text with commas is a list.
    pub fn list(&self, key: &str) -> Vec<String> {
        let values = self.fields.get(key).into_iter().flatten();
        let split = values.flat_map(|value| value.split(','));
        let words = split.map(str::trim).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    }
}

/// Reads a file; `None` if it does not begin with front matter.
pub fn read(text: &str) -> Option<Document> {
    let rest = text.trim_start_matches('\u{feff}').strip_prefix("---")?;
    let rest = rest.strip_prefix('\r').unwrap_or(rest).strip_prefix('\n')?;
    let mut document = Document::default();
    let mut key = String::new();
    let mut lines = rest.lines();
    loop {
        let line = lines.next()?;
        let trimmed = line.trim();
        if trimmed == "---" {
            break;
        }
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let inside = line.starts_with([' ', '\t']) || trimmed.starts_with("- ");
        if inside && !key.is_empty() {
            let item = trimmed.strip_prefix("- ").unwrap_or(trimmed);
            let values = document.fields.entry(key.clone()).or_default();
            values.push(unquote(item));
            continue;
        }
        let (name, value) = trimmed.split_once(':')?;
        key = name.trim().to_owned();
        let values = document.fields.entry(key.clone()).or_default();
        let value = value.trim();
        if let Some(inner) = value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) {
            let items = inner.split(',').map(unquote);
            values.extend(items.filter(|item| !item.is_empty()));
        } else if !value.is_empty() && value != "|" && value != ">" {
            values.push(unquote(value));
        }
    }
    document.body = lines.collect::<Vec<&str>>().join("\n").trim().to_owned();
    Some(document)
}

fn unquote(text: &str) -> String {
    let text = text.trim();
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner.replace("''", "'");
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_lists_are_read() {
        let text = "---\nid: task-1\ntitle: 'It''s a title: yes'\nlabels: [a, \"b\"]\ndependencies:\n  - task-2\n  - task-3\nempty: []\n---\n\n## Body\ntext\n";
        let document = read(text).expect("front matter");
        assert_eq!(document.text("title"), Some("It's a title: yes"));
        assert_eq!(document.list("labels"), ["a", "b"]);
        assert_eq!(document.list("dependencies"), ["task-2", "task-3"]);
        assert!(document.list("empty").is_empty());
        assert_eq!(document.body, "## Body\ntext");
        assert_eq!(read("# no front matter"), None);
        assert_eq!(read("---\nnever: closed\n"), None);
    }
}
