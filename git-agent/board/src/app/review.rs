//! The review screen: which session and scope, the rows of its diff, the cursor, folds, marks and colours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use git_agent::env::Millis;
use git_agent::model::review::Side;
use git_agent::model::review::standing::session_of;
use git_agent::review::anchors::Spot;
use git_agent::review::diff_scope::Scope;
use git_agent::review::shown::{Shown, ShownLine};

use crate::app::diff::{self, Layout, Row};
use crate::app::effect::Target;
use crate::syntax::Tokens;
use crate::text;

/// From this width on, lines stand side by side unless told otherwise.
pub const WIDE: u16 = 150;
/// From this width on, the file tree is shown.
pub const WITH_TREE: u16 = 100;

/// One line of a thread's block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadLine {
    /// The safe text.
    pub text: String,
    /// Whether it names author and state, rather than words of a comment.
    pub is_heading: bool,
    /// Whether the comment is by an agent.
    pub by_agent: bool,
}

/// The review screen.
#[derive(Debug)]
pub struct Review {
    /// The session's id.
    pub id: String,
    /// The changes, once they are read.
    pub shown: Option<Arc<Shown>>,
    /// The scope that is shown or asked for.
    pub scope: Scope,
    /// The rows.
    pub rows: Vec<Row>,
    /// How the rows are laid out.
    pub layout: Layout,
    /// The lines of each thread's block.
    pub threads: Vec<Vec<ThreadLine>>,
    /// The row under the cursor.
    pub cursor: usize,
    /// The first visible row.
    pub top: usize,
    /// How far the code is scrolled to the right.
    pub left: usize,
    /// The row where a range began.
    pub range: Option<usize>,
    /// Whether the user chose side by side or unified.
    pub side_by_side: Option<bool>,
    /// Whether the user wants the file tree.
    pub tree: Option<bool>,
    /// Files that were marked as reviewed.
    pub seen: BTreeSet<Vec<u8>>,
    /// All lines of files whose context was opened.
    pub lines: BTreeMap<usize, Vec<String>>,
    /// The colours of hunks, and those that were asked for.
    pub colors: BTreeMap<(usize, usize), Vec<Tokens>>,
    /// Hunks whose colours were asked for.
    pub asked: BTreeSet<(usize, usize)>,
    /// The words that are searched for.
    pub search: String,
    /// Whether it is being checked that the work is still as shown.
    pub is_checking: bool,
    /// Whether something happened during the check.
    pub is_check_wanted: bool,
    /// Whether the work has changed since the screen was opened.
    pub has_changed: bool,
    /// The cells of the diff.
    pub width: u16,
    /// The number of visible rows.
    pub height: usize,
    /// A context to open once the lines of its file are read.
    pub pending: Option<(usize, usize)>,
    /// The time, for the ages of comments.
    pub now: Millis,
}

impl Review {
    /// Opens the screen for a session.
    pub fn new(id: String, scope: Scope) -> Self {
        Review {
            id,
            shown: None,
            scope,
            rows: Vec::new(),
            layout: Layout::default(),
            threads: Vec::new(),
            cursor: 0,
            top: 0,
            left: 0,
            range: None,
            side_by_side: None,
            tree: None,
            seen: BTreeSet::new(),
            lines: BTreeMap::new(),
            colors: BTreeMap::new(),
            asked: BTreeSet::new(),
            search: String::new(),
            is_checking: false,
            is_check_wanted: false,
            has_changed: false,
            width: 0,
            height: 1,
            pending: None,
            now: Millis::default(),
        }
    }

    /// Takes the changes. The cursor stays at the same line where it still exists.
    pub fn load(&mut self, shown: Shown) {
        let before = self.cursor_place();
        self.colors.clear();
        self.asked.clear();
        self.lines.clear();
        self.layout.opened.clear();
        self.layout.lengths.clear();
        self.range = None;
        let is_closed = |file: &git_agent::review::shown::ChangedFile| {
            file.is_generated || self.seen.contains(&file.path)
        };
        let files = shown.files.iter().enumerate();
        let closed = files.filter(|(_, file)| is_closed(file)).map(|(at, _)| at);
        self.layout.folded = closed.collect();
        self.shown = Some(Arc::new(shown));
        self.build();
        match before {
            Some(place) => self.go_to(&place),
            None => self.cursor = self.first_line(),
        }
        self.follow_cursor();
    }

    /// Lays the rows out anew.
    pub fn build(&mut self) {
        let Some(shown) = self.shown.clone() else {
            return;
        };
        let wide = usize::from(self.width).saturating_sub(12).clamp(20, 100);
        self.threads = thread_blocks(&shown, wide, self.now);
        self.layout.thread_rows = self.threads.iter().map(Vec::len).collect();
        self.layout.side_by_side = self.side_by_side.unwrap_or(self.width >= WIDE);
        self.rows = diff::rows(&shown, &self.layout);
        self.cursor = self.cursor.min(self.rows.len().saturating_sub(1));
    }

    /// Takes the width of the diff and the number of its rows.
    pub fn resize(&mut self, width: u16, height: usize) {
        self.height = height.max(1);
        if width != self.width {
            let before = self.cursor_place();
            self.width = width;
            self.build();
            if let Some(place) = before {
                self.go_to(&place);
            }
        }
        self.follow_cursor();
    }

    fn first_line(&self) -> usize {
        let is_change = |row: &Row| matches!(row, Row::Line(..) | Row::Pair(..));
        self.rows.iter().position(is_change).unwrap_or(0)
    }

    /// Returns the path, side and line under the cursor.
    pub fn cursor_place(&self) -> Option<(Vec<u8>, Side, Option<u32>)> {
        let shown = self.shown.as_ref()?;
        self.place_of(shown, self.cursor)
    }

    fn place_of(&self, shown: &Shown, at: usize) -> Option<(Vec<u8>, Side, Option<u32>)> {
        let row = *self.rows.get(at)?;
        let path = |file: usize| shown.files.get(file).map(|file| file.path.clone());
        match row {
            Row::Line(file, hunk, line) => {
                let (side, number) = side_of(&shown.files[file].hunks[hunk].lines[line]);
                Some((path(file)?, side, number))
            }
            Row::Pair(file, hunk, old, new) => {
                let lines = &shown.files[file].hunks[hunk].lines;
                let line = new.or(old)? as usize;
                let (side, number) = side_of(&lines[line]);
                Some((path(file)?, side, number))
            }
            Row::Context(file, _, new) => Some((path(file)?, Side::New, Some(new))),
            Row::Thread(thread, _) => match &shown.threads.get(thread)?.spot {
                Spot::Lines {
                    path, side, last, ..
                } => Some((path.clone(), *side, Some(*last))),
                Spot::File { path, side } => Some((path.clone(), *side, None)),
                _ => None,
            },
            row => Some((path(row.file()?)?, Side::New, None)),
        }
    }

    /// Moves the cursor to a place, or to its file.
    pub fn go_to(&mut self, (path, side, line): &(Vec<u8>, Side, Option<u32>)) {
        let Some(shown) = self.shown.clone() else {
            return;
        };
        let mut best: Option<(u32, usize)> = None;
        for at in 0..self.rows.len() {
            if matches!(self.rows[at], Row::Thread(..)) {
                continue;
            }
            let Some((known, known_side, known_line)) = self.place_of(&shown, at) else {
                continue;
            };
            if known != *path {
                continue;
            }
            let distance = match (line, known_line) {
                (Some(line), Some(known)) => {
                    line.abs_diff(known) * 2 + u32::from(known_side != *side)
                }
                (None, None) => 0,
                _ => 1_000_000,
            };
            if best.is_none_or(|(nearest, _)| distance < nearest) {
                best = Some((distance, at));
            }
        }
        if let Some((_, at)) = best {
            self.cursor = at;
        }
    }

    /// Scrolls so that the cursor is visible.
    pub fn follow_cursor(&mut self) {
        let margin = (self.height / 6).min(3);
        let last = self.rows.len().saturating_sub(1);
        self.cursor = self.cursor.min(last);
        let low = self.cursor.saturating_sub(margin);
        let high = (self.cursor + margin).min(last);
        if low < self.top {
            self.top = low;
        } else if high >= self.top + self.height {
            self.top = high + 1 - self.height;
        }
        self.top = self
            .top
            .min((last + 1).saturating_sub(self.height.min(last + 1)));
    }

    /// Moves the cursor; rows between files are passed over.
    pub fn move_by(&mut self, by: isize) {
        let last = self.rows.len().saturating_sub(1);
        let step = by.signum();
        let mut at = self.cursor.saturating_add_signed(by).min(last);
        while matches!(self.rows.get(at), Some(Row::Blank | Row::Title(_))) && at != 0 && at != last
        {
            at = at.saturating_add_signed(step);
        }
        self.cursor = at;
        self.follow_cursor();
    }

    /// Moves the cursor to the next row that fits, in a direction. Returns whether there is one.
    pub fn seek(&mut self, forward: bool, fits: impl Fn(&Self, usize) -> bool) -> bool {
        let found = if forward {
            (self.cursor + 1..self.rows.len()).find(|at| fits(self, *at))
        } else {
            (0..self.cursor).rev().find(|at| fits(self, *at))
        };
        if let Some(at) = found {
            self.cursor = at;
            self.follow_cursor();
        }
        found.is_some()
    }

    /// Returns whether a row begins a run of changes.
    pub fn begins_change(&self, at: usize) -> bool {
        let Some(shown) = &self.shown else {
            return false;
        };
        let changed = |at: usize| match self.rows.get(at) {
            Some(Row::Line(file, hunk, line)) => {
                !diff::is_common(&shown.files[*file].hunks[*hunk].lines[*line])
            }
            Some(Row::Pair(_, _, old, new)) => old != new,
            _ => false,
        };
        changed(at) && (at == 0 || !changed(at - 1))
    }

    /// Returns the file under the cursor.
    pub fn file_at_cursor(&self) -> Option<usize> {
        let up = self.rows.get(..=self.cursor)?.iter().rev();
        up.copied().find_map(Row::file)
    }

    /// Returns the hunk under the cursor: file and hunk.
    pub fn hunk_at_cursor(&self) -> Option<(usize, usize)> {
        match *self.rows.get(self.cursor)? {
            Row::Line(file, hunk, _) | Row::Pair(file, hunk, ..) => Some((file, hunk)),
            _ => None,
        }
    }

    /// Returns the thread under the cursor, or at the line above it.
    pub fn thread_at_cursor(&self) -> Option<usize> {
        let at = |row: Option<&Row>| match row {
            Some(Row::Thread(thread, _)) => Some(*thread),
            _ => None,
        };
        at(self.rows.get(self.cursor)).or_else(|| at(self.rows.get(self.cursor + 1)))
    }

    /// Returns the place that a comment would be about, in words and as a target.
    pub fn target(&self) -> Option<(String, Target)> {
        let shown = self.shown.as_ref()?;
        let (path, side, line) = self.cursor_place()?;
        let name = text::line(&path);
        let Some(line) = line else {
            return Some((name, Target::File(path, side)));
        };
        let other = self.range.and_then(|at| self.place_of(shown, at));
        let first = match other {
            Some((other, known, Some(first))) if other == path && known == side => first,
            _ => line,
        };
        let (first, last) = (first.min(line), first.max(line));
        let words = if first == last {
            format!("{name}:{first}")
        } else {
            format!("{name}:{first}-{last}")
        };
        Some((words, Target::Lines(path, side, first, last)))
    }

    /// Returns whether a row is part of the chosen range.
    pub fn in_range(&self, at: usize) -> bool {
        self.range
            .is_some_and(|from| (from.min(self.cursor)..=from.max(self.cursor)).contains(&at))
    }

    /// Returns the searchable text of a row.
    pub fn row_text(&self, at: usize) -> String {
        let Some(shown) = &self.shown else {
            return String::new();
        };
        match self.rows[at] {
            Row::Line(file, hunk, line) => {
                text::code(&shown.files[file].hunks[hunk].lines[line].text)
            }
            Row::Pair(file, hunk, old, new) => {
                let lines = &shown.files[file].hunks[hunk].lines;
                let both = [old, new].into_iter().flatten();
                both.map(|line| text::code(&lines[line as usize].text))
                    .collect()
            }
            Row::File(file) => text::line(&shown.files[file].path),
            Row::Thread(thread, line) => self.threads[thread][line].text.clone(),
            _ => String::new(),
        }
    }

    /// Returns the hunks that are visible and have no colours yet, and remembers that they are asked for.
    pub fn wanted_colors(&mut self) -> Vec<(usize, usize)> {
        let end = (self.top + self.height + 1).min(self.rows.len());
        let visible = self.rows.get(self.top..end).unwrap_or_default();
        let mut wanted = Vec::new();
        for row in visible {
            if let Row::Line(file, hunk, _) | Row::Pair(file, hunk, ..) = row
                && self.asked.insert((*file, *hunk))
            {
                wanted.push((*file, *hunk));
            }
        }
        wanted
    }

    /// Returns the numbers of open and of unsent comments.
    pub fn open_comments(&self) -> (usize, usize) {
        let Some(shown) = &self.shown else {
            return (0, 0);
        };
        let open = || {
            shown
                .threads
                .iter()
                .filter(|thread| thread.thread.is_open())
        };
        (
            open().count(),
            open().filter(|thread| thread.sent.is_none()).count(),
        )
    }
}

/// Returns the side and number that a comment on a line is about.
fn side_of(line: &ShownLine) -> (Side, Option<u32>) {
    match line.new {
        Some(new) => (Side::New, Some(new)),
        None => (Side::Old, line.old),
    }
}

/// Returns the lines of each thread's block.
pub fn thread_blocks(shown: &Shown, wide: usize, now: Millis) -> Vec<Vec<ThreadLine>> {
    let threads = shown.threads.iter();
    threads
        .map(|thread| {
            let mut lines = Vec::new();
            let comments = &thread.thread.comments;
            for (at, comment) in comments
                .iter()
                .filter(|comment| !comment.deleted)
                .enumerate()
            {
                let ago = git_agent::output::human::ago(now, comment.ts);
                let by_agent = session_of(&comment.who).is_some();
                let mut heading = format!("{} · {ago}", text::line(&comment.who.name));
                if at == 0 {
                    if thread.state != "open" {
                        heading += &format!(" · {}", thread.state);
                    }
                    if let Some(severity) = comment.severity {
                        heading += &format!(" · {}", severity.as_str());
                    }
                    match thread.sent {
                        Some(sent) if sent.turn > 0 => {
                            heading += &format!(" · sent in turn {}", sent.turn);
                        }
                        Some(_) => heading += " · sent",
                        None => {}
                    }
                }
                lines.push(ThreadLine {
                    text: heading,
                    is_heading: true,
                    by_agent,
                });
                if thread.state == "resolved" && at == 0 && comments.len() == 1 {
                    continue;
                }
                for line in comment.body.trim_end().lines() {
                    for part in text::wrap(&text::code(line.as_bytes()), wide) {
                        lines.push(ThreadLine {
                            text: part,
                            is_heading: false,
                            by_agent,
                        });
                    }
                }
            }
            lines
        })
        .collect()
}
