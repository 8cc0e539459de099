//! Prints conflicts: a table of sessions and files with the lines of both sides, and the machine formats.

use serde::Serialize;

use crate::merge::conflicts::{Clashing, Lines, Matrix, Pair, PairResult, Side};
use crate::output::table::{Cell, Column, Table};
use crate::output::terminal::style::Slot;

/// Returns the table of conflicts: a row for each session and file, with the branch or the sessions that it conflicts
/// with there. Several sessions share a row, and only a single one shows its lines.
pub fn table(matrix: &Matrix) -> Table {
    let mut table = Table::new([
        Column::new("SESSION").keeps_end(),
        Column::new("WITH").shrinks_to(12),
        Column::new("FILE").shrinks_to(16).keeps_end(),
        Column::new("KIND").shrinks_to(8).goes(1),
        Column::new("LINES").shrinks_to(5).goes(2),
        Column::new("THEIR LINES").shrinks_to(11).goes(2),
    ]);
    for meeting in meetings(matrix) {
        table.row([
            Cell::new(meeting.session),
            Cell::new(meeting.with.join(", ")),
            Cell::new(&meeting.path),
            Cell::new(&meeting.kind).in_color(Slot::Bad),
            Cell::new(&meeting.lines),
            Cell::new(&meeting.their_lines),
        ]);
    }
    table
}

/// A file in which a session conflicts with others.
struct Meeting<'m> {
    session: &'m str,
    with: Vec<&'m str>,
    path: String,
    kind: String,
    lines: String,
    their_lines: String,
}

fn meetings(matrix: &Matrix) -> Vec<Meeting<'_>> {
    let mut found: Vec<Meeting<'_>> = Vec::new();
    let with_branch = matrix.against.iter().map(|pair| (pair, true));
    let with_others = matrix.between.iter().map(|pair| (pair, false));
    for (pair, with_branch) in with_branch.chain(with_others) {
        // The branch is the first side of a pair; of two sessions, the older one.
        let (session, other) = if with_branch {
            (&pair.theirs.name, &pair.ours.name)
        } else {
            (&pair.ours.name, &pair.theirs.name)
        };
        let mut add = |path: &str, kind: String, lines: [String; 2]| {
            let same = |known: &&mut Meeting<'_>| {
                !with_branch && known.session == session && known.path == path && known.kind == kind
            };
            let [lines, their_lines] = lines;
            match found.iter_mut().find(same) {
                Some(known) => {
                    known.with.push(other);
                    (known.lines, known.their_lines) = (String::new(), String::new());
                }
                None => found.push(Meeting {
                    session,
                    with: vec![other],
                    path: path.to_owned(),
                    kind,
                    lines,
                    their_lines,
                }),
            }
        };
        match &pair.verdict {
            PairResult::Clean => {}
            PairResult::Unrelated => add("", "no common history".to_owned(), Default::default()),
            PairResult::Conflict(clashing) => {
                for one in clashing {
                    let (ours, theirs) = (
                        ranges(one, |lines| lines.ours),
                        ranges(one, |lines| lines.theirs),
                    );
                    let lines = if with_branch {
                        [theirs, ours]
                    } else {
                        [ours, theirs]
                    };
                    add(&one.path, one.kinds.join(", "), lines);
                }
                if clashing.is_empty() {
                    add("", "conflict".to_owned(), Default::default());
                }
            }
        }
    }
    found
}

/// Returns the names of the sessions that conflict with nothing.
pub fn untroubled(matrix: &Matrix) -> Vec<&str> {
    let sessions = matrix.sessions.iter();
    let alone = |side: &&Side| side.session.is_none_or(|sid| matrix.conflicts_of(sid) == 0);
    sessions
        .filter(alone)
        .map(|side| side.name.as_str())
        .collect()
}

/// Formats line ranges: `3-5,9`; `+3` means that lines are missing before line 3.
fn ranges(clashing: &Clashing, side: fn(&Lines) -> [usize; 2]) -> String {
    let words: Vec<String> = clashing
        .lines
        .iter()
        .map(side)
        .map(|[first, last]| match last {
            last if last < first => format!("+{first}"),
            last if last == first => first.to_string(),
            last => format!("{first}-{last}"),
        })
        .collect();
    words.join(",")
}

/// Returns the records of one pair: one for each conflicting file, or one without a file.
pub fn records(pair: &Pair) -> Vec<[String; 9]> {
    let id = |side: &Side| side.session.map(|sid| sid.to_string()).unwrap_or_default();
    let record = |clashing: Option<&Clashing>| {
        let lines = |side| clashing.map(|one| ranges(one, side)).unwrap_or_default();
        [
            pair.verdict.as_str().to_owned(),
            id(&pair.ours),
            pair.ours.name.clone(),
            id(&pair.theirs),
            pair.theirs.name.clone(),
            clashing.map(|one| one.kinds.join(",")).unwrap_or_default(),
            lines(|lines| lines.ours),
            lines(|lines| lines.theirs),
            clashing.map(|one| one.path.clone()).unwrap_or_default(),
        ]
    };
    match pair.verdict.clashing() {
        [] => vec![record(None)],
        clashing => clashing.iter().map(|one| record(Some(one))).collect(),
    }
}

/// A pair for `--json`.
#[derive(Debug, Serialize)]
pub struct Object<'a> {
    result: &'static str,
    ours: Who<'a>,
    theirs: Who<'a>,
    #[serde(skip_serializing_if = "<[Clashing]>::is_empty")]
    files: &'a [Clashing],
}

#[derive(Debug, Serialize)]
struct Who<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: &'a str,
    kind: &'static str,
    commit: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    uncommitted: bool,
}

impl<'a> Object<'a> {
    /// Returns a pair as an object.
    pub fn new(pair: &'a Pair) -> Self {
        let who = |side: &'a Side| Who {
            id: side.session.map(|sid| sid.to_string()),
            name: &side.name,
            kind: match side.session {
                Some(_) => "session",
                None => "branch",
            },
            commit: side.tip.to_string(),
            uncommitted: side.has_uncommitted(),
        };
        Object {
            result: pair.verdict.as_str(),
            ours: who(&pair.ours),
            theirs: who(&pair.theirs),
            files: pair.verdict.clashing(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_briefly() {
        let lines = |ours| Lines {
            ours,
            theirs: [1, 1],
        };
        let clashing = Clashing {
            path: "a".into(),
            kinds: Vec::new(),
            lines: vec![lines([3, 5]), lines([9, 9]), lines([12, 11])],
        };
        assert_eq!(ranges(&clashing, |lines| lines.ours), "3-5,9,+12");
    }
}
