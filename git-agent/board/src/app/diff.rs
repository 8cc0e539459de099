//! A diff as rows of a screen: headings, hunks, lines or pairs of lines, folded context and threads. Only places are kept, so
//! that a long diff costs little and only visible rows are drawn.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use git_agent::model::review::Side;
use git_agent::review::anchors::Spot;
use git_agent::review::shown::{ChangedFile, Shown, ShownLine};
use similar::{ChangeTag, TextDiff};

/// Hunks with more lines than this are not searched for pairs of changed lines.
const LONGEST_RUN: usize = 400;
/// Lines longer than this get no marks on changed words.
const LONGEST_LINE: usize = 600;
/// How many lines of context one step opens.
pub const STEP: u32 = 20;

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// The heading of a file.
    File(usize),
    /// A remark of a file, by its number.
    Remark(usize, usize),
    /// A folded file: binary, generated, reviewed or closed.
    Folded(usize),
    /// Hidden lines before a hunk, or after the last one: file, hunk, how many (0 if unknown).
    Gap(usize, usize, u32),
    /// A line of context that was opened: file, line before, line after.
    Context(usize, u32, u32),
    /// A line: file, hunk, line.
    Line(usize, usize, usize),
    /// A pair of lines beside each other: file, hunk, before, after.
    Pair(usize, usize, Option<u32>, Option<u32>),
    /// A line of a thread: its number, and the line of its block.
    Thread(usize, usize),
    /// A heading between files.
    Title(&'static str),
    /// An empty row.
    Blank,
}

impl Row {
    /// Returns the file that it belongs to.
    pub fn file(self) -> Option<usize> {
        match self {
            Row::File(file)
            | Row::Remark(file, _)
            | Row::Folded(file)
            | Row::Gap(file, ..)
            | Row::Context(file, ..)
            | Row::Line(file, ..)
            | Row::Pair(file, ..) => Some(file),
            Row::Thread(..) | Row::Title(_) | Row::Blank => None,
        }
    }
}

/// How a diff is laid out.
#[derive(Debug, Default)]
pub struct Layout {
    /// Whether lines stand side by side.
    pub side_by_side: bool,
    /// Files that are closed.
    pub folded: BTreeSet<usize>,
    /// Opened context: before which hunk of a file, and how many lines above it and below the previous one.
    pub opened: BTreeMap<(usize, usize), (u32, u32)>,
    /// How many lines files have, where that is known.
    pub lengths: BTreeMap<usize, u32>,
    /// How many rows each thread takes.
    pub thread_rows: Vec<usize>,
}

/// Returns the rows of a diff.
pub fn rows(shown: &Shown, layout: &Layout) -> Vec<Row> {
    let mut builder = Builder {
        shown,
        layout,
        rows: Vec::new(),
        at_line: BTreeMap::new(),
        placed: BTreeSet::new(),
    };
    builder.run();
    builder.rows
}

type Place<'a> = (&'a [u8], Side, u32);

struct Builder<'a> {
    shown: &'a Shown,
    layout: &'a Layout,
    rows: Vec<Row>,
    at_line: BTreeMap<Place<'a>, Vec<usize>>,
    placed: BTreeSet<usize>,
}

impl<'a> Builder<'a> {
    fn run(&mut self) {
        let shown = self.shown;
        for (at, thread) in shown.threads.iter().enumerate() {
            match &thread.spot {
                Spot::Lines {
                    path, side, last, ..
                } => {
                    let place = (path.as_slice(), *side, *last);
                    self.at_line.entry(place).or_default().push(at);
                }
                Spot::Session | Spot::Event(_) => self.thread(at),
                Spot::File { .. } | Spot::Outdated => {}
            }
        }
        for (at, file) in shown.files.iter().enumerate() {
            if at > 0 || !self.rows.is_empty() {
                self.rows.push(Row::Blank);
            }
            self.file(at, file);
        }
        let outdated: Vec<usize> = (0..shown.threads.len())
            .filter(|at| shown.threads[*at].spot == Spot::Outdated && !self.placed.contains(at))
            .collect();
        if !outdated.is_empty() {
            self.rows
                .extend([Row::Blank, Row::Title("outdated comments")]);
            outdated.into_iter().for_each(|at| self.thread(at));
        }
    }

    fn thread(&mut self, at: usize) {
        self.placed.insert(at);
        let many = self.layout.thread_rows.get(at).copied().unwrap_or(0);
        self.rows
            .extend((0..many).map(|line| Row::Thread(at, line)));
    }

    fn file(&mut self, at: usize, file: &'a ChangedFile) {
        self.rows.push(Row::File(at));
        self.rows
            .extend((0..file.remarks.len()).map(|remark| Row::Remark(at, remark)));
        let shown = self.shown;
        for (thread, known) in shown.threads.iter().enumerate() {
            let on_file = matches!(&known.spot, Spot::File { path, .. } if *path == file.path);
            let lost = match &known.spot {
                Spot::Lines {
                    path, side, last, ..
                } if *path == file.path => !file.hunks.iter().any(|hunk| {
                    hunk.lines
                        .iter()
                        .any(|line| number(line, *side) == Some(*last))
                }),
                _ => false,
            };
            if on_file || lost {
                self.thread(thread);
            }
        }
        if self.layout.folded.contains(&at) || file.hunks.is_empty() {
            if file.is_binary || !file.hunks.is_empty() {
                self.rows.push(Row::Folded(at));
            }
            return;
        }
        let mut before = (0, 0);
        for (h, hunk) in file.hunks.iter().enumerate() {
            let start = start_of(hunk.lines.iter());
            self.gap(at, h, before, start);
            if self.layout.side_by_side {
                self.pairs(at, h, file)
            } else {
                for l in 0..hunk.lines.len() {
                    self.rows.push(Row::Line(at, h, l));
                    self.threads_at(file, &hunk.lines[l]);
                }
            }
            before = end_of(hunk.lines.iter(), before);
        }
        let h = file.hunks.len();
        let (_, below) = self.layout.opened.get(&(at, h)).copied().unwrap_or((0, 0));
        match self.layout.lengths.get(&at) {
            Some(length) => {
                let open = below.min(length.saturating_sub(before.1));
                for step in 1..=open {
                    self.rows
                        .push(Row::Context(at, before.0 + step, before.1 + step));
                }
                let left = length.saturating_sub(before.1 + open);
                if left > 0 {
                    self.rows.push(Row::Gap(at, h, left));
                }
            }
            None if file.change == git_agent::review::shown::FileChange::Changed => {
                self.rows.push(Row::Gap(at, h, 0));
            }
            None => {}
        }
    }

    /// Adds the lines between two hunks: opened ones, and a row for the hidden ones.
    fn gap(&mut self, file: usize, hunk: usize, before: (u32, u32), start: (u32, u32)) {
        let hidden = start.1.saturating_sub(before.1 + 1);
        let opened = self
            .layout
            .opened
            .get(&(file, hunk))
            .copied()
            .unwrap_or((0, 0));
        let (mut above, mut below) = opened;
        below = below.min(hidden);
        above = above.min(hidden - below);
        for step in 1..=below {
            self.rows
                .push(Row::Context(file, before.0 + step, before.1 + step));
        }
        let left = hidden - above - below;
        if left > 0 || hunk > 0 && opened == (0, 0) && hidden > 0 {
            self.rows.push(Row::Gap(file, hunk, left));
        }
        for step in (1..=above).rev() {
            self.rows.push(Row::Context(
                file,
                start.0.saturating_sub(step),
                start.1.saturating_sub(step),
            ));
        }
    }

    fn pairs(&mut self, at: usize, h: usize, file: &'a ChangedFile) {
        let lines = &file.hunks[h].lines;
        let index = |l: usize| u32::try_from(l).unwrap_or(u32::MAX);
        let mut l = 0;
        while l < lines.len() {
            if is_common(&lines[l]) {
                self.rows
                    .push(Row::Pair(at, h, Some(index(l)), Some(index(l))));
                self.threads_at(file, &lines[l]);
                l += 1;
                continue;
            }
            let (old, new) = run_at(lines, l);
            for step in 0..old.len().max(new.len()) {
                let left = old.clone().nth(step);
                let right = new.clone().nth(step);
                self.rows
                    .push(Row::Pair(at, h, left.map(index), right.map(index)));
                for line in [left, right].into_iter().flatten() {
                    self.threads_at(file, &lines[line]);
                }
            }
            l = old.end.max(new.end).max(l + 1);
        }
    }

    fn threads_at(&mut self, file: &'a ChangedFile, line: &ShownLine) {
        for side in [Side::Old, Side::New] {
            let Some(number) = number(line, side) else {
                continue;
            };
            let place = (file.path.as_slice(), side, number);
            for thread in self.at_line.get(&place).cloned().unwrap_or_default() {
                if !self.placed.contains(&thread) {
                    self.thread(thread);
                }
            }
        }
    }
}

/// Returns the number of a line on a side.
pub fn number(line: &ShownLine, side: Side) -> Option<u32> {
    match side {
        Side::Old => line.old,
        Side::New => line.new,
    }
}

/// Returns whether a line is the same before and after.
pub fn is_common(line: &ShownLine) -> bool {
    line.old.is_some() && line.new.is_some()
}

fn start_of<'l>(mut lines: impl Iterator<Item = &'l ShownLine> + Clone) -> (u32, u32) {
    let old = lines.clone().find_map(|line| line.old).unwrap_or(0);
    (old, lines.find_map(|line| line.new).unwrap_or(0))
}

fn end_of<'l>(
    lines: impl DoubleEndedIterator<Item = &'l ShownLine> + Clone,
    before: (u32, u32),
) -> (u32, u32) {
    let old = lines
        .clone()
        .rev()
        .find_map(|line| line.old)
        .unwrap_or(before.0);
    (
        old,
        lines.rev().find_map(|line| line.new).unwrap_or(before.1),
    )
}

/// Returns the deleted and added lines of the run of changes around a line.
fn run_at(lines: &[ShownLine], at: usize) -> (Range<usize>, Range<usize>) {
    let is_old = |line: &ShownLine| line.old.is_some() && line.new.is_none();
    let is_new = |line: &ShownLine| line.new.is_some() && line.old.is_none();
    let mut start = at;
    while start > 0 && is_new(&lines[start]) && is_new(&lines[start - 1]) {
        start -= 1;
    }
    while start > 0 && is_old(&lines[start - 1]) && !is_common(&lines[start]) {
        start -= 1;
    }
    let mut middle = start;
    while middle < lines.len() && is_old(&lines[middle]) {
        middle += 1;
    }
    let mut end = middle;
    while end < lines.len() && is_new(&lines[end]) {
        end += 1;
    }
    (start..middle, middle..end)
}

/// Returns the changed words of a line, as ranges of its safe text, by comparing it with its counterpart.
pub fn changed_words(
    lines: &[ShownLine],
    at: usize,
    text: impl Fn(&ShownLine) -> String,
) -> Vec<Range<usize>> {
    if is_common(&lines[at]) {
        return Vec::new();
    }
    let (old, new) = run_at(lines, at);
    if old.len().max(new.len()) > LONGEST_RUN {
        return Vec::new();
    }
    let is_old = old.contains(&at);
    let other = if is_old {
        new.clone().nth(at - old.start)
    } else {
        old.clone().nth(at.saturating_sub(new.start))
    };
    let Some(other) = other else {
        return Vec::new();
    };
    let (own, other) = (text(&lines[at]), text(&lines[other]));
    if own.len() > LONGEST_LINE || other.len() > LONGEST_LINE {
        return Vec::new();
    }
    let (before, after) = if is_old {
        (&own, &other)
    } else {
        (&other, &own)
    };
    let (before, after) = (pieces(before), pieces(after));
    let diff = TextDiff::from_slices(&before, &after);
    // Lines that have little in common are shown as wholly different.
    if diff.ratio() < 0.45 {
        return Vec::new();
    }
    let wanted = if is_old {
        ChangeTag::Delete
    } else {
        ChangeTag::Insert
    };
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut from = 0;
    for change in diff.iter_all_changes() {
        let tag = change.tag();
        if tag != ChangeTag::Equal && tag != wanted {
            continue;
        }
        let end = from + change.value().len();
        if tag == wanted {
            match ranges.last_mut() {
                Some(last) if last.end == from => last.end = end,
                _ => ranges.push(from..end),
            }
        }
        from = end;
    }
    ranges
}

/// Splits a line into names, runs of blanks, and single other characters.
fn pieces(line: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 1,
        c if c.is_whitespace() => 2,
        _ => 0,
    };
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut last = None;
    for (at, c) in line.char_indices() {
        let own = kind(c);
        if last.is_some_and(|last| last != own || own == 0) {
            pieces.push(&line[start..at]);
            start = at;
        }
        last = Some(own);
    }
    pieces.push(&line[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(old: Option<u32>, new: Option<u32>, text: &str) -> ShownLine {
        ShownLine {
            old,
            new,
            text: text.into(),
            is_cut: false,
        }
    }

    fn words(lines: &[ShownLine], at: usize) -> Vec<String> {
        let text = |line: &ShownLine| String::from_utf8_lossy(&line.text).into_owned();
        let own = text(&lines[at]);
        let ranges = changed_words(lines, at, text);
        ranges
            .into_iter()
            .map(|range| own[range].to_owned())
            .collect()
    }

    #[test]
    fn changed_words_are_found_in_pairs() {
        let lines = [
            line(Some(1), Some(1), "same"),
            line(Some(2), None, "let data = load(path);"),
            line(Some(3), None, "gone"),
            line(None, Some(2), "let payload = load(path);"),
        ];
        assert_eq!(words(&lines, 1), ["data"]);
        assert_eq!(words(&lines, 3), ["payload"]);
        assert!(words(&lines, 0).is_empty());
        assert!(words(&lines, 2).is_empty());
    }

    #[test]
    fn runs_are_deleted_lines_and_then_added_ones() {
        let lines = [
            line(Some(1), None, "a"),
            line(Some(2), None, "b"),
            line(None, Some(1), "c"),
            line(Some(3), Some(2), "d"),
            line(None, Some(3), "e"),
        ];
        for at in 0..3 {
            assert_eq!(run_at(&lines, at), (0..2, 2..3), "{at}");
        }
        assert_eq!(run_at(&lines, 4), (4..4, 4..5));
    }
}
