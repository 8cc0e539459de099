//! Tool calls and their results in one line, in the same words for every vendor.
//!
//! Vendors name the same thing differently: a command is an argument, a title, or a shell with the command quoted
//! behind it; an edit is a pair of texts, a whole file, or a patch. This file knows these habits.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Arguments that name a file.
const PATHS: [&str; 5] = ["file_path", "filePath", "path", "notebook_path", "file"];
/// Arguments that say the most about other calls.
const TELLING: [&str; 7] = [
    "pattern",
    "query",
    "url",
    "title",
    "description",
    "prompt",
    "name",
];
/// Marks of a file in a patch.
const PATCHED: [&str; 3] = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
/// Titles and values are cut to this many characters: a line of the log holds no more.
const LONGEST: usize = 400;

/// Returns a text with the paths inside the worktree made relative to it.
pub fn relative<'t>(text: &'t str, worktree: Option<&str>) -> Cow<'t, str> {
    let Some(worktree) = worktree.filter(|path| path.len() > 1 && text.contains(*path)) else {
        return text.into();
    };
    let worktree = worktree.trim_end_matches('/');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(worktree) {
        let (before, after) = (&rest[..at], &rest[at + worktree.len()..]);
        out.push_str(before);
        let part_of_longer = after.starts_with(|c: char| c.is_alphanumeric() || "-_.".contains(c));
        rest = match after.strip_prefix('/') {
            _ if part_of_longer => {
                out.push_str(worktree);
                after
            }
            Some(inside) => inside,
            None => {
                out.push('.');
                after
            }
        };
    }
    out.push_str(rest);
    out.into()
}

/// Returns a call in words: `$ cargo test` for a command, otherwise the tool and its main argument. For an edit,
/// [`edited`] says more.
pub fn call(name: &str, kind: &str, input: &Value, worktree: Option<&str>) -> String {
    if let Some(command) = command(name, kind, input) {
        return format!("$ {}", relative(&first_line(&command), worktree));
    }
    let name = title(name);
    let argument = argument(input);
    let text = match argument {
        // Some vendors put the argument into the title.
        Some(argument) if !names(&name, &argument) => {
            format!("{name} {}", first_line(&argument))
        }
        _ => name.into_owned(),
    };
    relative(&text, worktree).trim_end().to_owned()
}

/// Returns whether a title contains a text as words of their own.
fn names(title: &str, text: &str) -> bool {
    title.match_indices(text).any(|(at, found)| {
        let before = title[..at].chars().next_back();
        let after = title[at + found.len()..].chars().next();
        [before, after]
            .iter()
            .flatten()
            .all(|c| !c.is_alphanumeric())
    })
}

/// Returns the command of a call that runs one.
fn command(name: &str, kind: &str, input: &Value) -> Option<String> {
    let given = ["command", "cmd", "commands", "script"]
        .iter()
        .find_map(|key| {
            words(
                input.get(*key)?,
                if *key == "commands" { "; " } else { " " },
            )
        });
    match given {
        Some(command) => Some(without_shell(&command)),
        None if kind == "execute" => {
            let name = name.strip_prefix("run_commands: ").unwrap_or(name);
            Some(without_shell(name))
        }
        None => None,
    }
}

/// Returns a text, or the joined words of a list.
fn words(value: &Value, between: &str) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => {
            let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
            words.map(|words| words.join(between))
        }
        _ => None,
    }
}

/// Returns a command without the shell around it: `/bin/bash -lc 'git status'` is `git status`.
fn without_shell(command: &str) -> String {
    let inner = || {
        let (shell, rest) = command.split_once(' ')?;
        let name = shell.rsplit('/').next()?;
        let (option, quoted) = rest.trim_start().split_once(' ')?;
        let is_shell = ["sh", "bash", "zsh", "dash"].contains(&name);
        let runs = option.starts_with('-') && option.ends_with('c');
        (is_shell && runs).then_some(quoted.trim())
    };
    let Some(inner) = inner() else {
        return command.to_owned();
    };
    let quoted = |mark: char| {
        let inside = inner.strip_prefix(mark)?.strip_suffix(mark)?;
        (!inside.contains(mark)).then_some(inside)
    };
    quoted('\'')
        .or_else(|| quoted('"'))
        .unwrap_or(inner)
        .to_owned()
}

/// Returns a tool's name without the arguments that some vendors append as JSON.
fn title(name: &str) -> Cow<'_, str> {
    let end = [": {", " {\"", "{\""]
        .iter()
        .filter_map(|mark| name.find(mark));
    let name = match end.min() {
        Some(end) => &name[..end],
        None => name,
    };
    match name {
        "file_change" | "Editing files" => "edit".into(),
        "" => "tool".into(),
        name => first_line(name),
    }
}

/// Returns the main argument of a call, or its short arguments; never JSON.
fn argument(input: &Value) -> Option<String> {
    let fields = input.as_object()?;
    let of = |keys: &[&str]| keys.iter().find_map(|key| words(fields.get(*key)?, " "));
    if let Some(told) = of(&PATHS).or_else(|| of(&TELLING)) {
        return Some(told);
    }
    let files = changed_files(fields);
    if !files.is_empty() {
        return Some(files.join(", "));
    }
    let short = fields.iter().filter_map(|(key, value)| match value {
        Value::String(text) if text.len() <= 60 && !text.contains('\n') => {
            Some(format!("{key}={text}"))
        }
        Value::Number(_) | Value::Bool(_) => Some(format!("{key}={value}")),
        _ => None,
    });
    let short: Vec<String> = short.take(3).collect();
    (!short.is_empty()).then(|| short.join(" "))
}

/// Returns the files named in a list of changes or in a patch.
fn changed_files(fields: &Map<String, Value>) -> Vec<String> {
    if let Some(changes) = fields.get("changes").and_then(Value::as_array) {
        let path = |change: &Value| Some(change.get("path")?.as_str()?.to_owned());
        return changes.iter().filter_map(path).collect();
    }
    patch(fields).map_or_else(Vec::new, |patch| {
        let of_line = |line: &str| {
            let path = PATCHED.iter().find_map(|mark| line.strip_prefix(mark))?;
            Some(path.to_owned())
        };
        patch.lines().filter_map(of_line).collect()
    })
}

fn patch(fields: &Map<String, Value>) -> Option<&str> {
    let texts = ["patch", "input", "diff"].iter();
    let mut texts = texts.filter_map(|key| fields.get(*key)?.as_str());
    texts.find(|text| text.contains("*** Begin Patch"))
}

/// The edit of a file: its path, and the lines added and deleted if they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedFile {
    /// The path, relative to the worktree.
    pub path: String,
    /// Added and deleted lines.
    pub lines: Option<(u64, u64)>,
}

/// Returns the files that a call edits, as far as its arguments tell.
pub fn edited(input: &Value, worktree: Option<&str>) -> Vec<EditedFile> {
    let Some(fields) = input.as_object() else {
        return Vec::new();
    };
    let named = |path: &str| relative(path, worktree).into_owned();
    if let Some(patch) = patch(fields) {
        return patched(patch, worktree);
    }
    if let Some(path) = PATHS.iter().find_map(|key| fields.get(*key)?.as_str()) {
        return vec![EditedFile {
            path: named(path),
            lines: replaced(fields),
        }];
    }
    let files = changed_files(fields).into_iter();
    files
        .map(|path| EditedFile {
            path: named(&path),
            lines: None,
        })
        .collect()
}

/// Returns the files of a patch with their added and deleted lines.
fn patched(patch: &str, worktree: Option<&str>) -> Vec<EditedFile> {
    let mut files: Vec<EditedFile> = Vec::new();
    for line in patch.lines() {
        if let Some(path) = PATCHED.iter().find_map(|mark| line.strip_prefix(mark)) {
            files.push(EditedFile {
                path: relative(path, worktree).into_owned(),
                lines: Some((0, 0)),
            });
        } else if let Some(EditedFile {
            lines: Some((added, deleted)),
            ..
        }) = files.last_mut()
        {
            *added += u64::from(line.starts_with('+'));
            *deleted += u64::from(line.starts_with('-'));
        }
    }
    files
}

/// Returns the lines that an edit adds and deletes, from the texts in its arguments.
fn replaced(fields: &Map<String, Value>) -> Option<(u64, u64)> {
    let text = |fields: &Map<String, Value>, keys: &[&str]| {
        let found = keys.iter().find_map(|key| fields.get(*key)?.as_str());
        found.map(ToOwned::to_owned)
    };
    let pair = |fields: &Map<String, Value>| {
        let old = text(
            fields,
            &["old_string", "oldString", "old_str", "oldText", "before"],
        )?;
        let new = text(
            fields,
            &["new_string", "newString", "new_str", "newText", "after"],
        )?;
        Some(changed_lines(&old, &new))
    };
    if let Some(counts) = pair(fields) {
        return Some(counts);
    }
    let edits = fields.get("edits").and_then(Value::as_array);
    if let Some(edits) = edits {
        let counts = edits.iter().map(|edit| pair(edit.as_object()?));
        let counts: Option<Vec<(u64, u64)>> = counts.collect();
        return counts.map(|counts| {
            let sum = |part: fn(&(u64, u64)) -> u64| counts.iter().map(part).sum();
            (sum(|count| count.0), sum(|count| count.1))
        });
    }
    // A whole file: how it was before is not told, and a new one has only added lines.
    let whole = text(fields, &["content", "file_text"])?;
    Some((whole.lines().count() as u64, 0))
}

/// Returns the lines added and deleted between two short texts, without their common start and end.
fn changed_lines(old: &str, new: &str) -> (u64, u64) {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |(one, other): &(&&str, &&str)| one == other;
    let start = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[start..], &new[start..]);
    let ends = old.iter().rev().zip(new.iter().rev());
    let end = ends.take_while(same).count();
    ((new.len() - end) as u64, (old.len() - end) as u64)
}

/// Returns the result of a call in few words: its only line, or the number of lines and the last one. Empty if there
/// is nothing to say.
pub fn result(ok: bool, output: &str, worktree: Option<&str>) -> String {
    let output = plain(output);
    let mut lines = output.lines().map(str::trim_end);
    let mut told: Vec<&str> = Vec::new();
    let mut count = 0_usize;
    for line in lines.by_ref().filter(|line| !is_noise(line)) {
        count += 1;
        told.clear();
        told.push(line.trim());
    }
    let text = match (count, told.first(), ok) {
        (0, _, true) | (_, None, true) => return String::new(),
        (0, _, false) | (_, None, false) => "failed".to_owned(),
        (1, Some(line), true) => (*line).to_owned(),
        (count, Some(line), true) => format!("{count} lines: {line}"),
        (_, Some(line), false) => format!("failed: {line}"),
    };
    relative(&text, worktree).chars().take(LONGEST).collect()
}

/// Returns whether a line of output only repeats what a vendor's tool always prints.
fn is_noise(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with("<shellId: ") || line == "(no output)"
}

/// Returns the output of a tool without the vendor's frame around it.
fn plain(output: &str) -> Cow<'_, str> {
    if let Some(framed) = framed(output) {
        return framed.into();
    }
    if !output.trim_start().starts_with(['{', '[']) {
        return output.into();
    }
    match serde_json::from_str::<Value>(output) {
        Ok(value) => match spoken(&value) {
            text if text.is_empty() => "(data)".into(),
            text => text.into(),
        },
        Err(_) => output.into(),
    }
}

/// Returns the output inside a frame of labels: `Command: …`, `Output: …`, `Error: …`.
fn framed(output: &str) -> Option<String> {
    let inside = output.strip_prefix("Command: ")?;
    let (_, inside) = inside.split_once("\nOutput: ")?;
    let end = ["\nError: ", "\nExit Code: ", "\nSignal: "].iter();
    let end = end.filter_map(|mark| inside.find(mark)).min();
    let said = inside[..end.unwrap_or(inside.len())].trim();
    let error = inside
        .split_once("\nError: ")
        .map(|(_, error)| error.lines().next().unwrap_or_default())
        .filter(|error| *error != "(none)");
    Some(match (said, error) {
        ("(empty)", error) => error.unwrap_or_default().to_owned(),
        (said, None) => said.to_owned(),
        (said, Some(error)) => format!("{said}\n{error}"),
    })
}

/// Returns the words inside a JSON answer: the values of the keys that hold text for the model.
fn spoken(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let parts: Vec<String> = list
                .iter()
                .map(spoken)
                .filter(|part| !part.is_empty())
                .collect();
            parts.join("\n")
        }
        Value::Object(fields) => {
            let keys = [
                "result", "output", "stdout", "text", "content", "error", "message",
            ];
            let mut found = keys.iter().filter_map(|key| fields.get(*key)).map(spoken);
            found.find(|text| !text.is_empty()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn first_line(text: &str) -> Cow<'_, str> {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default().trim_end();
    let more = lines.any(|line| !line.trim().is_empty());
    let long = first.chars().count() > LONGEST;
    match (long, more) {
        (true, _) => format!("{}…", first.chars().take(LONGEST).collect::<String>()).into(),
        (false, true) => format!("{first} …").into(),
        (false, false) => first.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HERE: Option<&str> = Some("/w");

    #[test]
    fn commands_of_every_vendor_look_alike() {
        let status = "git status --short";
        for (name, kind, input) in [
            (
                "Bash",
                "execute",
                json!({"command": status, "description": "look"}),
            ),
            (
                "/bin/bash -lc 'git status --short'",
                "execute",
                json!({"command": "/bin/bash -lc 'git status --short'"}),
            ),
            (
                "git status --short",
                "execute",
                json!({"command": status, "cwd": "/w"}),
            ),
            ("git status --short", "execute", Value::Null),
            (
                "shell · git status --short",
                "execute",
                json!({"command": status}),
            ),
            (
                "Shell: git status --short [timeout: 60000ms] (look)",
                "execute",
                json!({"command": status}),
            ),
            (
                "run_commands: git status --short",
                "execute",
                json!({"commands": [status]}),
            ),
            (
                "shell",
                "execute",
                json!({"command": ["git", "status", "--short"]}),
            ),
        ] {
            assert_eq!(
                call(name, kind, &input, HERE),
                "$ git status --short",
                "{name}"
            );
        }
        assert_eq!(
            call("x", "execute", &json!({"command": "a\nb"}), None),
            "$ a …"
        );
        let quoted = json!({"command": "bash -lc \"echo 'a'\""});
        assert_eq!(call("x", "execute", &quoted, None), "$ echo 'a'");
    }

    #[test]
    fn other_calls_name_their_argument_once_and_never_as_json() {
        for (name, input, told) in [
            (
                "Read",
                json!({"file_path": "/w/a.py", "limit": 5}),
                "Read a.py",
            ),
            ("read · /w/a.py", json!({"path": "/w/a.py"}), "read · a.py"),
            ("Grep", json!({"pattern": "fn main"}), "Grep fn main"),
            (
                "apply_patch: {\"input\":\"*** Be...",
                json!({"input": "*** Begin Patch\n*** Add File: a\n+x\n"}),
                "apply_patch a",
            ),
            (
                "file_change",
                json!({"changes": [{"kind": "add", "path": "/w/a"}]}),
                "edit a",
            ),
            (
                "mcp.tool",
                json!({"deep": {"x": 1}, "n": 3, "on": true}),
                "mcp.tool n=3 on=true",
            ),
            ("mcp.tool", json!({"deep": [1]}), "mcp.tool"),
            ("Writing to hello.txt", Value::Null, "Writing to hello.txt"),
        ] {
            assert_eq!(call(name, "other", &input, HERE), told, "{name}");
        }
    }

    #[test]
    fn edits_are_counted_from_the_arguments() {
        let file = |path: &str, lines| EditedFile {
            path: path.into(),
            lines,
        };
        for (input, files) in [
            (
                json!({"file_path": "/w/a", "old_string": "1\n2\n3", "new_string": "1\n9\n3\n4"}),
                vec![file("a", Some((3, 2)))],
            ),
            (
                json!({"path": "/w/a", "content": "x\ny\n"}),
                vec![file("a", Some((2, 0)))],
            ),
            (
                json!({"changes": [{"path": "/w/a"}, {"path": "/w/b"}]}),
                vec![file("a", None), file("b", None)],
            ),
            (
                json!({"input": "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n+z\n*** Add File: b\n+1\n*** End Patch"}),
                vec![file("a", Some((2, 1))), file("b", Some((1, 0)))],
            ),
            (
                json!({"file_path": "a", "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "", "new_string": "c"}]}),
                vec![file("a", Some((2, 1)))],
            ),
            (Value::Null, Vec::new()),
        ] {
            assert_eq!(edited(&input, HERE), files, "{input}");
        }
    }

    #[test]
    fn results_are_few_words() {
        for (ok, output, told) in [
            (true, "?? hello.txt\n", "?? hello.txt"),
            (true, "", ""),
            (
                true,
                "a\nb\n5 passed in 0.1s\n",
                "3 lines: 5 passed in 0.1s",
            ),
            (
                true,
                "?? a\n<shellId: 0 completed with exit code 0>",
                "?? a",
            ),
            (false, "Traceback\nKeyError: 'x'\n", "failed: KeyError: 'x'"),
            (false, "", "failed"),
            (
                true,
                "[{\"query\":\"git status\",\"result\":\"?? a\\n\",\"success\":true}]",
                "?? a",
            ),
            (true, "{\"n\": 1}", "(data)"),
            (
                true,
                "Command: git status\nDirectory: (root)\nOutput: ?? a\nError: (none)\nExit Code: 0\nSignal: (none)",
                "?? a",
            ),
            (true, "wrote /w/dir/a", "wrote dir/a"),
        ] {
            assert_eq!(result(ok, output, HERE), told, "{output}");
        }
    }

    #[test]
    fn paths_outside_the_worktree_stay() {
        assert_eq!(
            relative("/elsewhere/x /w/a in /w", HERE),
            "/elsewhere/x a in ."
        );
        assert_eq!(relative("/w/a", None), "/w/a");
    }
}
