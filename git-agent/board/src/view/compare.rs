//! Versions in columns, with the same file beside itself.

use git_agent::model::session::State;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use crate::app::App;
use crate::app::diff::{self, Row};
use crate::text;
use crate::view::code::Painter;
use crate::view::theme::{Theme, sign};

/// Lines above the code of each version.
const HEAD: u16 = 4;

/// Paints the comparison.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let Some(compare) = &app.compare else {
        return;
    };
    let path = compare.paths.get(compare.file).cloned().unwrap_or_default();
    let title = Line::from(vec![
        Span::styled(
            format!(" {} versions  ", compare.versions.len()),
            theme.heading(),
        ),
        Span::styled(
            text::line(&path),
            theme.accent().add_modifier(Modifier::BOLD),
        ),
        Span::styled(
            format!(
                "  file {} of {}",
                compare.file + 1,
                compare.paths.len().max(1)
            ),
            theme.dim(),
        ),
    ]);
    frame.render_widget(title, Rect::new(area.x, area.y, area.width, 1));
    let body = Rect::new(area.x, area.y + 1, area.width, area.height - 1);
    let constraints = vec![Constraint::Fill(1); compare.versions.len()];
    let columns = Layout::horizontal(constraints).split(body);
    let mut longest = 0;
    for (at, (version, column)) in compare.versions.iter().zip(columns.iter()).enumerate() {
        let wide = usize::from(column.width.saturating_sub(1));
        for (y, line) in head(app, at, wide, theme).into_iter().enumerate() {
            let y = column.y + u16::try_from(y).unwrap_or(0);
            if y < column.bottom() {
                frame.render_widget(line, Rect::new(column.x, y, column.width, 1));
            }
        }
        let Some(file) = version.files.iter().position(|file| file.path == path) else {
            let place = Rect::new(column.x, column.y + HEAD, column.width, 1);
            if place.y < column.bottom() {
                frame.render_widget(
                    Line::styled(" does not change this file", theme.dim()),
                    place,
                );
            }
            continue;
        };
        let layout = diff::Layout {
            thread_rows: vec![0; version.threads.len()],
            ..diff::Layout::default()
        };
        let rows: Vec<Row> = diff::rows(version, &layout);
        let own: Vec<Row> = rows
            .into_iter()
            .filter(|row| row.file() == Some(file) && !matches!(row, Row::File(_) | Row::Blank))
            .collect();
        longest = longest.max(own.len());
        let high = usize::from(column.height.saturating_sub(HEAD));
        let painter = Painter::plain(version, theme);
        for (y, row) in own.iter().skip(compare.scroll).take(high).enumerate() {
            let y = column.y + HEAD + u16::try_from(y).unwrap_or(0);
            frame.render_widget(
                painter.row(*row, wide),
                Rect::new(column.x, y, column.width.saturating_sub(1), 1),
            );
        }
        for y in column.y..column.bottom() {
            let edge = Rect::new(column.right().saturating_sub(1), y, 1, 1);
            frame.render_widget(Line::styled("│", theme.frame()), edge);
        }
    }
    if let Some(compare) = &mut app.compare {
        compare.scroll = compare.scroll.min(longest.saturating_sub(1));
    }
}

/// Returns the lines about one version.
fn head(app: &App, at: usize, wide: usize, theme: Theme) -> Vec<Line<'static>> {
    let Some(compare) = &app.compare else {
        return Vec::new();
    };
    let version = &compare.versions[at];
    let is_own = at == compare.column;
    let style = if is_own {
        theme.accent().add_modifier(Modifier::BOLD)
    } else {
        theme.heading()
    };
    let bar = if is_own { "▌" } else { " " };
    let name = text::cut_middle(&text::line(&version.name), wide.saturating_sub(4));
    let (added, deleted) = version.counts();
    let row = app.row(&version.id);
    let state = row.map_or(State::Unknown, |row| row.state);
    let mut facts = vec![
        Span::styled(format!(" {} {state}", sign(state)), theme.state(state)),
        Span::styled(format!("  +{added}"), theme.added()),
        Span::styled(format!(" −{deleted}"), theme.deleted()),
        Span::raw(format!("  {} files", version.files.len())),
    ];
    let mut more = String::new();
    if let Some(row) = row {
        more = text::line(&row.agent);
        if let Some(model) = &row.model {
            more += &format!("/{}", text::line(model));
        }
        if let Some(seconds) = row.elapsed_seconds {
            let time = std::time::Duration::from_secs(seconds);
            more += &format!("  {}", git_agent::output::human::duration(time));
        }
        if let Some(cost) = row.usage.cost_usd {
            more += &format!("  ${cost:.2}");
        }
        if let Some(first) = crate::app::board::conflicts(row).first() {
            facts.push(Span::styled(
                format!("  ≠ {}", text::line(first)),
                theme.bad(),
            ));
        }
    }
    vec![
        Line::from(vec![
            Span::styled(bar, theme.accent()),
            Span::styled(name, style),
        ]),
        Line::from(facts),
        Line::styled(
            format!(" {}", text::cut(&more, wide.saturating_sub(1))),
            theme.dim(),
        ),
        Line::styled("─".repeat(wide), theme.frame()),
    ]
}
