//! The pane of the board: the log, the changes or the comments of the selected session, and its open question.

use git_agent::model::event_words::RequestKind;
use git_agent::model::session::State;
use git_agent::output::moment::Clock;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::app::App;
use crate::app::board::Pane;
use crate::app::diff::{self, Row};
use crate::app::log::{Entry, Meaning};
use crate::app::review::thread_blocks;
use crate::keys::Action;
use crate::text;
use crate::view::theme::Theme;
use crate::view::{code, spread, tone};

/// Paints the pane.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    if area.height < 3 {
        return;
    }
    app.areas.pane = area;
    let title = Rect::new(area.x, area.y, area.width, 1);
    let line = heading(app, title, theme);
    frame.render_widget(line, title);
    let mut body = Rect::new(
        area.x + 1,
        area.y + 1,
        area.width.saturating_sub(2),
        area.height - 1,
    );
    let question = question(
        app,
        usize::from(body.width),
        usize::from(body.height) * 2 / 3,
        theme,
    );
    let high = u16::try_from(question.len()).unwrap_or(0).min(body.height);
    for (at, line) in question.into_iter().take(usize::from(high)).enumerate() {
        let y = body.y + u16::try_from(at).unwrap_or(0);
        frame.render_widget(line, Rect::new(body.x, y, body.width, 1));
    }
    body = Rect::new(body.x, body.y + high, body.width, body.height - high);
    let lines = match app.board.pane {
        Pane::Log => log(app, body, theme),
        Pane::Diff => changes(app, body, theme),
        Pane::Comments => comments(app, body, theme),
    };
    for (at, line) in lines.into_iter().take(usize::from(body.height)).enumerate() {
        let y = body.y + u16::try_from(at).unwrap_or(0);
        frame.render_widget(line, Rect::new(body.x, y, body.width, 1));
    }
}

fn heading(app: &mut App, area: Rect, theme: Theme) -> Line<'static> {
    let mut left = vec![Span::styled("─ ", theme.frame())];
    let mut x = area.x + 2;
    for (pane, word) in Pane::ALL {
        let is_own = app.board.pane == pane;
        let label = if is_own {
            format!("[{word}]")
        } else {
            format!(" {word} ")
        };
        let wide = u16::try_from(text::width(&label)).unwrap_or(1);
        app.areas.tabs.push((Rect::new(x, area.y, wide, 1), pane));
        x += wide;
        let style = if is_own {
            theme.accent().add_modifier(Modifier::BOLD)
        } else {
            theme.dim()
        };
        left.push(Span::styled(label, style));
    }
    let mut right = Vec::new();
    if let Some(row) = app.current() {
        let name = text::cut_middle(&text::line(&row.name), 30);
        left.push(Span::styled(format!(" {name} "), theme.heading()));
        let mut words = Vec::new();
        if let Some(branch) = &row.branch {
            words.push(text::line(branch));
        }
        if let (Some(ahead), Some(behind)) = (row.ahead.known(), row.behind.known())
            && (*ahead > 0 || *behind > 0)
        {
            words.push(format!("↑{ahead} ↓{behind}"));
        }
        if row.turns > 1 {
            words.push(format!("{} turns", row.turns));
        }
        right.push(Span::styled(
            format!(" {} ", words.join(" · ")),
            theme.dim(),
        ));
    }
    let cells = |spans: &[Span<'_>]| {
        spans
            .iter()
            .map(|span| text::width(&span.content))
            .sum::<usize>()
    };
    let wide = usize::from(area.width);
    if cells(&left) + cells(&right) + 2 > wide {
        right.clear();
    }
    let rest = wide.saturating_sub(cells(&left) + cells(&right));
    left.push(Span::styled("─".repeat(rest), theme.frame()));
    spread(left, right, wide + 1)
}

/// Returns the open question with what it is about and the keys that answer it.
fn question(app: &App, wide: usize, high: usize, theme: Theme) -> Vec<Line<'static>> {
    let waits = app
        .current()
        .is_some_and(|row| row.state == State::Waiting && row.id == app.log.id);
    let Some(question) = app.log.question().filter(|_| waits) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for part in text::wrap(&question.title, wide.saturating_sub(2)) {
        lines.push(Line::styled(format!("? {part}"), theme.waiting()));
    }
    let room = high.saturating_sub(lines.len() + 2).max(1);
    for (kind, detail) in question.detail.iter().take(room) {
        let words = text::cut(detail, wide.saturating_sub(2));
        lines.push(Line::from(vec![
            Span::styled("▏ ", theme.waiting()),
            Span::styled(words, tone(theme, *kind)),
        ]));
    }
    let left = question.detail.len().saturating_sub(room);
    if left > 0 {
        lines.push(Line::styled(
            format!("▏ … {left} more lines: z enlarges"),
            theme.dim(),
        ));
    }
    let mut spans = Vec::new();
    if question.kind == RequestKind::Question {
        for (at, option) in question.ordered().into_iter().enumerate() {
            let words = text::cut(&text::line(&option.label), 40);
            spans.push(Span::raw(format!("{}. {words}  ", at + 1)));
        }
        spans.push(Span::styled(app.keys.first(Action::Send), theme.key()));
        spans.push(Span::styled(" answer in words", theme.dim()));
    } else {
        for (action, word) in [
            (Action::Yes, "yes, once"),
            (Action::Always, "always"),
            (Action::No, "no"),
        ] {
            spans.push(Span::styled(app.keys.first(action), theme.key()));
            spans.push(Span::styled(format!(" {word}   "), Style::new()));
        }
    }
    lines.push(Line::from(spans));
    lines
}

fn style(theme: Theme, meaning: Meaning) -> Style {
    match meaning {
        Meaning::Prompt => theme.prompt(),
        Meaning::Said => Style::new(),
        Meaning::Aside => theme.dim(),
        Meaning::Tool => theme.tool(),
        Meaning::Question => theme.waiting(),
        Meaning::Good => theme.good(),
        Meaning::Bad => theme.bad(),
    }
}

/// Returns the last lines of the log; only those are wrapped.
fn log(app: &mut App, area: Rect, theme: Theme) -> Vec<Line<'static>> {
    if app.board.selected.is_none() {
        return Vec::new();
    }
    if !app.log.is_ready {
        return vec![Line::styled("reading …", theme.dim())];
    }
    if app.log.entries.is_empty() {
        return vec![Line::styled("nothing yet", theme.dim())];
    }
    let high = usize::from(area.height);
    let wanted = high + app.board.scroll;
    let mut lines: Vec<Line<'static>> = Vec::new();
    let clock = app.clock.clone();
    let mut reached_start = true;
    for entry in app.log.entries.iter().rev() {
        if lines.len() >= wanted {
            reached_start = false;
            break;
        }
        let mut block = entry_lines(entry, usize::from(area.width), &clock, theme);
        block.reverse();
        lines.extend(block);
    }
    if reached_start {
        app.board.scroll = app.board.scroll.min(lines.len().saturating_sub(high));
    }
    let mut visible: Vec<Line<'static>> = lines
        .into_iter()
        .skip(app.board.scroll)
        .take(high)
        .collect();
    visible.reverse();
    visible
}

fn entry_lines(entry: &Entry, wide: usize, clock: &Clock, theme: Theme) -> Vec<Line<'static>> {
    let time: String = clock.time(entry.at).chars().take(5).collect();
    let indent = 6;
    let mark = match entry.mark {
        "" => String::new(),
        mark => format!("{mark} "),
    };
    let room = wide.saturating_sub(indent + text::width(&mark)).max(10);
    let own = style(theme, entry.meaning);
    let mut lines = Vec::new();
    for (at, text) in entry.text.lines().enumerate() {
        let is_aside = at > 0 && text.starts_with("  ") && entry.meaning == Meaning::Tool;
        let line_style = if is_aside { theme.dim() } else { own };
        for part in text::wrap(text, room) {
            let is_first = lines.is_empty();
            let head = if is_first {
                Span::styled(format!("{time} "), theme.dim())
            } else {
                Span::raw(" ".repeat(indent))
            };
            let sign = if is_first {
                Span::styled(mark.clone(), own)
            } else {
                Span::raw(" ".repeat(text::width(&mark)))
            };
            lines.push(Line::from(vec![head, sign, Span::styled(part, line_style)]));
        }
    }
    if lines.is_empty() {
        lines.push(Line::default());
    }
    lines
}

fn changes(app: &mut App, area: Rect, theme: Theme) -> Vec<Line<'static>> {
    let Some(shown) = app.log.shown.clone() else {
        let words = if app.log.is_peeked() {
            "no changes"
        } else {
            "reading …"
        };
        return vec![Line::styled(words, theme.dim())];
    };
    if shown.files.is_empty() {
        return vec![Line::styled("no changes", theme.dim())];
    }
    let folded = shown
        .files
        .iter()
        .enumerate()
        .filter(|(_, file)| file.is_generated);
    let layout = diff::Layout {
        folded: folded.map(|(at, _)| at).collect(),
        thread_rows: vec![0; shown.threads.len()],
        ..diff::Layout::default()
    };
    let rows: Vec<Row> = diff::rows(&shown, &layout);
    let high = usize::from(area.height);
    app.board.scroll = app.board.scroll.min(rows.len().saturating_sub(high));
    let visible = rows.iter().skip(app.board.scroll).take(high);
    let painter = code::Painter::plain(&shown, theme);
    visible
        .map(|row| painter.row(*row, usize::from(area.width)))
        .collect()
}

fn comments(app: &mut App, area: Rect, theme: Theme) -> Vec<Line<'static>> {
    let Some(shown) = app.log.shown.clone() else {
        let words = if app.log.is_peeked() {
            "no comments"
        } else {
            "reading …"
        };
        return vec![Line::styled(words, theme.dim())];
    };
    let wide = usize::from(area.width);
    let blocks = thread_blocks(&shown, wide.saturating_sub(4), app.now);
    let mut lines = Vec::new();
    for (thread, block) in shown.threads.iter().zip(blocks) {
        let place = code::thread_place(thread);
        lines.push(Line::styled(text::cut(&place, wide), theme.accent()));
        for line in block {
            let style = if line.is_heading {
                theme.dim()
            } else {
                Style::new()
            };
            lines.push(Line::styled(format!("  {}", line.text), style));
        }
        lines.push(Line::default());
    }
    if lines.is_empty() {
        return vec![Line::styled(
            "no comments: Enter opens the review, c comments there",
            theme.dim(),
        )];
    }
    let high = usize::from(area.height);
    app.board.scroll = app.board.scroll.min(lines.len().saturating_sub(high));
    lines.into_iter().skip(app.board.scroll).collect()
}
