//! Every key, from the table of keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::keys::{ACTIONS, Keys, Place};
use crate::text;
use crate::view::dialog::{key_line, window};
use crate::view::theme::Theme;

/// From this width on, there are two columns.
const TWO: u16 = 120;

/// Returns the lines of the help.
pub fn lines(keys: &Keys, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for place in [Place::Both, Place::Board, Place::Review, Place::Compare] {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::styled(place.heading().to_owned(), theme.heading()));
        for row in ACTIONS.iter().filter(|row| row.place == place) {
            lines.push(Line::from(vec![
                Span::styled(format!("{:<12} ", keys.shown(row.action)), theme.key()),
                Span::raw(row.words),
            ]));
        }
    }
    lines
}

/// Paints the help.
pub fn draw(frame: &mut Frame<'_>, area: Rect, scroll: &mut usize, keys: &Keys, theme: Theme) {
    let lines = lines(keys, theme);
    let two = area.width >= TWO;
    let wide = if two {
        area.width.min(170)
    } else {
        area.width.min(84)
    };
    let inner = window(frame, area, (wide, area.height), "keys", theme);
    let body = usize::from(inner.height.saturating_sub(1));
    let columns = if two { 2 } else { 1 };
    let rows = lines.len().div_ceil(columns).max(body);
    let shown = body * columns;
    *scroll = (*scroll).min(lines.len().saturating_sub(shown));
    let column_width = inner.width / u16::try_from(columns).unwrap_or(1);
    let first_half = if two { rows.min(body) } else { body };
    for column in 0..columns {
        let from = *scroll + column * first_half;
        for (at, line) in lines.iter().skip(from).take(body).enumerate() {
            let x = inner.x + column_width * u16::try_from(column).unwrap_or(0);
            let y = inner.y + u16::try_from(at).unwrap_or(0);
            frame.render_widget(line.clone(), Rect::new(x, y, column_width, 1));
        }
    }
    let left = lines.len().saturating_sub(shown + *scroll);
    let more = match left {
        0 => String::new(),
        left => format!("{left} more lines below"),
    };
    let keys = [("j k", "scroll"), ("any other key", "back")];
    let mut line = key_line(&keys, theme);
    line.spans.push(Span::styled(text::line(more), theme.dim()));
    frame.render_widget(
        line,
        Rect::new(inner.x, inner.bottom().saturating_sub(1), inner.width, 1),
    );
}
