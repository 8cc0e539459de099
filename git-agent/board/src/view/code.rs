//! Rows of a diff as lines of cells: numbers, signs, coloured code, changed words, threads.

use std::ops::Range;

use git_agent::model::review::Side;
use git_agent::review::anchors::Spot;
use git_agent::review::shown::{FileChange, Shown, ShownLine, ShownThread};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::app::diff::{self, Row};
use crate::app::review::Review;
use crate::syntax::{Token, Tokens};
use crate::text;
use crate::view::theme::Theme;

/// Cells of a line number.
const NUMBER: usize = 5;

/// Paints rows of a diff.
pub struct Painter<'a> {
    shown: &'a Shown,
    review: Option<&'a Review>,
    theme: Theme,
}

impl<'a> Painter<'a> {
    /// Returns a painter for a diff without cursor, threads and colours of code.
    pub fn plain(shown: &'a Shown, theme: Theme) -> Self {
        Painter {
            shown,
            review: None,
            theme,
        }
    }

    /// Returns a painter for the review screen.
    pub fn of(shown: &'a Shown, review: &'a Review, theme: Theme) -> Self {
        Painter {
            shown,
            review: Some(review),
            theme,
        }
    }

    /// Returns a row as a line of a width.
    pub fn row(&self, row: Row, wide: usize) -> Line<'static> {
        let theme = self.theme;
        match row {
            Row::Blank => Line::default(),
            Row::Title(words) => Line::styled(format!("── {words}"), theme.heading()),
            Row::File(file) => self.file(file, wide),
            Row::Remark(file, at) => {
                let words = text::line(&self.shown.files[file].remarks[at]);
                Line::styled(format!("  {words}"), theme.dim())
            }
            Row::Folded(file) => Line::styled(format!("  {}", self.why_folded(file)), theme.dim()),
            Row::Gap(file, hunk, hidden) => self.gap(file, hunk, hidden, wide),
            Row::Context(file, old, new) => {
                let known = self.review.and_then(|review| review.lines.get(&file));
                let text = known.and_then(|lines| lines.get(new as usize - 1));
                let text = text.cloned().unwrap_or_default();
                let mut spans = vec![
                    Span::styled(numbers(Some(old), Some(new)), theme.dim()),
                    Span::raw("  "),
                ];
                spans.push(Span::styled(
                    self.cut(&text, wide.saturating_sub(2 * NUMBER + 4)),
                    theme.dim(),
                ));
                Line::from(spans)
            }
            Row::Line(file, hunk, line) => self.line(file, hunk, line, wide),
            Row::Pair(file, hunk, old, new) => self.pair((file, hunk), old, new, wide),
            Row::Thread(thread, at) => self.thread(thread, at, wide),
        }
    }

    fn left(&self) -> usize {
        self.review.map_or(0, |review| review.left)
    }

    fn cut(&self, text: &str, wide: usize) -> String {
        text::slice(text, self.left(), wide)
    }

    fn file(&self, at: usize, wide: usize) -> Line<'static> {
        let theme = self.theme;
        let file = &self.shown.files[at];
        let is_seen = self
            .review
            .is_some_and(|review| review.seen.contains(&file.path));
        let letter = match file.change {
            FileChange::Added => Span::styled("A ", theme.added()),
            FileChange::Deleted => Span::styled("D ", theme.deleted()),
            change => Span::styled(format!("{} ", change.letter()), theme.running()),
        };
        let name = match &file.old_path {
            Some(old) => format!("{} → {}", text::line(old), text::line(&file.path)),
            None => text::line(&file.path),
        };
        let mut spans = vec![
            Span::styled("━━ ", theme.frame()),
            letter,
            Span::styled(
                text::cut_middle(&name, wide.saturating_sub(28)),
                theme.heading(),
            ),
            Span::styled(format!("  +{}", file.added), theme.added()),
            Span::styled(format!(" −{}", file.deleted), theme.deleted()),
        ];
        if is_seen {
            spans.push(Span::styled("  ✓ reviewed", theme.good()));
        }
        let used: usize = spans.iter().map(|span| text::width(&span.content)).sum();
        spans.push(Span::raw(" "));
        spans.push(Span::styled(
            "━".repeat(wide.saturating_sub(used + 1)),
            theme.frame(),
        ));
        Line::from(spans)
    }

    fn why_folded(&self, at: usize) -> String {
        let file = &self.shown.files[at];
        let is_seen = self
            .review
            .is_some_and(|review| review.seen.contains(&file.path));
        let lines = file.added + file.deleted;
        match file {
            file if file.is_binary && is_image(&file.path) => {
                "an image: open the worktree to see it".to_owned()
            }
            file if file.is_binary => "a binary file".to_owned(),
            _ if is_seen => format!("⋯ {lines} changed lines, reviewed: Enter shows them"),
            file if file.is_generated => {
                format!("⋯ {lines} changed lines, generated: Enter shows them")
            }
            _ => format!("⋯ {lines} changed lines: Enter shows them"),
        }
    }

    fn gap(&self, file: usize, hunk: usize, hidden: u32, wide: usize) -> Line<'static> {
        let theme = self.theme;
        let heading = self.shown.files[file].hunks.get(hunk);
        let heading = heading
            .map(|hunk| text::code(&hunk.heading))
            .unwrap_or_default();
        let words = match hidden {
            0 => "⋯ more below".to_owned(),
            1 => "⋯ 1 line".to_owned(),
            many => format!("⋯ {many} lines"),
        };
        let room = wide.saturating_sub(text::width(&words) + 2 * NUMBER + 4);
        Line::from(vec![
            Span::raw(" ".repeat(NUMBER + 2)),
            Span::styled(words, theme.running()),
            Span::styled(format!("  {}", text::cut(&heading, room)), theme.dim()),
        ])
    }

    fn tokens(&self, file: usize, hunk: usize, line: usize) -> Option<&'a Tokens> {
        self.review?.colors.get(&(file, hunk))?.get(line)
    }

    fn line(&self, file: usize, hunk: usize, at: usize, wide: usize) -> Line<'static> {
        let lines = &self.shown.files[file].hunks[hunk].lines;
        let line = &lines[at];
        let (sign, base, mark) = self.style(line);
        let room = wide.saturating_sub(2 * NUMBER + 4);
        let mut spans = vec![
            Span::styled(numbers(line.old, line.new), self.number_style(line)),
            Span::styled(format!("{sign} "), mark),
        ];
        let words = diff::changed_words(lines, at, |line| text::code(&line.text));
        spans.extend(self.code(line, self.tokens(file, hunk, at), &words, base, room));
        Line::from(spans).style(base)
    }

    fn pair(
        &self,
        (file, hunk): (usize, usize),
        old: Option<u32>,
        new: Option<u32>,
        wide: usize,
    ) -> Line<'static> {
        let lines = &self.shown.files[file].hunks[hunk].lines;
        let half = wide.saturating_sub(1) / 2;
        let mut spans = Vec::new();
        for (side, at) in [(Side::Old, old), (Side::New, new)] {
            if side == Side::New {
                spans.push(Span::styled("│", self.theme.frame()));
            }
            let cells = if side == Side::Old {
                half
            } else {
                wide.saturating_sub(half + 1)
            };
            match at {
                None => spans.push(Span::raw(" ".repeat(cells))),
                Some(at) => {
                    let at = at as usize;
                    let line = &lines[at];
                    let (sign, base, mark) = self.style(line);
                    let number = diff::number(line, side).map(|number| number.to_string());
                    let number = format!("{:>NUMBER$} ", number.unwrap_or_default());
                    let room = cells.saturating_sub(NUMBER + 3);
                    spans.push(Span::styled(number, self.number_style(line).patch(base)));
                    spans.push(Span::styled(format!("{sign} "), mark.patch(base)));
                    let words = diff::changed_words(lines, at, |line| text::code(&line.text));
                    spans.extend(self.code(line, self.tokens(file, hunk, at), &words, base, room));
                }
            }
        }
        Line::from(spans)
    }

    fn number_style(&self, line: &ShownLine) -> Style {
        match (line.old, line.new) {
            (Some(_), None) => self.theme.deleted(),
            (None, Some(_)) => self.theme.added(),
            _ => self.theme.dim(),
        }
    }

    /// Returns the sign of a line, the style of all of it, and that of its sign.
    fn style(&self, line: &ShownLine) -> (char, Style, Style) {
        let theme = self.theme;
        match (line.old, line.new) {
            (Some(_), None) => ('-', theme.deleted_line(), theme.deleted()),
            (None, Some(_)) => ('+', theme.added_line(), theme.added()),
            _ => (' ', Style::new(), Style::new()),
        }
    }

    /// Returns the code of a line as spans of exactly some cells.
    fn code(
        &self,
        line: &ShownLine,
        tokens: Option<&Tokens>,
        words: &[Range<usize>],
        base: Style,
        room: usize,
    ) -> Vec<Span<'static>> {
        let theme = self.theme;
        let text = text::code(&line.text);
        let is_new = line.new.is_some();
        let is_common = diff::is_common(line);
        let has_colors = is_common || theme.has_backgrounds();
        let mut cuts: Vec<usize> = vec![0, text.len()];
        let known: &[(Range<usize>, Token)] = match (tokens, has_colors) {
            (Some(tokens), true) => tokens,
            _ => &[],
        };
        cuts.extend(known.iter().flat_map(|(range, _)| [range.start, range.end]));
        cuts.extend(words.iter().flat_map(|range| [range.start, range.end]));
        let search = self
            .review
            .map(|review| review.search.to_lowercase())
            .unwrap_or_default();
        let found: Vec<Range<usize>> = if search.is_empty() || !text.is_ascii() {
            Vec::new()
        } else {
            text.to_lowercase()
                .match_indices(&search)
                .map(|(at, word)| at..at + word.len())
                .collect()
        };
        cuts.extend(found.iter().flat_map(|range| [range.start, range.end]));
        cuts.retain(|cut| *cut <= text.len() && text.is_char_boundary(*cut));
        cuts.sort_unstable();
        cuts.dedup();
        let mut spans = Vec::new();
        let mut column = 0;
        let mut used = 0;
        let left = self.left();
        for pair in cuts.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let part = &text[from..to];
            let cells = text::width(part);
            let start = column;
            column += cells;
            if column <= left || used >= room {
                continue;
            }
            let visible = text::slice(part, left.saturating_sub(start), room - used);
            used += text::width(&visible);
            let has = |ranges: &[Range<usize>]| ranges.iter().any(|range| range.contains(&from));
            let token = known.iter().find(|(range, _)| range.contains(&from));
            let mut style = base;
            if let Some((_, token)) = token {
                style = style.patch(theme.code(*token));
            }
            if has(words) {
                style = style.patch(if is_new {
                    theme.added_words()
                } else {
                    theme.deleted_words()
                });
            }
            if has(&found) {
                style = style.patch(theme.found());
            }
            spans.push(Span::styled(visible, style));
        }
        if column > left + room && room > 0 {
            if let Some(last) = spans.last_mut() {
                let style = last.style;
                let cells = text::width(&last.content);
                let kept = text::slice(&last.content, 0, cells.saturating_sub(1));
                *last = Span::styled(kept, style);
                spans.push(Span::styled("…", theme.dim().patch(base)));
            }
        } else if line.is_cut {
            spans.push(Span::styled("¬", theme.dim()));
            used += 1;
        }
        spans.push(Span::styled(" ".repeat(room.saturating_sub(used)), base));
        spans
    }

    fn thread(&self, thread: usize, at: usize, wide: usize) -> Line<'static> {
        let theme = self.theme;
        let Some(review) = self.review else {
            return Line::default();
        };
        let block = &review.threads[thread];
        let line = &block[at];
        let state = self.shown.threads[thread].state;
        let frame = match state {
            "open" => theme.waiting().remove_modifier(Modifier::BOLD),
            _ => theme.dim(),
        };
        let corner = match (at, at + 1 == block.len()) {
            (0, true) => "─",
            (0, false) => "┌",
            (_, true) => "└",
            _ => "│",
        };
        let style = match (line.is_heading, line.by_agent, state) {
            (true, true, _) => theme.tool().add_modifier(Modifier::BOLD),
            (true, false, _) => theme.accent().add_modifier(Modifier::BOLD),
            (false, _, "resolved") => theme.dim(),
            (false, ..) => Style::new(),
        };
        let words = text::cut(&line.text, wide.saturating_sub(NUMBER + 6));
        Line::from(vec![
            Span::raw(" ".repeat(NUMBER + 2)),
            Span::styled(format!("{corner} "), frame),
            Span::styled(words, style),
        ])
    }
}

fn numbers(old: Option<u32>, new: Option<u32>) -> String {
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    format!("{:>NUMBER$} {:>NUMBER$} ", number(old), number(new))
}

fn is_image(path: &[u8]) -> bool {
    let name = String::from_utf8_lossy(path).to_lowercase();
    let ends = [
        ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".avif",
    ];
    ends.iter().any(|end| name.ends_with(end))
}

/// Returns where a thread hangs, in words.
pub fn thread_place(thread: &ShownThread) -> String {
    match &thread.spot {
        Spot::Session => "the session".to_owned(),
        Spot::Event(_) => "the conversation".to_owned(),
        Spot::File { path, .. } => text::line(path),
        Spot::Lines {
            path, first, last, ..
        } if first == last => format!("{}:{first}", text::line(path)),
        Spot::Lines {
            path, first, last, ..
        } => format!("{}:{first}-{last}", text::line(path)),
        Spot::Outdated => "code that has changed".to_owned(),
    }
}
