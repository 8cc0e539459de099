//! Reads git's own trace of an agent's commands, to see whether the agent removed reflog entries.
//!
//! git runs no hook for that, so the agent's git is told to trace its commands. Commands in the user's own terminal are
//! not traced.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use crate::error::{Context, Result};

/// The variable that names the trace file.
pub(super) const VARIABLE: &str = "GIT_TRACE2_EVENT";
/// Settings that keep the trace as short as possible.
pub(super) const SETTINGS: [(&str, &str); 2] = [
    ("GIT_TRACE2_EVENT_BRIEF", "1"),
    ("GIT_TRACE2_EVENT_NESTING", "0"),
];

/// git commands that can remove reflog entries, with the subcommands that do; empty for any.
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

/// Returns whether a command in a trace removes reflog entries.
pub fn dropped_entries(trace: &Path) -> Result<bool> {
    let cannot = || format!("cannot read '{}'", trace.display());
    let file = match File::open(trace) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        other => other.context(cannot)?,
    };
    for line in BufReader::new(file).split(b'\n') {
        // Ignore a truncated line, or one that the agent wrote itself.
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
