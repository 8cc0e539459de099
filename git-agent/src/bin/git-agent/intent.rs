//! Words that are not commands but say what the user wants: `git agent diff x` runs `git agent review diff x`.
//!
//! A program `git-agent-<word>` on PATH comes first. A word that would remove something only answers with a hint.

use std::borrow::Cow;
use std::ffi::OsString;

use git_agent::env::Env;
use git_agent::error::{Error, Result, shell_word};
use git_agent::invoke;

/// The words, and the words that they stand for.
const RUNS: [(&str, &[&str]); 19] = [
    ("apply", &["merge", "--apply"]),
    ("approve", &["review", "approve"]),
    ("comment", &["review", "comment"]),
    ("compare", &["review", "compare"]),
    ("conflicts", &["merge", "conflicts"]),
    ("diff", &["review", "diff"]),
    ("edit", &["review", "edit"]),
    ("land", &["merge"]),
    ("ls", &["list"]),
    ("pick", &["merge", "--pick"]),
    ("ps", &["list"]),
    ("queue", &["merge", "queue"]),
    ("reject", &["review", "reject"]),
    ("reply", &["review", "reply"]),
    ("request-changes", &["review", "request-changes"]),
    ("resolve", &["merge", "resolve"]),
    ("revert", &["merge", "--undo"]),
    ("undo", &["merge", "--undo"]),
    ("version", &["--version"]),
];

/// The words that answer with a command, and what the command does.
const HINTS: [(&str, &str, &str); 6] = [
    ("abort", "stop", "end what it does now"),
    ("cancel", "stop", "end what it does now"),
    (
        "delete",
        "discard",
        "remove its worktree and branch; 'restore' brings them back",
    ),
    ("kill", "stop", "end what it does now"),
    (
        "remove",
        "discard",
        "remove its worktree and branch; 'restore' brings them back",
    ),
    (
        "rm",
        "discard",
        "remove its worktree and branch; 'restore' brings them back",
    ),
];

/// Returns the command line that was meant.
pub fn meant<'a>(env: &Env, arguments: &'a [OsString]) -> Result<Cow<'a, [OsString]>> {
    let Some((first, rest)) = arguments.split_first() else {
        return Ok(Cow::Borrowed(arguments));
    };
    let Some(word) = first.to_str() else {
        return Ok(Cow::Borrowed(arguments));
    };
    if word == "log" {
        return Ok(arguments.iter().flat_map(last_events).collect());
    }
    let hint = HINTS.iter().find(|(known, ..)| *known == word);
    let runs = stands_for(word);
    let is_help = word == "help";
    if (hint.is_none() && runs.is_none() && !is_help)
        || invoke::has_program(env, "git-agent-", first)
    {
        return Ok(Cow::Borrowed(arguments));
    }
    if let Some((_, command, does)) = hint {
        let names: Vec<String> = rest
            .iter()
            .map(|name| shell_word(name.as_encoded_bytes()))
            .collect();
        let names = if names.is_empty() {
            "SESSION".to_owned()
        } else {
            names.join(" ")
        };
        let step = format!("git agent {command} {names}    {does}");
        let message = format!("'{word}' is not a git-agent command");
        return Err(Error::negative(message).hint(step));
    }
    if is_help {
        let words = rest.iter().cloned();
        return Ok(words.chain([OsString::from("--help")]).collect());
    }
    let words = runs.unwrap_or_default().iter().map(OsString::from);
    Ok(words.chain(rest.iter().cloned()).collect())
}

/// Writes `-5` as `git log` takes it in full.
fn last_events(word: &OsString) -> Vec<OsString> {
    let number = word.to_str().and_then(|word| word.strip_prefix('-'));
    match number.filter(|text| text.parse::<u32>().is_ok() && !text.starts_with('+')) {
        Some(number) => vec!["-n".into(), number.into()],
        None => vec![word.clone()],
    }
}

/// Returns the words of a command line to complete, as they were meant.
pub fn to_complete(words: &[OsString]) -> Cow<'_, [OsString]> {
    match words {
        [first, rest @ ..] if !rest.is_empty() => match first.to_str().and_then(stands_for) {
            Some(meant) => meant
                .iter()
                .map(OsString::from)
                .chain(rest.iter().cloned())
                .collect(),
            None => Cow::Borrowed(words),
        },
        _ => Cow::Borrowed(words),
    }
}

fn stands_for(word: &str) -> Option<&'static [&'static str]> {
    let found = RUNS.iter().find(|(known, _)| *known == word);
    found.map(|(_, words)| *words)
}
