//! The dialog for a new session.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::app::dialog::{FIELDS, NewForm};
use crate::text;
use crate::view::dialog::{key_line, window};
use crate::view::theme::Theme;

/// Paints the form.
pub fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    form: &mut NewForm,
    theme: Theme,
    items: &mut Vec<(Rect, usize)>,
) {
    let wide = area.width.saturating_sub(4).min(88);
    let low = area.height < 24;
    let task_rows: u16 = if low { 4 } else { 7 };
    let fields = u16::try_from(FIELDS.len()).unwrap_or(8);
    let inner = window(
        frame,
        area,
        (wide, task_rows + fields + 5),
        "new session",
        theme,
    );
    if inner.height < task_rows + 3 {
        return;
    }
    let label = Rect::new(inner.x, inner.y, inner.width, 1);
    let style = if form.field == 0 {
        theme.accent()
    } else {
        theme.dim()
    };
    frame.render_widget(Line::styled("What should be done?", style), label);
    let task = Rect::new(inner.x, inner.y + 1, inner.width, task_rows);
    items.push((task, 0));
    let cursor = if form.field == 0 {
        theme.chosen()
    } else {
        Style::new()
    };
    form.task.set_cursor_style(cursor);
    frame.render_widget(&form.task, task);
    for (at, name) in FIELDS.into_iter().enumerate() {
        let y = task.bottom() + 1 + u16::try_from(at).unwrap_or(0);
        if y + 1 >= inner.bottom() {
            break;
        }
        let place = Rect::new(inner.x, y, inner.width, 1);
        items.push((place, at + 1));
        frame.render_widget(field(form, at, name, theme), place);
    }
    let keys = [
        ("Enter", "start"),
        ("Tab", "next field"),
        ("Alt-Enter", "new line"),
        ("Ctrl-e", "editor"),
        ("Esc", "keep for later"),
    ];
    let last = Rect::new(inner.x, inner.bottom() - 1, inner.width, 1);
    frame.render_widget(key_line(&keys, theme), last);
}

fn field(form: &NewForm, at: usize, name: &str, theme: Theme) -> Line<'static> {
    let is_own = form.field == at + 1;
    let style = if is_own { theme.accent() } else { theme.dim() };
    let sign = if is_own { "▌" } else { " " };
    let mut spans = vec![Span::styled(format!("{sign}{name:<9}"), style)];
    let choices = |names: &[String]| match names {
        [] => String::new(),
        names => format!("← →  {}", text::line(names.join(" "))),
    };
    let (value, about) = match name {
        "carry" => (
            check(form.carry),
            "move the uncommitted changes of this checkout along".to_owned(),
        ),
        "ask" => (
            check(form.ask),
            "ask me before everything the agent does".to_owned(),
        ),
        name => {
            let value = text::line(&form.texts[at]);
            let about = match name {
                "agent" if value.is_empty() => {
                    if form.agents.is_empty() {
                        "the default agent".to_owned()
                    } else {
                        format!("the default agent; {}", choices(&form.agents))
                    }
                }
                "agent" => choices(&form.agents),
                "model" => "the agent's own".to_owned(),
                "versions" => "← →  how many agents try it".to_owned(),
                "role" => choices(&form.roles),
                "from" => "a branch, a commit or a session".to_owned(),
                _ => "made from the task".to_owned(),
            };
            (value, about)
        }
    };
    let is_empty = value.is_empty();
    spans.push(Span::raw(value));
    if is_own && !matches!(name, "carry" | "ask") {
        spans.push(Span::styled("▏", theme.accent()));
    }
    if is_own || is_empty || matches!(name, "carry" | "ask") {
        spans.push(Span::styled(format!("  {about}"), theme.dim()));
    }
    Line::from(spans)
}

fn check(is_on: bool) -> String {
    if is_on {
        "[x]".to_owned()
    } else {
        "[ ]".to_owned()
    }
}
