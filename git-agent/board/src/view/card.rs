//! One card of the board.

use git_agent::listing::row::Summary;
use git_agent::model::session::State;
use git_agent::output::human;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::app::App;
use crate::app::board::{conflicts, needs_person, reason};
use crate::text;
use crate::view::spread;
use crate::view::theme::{Depth, Theme, sign};

/// Returns how many lines a whole card takes.
pub fn height(app: &App, row: &Summary) -> usize {
    lines(app, row, 40, false, Theme::new(Depth::Mono, false)).len()
}

/// Returns the lines of a card. A compact one has two lines at most.
pub fn lines(
    app: &App,
    row: &Summary,
    wide: usize,
    compact: bool,
    theme: Theme,
) -> Vec<Line<'static>> {
    let is_selected = app.board.selected.as_deref() == Some(row.id.as_str());
    let is_marked = app.board.marks.contains(&row.id);
    let bar = match (is_selected, needs_person(row)) {
        (true, _) => Span::styled("▌", theme.accent()),
        (false, true) => Span::styled("▏", theme.waiting()),
        (false, false) => Span::raw(" "),
    };
    let inner = wide.saturating_sub(2);
    let mut lines = vec![first(app, row, is_marked, is_selected, inner, theme)];
    let task = text::line(&row.task);
    let why = text::line(reason(row));
    if !why.is_empty() {
        let style = match row.state {
            State::Waiting => theme.waiting(),
            State::Running | State::Preparing | State::Queued => theme.dim(),
            _ => theme.bad(),
        };
        lines.push(Line::styled(text::cut(&why, inner), style));
    } else if !task.is_empty() && task != row.name {
        lines.push(Line::styled(text::cut(&task, inner), theme.dim()));
    }
    if !why.is_empty() && !compact && !task.is_empty() && task != row.name {
        lines.insert(1, Line::styled(text::cut(&task, inner), theme.dim()));
    }
    let facts = facts(row, inner, theme);
    if !compact || is_selected || why.is_empty() {
        lines.push(facts);
    }
    if compact && !is_selected {
        lines.truncate(2);
    }
    let style = if is_selected {
        theme.selected()
    } else {
        Style::new()
    };
    lines
        .into_iter()
        .map(|line| {
            let mut spans = vec![bar.clone(), Span::raw(" ")];
            let patch = line.style;
            spans.extend(line.spans.into_iter().map(|span| {
                let style = patch.patch(span.style);
                span.style(style)
            }));
            let used: usize = spans.iter().map(|span| text::width(&span.content)).sum();
            spans.push(Span::raw(" ".repeat(wide.saturating_sub(used))));
            Line::from(spans).style(style)
        })
        .collect()
}

fn first(
    app: &App,
    row: &Summary,
    is_marked: bool,
    is_selected: bool,
    wide: usize,
    theme: Theme,
) -> Line<'static> {
    let when = match row.elapsed_seconds {
        Some(seconds) if row.state.is_working() => {
            human::duration(std::time::Duration::from_secs(seconds))
        }
        _ => short_age(app.now.0.saturating_sub(row.updated.0) / 1000),
    };
    let mut right = Vec::new();
    if !row.mine {
        right.push(Span::styled("theirs ", theme.dim()));
    }
    right.push(Span::styled(when, theme.dim()));
    let taken: usize = right.iter().map(|span| text::width(&span.content)).sum();
    let mark = if is_marked { "◆ " } else { "" };
    let room = wide.saturating_sub(taken + 3 + text::width(mark));
    let mut style = Style::new().add_modifier(Modifier::BOLD);
    if row.state.is_closed() && !is_selected {
        style = theme.dim();
    }
    let left = vec![
        Span::styled(format!("{} ", sign(row.state)), theme.state(row.state)),
        Span::styled(mark, theme.accent()),
        Span::styled(text::cut_middle(&text::line(&row.name), room), style),
    ];
    spread(left, right, wide)
}

/// Returns an age in a few cells: 12s, 5m, 3h, 2d.
fn short_age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// Returns state, progress, size, conflicts, comments, verdict, agent and cost.
fn facts(row: &Summary, wide: usize, theme: Theme) -> Line<'static> {
    let mut parts: Vec<Vec<Span<'static>>> = Vec::new();
    let word = match row.state {
        State::ChangesRequested => "changes requested",
        state => state.as_str(),
    };
    parts.push(vec![Span::styled(word, theme.state(row.state))]);
    if let Some(progress) = row.progress.filter(|progress| progress.total > 0) {
        let cells = 6;
        let done = usize::try_from(progress.done)
            .unwrap_or(0)
            .min(progress.total as usize);
        let full = done * cells / (progress.total as usize);
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(cells - full));
        parts.push(vec![
            Span::styled(bar, theme.running()),
            Span::raw(format!(" {}/{}", progress.done, progress.total)),
        ]);
    }
    if let Some(changes) = row.changes.known().filter(|changes| changes.files > 0) {
        let mut spans = vec![Span::styled(format!("+{}", changes.added), theme.added())];
        if changes.deleted > 0 {
            spans.push(Span::styled(
                format!(" −{}", changes.deleted),
                theme.deleted(),
            ));
        }
        parts.push(spans);
    }
    let clash = conflicts(row);
    if !clash.is_empty() && !row.state.is_closed() {
        let word = if clash.len() == 1 {
            "conflict"
        } else {
            "conflicts"
        };
        parts.push(vec![Span::styled(
            format!("≠ {} {word}", clash.len()),
            theme.bad(),
        )]);
    }
    if let Some(comments) = row.comments.known().filter(|comments| comments.open > 0) {
        parts.push(vec![Span::styled(
            format!("✎ {}", comments.open),
            theme.waiting(),
        )]);
    }
    if let Some(verdict) = row
        .verdict
        .known()
        .filter(|verdict| row.state == State::Ready && !verdict.is_empty())
    {
        parts.push(vec![Span::raw(text::line(verdict))]);
    }
    let agent = match &row.model {
        Some(model) => format!("{}/{}", text::line(&row.agent), text::line(model)),
        None => text::line(&row.agent),
    };
    parts.push(vec![Span::styled(agent, theme.dim())]);
    if let Some(group) = &row.group {
        parts.push(vec![Span::styled(
            format!("#{}", text::line(group)),
            theme.dim(),
        )]);
    }
    if let Some(cost) = row.usage.cost_usd.filter(|cost| *cost > 0.0) {
        parts.push(vec![Span::styled(format!("${cost:.2}"), theme.dim())]);
    }
    let mut spans = Vec::new();
    let mut used = 0;
    for part in parts {
        let cells: usize = part.iter().map(|span| text::width(&span.content)).sum();
        let gap = if used == 0 { 0 } else { 2 };
        if used + gap + cells > wide {
            continue;
        }
        if gap > 0 {
            spans.push(Span::raw("  "));
        }
        used += gap + cells;
        spans.extend(part);
    }
    Line::from(spans)
}
