//! Finds the lines of both sides that conflict.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use crate::git::merge::batch::{Conflict, Stage};
use crate::git::{ObjectKind, Repo};

/// Larger files conflict without line numbers.
const LARGEST: u64 = 4 << 20;
/// How far git searches for a NUL to detect a binary file.
const BINARY_LOOK: usize = 8000;
/// How long a comparison may take before it becomes coarse.
const PATIENCE: Duration = Duration::from_millis(500);

/// Lines of one side that conflict with lines of the other. Numbers begin at 1; an empty range marks missing lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// Lines of the first side.
    pub ours: Range<usize>,
    /// Lines of the second side.
    pub theirs: Range<usize>,
}

/// A run of changed lines, in the lines of the base and of the side, from 0.
#[derive(Debug, Clone)]
struct Hunk {
    base: Range<usize>,
    side: Range<usize>,
}

impl Repo {
    /// Returns the conflicting lines of both sides; none if the conflict is not about lines of text.
    pub fn clashes(&self, conflict: &Conflict) -> Vec<Clash> {
        let text = |stage: &Option<Stage>| stage.as_ref().and_then(|stage| self.text_of(stage));
        let (base, ours, theirs) = (
            text(&conflict.base),
            text(&conflict.ours),
            text(&conflict.theirs),
        );
        match (base, ours, theirs) {
            (Some(base), Some(ours), Some(theirs)) => three_way(&base, &ours, &theirs),
            (None, Some(ours), Some(theirs)) => two_way(&ours, &theirs),
            // One side deleted the file that the other changed.
            (Some(base), Some(ours), None) => {
                one_sided(&base, &ours, |ours| Clash { ours, theirs: 1..1 })
            }
            (Some(base), None, Some(theirs)) => {
                one_sided(&base, &theirs, |theirs| Clash { ours: 1..1, theirs })
            }
            _ => Vec::new(),
        }
    }

    fn text_of(&self, stage: &Stage) -> Option<Vec<u8>> {
        // Links and submodules have no lines.
        if stage.mode & 0o170_000 != 0o100_000 {
            return None;
        }
        let bytes = self.read_object(stage.id, ObjectKind::Blob, LARGEST).ok()?;
        let is_binary = bytes[..bytes.len().min(BINARY_LOOK)].contains(&0);
        (!is_binary).then_some(bytes)
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn hunks(base: &[u8], side: &[u8]) -> Vec<Hunk> {
    let deadline = Some(Instant::now() + PATIENCE);
    let (base, side) = (lines(base), lines(side));
    capture_diff_slices_deadline(Algorithm::Myers, &base, &side, deadline)
        .iter()
        .filter(|op| op.tag() != DiffTag::Equal)
        .map(|op| Hunk {
            base: op.old_range(),
            side: op.new_range(),
        })
        .collect()
}

fn numbered(range: &Range<usize>) -> Range<usize> {
    range.start + 1..range.end + 1
}

fn two_way(ours: &[u8], theirs: &[u8]) -> Vec<Clash> {
    hunks(ours, theirs)
        .iter()
        .map(|hunk| Clash {
            ours: numbered(&hunk.base),
            theirs: numbered(&hunk.side),
        })
        .collect()
}

fn one_sided(base: &[u8], side: &[u8], make: impl Fn(Range<usize>) -> Clash) -> Vec<Clash> {
    hunks(base, side)
        .iter()
        .map(|hunk| make(numbered(&hunk.side)))
        .collect()
}

fn three_way(base: &[u8], ours: &[u8], theirs: &[u8]) -> Vec<Clash> {
    let (ours, theirs) = (hunks(base, ours), hunks(base, theirs));
    let mut clashes = Vec::new();
    let (mut our, mut their) = (0, 0);
    while our < ours.len() && their < theirs.len() {
        // Hunks that touch belong together, as in git: no line between them was kept by both.
        let touch = |one: &Range<usize>, other: &Range<usize>| {
            one.start <= other.end && other.start <= one.end
        };
        if !touch(&ours[our].base, &theirs[their].base) {
            if ours[our].base.end < theirs[their].base.end {
                our += 1
            } else {
                their += 1
            }
            continue;
        }
        let mut clash = (ours[our].side.clone(), theirs[their].side.clone());
        let mut end = ours[our].base.end.max(theirs[their].base.end);
        (our, their) = (our + 1, their + 1);
        loop {
            if let Some(next) = ours.get(our).filter(|hunk| hunk.base.start <= end) {
                clash.0.end = next.side.end;
                end = end.max(next.base.end);
                our += 1;
            } else if let Some(next) = theirs.get(their).filter(|hunk| hunk.base.start <= end) {
                clash.1.end = next.side.end;
                end = end.max(next.base.end);
                their += 1;
            } else {
                break;
            }
        }
        clashes.push(Clash {
            ours: numbered(&clash.0),
            theirs: numbered(&clash.1),
        });
    }
    clashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, ours: &str, theirs: &str, expected: &[(Range<usize>, Range<usize>)]) {
        let found: Vec<_> = three_way(base.as_bytes(), ours.as_bytes(), theirs.as_bytes())
            .into_iter()
            .map(|clash| (clash.ours, clash.theirs))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_of_both_sides() {
        check("a\nb\nc\n", "a\nX\nc\n", "a\nY\nZ\nc\n", &[(2..3, 2..4)]);
        check("a\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n", &[]);
        // Both add at the same place; one deletes a line that the other changes.
        check("a\nb\n", "a\nx\nb\n", "a\ny\ny\nb\n", &[(2..3, 2..4)]);
        check("a\nb\nc\n", "a\nc\n", "a\nB\nc\n", &[(2..2, 2..3)]);
        // A conflict after a change of only one side has that side's own numbers.
        check(
            "1\n2\n3\n4\n5\n6\n",
            "0\n0\n1\n2\n3\n4\nX\n6\n",
            "1\n2\n3\n4\nY\n6\n",
            &[(7..8, 5..6)],
        );
    }

    #[test]
    fn two_new_files() {
        let found = two_way(b"a\nb\n", b"a\nc\n");
        assert_eq!(
            (found[0].ours.clone(), found[0].theirs.clone()),
            (2..3, 2..3)
        );
    }
}
