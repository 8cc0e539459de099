//! The git commands of an agent, as git itself writes them down: who took entries out of a reflog.
//!
//! git tells no hook of it, so the agent's git is told to trace the commands it is given. What a person runs in a
//! terminal of their own is not among them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use crate::error::{Context, Result};

/// The variable that says where git traces to.
pub(super) const VARIABLE: &str = "GIT_TRACE2_EVENT";
/// Settings of the trace: as short as git can make it.
pub(super) const SETTINGS: [(&str, &str); 2] = [
    ("GIT_TRACE2_EVENT_BRIEF", "1"),
    ("GIT_TRACE2_EVENT_NESTING", "0"),
];

/// Commands of git, and the words after them that let them take entries out of a reflog; none: any.
const DROPPING: [(&str, &[&str]); 4] = [
    ("stash", &["drop", "pop", "clear", "branch"]),
    ("reflog", &["expire", "delete"]),
    ("gc", &[]),
    ("maintenance", &[]),
];

#[derive(Deserialize)]
struct Traced {
    #[serde(default)]
    argv: Vec<String>,
}

/// Returns whether a command in a trace takes entries out of reflogs.
pub fn dropped_entries(trace: &Path) -> Result<bool> {
    let cannot = || format!("cannot read '{}'", trace.display());
    let file = match File::open(trace) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        other => other.context(cannot)?,
    };
    for line in BufReader::new(file).split(b'\n') {
        // A line that was cut short, or that the agent wrote itself, tells nothing.
        let traced = serde_json::from_slice::<Traced>(&line.context(cannot)?);
        if traced.is_ok_and(|traced| drops(&traced.argv)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn drops(argv: &[String]) -> bool {
    let mut words = argv.iter().map(|word| {
        let word = word.rsplit('/').next().unwrap_or_default();
        word.strip_prefix("git-").unwrap_or(word)
    });
    let command = words.find_map(|word| DROPPING.iter().find(|(name, _)| *name == word));
    command.is_some_and(|(_, verbs)| verbs.is_empty() || words.any(|word| verbs.contains(&word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_take_entries_away_are_told_from_others() {
        let drops = |line: &str| {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            drops(&argv)
        };
        for line in [
            "git stash pop",
            "git -C /x stash -q drop stash@{1}",
            "/usr/lib/git-core/git-stash clear",
            "stash branch x",
            "git reflog expire --expire=now --all",
            "git gc",
            "git maintenance run",
        ] {
            assert!(drops(line), "{line}");
        }
        for line in [
            "git stash",
            "git stash list",
            "git reflog",
            "git status",
            "",
        ] {
            assert!(!drops(line), "{line}");
        }
    }
}
