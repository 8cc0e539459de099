//! Finds in the output of an agent what its room refused, and names the setting that would allow it.
//!
//! The kernel tells only the program that it refused, so this reads messages of programs. It may miss some, and it never
//! names a path that the room leaves open.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::error::shell_path;
use crate::process::sandbox::Room;

/// The words of the C library and of runtimes for a refused path.
const WORDS: [&str; 5] = [
    "Permission denied",
    "permission denied",
    "Read-only file system",
    "EACCES",
    "EROFS",
];
/// How many refusals of a turn are told.
const MOST: usize = 20;

/// The refusals of a turn.
#[derive(Debug)]
pub struct Refusals {
    room: Room,
    /// Where relative paths begin.
    top: PathBuf,
    found: BTreeSet<(PathBuf, &'static str)>,
}

impl Refusals {
    /// Begins to look for refusals of a room around a worktree.
    pub fn new(room: Room, top: &Path) -> Self {
        Refusals {
            room,
            top: top.to_owned(),
            found: BTreeSet::new(),
        }
    }

    /// Looks through some output.
    pub fn see(&mut self, text: &str) {
        for line in text.lines() {
            let Some(at) = WORDS.iter().filter_map(|words| line.find(words)).min() else {
                continue;
            };
            // Most programs name the path before the words, some runtimes after them, and then in quotes.
            let (before, after) = line.split_at(at);
            let mut named = paths(before).into_iter().rev().chain(quoted(after));
            let refused = named.find_map(|name| self.refused(&plain(&self.top.join(name))));
            if let Some(refused) = refused.filter(|_| self.found.len() < MOST) {
                self.found.insert(refused);
            }
        }
    }

    /// Returns a path and the setting that would allow it, if the room refuses it.
    fn refused(&self, path: &Path) -> Option<(PathBuf, &'static str)> {
        let room = &self.room;
        let within = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        let own = within(&room.writable) || room.temporary.iter().any(|own| path.starts_with(own));
        if own && !within(&room.fixed) {
            return None;
        }
        if within(&room.closed) {
            let closed = !within(&room.readable);
            return closed.then(|| (path.to_owned(), "agent.readable"));
        }
        let shared = ["/dev", "/proc", "/sys"]
            .iter()
            .any(|root| path.starts_with(root));
        (!shared && !within(&room.fixed)).then(|| (path.to_owned(), "agent.writable"))
    }

    /// Returns a sentence for each refusal.
    pub fn in_words(&self) -> Vec<String> {
        let words = self.found.iter().map(|(path, setting)| {
            let what = if *setting == "agent.readable" {
                "read"
            } else {
                "write"
            };
            format!(
                "the guard refused to {what} '{}'; to allow it: git config --add {setting} {}",
                path.display(),
                shell_path(path)
            )
        });
        words.collect()
    }
}

fn is_quote(c: char) -> bool {
    "'\"`‘’“”".contains(c)
}

/// Returns the quoted parts of a message.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(is_quote).skip(1).step_by(2);
    parts.filter(|part| part.contains('/'))
}

/// Returns the parts of a message that may be paths, in order: quoted ones, and the ends of its other parts.
fn paths(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (number, part) in text.split(is_quote).enumerate() {
        if number % 2 == 1 {
            found.push(part);
            continue;
        }
        for piece in part.split(": ").flat_map(|piece| piece.split(", ")) {
            // A path may contain spaces, the words before it no slash.
            let slash = piece.find('/').unwrap_or(0);
            let start = piece[..slash]
                .rfind(char::is_whitespace)
                .map_or(0, |at| at + 1);
            found.push(piece[start..].trim_end_matches([':', '.', ' ']));
        }
    }
    found.retain(|path| path.contains('/') && path.len() > 1);
    found
}

/// Returns a path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        let room = Room {
            writable: paths(&["/w/s", "/r/.git/agents/cells/1"]),
            closed: paths(&["/home/me/.ssh", "/r/.git"]),
            readable: paths(&["/r/.git/objects"]),
            temporary: Some("/tmp/t".into()),
            ..Room::default()
        };
        let mut refusals = Refusals::new(room, Path::new("/w/s"));
        refusals.see(text);
        refusals.in_words()
    }

    #[test]
    fn a_refusal_is_told_with_its_setting() {
        for (text, path, setting) in [
            (
                "sh: 1: cannot create /home/me/x: Permission denied",
                "/home/me/x",
                "agent.writable",
            ),
            (
                "touch: cannot touch '../other/x': Read-only file system",
                "/w/other/x",
                "agent.writable",
            ),
            (
                "cat: /home/me/.ssh/id: Permission denied",
                "/home/me/.ssh/id",
                "agent.readable",
            ),
            (
                "Error: EACCES: permission denied, open '/home/me/.ssh/id'",
                "/home/me/.ssh/id",
                "agent.readable",
            ),
            (
                "one\nerror: could not lock config file /r/.git/config: Permission denied\ntwo",
                "/r/.git/config",
                "agent.readable",
            ),
        ] {
            let told = told(text);
            assert_eq!(told.len(), 1, "{text}: {told:?}");
            assert!(
                told[0].contains(path) && told[0].contains(setting),
                "{told:?}"
            );
        }
    }

    #[test]
    fn other_trouble_is_not_the_guards() {
        for text in [
            "cat: /w/s/locked: Permission denied",
            "cat: /tmp/t/locked: Permission denied",
            "Permission denied",
            "Permission denied (publickey)",
            "cat: /home/me/.ssh/id: No such file or directory",
            "fatal: /r/.git/objects/ab: Permission denied, but /w/s is fine",
        ] {
            assert_eq!(told(text), Vec::<String>::new(), "{text}");
        }
    }
}
