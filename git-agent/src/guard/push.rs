//! Decides which refs a session may push: only its own branch, to the branch of the same name. Pure.

use std::path::Path;

use crate::error::{Error, shell_path, shell_word};
use crate::guard::policy::{Own, Update, short};

/// The hook that git runs before a push.
pub const PRE_PUSH: &str = "pre-push";

/// Parses the hook's input: one ref per line, with its name at the remote.
pub fn parse(input: &str) -> Vec<Update> {
    input
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (_, new) = (words.next()?, words.next()?);
            Some(Update {
                new: new.to_owned(),
                name: words.next()?.to_owned(),
                old: words.next()?.to_owned(),
            })
        })
        .collect()
}

/// Returns whether a session may push this ref. It may not delete its branch at the remote.
pub fn allows(own: &Own, update: &Update) -> bool {
    own.first() == Some(update.name.as_str()) && !update.is_deletion()
}

/// Returns the error for refused refs.
pub fn refuse(own: &Own, refused: &[Update]) -> Error {
    let names: Vec<String> = refused
        .iter()
        .map(|update| {
            if update.is_deletion() {
                format!("the deletion of '{}'", short(&update.name))
            } else {
                format!("'{}'", short(&update.name))
            }
        })
        .collect();
    let names = names.join(", ");
    match own.first().map(short) {
        Some(branch) => Error::negative(format!(
            "git-agent: this session may push only '{branch}', not {names}"
        ))
        .hint(format!("git push <remote> {}", shell_word(branch)))
        .hint("after review, git agent merge merges it into other branches"),
        None => Error::negative(format!(
            "git-agent: this session may only read, not push {names}"
        ))
        .hint("report the change instead of making it"),
    }
}

/// Returns the hook as a script, for a git directory where this program is not in reach. The repository's own hook runs
/// after it.
pub fn script(branch: &str, theirs: &Path) -> String {
    let (own, shown) = (shell_word(branch), short(branch));
    let theirs = shell_path(theirs);
    format!(
        "#!/bin/sh\n\
         pushed=$(cat)\n\
         refused=$(printf '%s\\n' \"$pushed\" | while read -r from new name old; do\n\
         \tcase $new in *[!0]*) ;; '') continue;; *) name=\"the deletion of $name\";; esac\n\
         \t[ \"$name\" = {own} ] || printf '%s ' \"$name\"\n\
         done)\n\
         if [ -n \"$refused\" ]; then\n\
         \techo \"git-agent: this session may push only '{shown}', not $refused\" >&2\n\
         \texit 1\n\
         fi\n\
         [ ! -x {theirs} ] || printf '%s\\n' \"$pushed\" | {theirs} \"$@\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_branch_goes_and_stays() {
        let (one, zero) = ("1".repeat(40), "0".repeat(40));
        let own = Own::parse("refs/heads/agent/s:refs/kilo/");
        for (line, may) in [
            (format!("HEAD {one} refs/heads/agent/s {zero}"), true),
            (format!("HEAD {one} refs/heads/main {one}"), false),
            (format!("HEAD {one} refs/kilo/x {zero}"), false),
            (format!("(delete) {zero} refs/heads/agent/s {one}"), false),
        ] {
            let updates = parse(&line);
            assert_eq!(updates.len(), 1, "{line}");
            assert_eq!(allows(&own, &updates[0]), may, "{line}");
            assert!(!allows(&Own::read_only(), &updates[0]), "{line}");
        }
    }
}
