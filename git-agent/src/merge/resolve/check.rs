//! Checks that a resolved file keeps the changes of both sides. Pure.
//!
//! A line that a side added must be in the result. If both sides changed the same line, the result cannot contain both
//! versions; then it must contain the words that each side added.

use std::collections::HashSet;

use similar::{Algorithm, DiffTag, capture_diff_slices};

/// Maximum number of complaints about one side of one file.
const COMPLAINTS: usize = 3;
/// git looks for a NUL in this many bytes to detect a binary file.
const BINARY_LOOK: usize = 8000;
/// Prefixes of conflict marker lines.
const MARKERS: [&str; 3] = ["<<<<<<< ", "||||||| ", ">>>>>>> "];

/// The content of a file; `None` if the file does not exist.
pub type Version<'a> = Option<&'a [u8]>;

/// One side of a merge, with its version of a file.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The name shown in complaints.
    pub name: &'a str,
    /// The side's version.
    pub file: Version<'a>,
}

/// Returns the problems of a resolved file, in words.
pub fn complaints(
    path: &str,
    base: Version<'_>,
    sides: [Side<'_>; 2],
    result: Version<'_>,
) -> Vec<String> {
    let changed: Vec<&Side<'_>> = sides.iter().filter(|side| side.file != base).collect();
    let Some(result) = result else {
        // Deleting the file is right only if no side that changed it kept it.
        return match changed.iter().find(|side| side.file.is_some()) {
            Some(side) => vec![format!("'{path}' is gone, but {} changed it", side.name)],
            None => Vec::new(),
        };
    };
    let mut found = Vec::new();
    if changed.len() == 2 && sides[0].file != sides[1].file {
        let binary = |version: &Version<'_>| version.is_some_and(is_binary);
        let one = sides.iter().find(|side| side.file == Some(result));
        if let Some(side) = one.filter(|side| binary(&side.file)) {
            // A binary file cannot be checked for the changes of both sides.
            found.push(format!(
                "'{path}' is binary and has only the version of {}",
                side.name
            ));
        }
    }
    let known: HashSet<&[u8]> = [base, sides[0].file, sides[1].file]
        .into_iter()
        .flatten()
        .flat_map(lines)
        .collect();
    if let Some(number) = first_marker(result, &known) {
        found.push(format!("'{path}' has a conflict marker in line {number}"));
    }
    for side in changed {
        let Some(file) = side.file else { continue };
        if is_binary(file) || is_binary(result) {
            continue;
        }
        for (number, line) in lost(base.unwrap_or_default(), file, result) {
            found.push(format!(
                "'{path}' lacks line {number} of {}: {line}",
                side.name
            ));
        }
    }
    found
}

/// Returns the number of the first line that is a new conflict marker.
pub fn first_marker(text: &[u8], known: &HashSet<&[u8]>) -> Option<usize> {
    lines(text)
        .position(|line| {
            MARKERS.iter().any(|mark| line.starts_with(mark.as_bytes())) && !known.contains(line)
        })
        .map(|at| at + 1)
}

fn is_binary(text: &[u8]) -> bool {
    text[..text.len().min(BINARY_LOOK)].contains(&0)
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns the lines that a side added and that are missing from the result, both as lines and as words.
fn lost(base: &[u8], side: &[u8], result: &[u8]) -> Vec<(usize, String)> {
    let (base, side): (Vec<_>, Vec<_>) = (lines(base).collect(), lines(side).collect());
    let there: HashSet<&[u8]> = lines(result).map(<[u8]>::trim_ascii).collect();
    let words_there: HashSet<String> = lines(result).flat_map(words).collect();
    let mut lost = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &base, &side) {
        if !matches!(op.tag(), DiffTag::Insert | DiffTag::Replace) {
            continue;
        }
        let old: HashSet<String> = base[op.old_range()]
            .iter()
            .flat_map(|line| words(line))
            .collect();
        for number in op.new_range() {
            let line = side[number].trim_ascii();
            if line.is_empty() || there.contains(line) {
                continue;
            }
            let mut news = words(line).filter(|word| !old.contains(word)).peekable();
            let replaces = op.tag() == DiffTag::Replace && news.peek().is_some();
            if replaces && news.all(|word| words_there.contains(&word)) {
                continue;
            }
            if lost.len() < COMPLAINTS {
                lost.push((number + 1, String::from_utf8_lossy(line).into_owned()));
            }
        }
    }
    lost
}

/// Returns the words of a line: runs of letters, digits and underscores.
fn words(line: &[u8]) -> impl Iterator<Item = String> {
    let text = String::from_utf8_lossy(line).into_owned();
    let mut found = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            found.push(std::mem::take(&mut word));
        }
    }
    if !word.is_empty() {
        found.push(word);
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &str, ours: &str, theirs: &str, result: &str) -> Vec<String> {
        let side = |name, text| Side {
            name,
            file: Some(text),
        };
        complaints(
            "f",
            Some(base.as_bytes()),
            [
                side("wipe", ours.as_bytes()),
                side("main", theirs.as_bytes()),
            ],
            Some(result.as_bytes()),
        )
    }

    const BASE: &str = "list\nadd\n";
    const OURS: &str = "list\nadd\nwipe\n";
    const THEIRS: &str = "list\nadd\nexport\n";

    #[test]
    fn both_kept_is_right() {
        let none: Vec<String> = Vec::new();
        assert_eq!(check(BASE, OURS, THEIRS, "list\nadd\nwipe\nexport\n"), none);
        assert_eq!(check(BASE, OURS, THEIRS, "list\nadd\n  export\nwipe"), none);
    }

    #[test]
    fn one_side_taken_is_wrong() {
        assert_eq!(
            check(BASE, OURS, THEIRS, THEIRS),
            ["'f' lacks line 3 of wipe: wipe"]
        );
        assert_eq!(check(BASE, OURS, THEIRS, BASE).len(), 2);
    }

    #[test]
    fn markers_are_found_unless_they_were_there_before() {
        let open = "list\nadd\n<<<<<<< HEAD\nwipe\n=======\nexport\n>>>>>>> main\n";
        assert_eq!(
            check(BASE, OURS, THEIRS, open),
            ["'f' has a conflict marker in line 3"]
        );
        let quoted = "<<<<<<< an example\nadd\n";
        assert!(check(quoted, quoted, quoted, quoted).is_empty());
    }

    #[test]
    fn a_line_that_both_changed_holds_the_words_of_both() {
        let commands = |words: &str| format!("commands = [{words}]\n");
        let (base, ours, theirs) = (
            commands("\"list\""),
            commands("\"list\", \"wipe\""),
            commands("\"list\", \"export\""),
        );
        let both = commands("\"list\", \"wipe\", \"export\"");
        assert!(check(&base, &ours, &theirs, &both).is_empty());
        assert_eq!(check(&base, &ours, &theirs, &ours).len(), 1);
    }

    #[test]
    fn a_binary_file_of_one_side_is_not_both() {
        let side = |name, file| Side {
            name,
            file: Some(file),
        };
        let sides = [side("wipe", b"\0a".as_slice()), side("main", b"\0b")];
        assert_eq!(
            complaints("f", Some(b"\0"), sides, Some(b"\0a")),
            ["'f' is binary and has only the version of wipe"]
        );
        assert!(complaints("f", Some(b"\0"), sides, Some(b"\0ab")).is_empty());
    }

    #[test]
    fn a_changed_file_may_not_be_gone() {
        let base = Some(b"a\n".as_slice());
        let side = |name, file| Side { name, file };
        let changed = [side("wipe", Some(b"b\n".as_slice())), side("main", None)];
        assert_eq!(
            complaints("f", base, changed, None),
            ["'f' is gone, but wipe changed it"]
        );
        assert!(complaints("f", base, changed, Some(b"b\n")).is_empty());
        let gone = [side("wipe", None), side("main", base)];
        assert!(complaints("f", base, gone, None).is_empty());
    }
}
