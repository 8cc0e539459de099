//! Names of sessions: made from the task, and safe as part of a branch, as a directory and as an argument.

use crate::error::{Error, Result};

/// The longest name made from a task, in characters.
const MADE: usize = 32;
/// The longest name that a user may choose, in characters.
const CHOSEN: usize = 64;
/// Words that do not distinguish tasks.
const FILLERS: [&str; 16] = [
    "a", "an", "the", "to", "of", "in", "on", "for", "and", "or", "with", "that", "this", "please",
    "it", "is",
];

/// Makes a name from a task: its significant words, in lower case, joined by dashes.
pub fn from_task(task: &str) -> String {
    let line = task
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let words: Vec<String> = line
        .split(|c: char| !c.is_alphanumeric())
        .map(|word| {
            word.chars()
                .filter(char::is_ascii_alphanumeric)
                .collect::<String>()
        })
        .map(|word| word.to_ascii_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    let telling: Vec<&String> = words
        .iter()
        .filter(|word| !FILLERS.contains(&word.as_str()))
        .collect();
    let chosen: Vec<&String> = if telling.is_empty() {
        words.iter().collect()
    } else {
        telling
    };
    let mut name = String::new();
    for word in chosen {
        if !name.is_empty() && name.len() + 1 + word.len() > MADE {
            break;
        }
        if !name.is_empty() {
            name.push('-');
        }
        name.extend(word.chars().take(MADE));
    }
    if name.is_empty() {
        "task".to_owned()
    } else if is_reserved(&name) {
        format!("{name}-task")
    } else {
        name
    }
}

/// Checks a name that the user chose.
pub fn check(name: &str) -> Result<()> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let valid = bytes.len() <= CHOSEN
        && bytes.iter().all(|byte| inside(*byte))
        && edge(bytes.first())
        && edge(bytes.last())
        && !name.contains("..")
        && !name.ends_with(".lock");
    let refused = || Error::usage(format!("'{name}' is not a valid session name"));
    if valid && is_reserved(name) {
        return Err(refused().hint(format!(
            "some systems reserve '{name}' for a device; try {name}-1"
        )));
    }
    if valid {
        return Ok(());
    }
    Err(refused()
        .hint("use letters, digits, '-', '_' and '.', at most 64 of them")
        .hint("start and end with a letter or a digit; avoid '..' and a final '.lock'"))
}

/// Returns whether some systems reserve a name for a device, with or without an extension.
fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let stem = stem.to_ascii_lowercase();
    let numbered = ["com", "lpt"].iter().any(|kind| {
        let number = stem.strip_prefix(kind).map(str::as_bytes);
        matches!(number, Some([digit]) if digit.is_ascii_digit())
    });
    numbered || ["con", "prn", "aux", "nul"].contains(&stem.as_str())
}

/// Returns the name, or the first of `name-2`, `name-3`, … that is free.
pub fn make_unique(name: &str, mut taken: impl FnMut(&str) -> bool) -> String {
    if !taken(name) {
        return name.to_owned();
    }
    (2..)
        .map(|number: u64| format!("{name}-{number}"))
        .find(|candidate| !taken(candidate))
        .unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_tell_the_task() {
        assert_eq!(from_task("Add a wipe command"), "add-wipe-command");
        assert_eq!(
            from_task("fix the CI (issue #42), please"),
            "fix-ci-issue-42"
        );
        assert_eq!(from_task("  \n\tthe \n"), "the");
        assert_eq!(from_task("日本語だけ"), "task");
        assert_eq!(from_task(&"x".repeat(500)).len(), 32);
        assert_eq!(from_task("con"), "con-task");
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let taken = ["a", "a-2"];
        assert_eq!(make_unique("a", |name| taken.contains(&name)), "a-3");
        assert_eq!(make_unique("b", |name| taken.contains(&name)), "b");
    }

    #[test]
    fn names_of_devices_are_refused_in_words() {
        for name in ["con", "AUX", "nul", "com1", "lpt9", "con.txt"] {
            let error = check(name).expect_err("refused");
            assert!(error.hints()[0].contains("for a device"), "{name}");
        }
        for name in ["console", "com", "com10", "null", "x-con"] {
            assert!(check(name).is_ok(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_made_name_is_valid(task in "\\PC{0,120}") {
            prop_assert!(check(&from_task(&task)).is_ok());
        }

        #[test]
        fn no_chosen_name_is_dangerous(name in "[-./a-z@{~^: \\\\]{1,12}") {
            if check(&name).is_ok() {
                prop_assert!(!name.starts_with('-') && !name.contains('/') && !name.contains(".."));
            }
        }
    }
}
