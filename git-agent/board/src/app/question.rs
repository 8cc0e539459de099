//! A question of an agent, with the command or the change that it asks for.

use git_agent::model::event::Choice;
use git_agent::model::event_words::{ChoiceKind, RequestKind};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::app::Tone;
use crate::text;

/// The most lines of a detail.
const MOST: usize = 400;

/// An open question.
#[derive(Debug, Clone)]
pub struct Question {
    /// Its id.
    pub request: String,
    /// Whether any words answer it.
    pub kind: RequestKind,
    /// In words.
    pub title: String,
    /// The possible answers.
    pub options: Vec<Choice>,
    /// The command or the change that is asked for, as lines.
    pub detail: Vec<(Tone, String)>,
}

impl Question {
    /// Returns the answers in one order: once, always, no, whatever the agent's order is.
    pub fn ordered(&self) -> Vec<&Choice> {
        let place = |choice: &&Choice| match choice.kind {
            ChoiceKind::AllowOnce => 0,
            ChoiceKind::AllowAlways => 1,
            ChoiceKind::RejectOnce => 2,
            ChoiceKind::RejectAlways => 3,
            _ => 4,
        };
        let mut options: Vec<&Choice> = self.options.iter().collect();
        options.sort_by_key(place);
        options
    }
}

/// Returns a tool's main argument.
pub fn argument(input: &Value) -> String {
    const TELLING: [&str; 9] = [
        "command",
        "file_path",
        "path",
        "filePath",
        "pattern",
        "query",
        "url",
        "title",
        "description",
    ];
    let Value::Object(fields) = input else {
        return inline(input);
    };
    let telling = TELLING.iter().find_map(|key| match fields.get(*key)? {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            Some(words?.join(" "))
        }
        _ => None,
    });
    telling.unwrap_or_default()
}

fn inline(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns what a request is about: the call with the same id, or else the last one, or else its own words.
pub fn detail(
    calls: &[(String, String, Value)],
    request: &str,
    title: &str,
    told: &str,
) -> Vec<(Tone, String)> {
    let same = calls.iter().rfind(|(call, ..)| call == request);
    let mut lines = match same.or(calls.last()) {
        Some((_, name, input)) => of_input(name, input),
        None => told
            .lines()
            .map(|line| (Tone::Plain, text::line(line)))
            .collect(),
    };
    if let [(_, only)] = lines.as_slice()
        && title.contains(only.trim_start_matches("$ "))
    {
        lines.clear();
    }
    lines.truncate(MOST);
    lines
}

fn of_input(name: &str, input: &Value) -> Vec<(Tone, String)> {
    let field = |keys: &[&str]| -> Option<String> {
        keys.iter()
            .find_map(|key| input.get(*key)?.as_str().map(str::to_owned))
    };
    let path = field(&["file_path", "path", "filePath", "abs_path"]);
    let old = field(&["old_string", "oldText", "old_text", "oldString", "old_str"]);
    let new = field(&[
        "new_string",
        "newText",
        "new_text",
        "newString",
        "new_str",
        "content",
    ]);
    let mut lines = Vec::new();
    if let Some(command) = field(&["command", "cmd"]).or_else(|| {
        let words = input.get("command")?.as_array()?;
        let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
        Some(words?.join(" "))
    }) {
        for (at, line) in command.lines().enumerate() {
            let sign = if at == 0 { "$ " } else { "  " };
            lines.push((
                Tone::Plain,
                format!("{sign}{}", text::code(line.as_bytes())),
            ));
        }
    }
    if let Some(path) = path {
        lines.push((
            Tone::Plain,
            format!("{} {}", text::line(name), text::line(path)),
        ));
    }
    if let Some(diff) = field(&["diff", "patch", "unified_diff"]) {
        lines.extend(diff.lines().map(|line| {
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                _ => Tone::Plain,
            };
            (tone, text::code(line.as_bytes()))
        }));
    } else if let Some(new) = new {
        lines.extend(difference(old.as_deref().unwrap_or(""), &new));
    }
    if let Some(changes) = input
        .get("edits")
        .or(input.get("changes"))
        .and_then(Value::as_array)
    {
        lines.extend(changes.iter().flat_map(|change| of_input("", change)));
    }
    lines
}

fn difference(old: &str, new: &str) -> Vec<(Tone, String)> {
    let diff = TextDiff::from_lines(old, new);
    let mut lines = Vec::new();
    for group in diff.grouped_ops(2) {
        for op in group {
            for change in diff.iter_changes(&op) {
                let (tone, sign) = match change.tag() {
                    ChangeTag::Delete => (Tone::Bad, '-'),
                    ChangeTag::Insert => (Tone::Good, '+'),
                    ChangeTag::Equal => (Tone::Plain, ' '),
                };
                let line = change.value().trim_end_matches('\n');
                lines.push((tone, format!("{sign} {}", text::code(line.as_bytes()))));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_edit_shows_its_lines() {
        let calls = vec![(
            "1".to_owned(),
            "Edit".to_owned(),
            json!({"file_path": "a.py", "old_string": "x = 1\ny = 2\n", "new_string": "x = 3\ny = 2\n"}),
        )];
        let lines: Vec<String> = detail(&calls, "1", "Edit", "")
            .into_iter()
            .map(|(_, l)| l)
            .collect();
        assert_eq!(lines, ["Edit a.py", "- x = 1", "+ x = 3", "  y = 2"]);
    }

    #[test]
    fn a_command_shows_itself() {
        let calls = vec![(
            "7".to_owned(),
            "Bash".to_owned(),
            json!({"command": "rm -rf \u{1b}[2J"}),
        )];
        assert_eq!(detail(&calls, "other", "?", "")[0].1, "$ rm -rf \\x1b[2J");
        assert!(detail(&[], "1", "?", "").is_empty());
    }
}
