//! Dialogs over the screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear};

use crate::app::App;
use crate::app::dialog::{Asking, Choosing, Dialog, Palette, Purpose, Writing};
use crate::text;
use crate::view::theme::Theme;
use crate::view::{form, help, tone};

/// Paints the open dialogs.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let mut items = Vec::new();
    let current = app.current().map(|row| text::line(&row.name));
    let keys = app.keys.clone();
    if let Some(dialog) = app.dialogs.last_mut() {
        match dialog {
            Dialog::New(fields) => form::draw(frame, area, fields, theme, &mut items),
            Dialog::Write(writing) => write(frame, area, writing, theme),
            Dialog::Ask(asking) => ask(frame, area, asking, theme, &mut items),
            Dialog::Choose(choosing) => choose(frame, area, choosing, theme, &mut items),
            Dialog::Palette(open) => {
                palette(frame, area, open, current.as_deref(), theme, &mut items)
            }
            Dialog::Help { scroll } => help::draw(frame, area, scroll, &keys, theme),
        }
    }
    app.areas.items = items;
}

/// Clears a place in the middle, with a frame and a heading. Returns the room within.
pub fn window(
    frame: &mut Frame<'_>,
    area: Rect,
    (wide, high): (u16, u16),
    title: &str,
    theme: Theme,
) -> Rect {
    let wide = wide.min(area.width);
    let high = high.min(area.height);
    let x = area.x + (area.width - wide) / 2;
    let y = area.y + (area.height - high) / 3;
    let place = Rect::new(x, y, wide, high);
    frame.render_widget(Clear, place);
    let title = text::cut(&format!(" {title} "), usize::from(wide.saturating_sub(4)));
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(title, theme.heading()));
    let inner = block.inner(place);
    frame.render_widget(block, place);
    Rect::new(
        inner.x + 1,
        inner.y,
        inner.width.saturating_sub(2),
        inner.height,
    )
}

/// Returns the room that a dialog may take.
fn wide_for(area: Rect, wish: usize) -> u16 {
    let most = area.width.saturating_sub(4).max(20);
    u16::try_from(wish)
        .unwrap_or(most)
        .clamp(40.min(most), most)
}

/// Returns a line of keys and words.
pub fn key_line(keys: &[(&str, &str)], theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for (key, word) in keys {
        spans.push(Span::styled((*key).to_owned(), theme.key()));
        spans.push(Span::styled(format!(" {word}   "), theme.dim()));
    }
    Line::from(spans)
}

fn write(frame: &mut Frame<'_>, area: Rect, writing: &mut Writing, theme: Theme) {
    if writing.purpose == Purpose::Search {
        let place = Rect::new(area.x, area.bottom() - 1, area.width, 1);
        frame.render_widget(Clear, place);
        let words = text::line(writing.area.lines().join(" "));
        let line = Line::from(vec![
            Span::styled(" / ", theme.key()),
            Span::raw(words.clone()),
            Span::styled("▏", theme.accent()),
            Span::styled("   Enter keeps, Esc clears", theme.dim()),
        ]);
        frame.render_widget(line, place);
        return;
    }
    let wide = wide_for(area, 84);
    let room = usize::from(wide.saturating_sub(4)).max(1);
    let typed: usize = writing
        .area
        .lines()
        .iter()
        .map(|line| text::width(line) / room + 1)
        .sum();
    let high = u16::try_from(typed.clamp(3, 14)).unwrap_or(3) + 3;
    let inner = window(frame, area, (wide, high), &writing.title, theme);
    if inner.height < 2 {
        return;
    }
    let place = Rect::new(inner.x, inner.y, inner.width, inner.height - 1);
    writing.area.set_cursor_style(theme.chosen());
    frame.render_widget(&writing.area, place);
    let keys = [
        ("Enter", "send"),
        ("Alt-Enter", "new line"),
        ("Ctrl-e", "editor"),
        ("Esc", "keep for later"),
    ];
    let last = Rect::new(inner.x, inner.bottom() - 1, inner.width, 1);
    frame.render_widget(key_line(&keys, theme), last);
}

fn ask(
    frame: &mut Frame<'_>,
    area: Rect,
    asking: &mut Asking,
    theme: Theme,
    items: &mut Vec<(Rect, usize)>,
) {
    let longest = asking
        .lines
        .iter()
        .map(|(_, line)| text::width(line))
        .max()
        .unwrap_or(0);
    let wide = wide_for(area, longest.max(text::width(&asking.title) + 4) + 6);
    let room = usize::from(wide.saturating_sub(4));
    let mut lines: Vec<Line<'static>> = Vec::new();
    for part in text::wrap(&text::line(&asking.title), room) {
        lines.push(Line::styled(part, theme.heading()));
    }
    lines.push(Line::default());
    for (kind, line) in &asking.lines {
        for part in text::wrap(line, room) {
            lines.push(Line::styled(part, tone(theme, *kind)));
        }
    }
    let high = u16::try_from(lines.len())
        .unwrap_or(u16::MAX)
        .saturating_add(4);
    let inner = window(frame, area, (wide, high), "?", theme);
    let body = usize::from(inner.height.saturating_sub(2));
    asking.scroll = asking.scroll.min(lines.len().saturating_sub(body));
    let hidden = lines.len().saturating_sub(body + asking.scroll);
    for (at, line) in lines.into_iter().skip(asking.scroll).take(body).enumerate() {
        let y = inner.y + u16::try_from(at).unwrap_or(0);
        frame.render_widget(line, Rect::new(inner.x, y, inner.width, 1));
    }
    let yes = format!("{}   ", asking.yes);
    let mut spans = vec![
        Span::styled("y ", theme.key()),
        Span::raw(yes.clone()),
        Span::styled("n ", theme.key()),
        Span::raw("no"),
    ];
    if hidden > 0 {
        spans.push(Span::styled(
            format!("   ↓ {hidden} more lines: j k scroll"),
            theme.dim(),
        ));
    }
    let y = inner.bottom().saturating_sub(1);
    let yes_wide = u16::try_from(text::width(&yes) + 2).unwrap_or(4);
    items.push((Rect::new(inner.x, y, yes_wide, 1), 0));
    items.push((Rect::new(inner.x + yes_wide, y, 4, 1), 1));
    frame.render_widget(Line::from(spans), Rect::new(inner.x, y, inner.width, 1));
}

fn choose(
    frame: &mut Frame<'_>,
    area: Rect,
    choosing: &Choosing,
    theme: Theme,
    items: &mut Vec<(Rect, usize)>,
) {
    let longest = choosing
        .items
        .iter()
        .map(|item| text::width(item))
        .max()
        .unwrap_or(0);
    let wide = wide_for(area, longest + 12);
    let high = u16::try_from(choosing.items.len())
        .unwrap_or(u16::MAX)
        .saturating_add(3);
    let inner = window(frame, area, (wide, high), &choosing.title, theme);
    let body = usize::from(inner.height.saturating_sub(1));
    let top = choosing.cursor.saturating_sub(body.saturating_sub(1));
    for (row, at) in (top..choosing.items.len()).take(body).enumerate() {
        let place = Rect::new(
            inner.x,
            inner.y + u16::try_from(row).unwrap_or(0),
            inner.width,
            1,
        );
        items.push((place, at));
        let sign = if at == choosing.cursor { "▌ " } else { "  " };
        let style = if at == choosing.cursor {
            theme.chosen()
        } else {
            Style::new()
        };
        let words = text::cut(
            &text::line(&choosing.items[at]),
            usize::from(inner.width).saturating_sub(6),
        );
        frame.render_widget(
            Line::styled(format!("{sign}{}  {words}", at + 1), style),
            place,
        );
    }
    let last = Rect::new(inner.x, inner.bottom().saturating_sub(1), inner.width, 1);
    frame.render_widget(
        key_line(&[("Enter", "choose"), ("Esc", "back")], theme),
        last,
    );
}

fn palette(
    frame: &mut Frame<'_>,
    area: Rect,
    open: &Palette,
    current: Option<&str>,
    theme: Theme,
    items: &mut Vec<(Rect, usize)>,
) {
    let inner = window(frame, area, (wide_for(area, 76), 18), "git agent …", theme);
    let line = Line::from(vec![
        Span::styled(": ", theme.key()),
        Span::raw(text::line(&open.text)),
        Span::styled("▏", theme.accent()),
    ]);
    frame.render_widget(line, Rect::new(inner.x, inner.y, inner.width, 1));
    let body = usize::from(inner.height.saturating_sub(3));
    let found = open.matches();
    let top = open.cursor.saturating_sub(body.saturating_sub(1));
    for (row, (verb, about)) in found.iter().skip(top).take(body).enumerate() {
        let y = inner.y + 2 + u16::try_from(row).unwrap_or(0);
        let place = Rect::new(inner.x, y, inner.width, 1);
        let at = top + row;
        items.push((place, at));
        let is_chosen = at == open.cursor;
        let shown = match current {
            Some(name) => verb.replace('%', &text::cut_middle(name, 20)),
            None => verb.replace(" %", ""),
        };
        let style = if is_chosen {
            theme.chosen()
        } else {
            Style::new()
        };
        let line = Line::from(vec![
            Span::raw(if is_chosen { "▌ " } else { "  " }),
            Span::raw(format!("{shown:<34} ")),
            Span::styled((*about).to_owned(), theme.dim()),
        ]);
        frame.render_widget(line.style(style), place);
    }
    let keys = [("Enter", "run"), ("Tab", "complete"), ("Esc", "back")];
    let last = Rect::new(inner.x, inner.bottom().saturating_sub(1), inner.width, 1);
    frame.render_widget(key_line(&keys, theme), last);
}
