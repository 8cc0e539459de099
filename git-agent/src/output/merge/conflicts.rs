//! Prints conflicts: a matrix of sessions, the files of each pair with the lines of both sides, and the machine
//! formats.

use serde::Serialize;

use crate::merge::conflicts::{Clashing, Lines, Matrix, Pair, PairResult, Side};
use crate::model::session::SessionId;
use crate::output::human;
use crate::output::table::{Cell, Column, Table};
use crate::output::terminal::style::Slot;

/// Cells of a matrix column, with the gap.
const CELLS: usize = 5;
/// Cells of name and branch next to the matrix.
const NAMES: usize = 36;

/// Returns the matrix: a row for each session, with the number of conflicting files. Columns without conflicts are left
/// out. `None` if nothing conflicts or the matrix does not fit.
pub fn matrix(matrix: &Matrix, width: Option<usize>) -> Option<Table> {
    if matrix.is_clean() {
        return None;
    }
    let bad = |sid: Option<SessionId>| {
        matrix
            .between
            .iter()
            .any(|pair| pair.verdict != PairResult::Clean && touches(pair, sid))
    };
    let columns: Vec<(usize, &Side)> = matrix
        .sessions
        .iter()
        .enumerate()
        .filter(|(_, side)| bad(side.session))
        .collect();
    if width.is_some_and(|width| NAMES + columns.len() * CELLS > width) {
        return None;
    }
    let mut headers = vec![
        Column::new("#").right(),
        Column::new("NAME").shrinks_to(10).keeps_end(),
        Column::new("INTO").shrinks_to(6),
        Column::new("FILES").right(),
    ];
    headers.extend(
        columns
            .iter()
            .map(|(index, _)| Column::new((index + 1).to_string()).right()),
    );
    let mut table = Table::new(headers);
    for (index, side) in matrix.sessions.iter().enumerate() {
        let against = matrix
            .against
            .iter()
            .find(|pair| pair.theirs.session == side.session);
        let mut cells = vec![
            Cell::new((index + 1).to_string()),
            Cell::new(&side.name),
            Cell::new(against.map_or("", |pair| pair.ours.name.as_str())),
            against.map_or_else(Cell::default, |pair| cell(&pair.verdict)),
        ];
        for (_, other) in &columns {
            let pair = matrix.between.iter().find(|pair| {
                side.session != other.session
                    && touches(pair, side.session)
                    && touches(pair, other.session)
            });
            cells.push(match pair {
                Some(pair) => cell(&pair.verdict),
                None => Cell::default(),
            });
        }
        table.row(cells);
    }
    Some(table)
}

fn touches(pair: &Pair, sid: Option<SessionId>) -> bool {
    pair.ours.session == sid || pair.theirs.session == sid
}

fn cell(verdict: &PairResult) -> Cell {
    match verdict {
        PairResult::Clean => Cell::new("-").in_color(Slot::Dim),
        PairResult::Unrelated => Cell::new("?").in_color(Slot::Bad),
        PairResult::Conflict(clashing) => {
            Cell::new(clashing.len().max(1).to_string()).in_color(Slot::Bad)
        }
    }
}

/// Returns the headline of one pair.
pub fn headline(pair: &Pair) -> String {
    let (ours, theirs) = (&pair.ours.name, &pair.theirs.name);
    match &pair.verdict {
        PairResult::Clean => format!("{ours} and {theirs}: no conflict"),
        PairResult::Unrelated => format!("{ours} and {theirs}: no common history"),
        PairResult::Conflict(clashing) => {
            let count = human::count(clashing.len().max(1) as u64, "file");
            format!("{ours} and {theirs}: conflict in {count}")
        }
    }
}

/// Returns the conflicting files of one pair, with the lines of both sides.
pub fn files(pair: &Pair) -> Table {
    let mut table = Table::new([
        Column::new(""),
        Column::new("file").shrinks_to(16),
        Column::new("kind").shrinks_to(8),
        Column::new("first").shrinks_to(12),
        Column::new("second").shrinks_to(12),
    ])
    .without_header();
    for clashing in pair.verdict.clashing() {
        let of = |name: &str, side: fn(&Lines) -> [usize; 2]| match ranges(clashing, side) {
            lines if lines.is_empty() => String::new(),
            lines => format!("{name} {lines}"),
        };
        table.row([
            // An empty column would be left out; this one indents.
            Cell::new(" "),
            Cell::new(&clashing.path),
            Cell::new(clashing.kinds.join(", ")).in_color(Slot::Bad),
            Cell::new(of(&pair.ours.name, |lines| lines.ours)),
            Cell::new(of(&pair.theirs.name, |lines| lines.theirs)),
        ]);
    }
    table
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
