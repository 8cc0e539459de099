//! The tools that a model may call: few, and each with a bounded answer.

mod edit;
mod read;
pub mod shell;

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

/// A tool as the model sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// Its parameters: name, type, description, whether it is required.
    parameters: &'static [(&'static str, &'static str, &'static str, bool)],
}

/// All tools.
pub const ALL: [Tool; 6] = [
    Tool {
        name: "shell",
        description: "Runs a command with sh in the working directory and returns its output and exit code. Each \
                      call is a new shell. Long output is cut in the middle.",
        parameters: &[
            ("command", "string", "The command", true),
            (
                "timeout",
                "integer",
                "Seconds after which it is killed (default 120, at most 1800)",
                false,
            ),
        ],
    },
    Tool {
        name: "edit",
        description: "Replaces text in a file. 'old' must occur exactly once, with its white space. An empty 'old' \
                      makes a new file.",
        parameters: &[
            (
                "path",
                "string",
                "The file, relative to the working directory",
                true,
            ),
            (
                "old",
                "string",
                "The text to replace; empty to make a new file",
                true,
            ),
            ("new", "string", "The new text", true),
        ],
    },
    Tool {
        name: "read",
        description: "Returns lines of a file with their numbers, or the entries of a directory.",
        parameters: &[
            ("path", "string", "The file or directory", true),
            ("from", "integer", "The first line (default 1)", false),
            (
                "lines",
                "integer",
                "How many lines (default 400, at most 1000)",
                false,
            ),
        ],
    },
    Tool {
        name: "search",
        description: "Searches the files of the worktree for a regular expression. Returns path, line number and line.",
        parameters: &[
            ("pattern", "string", "An extended regular expression", true),
            ("path", "string", "A file or directory to search in", false),
        ],
    },
    Tool {
        name: "plan",
        description: "Shows the plan to the user. Call it again whenever a step is done.",
        parameters: &[("steps", "array", "The steps in order", true)],
    },
    Tool {
        name: "done",
        description: "Ends the task.",
        parameters: &[(
            "summary",
            "string",
            "The changes and the checks, in a few sentences",
            true,
        )],
    },
];

impl Tool {
    /// Returns the schema of its parameters.
    pub fn schema(&self) -> Value {
        let mut properties = serde_json::Map::new();
        for (name, kind, description, _) in self.parameters {
            let mut property = json!({"type": kind, "description": description});
            if *kind == "array" {
                let status =
                    json!({"type": "string", "enum": ["pending", "in_progress", "completed"]});
                let step = json!({"text": {"type": "string"}, "status": status});
                property["items"] =
                    json!({"type": "object", "properties": step, "required": ["text", "status"]});
            }
            properties.insert((*name).to_owned(), property);
        }
        let required: Vec<&str> = self
            .parameters
            .iter()
            .filter(|(_, _, _, required)| *required)
            .map(|(name, ..)| *name)
            .collect();
        json!({"type": "object", "properties": properties, "required": required})
    }
}

/// A call that is understood.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Runs a command.
    Shell {
        /// The command.
        command: String,
        /// Seconds it may take.
        timeout: u64,
    },
    /// Changes a file.
    Edit(Edit),
    /// Reads a file.
    Read {
        /// The file.
        path: String,
        /// The first line, from 1.
        from: usize,
        /// How many lines.
        lines: usize,
    },
    /// Searches files.
    Search {
        /// The pattern.
        pattern: String,
        /// Where.
        path: String,
    },
    /// Shows a plan: text and status of each step.
    Plan(Vec<(String, String)>),
    /// Ends the turn.
    Done(String),
}

/// A replacement in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file as the model named it.
    pub path: String,
    /// The text to replace.
    pub old: String,
    /// The new text.
    pub new: String,
}

/// Parses a call; the error is for the model.
pub fn parse(name: &str, input: &Value) -> Result<Action, String> {
    let Some(fields) = input.as_object() else {
        return Err("the arguments are not a JSON object".to_owned());
    };
    let text = |key: &str| match fields.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("'{key}' is not a string")),
        None => Err(format!("'{key}' is missing")),
    };
    let number = |key: &str| fields.get(key).and_then(Value::as_u64);
    Ok(match name {
        "shell" => Action::Shell {
            command: text("command")?,
            timeout: number("timeout").unwrap_or(120).clamp(1, 1800),
        },
        "edit" => Action::Edit(Edit {
            path: text("path")?,
            old: text("old")?,
            new: text("new")?,
        }),
        "read" => Action::Read {
            path: text("path")?,
            from: usize::try_from(number("from").unwrap_or(1))
                .unwrap_or(usize::MAX)
                .max(1),
            lines: usize::try_from(number("lines").unwrap_or(400).clamp(1, 1000)).unwrap_or(400),
        },
        "search" => Action::Search {
            pattern: text("pattern")?,
            path: text("path").unwrap_or_default(),
        },
        "plan" => {
            let steps = fields.get("steps").and_then(Value::as_array);
            let steps = steps.ok_or("'steps' is not a list")?;
            let word = |step: &Value, key: &str| step[key].as_str().map(str::to_owned);
            let step = |step: &Value| {
                let text = word(step, "text").or_else(|| step.as_str().map(str::to_owned))?;
                Some((
                    text,
                    word(step, "status").unwrap_or_else(|| "pending".to_owned()),
                ))
            };
            Action::Plan(steps.iter().filter_map(step).take(100).collect())
        }
        "done" => Action::Done(text("summary").unwrap_or_default()),
        other => {
            let names: Vec<&str> = ALL.iter().map(|tool| tool.name).collect();
            return Err(format!(
                "there is no tool '{other}'; tools: {}",
                names.join(", ")
            ));
        }
    })
}

impl Action {
    /// Returns the kind of the action in the protocol's words.
    pub fn kind(&self) -> &'static str {
        match self {
            Action::Shell { .. } => "execute",
            Action::Edit(_) => "edit",
            Action::Read { .. } => "read",
            Action::Search { .. } => "search",
            Action::Plan(_) | Action::Done(_) => "other",
        }
    }

    /// Returns the title that the user sees.
    pub fn title(&self) -> String {
        match self {
            Action::Shell { command, .. } => command.clone(),
            Action::Edit(edit) => format!("Edit {}", edit.path),
            Action::Read { path, .. } => format!("Read {path}"),
            Action::Search { pattern, .. } => format!("Search for {pattern}"),
            Action::Plan(_) => "Plan".to_owned(),
            Action::Done(_) => "Done".to_owned(),
        }
    }

    /// Returns whether the user may want to be asked first: also before a file elsewhere on the machine goes to a model.
    pub fn is_risky(&self, cwd: &Path) -> bool {
        match self {
            Action::Shell { .. } | Action::Edit(_) => true,
            Action::Read { path, .. } => leads_to(cwd, &cwd.join(path)).is_none(),
            Action::Search { .. } | Action::Plan(_) | Action::Done(_) => false,
        }
    }
}

/// Changes a file. Returns the whole text before and after.
pub fn edit(cwd: &Path, wanted: &Edit) -> Result<(String, String), String> {
    edit::apply(&inside(cwd, &wanted.path)?, wanted)
}

/// Returns the text before and after a change that is not made yet.
pub fn preview(cwd: &Path, wanted: &Edit) -> Result<(String, String), String> {
    edit::replaced(&inside(cwd, &wanted.path)?, wanted)
}

/// Reads lines of a file, or lists a directory.
pub fn read(cwd: &Path, path: &str, from: usize, lines: usize) -> Result<String, String> {
    read::lines(&cwd.join(path), from, lines)
}

/// Returns the command that searches the worktree.
pub fn search_command(pattern: &str, path: &str) -> Vec<String> {
    let mut words: Vec<String> = [
        "git",
        "-c",
        "core.fsmonitor=false",
        "grep",
        "--untracked",
        "-n",
        "-I",
        "-E",
        "-e",
        pattern,
        "--",
    ]
    .map(str::to_owned)
    .to_vec();
    if !path.is_empty() {
        words.push(path.to_owned());
    }
    words
}

/// Returns where a path leads, if that is in the working directory and does not belong to git.
fn inside(cwd: &Path, path: &str) -> Result<PathBuf, String> {
    let relative = Path::new(path).strip_prefix(cwd).unwrap_or(Path::new(path));
    let stays = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let real = leads_to(cwd, &cwd.join(relative)).filter(|_| stays);
    let Some(real) = real else {
        return Err(format!("'{path}' is not in the working directory"));
    };
    let of_git = |part: Component<'_>| part.as_os_str().eq_ignore_ascii_case(".git");
    if real.components().any(of_git) {
        return Err(format!("'{path}' belongs to git: use git commands"));
    }
    Ok(cwd.join(real))
}

/// Follows the links of a path, whose last parts need not exist. Returns where it leads below the working directory, or
/// nothing if it leads out of it.
fn leads_to(cwd: &Path, path: &Path) -> Option<PathBuf> {
    let there = path
        .ancestors()
        .find(|part| part.symlink_metadata().is_ok())?;
    // A link to a file that does not exist leads nowhere.
    let real = there.canonicalize().ok()?;
    let below = real.strip_prefix(cwd.canonicalize().ok()?).ok()?;
    let rest = path.strip_prefix(there).ok()?;
    if rest.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    // Only parts, for joining nothing would add a slash, and a file with a slash is not found.
    Some(below.components().chain(rest.components()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_checked() {
        let shell = parse("shell", &json!({"command": "ls", "timeout": 9999}));
        assert_eq!(
            shell,
            Ok(Action::Shell {
                command: "ls".into(),
                timeout: 1800
            })
        );
        for (name, input) in [
            ("shell", json!({})),
            ("shell", json!("ls")),
            ("edit", json!({"path": "a", "old": 1, "new": ""})),
            ("plan", json!({"steps": "x"})),
            ("fly", json!({})),
        ] {
            assert!(parse(name, &input).is_err(), "{name} {input}");
        }
        for tool in ALL {
            assert_eq!(tool.schema()["type"], "object", "{}", tool.name);
        }
    }

    #[test]
    fn files_outside_are_not_changed() {
        let top = tempfile::tempdir().expect("a directory");
        let cwd = &top.path().join("w");
        std::fs::create_dir_all(cwd.join("sub")).expect("made");
        std::fs::write(cwd.join("f"), "text").expect("written");
        std::fs::write(top.path().join("secret"), "text").expect("written");
        for (name, target) in [
            ("out", "../"),
            ("key", "../secret"),
            ("none", "../none"),
            ("ok", "sub"),
            ("git", ".git"),
        ] {
            std::os::unix::fs::symlink(target, cwd.join(name)).expect("linked");
        }
        std::fs::create_dir(cwd.join(".git")).expect("made");
        for (path, place) in [
            ("f", "f"),
            ("new/x", "new/x"),
            ("./f", "f"),
            ("ok/x", "sub/x"),
        ] {
            let found = inside(cwd, path).expect(path);
            // As texts: paths are equal even if one ends in a slash.
            assert_eq!(found.as_os_str(), cwd.join(place).as_os_str(), "{path}");
        }
        let change = parse(
            "edit",
            &json!({"path": "f", "old": "text", "new": "changed"}),
        );
        let Ok(Action::Edit(change)) = change else {
            panic!("{change:?}");
        };
        edit(cwd, &change).expect("changed");
        let whole = cwd.join("sub/x");
        assert_eq!(inside(cwd, &whole.to_string_lossy()), Ok(whole));
        for path in [
            "../x",
            "/etc/x",
            "sub/../../x",
            "out/x",
            "out/new/x",
            "key",
            "none",
            ".git",
            ".GIT/config",
            "git/config",
        ] {
            assert!(inside(cwd, path).is_err(), "{path}");
        }
        let asks = |path: &str| {
            let read = parse("read", &json!({"path": path})).expect("a call");
            read.is_risky(cwd)
        };
        assert!(!asks("f") && !asks(".") && !asks("nothing/here") && !asks("ok"));
        assert!(asks("key") && asks("/etc/passwd") && asks("../secret") && asks("out"));
    }
}
