//! Shows what a permission is asked for: the command, or the lines that would change.

use std::fmt::Write;

use serde_json::Value;

/// How many lines and bytes are shown at most; a person decides by the beginning, and the transcript has the call.
const LINES: usize = 60;
const BYTES: usize = 4_000;
/// How many unchanged lines are shown around a change.
const AROUND: usize = 2;

/// Returns the detail of a tool call: its input, and the contents that the protocol describes. Empty if neither says
/// more than a title could.
pub fn detail(input: &Value, contents: &Value) -> String {
    let mut text = String::new();
    for content in contents.as_array().into_iter().flatten() {
        if content["type"] == "diff" {
            let path = content["path"].as_str().unwrap_or_default();
            let old = content["oldText"].as_str().unwrap_or_default();
            let new = content["newText"].as_str().unwrap_or_default();
            text += &change(path, old, new);
        }
    }
    if text.is_empty() {
        text = of_input(input);
    }
    shortened(&text)
}

/// Returns the detail that the arguments of the usual tools give.
fn of_input(input: &Value) -> String {
    let string = |of: &Value, keys: &[&str]| {
        let found = keys.iter().find_map(|key| of.get(*key)?.as_str());
        found.map(str::to_owned)
    };
    let path = string(input, &["file_path", "filePath", "path", "notebook_path"]);
    let path = path.unwrap_or_default();
    let pair = |of: &Value| {
        let old = string(
            of,
            &["old_string", "oldString", "old_str", "oldText", "before"],
        );
        let new = string(
            of,
            &["new_string", "newString", "new_str", "newText", "after"],
        );
        (old.is_some() || new.is_some())
            .then(|| change(&path, &old.unwrap_or_default(), &new.unwrap_or_default()))
    };
    if let Some(edits) = input.get("edits").and_then(Value::as_array) {
        return edits.iter().filter_map(pair).collect();
    }
    if let Some(text) = pair(input) {
        return text;
    }
    if let Some(patch) = string(input, &["patch", "diff"]) {
        return patch;
    }
    let written = string(input, &["content", "file_text", "contents"]);
    if let Some(written) = written.filter(|_| !path.is_empty()) {
        return change(&path, "", &written);
    }
    let words = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    };
    let command = ["command", "cmd", "script"];
    let command = command.iter().find_map(|key| words(input.get(*key)?));
    command
        .map(|command| format!("$ {command}"))
        .unwrap_or_default()
}

/// Returns the lines that change between two texts, with a few around them.
fn change(path: &str, old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let head = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev());
    let tail = tail.take_while(same).count();
    let mut text = String::new();
    let mut put = |sign: char, lines: &[&str]| {
        for line in lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{sign} {line}");
        }
    };
    put(' ', &old[head.saturating_sub(AROUND)..head]);
    put('-', &old_rest[..old_rest.len() - tail]);
    put('+', &new_rest[..new_rest.len() - tail]);
    let after = &old_rest[old_rest.len() - tail..];
    put(' ', &after[..after.len().min(AROUND)]);
    if path.is_empty() || text.is_empty() {
        text
    } else {
        format!("{path}\n{text}")
    }
}

fn shortened(text: &str) -> String {
    let mut short = String::new();
    let mut lines = text.trim_end().lines();
    for line in lines.by_ref().take(LINES) {
        if short.len() + line.len() > BYTES {
            short += "…\n";
            break;
        }
        short += line;
        short.push('\n');
    }
    let left = lines.count();
    if left > 0 && !short.ends_with("…\n") {
        short += &format!("… {left} more lines\n");
    }
    short.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_shown_as_its_lines() {
        let contents = json!([{"type": "diff", "path": "a.py",
            "oldText": "one\ntwo\nthree\nfour\nfive\nsix", "newText": "one\ntwo\nthree\n4\nfive\nsix"}]);
        let shown = detail(&Value::Null, &contents);
        assert_eq!(shown, "a.py\n  two\n  three\n- four\n+ 4\n  five\n  six");
        let input = json!({"file_path": "b", "old_string": "x", "new_string": "y"});
        assert_eq!(detail(&input, &Value::Null), "b\n- x\n+ y");
        let written = json!({"path": "c", "content": "new\n"});
        assert_eq!(detail(&written, &Value::Null), "c\n+ new");
        let several = json!({"filePath": "d", "edits": [
            {"oldString": "1", "newString": "2"}, {"oldString": "3", "newString": "4"}]});
        assert_eq!(detail(&several, &Value::Null), "d\n- 1\n+ 2\nd\n- 3\n+ 4");
    }

    #[test]
    fn a_command_is_shown_whole_and_nothing_without_one() {
        let input = json!({"command": "rm -r build\nmake"});
        assert_eq!(detail(&input, &Value::Null), "$ rm -r build\nmake");
        let words = json!({"command": ["git", "push"]});
        assert_eq!(detail(&words, &Value::Null), "$ git push");
        assert_eq!(detail(&json!({"url": "x"}), &Value::Null), "");
    }

    #[test]
    fn a_long_detail_is_cut() {
        let new = "line\n".repeat(500);
        let shown = detail(&json!({"path": "x", "content": new}), &Value::Null);
        assert!(shown.ends_with("… 441 more lines"), "{shown}");
        let wide = "w".repeat(9_000);
        let shown = detail(&json!({"command": wide}), &Value::Null);
        assert_eq!(shown, "…");
    }
}
