//! The tree of changed files, with their size, comments and marks.

use git_agent::review::anchors::Spot;
use git_agent::review::shown::{FileChange, Shown};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::app::review::Review;
use crate::text;
use crate::view::spread;
use crate::view::theme::Theme;

/// One row of the tree.
enum Entry {
    Folder(String),
    File(usize, String),
}

/// Returns how many cells the tree would like.
pub fn width(shown: &Shown) -> u16 {
    let longest = entries(shown).into_iter().map(|entry| match entry {
        Entry::Folder(name) => text::width(&name) + 2,
        Entry::File(at, name) => {
            let file = &shown.files[at];
            let counts = file.added.to_string().len() + file.deleted.to_string().len();
            text::width(&name) + counts + 14
        }
    });
    u16::try_from(longest.max().unwrap_or(20).clamp(20, 50)).unwrap_or(30)
}

fn entries(shown: &Shown) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut last = String::new();
    for (at, file) in shown.files.iter().enumerate() {
        let path = text::line(&file.path);
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if folder != last {
            last = folder.to_owned();
            if !folder.is_empty() {
                entries.push(Entry::Folder(format!("{folder}/")));
            }
        }
        entries.push(Entry::File(at, name.to_owned()));
    }
    entries
}

/// Paints the tree. Returns where each file is.
pub fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    review: &Review,
    shown: &Shown,
    theme: Theme,
) -> Vec<(Rect, usize)> {
    let entries = entries(shown);
    let current = review.file_at_cursor();
    let is_current = |entry: &Entry| matches!(entry, Entry::File(at, _) if Some(*at) == current);
    let at = entries.iter().position(is_current).unwrap_or(0);
    let high = usize::from(area.height);
    let top = at
        .saturating_sub(high / 2)
        .min(entries.len().saturating_sub(high));
    let wide = usize::from(area.width.saturating_sub(1));
    let mut places = Vec::new();
    for y in 0..high {
        let place = Rect::new(
            area.x,
            area.y + u16::try_from(y).unwrap_or(0),
            area.width,
            1,
        );
        let line = match entries.get(top + y) {
            None => Line::default(),
            Some(Entry::Folder(name)) => Line::styled(
                format!(" {}", text::cut_middle(name, wide.saturating_sub(2))),
                theme.dim(),
            ),
            Some(Entry::File(at, name)) => {
                places.push((place, *at));
                file(review, shown, *at, name, wide, Some(*at) == current, theme)
            }
        };
        let mut spans = line.spans;
        let style = line.style;
        let used: usize = spans.iter().map(|span| text::width(&span.content)).sum();
        spans.push(Span::raw(" ".repeat(wide.saturating_sub(used))));
        let mut spans: Vec<Span<'_>> = spans
            .into_iter()
            .map(|span| {
                let own = style.patch(span.style);
                span.style(own)
            })
            .collect();
        spans.push(Span::styled("│", theme.frame()));
        frame.render_widget(Line::from(spans), place);
    }
    places
}

fn file(
    review: &Review,
    shown: &Shown,
    at: usize,
    name: &str,
    wide: usize,
    is_current: bool,
    theme: Theme,
) -> Line<'static> {
    let file = &shown.files[at];
    let on_file = |spot: &Spot| match spot {
        Spot::File { path, .. } | Spot::Lines { path, .. } => *path == file.path,
        _ => false,
    };
    let open = shown
        .threads
        .iter()
        .filter(|thread| thread.thread.is_open() && on_file(&thread.spot))
        .count();
    let mut right = Vec::new();
    if open > 0 {
        right.push(Span::styled(format!("✎{open} "), theme.waiting()));
    }
    if file.is_binary {
        right.push(Span::styled("bin", theme.dim()));
    } else {
        right.push(Span::styled(format!("+{}", file.added), theme.added()));
        right.push(Span::styled(format!(" −{}", file.deleted), theme.deleted()));
    }
    let taken: usize = right.iter().map(|span| text::width(&span.content)).sum();
    let is_seen = review.seen.contains(&file.path);
    let letter = match file.change {
        FileChange::Added => theme.added(),
        FileChange::Deleted => theme.deleted(),
        _ => theme.running(),
    };
    let mut style = if is_seen { theme.dim() } else { Style::new() };
    if is_current {
        style = style.add_modifier(Modifier::BOLD);
    }
    let left = vec![
        Span::styled(if is_current { "▌" } else { " " }, theme.accent()),
        Span::styled(if is_seen { "✓" } else { " " }, theme.good()),
        Span::styled(format!("{} ", file.change.letter()), letter),
        Span::styled(
            text::cut_middle(name, wide.saturating_sub(taken + 6)),
            style,
        ),
    ];
    let mut line = spread(left, right, wide);
    if is_current {
        line.style = theme.selected();
    }
    line
}
