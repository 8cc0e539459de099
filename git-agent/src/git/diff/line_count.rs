//! Counts added and deleted lines between two texts where the result is certain: git's usual algorithms strip the
//! common start and end, and the rest leaves no choice. All other cases are left to git.
//!
//! Without it each worktree with changes needs a git process; see
//! [`worktree_counts`](crate::git::diff::worktree_counts).

use std::collections::HashSet;

/// How far git searches for a NUL to detect a binary file.
const BINARY_LOOK: usize = 8000;

/// Returns whether git treats a text as binary.
pub(in crate::git) fn is_binary(text: &[u8]) -> bool {
    text[..text.len().min(BINARY_LOOK)].contains(&0)
}

/// Returns the number of lines of a text; a last line without an end counts.
pub(in crate::git) fn count_lines(text: &[u8]) -> u64 {
    let ends = text.iter().filter(|byte| **byte == b'\n').count() as u64;
    ends + u64::from(text.last().is_some_and(|last| *last != b'\n'))
}

/// Returns whether an algorithm of git first strips the common start and end of both texts.
pub(in crate::git) fn is_usual(algorithm: &str) -> bool {
    ["default", "myers", "minimal"]
        .iter()
        .any(|usual| algorithm.eq_ignore_ascii_case(usual))
}

/// Returns the numbers of added and deleted lines; `None` if they depend on the algorithm. Binary files have no lines.
///
/// The result is certain if, without the common start and end, one text is empty or the two have no line in common.
pub(in crate::git) fn between(old: &[u8], new: &[u8]) -> Option<(u64, u64)> {
    if is_binary(old) || is_binary(new) {
        return Some((0, 0));
    }
    let lines =
        |text| -> Vec<&[u8]> { <[u8]>::split_inclusive(text, |byte| *byte == b'\n').collect() };
    let (old, new) = (lines(old), lines(new));
    let same = |(one, other): &(&&[u8], &&[u8])| one == other;
    let start = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[start..], &new[start..]);
    let end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(same)
        .count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    let known: HashSet<&[u8]> = old.iter().copied().collect();
    let shared = new.iter().any(|line| known.contains(line));
    (!shared).then_some((new.len() as u64, old.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::snapshot::tests::world::command;

    #[test]
    fn what_is_certain_is_counted() {
        for (old, new, known) in [
            ("", "", Some((0, 0))),
            ("a\nb\n", "a\nb\n", Some((0, 0))),
            ("a\nb\n", "a\nx\nb\n", Some((1, 0))),
            ("a\nx\nb\n", "a\nb\n", Some((0, 1))),
            ("a\n", "a", Some((1, 1))),
            ("a\na\n", "a\na\na\n", Some((1, 0))),
            ("a\nb\nc\n", "x\ny\nc\n", Some((2, 2))),
            ("a\nb\nc\n", "b\na\nc\n", None),
            ("a\nb\nc\nd\n", "x\nb\ny\nd\n", None),
            ("a\0\n", "b\nc\n", Some((0, 0))),
            ("", "a\nb", Some((2, 0))),
        ] {
            let found = between(old.as_bytes(), new.as_bytes());
            assert_eq!(found, known, "{old:?} {new:?}");
        }
    }

    #[test]
    fn git_counts_the_same_in_its_usual_ways() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        // Few different lines, so that many occur more than once.
        let mut seed = 7u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut certain = 0;
        while certain < 40 {
            let mut text = |letters: u64| -> Vec<String> {
                let length = next(7);
                (0..length)
                    .map(|_| format!("{}\n", next(letters)))
                    .collect()
            };
            let (start, end) = (text(3), text(3));
            let (gone, come) = (text(4), text(4));
            let old = [start.clone(), gone, end.clone()].concat().concat();
            let new = [start, come, end].concat().concat();
            let Some((added, deleted)) = between(old.as_bytes(), new.as_bytes()) else {
                continue;
            };
            if old == new {
                continue;
            }
            certain += 1;
            std::fs::write(&one, &old).expect("a file");
            std::fs::write(&other, &new).expect("a file");
            for algorithm in ["myers", "minimal"] {
                assert!(is_usual(algorithm));
                let algorithm = format!("--diff-algorithm={algorithm}");
                let words = [
                    "diff",
                    "--no-index",
                    "--numstat",
                    &algorithm,
                    "one",
                    "other",
                ];
                let output = command(dir.path(), &words).output().expect("git starts");
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(
                    said.starts_with(&format!("{added}\t{deleted}\t")),
                    "{algorithm} {old:?} {new:?}: {said}"
                );
            }
        }
    }
}
