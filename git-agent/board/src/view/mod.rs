//! Paints the screen from its state.

pub mod board;
pub mod card;
pub mod code;
pub mod compare;
pub mod dialog;
pub mod form;
pub mod help;
pub mod pane;
pub mod review;
#[cfg(test)]
mod tests;
pub mod theme;
pub mod tree;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::app::{App, Tone};
use crate::keys::{Action, Place};
use crate::text;
use crate::view::theme::Theme;

/// The smallest terminal that is drawn on.
const SMALLEST: (u16, u16) = (30, 8);

/// Paints everything.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, theme: Theme) {
    let area = frame.area();
    app.size = (area.width, area.height);
    app.areas = crate::app::mouse::Areas::default();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        frame.render_widget(Line::raw("the terminal is too small"), area);
        return;
    }
    let body = Rect::new(area.x, area.y, area.width, area.height - 1);
    let last = Rect::new(area.x, area.bottom() - 1, area.width, 1);
    match app.place() {
        Place::Review => review::draw(frame, body, app, theme),
        Place::Compare => compare::draw(frame, body, app, theme),
        _ => board::draw(frame, body, app, theme),
    }
    draw_last_line(frame, last, app, theme);
    dialog::draw(frame, body, app, theme);
}

/// Returns the style of a message.
pub fn tone(theme: Theme, tone: Tone) -> Style {
    match tone {
        Tone::Good => theme.good(),
        Tone::Bad => theme.bad(),
        Tone::Plain => Style::new(),
    }
}

/// Paints the message, or the keys that matter most here.
fn draw_last_line(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let wide = usize::from(area.width);
    if let Some(notice) = &app.notice {
        let sign = match notice.tone {
            Tone::Good => "✓ ",
            Tone::Bad => "✗ ",
            Tone::Plain => "",
        };
        let words = text::cut(&format!(" {sign}{}", notice.text), wide);
        frame.render_widget(Line::styled(words, tone(theme, notice.tone)), area);
        return;
    }
    if let Some((_, words)) = app.busy.last() {
        let words = text::cut(&format!(" … {words}"), wide);
        frame.render_widget(Line::styled(words, theme.running()), area);
        return;
    }
    let mut spans = Vec::new();
    let mut used = 0;
    for (action, word) in hints(app) {
        let key = app.keys.first(action);
        let cells = text::width(&key) + text::width(word) + 3;
        if used + cells > wide {
            break;
        }
        let column = area.x + u16::try_from(used).unwrap_or(u16::MAX);
        let hit = Rect::new(column, area.y, u16::try_from(cells).unwrap_or(1), 1);
        app.areas.hints.push((hit, action));
        spans.push(Span::raw(" "));
        spans.push(Span::styled(key, theme.key()));
        spans.push(Span::raw(" "));
        spans.push(Span::styled(word, theme.dim()));
        spans.push(Span::raw(" "));
        used += cells;
    }
    frame.render_widget(Line::from(spans), area);
}

/// Returns the keys for the last line, the most important first.
fn hints(app: &App) -> Vec<(Action, &'static str)> {
    use git_agent::model::session::State;
    match app.place() {
        Place::Review => vec![
            (Action::Help, "keys"),
            (Action::Write, "comment"),
            (Action::SendReview, "send"),
            (Action::ApproveShown, "approve"),
            (Action::RequestChanges, "request changes"),
            (Action::Land, "merge"),
            (Action::NextHunk, "hunk"),
            (Action::NextFile, "file"),
            (Action::NextComment, "next comment"),
            (Action::Reply, "reply"),
            (Action::Close, "resolve"),
            (Action::Seen, "reviewed"),
            (Action::Scope, "scope"),
            (Action::SideBySide, "side by side"),
            (Action::Back, "back"),
        ],
        Place::Compare => vec![
            (Action::Help, "keys"),
            (Action::Left, "version"),
            (Action::NextPath, "file"),
            (Action::Open, "review"),
            (Action::Pick, "take this version"),
            (Action::Back, "back"),
        ],
        _ => {
            let mut hints = vec![(Action::Help, "keys"), (Action::New, "new")];
            match app.current().map(|row| row.state) {
                None => {}
                Some(State::Waiting) => hints.extend([
                    (Action::Yes, "yes"),
                    (Action::No, "no"),
                    (Action::Always, "always"),
                    (Action::Send, "send"),
                    (Action::Stop, "stop"),
                ]),
                Some(State::Ready | State::ChangesRequested) => hints.extend([
                    (Action::Open, "review"),
                    (Action::Approve, "approve"),
                    (Action::Merge, "merge"),
                    (Action::Send, "send"),
                ]),
                Some(State::Approved) => hints.extend([
                    (Action::Merge, "merge"),
                    (Action::Open, "review"),
                    (Action::Send, "send"),
                ]),
                Some(State::Merged) => {
                    hints.extend([(Action::Undo, "undo"), (Action::Clean, "clean")])
                }
                Some(State::Failed | State::Interrupted | State::Stopped | State::Stuck) => {
                    hints.extend([
                        (Action::Restart, "restart"),
                        (Action::Open, "review"),
                        (Action::Send, "send"),
                        (Action::Discard, "discard"),
                    ]);
                }
                Some(_) => hints.extend([
                    (Action::Open, "log"),
                    (Action::Send, "send"),
                    (Action::Stop, "stop"),
                ]),
            }
            hints.extend([
                (Action::Pane, "pane"),
                (Action::Shell, "shell"),
                (Action::Editor, "editor"),
                (Action::Search, "filter"),
                (Action::Palette, "command"),
                (Action::Back, "leave"),
            ]);
            hints
        }
    }
}

/// Returns a line that fills a width with two parts, the second at its end.
pub fn spread(left: Vec<Span<'static>>, right: Vec<Span<'static>>, wide: usize) -> Line<'static> {
    let cells = |spans: &[Span<'_>]| {
        spans
            .iter()
            .map(|span| text::width(&span.content))
            .sum::<usize>()
    };
    let (left_cells, right_cells) = (cells(&left), cells(&right));
    let mut spans = left;
    if left_cells + right_cells < wide {
        spans.push(Span::raw(" ".repeat(wide - left_cells - right_cells)));
        spans.extend(right);
    }
    Line::from(spans)
}
