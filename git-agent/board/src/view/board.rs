//! The board: a title line, the columns, and the pane of the selected session.

use git_agent::listing::row::Summary;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use crate::app::App;
use crate::app::board::{COLUMNS, needs_person};
use crate::text;
use crate::view::theme::Theme;
use crate::view::{card, pane, spread};

/// From this width on, all columns are shown at once.
const THREE: u16 = 96;
/// From this width on, the pane stands beside the columns.
const BESIDE: u16 = 170;
/// A column without cards gets this many cells.
const EMPTY: u16 = 12;

/// Paints the board.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let title = Rect::new(area.x, area.y, area.width, 1);
    frame.render_widget(headline(app, usize::from(area.width), theme), title);
    let body = Rect::new(area.x, area.y + 1, area.width, area.height - 1);
    if app.is_loaded && app.rows.is_empty() {
        return welcome(frame, body, app, theme);
    }
    if app.board.zoomed {
        return pane::draw(frame, body, app, theme);
    }
    let (cards, side) = if area.width >= BESIDE {
        let [cards, side] =
            Layout::horizontal([Constraint::Fill(11), Constraint::Fill(9)]).areas(body);
        (cards, side)
    } else {
        let low = body.height < 30;
        let share = if low {
            body.height * 5 / 11
        } else {
            body.height / 2
        };
        let [cards, side] =
            Layout::vertical([Constraint::Length(share), Constraint::Fill(1)]).areas(body);
        (cards, side)
    };
    columns(frame, cards, app, theme, area.width >= THREE);
    pane::draw(frame, side, app, theme);
}

/// Returns the title line: the repository, what needs a person, what runs, the cost.
fn headline(app: &App, wide: usize, theme: Theme) -> Line<'static> {
    let needs = app.rows.iter().filter(|row| needs_person(row)).count();
    let working = app.rows.iter().filter(|row| row.state.is_working()).count();
    let cost: f64 = app.rows.iter().filter_map(|row| row.usage.cost_usd).sum();
    let mut left = vec![
        Span::styled(" git agent ", theme.accent().add_modifier(Modifier::BOLD)),
        Span::styled(text::cut(&text::line(&app.repository), 24), theme.heading()),
        Span::raw("  "),
    ];
    left.push(match (app.is_loaded, needs) {
        (false, _) => Span::styled("reading …", theme.dim()),
        (true, 0) => Span::styled("nothing needs you", theme.dim()),
        (true, 1) => Span::styled("1 needs you", theme.waiting()),
        (true, many) => Span::styled(format!("{many} need you"), theme.waiting()),
    });
    if working > 0 {
        left.push(Span::styled(
            format!("  ▸ {working} working"),
            theme.running(),
        ));
    }
    if !app.board.filter.is_empty() {
        let words = text::cut(&text::line(&app.board.filter), 30);
        left.push(Span::styled(format!("  filter: {words}"), theme.accent()));
    }
    if !app.board.marks.is_empty() {
        left.push(Span::styled(
            format!("  ◆ {} marked", app.board.marks.len()),
            theme.accent(),
        ));
    }
    let mut right = Vec::new();
    if cost > 0.0 {
        right.push(Span::styled(format!("${cost:.2} "), theme.dim()));
    }
    right.push(Span::styled(
        format!("{} sessions ", app.rows.len()),
        theme.dim(),
    ));
    spread(left, right, wide)
}

fn welcome(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let key = app.keys.first(crate::keys::Action::New);
    let lines = [
        Line::default(),
        Line::styled("  No sessions yet.", theme.heading()),
        Line::default(),
        Line::from(vec![
            Span::raw("  Press "),
            Span::styled(key, theme.key()),
            Span::raw(" and say what should be done: an agent does it on a branch of its own."),
        ]),
        Line::raw("  Its log, its changes and its questions appear here."),
    ];
    for (at, line) in lines.into_iter().enumerate() {
        let y = area.y + u16::try_from(at).unwrap_or(0);
        if y < area.bottom() {
            frame.render_widget(line, Rect::new(area.x, y, area.width, 1));
        }
    }
}

fn columns(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme, all: bool) {
    let counts: [usize; 3] = app.columns().map(|cards| cards.len());
    if !all {
        let [tabs, body] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        draw_tabs(frame, tabs, app, counts, theme);
        let at = app.board.column;
        column(frame, body, app, at, false, theme);
        app.areas.columns.push((body, at));
        return;
    }
    let constraints = counts.map(|count| match count {
        0 => Constraint::Length(EMPTY),
        _ => Constraint::Fill(1),
    });
    let areas: [Rect; 3] = Layout::horizontal(constraints).areas(area);
    for (at, area) in areas.into_iter().enumerate() {
        app.areas.columns.push((area, at));
        column(frame, area, app, at, true, theme);
    }
}

/// Paints the names of the columns in one line, for narrow terminals.
fn draw_tabs(frame: &mut Frame<'_>, area: Rect, app: &mut App, counts: [usize; 3], theme: Theme) {
    let mut spans = Vec::new();
    let mut x = area.x;
    let needs = needs_of(app);
    for (at, name) in COLUMNS.into_iter().enumerate() {
        let is_own = at == app.board.column;
        let label = if is_own {
            format!("[{name} {}]", counts[at])
        } else {
            format!(" {name} {} ", counts[at])
        };
        let calls = match needs[at] {
            0 => "  ".to_owned(),
            many => format!("?{many} "),
        };
        let wide = u16::try_from(text::width(&label) + text::width(&calls)).unwrap_or(1);
        app.areas.columns.push((Rect::new(x, area.y, wide, 1), at));
        x += wide;
        let style = if is_own {
            theme.accent().add_modifier(Modifier::BOLD)
        } else {
            theme.dim()
        };
        spans.push(Span::styled(label, style));
        spans.push(Span::styled(calls, theme.waiting()));
    }
    frame.render_widget(Line::from(spans), area);
}

fn needs_of(app: &App) -> [usize; 3] {
    app.columns()
        .map(|cards| cards.into_iter().filter(|row| needs_person(row)).count())
}

fn column(frame: &mut Frame<'_>, area: Rect, app: &mut App, at: usize, titled: bool, theme: Theme) {
    let mut body = area;
    if titled {
        let cards = app.columns()[at].len();
        let needs = needs_of(app)[at];
        let style = if at == app.board.column {
            theme.accent().add_modifier(Modifier::BOLD)
        } else {
            theme.heading()
        };
        let mut spans = vec![Span::styled(format!(" {} {cards} ", COLUMNS[at]), style)];
        if needs > 0 {
            spans.push(Span::styled(format!("?{needs} "), theme.waiting()));
        }
        let used: usize = spans.iter().map(|span| text::width(&span.content)).sum();
        let rest = usize::from(area.width).saturating_sub(used + 1);
        spans.push(Span::styled("─".repeat(rest), theme.frame()));
        frame.render_widget(Line::from(spans), Rect::new(area.x, area.y, area.width, 1));
        body = Rect::new(
            area.x,
            area.y + 1,
            area.width.saturating_sub(1),
            area.height.saturating_sub(1),
        );
    }
    let drawn = cards(app, body, at, theme);
    for (rect, line, id) in drawn {
        frame.render_widget(line, rect);
        app.areas.cards.push((rect, id));
    }
}

/// Returns the visible lines of a column's cards, scrolled so that the selected one is whole.
fn cards(app: &App, area: Rect, at: usize, theme: Theme) -> Vec<(Rect, Line<'static>, String)> {
    let columns = app.columns();
    let cards: &[&Summary] = &columns[at];
    let wide = usize::from(area.width);
    let high = usize::from(area.height);
    let full: usize = cards
        .iter()
        .take(high)
        .map(|row| card::height(app, row) + 1)
        .sum();
    let compact = full > high + 1;
    let gap = usize::from(!compact);
    let selected = app.board.selected.as_deref();
    let chosen = cards
        .iter()
        .position(|row| Some(row.id.as_str()) == selected);
    // Only cards around the selected one are laid out: there may be thousands.
    let first = chosen.unwrap_or(0).saturating_sub(high);
    let last = (chosen.unwrap_or(0) + high + 1).min(cards.len());
    let mut lines: Vec<(Line<'static>, String)> = Vec::new();
    let mut span = (0, 0);
    for row in &cards[first..last] {
        let card = card::lines(app, row, wide, compact, theme);
        if Some(row.id.as_str()) == selected {
            span = (lines.len(), lines.len() + card.len());
        }
        lines.extend(card.into_iter().map(|line| (line, row.id.clone())));
        lines.extend((0..gap).map(|_| (Line::default(), row.id.clone())));
    }
    let top = if span.1 > high {
        span.1 - high + usize::from(span.1 < lines.len())
    } else {
        0
    };
    let top = top.min(span.0);
    let hidden_above = first > 0 || top > 0;
    let hidden_below = lines.len() > top + high || last < cards.len();
    let visible = lines.into_iter().skip(top).take(high).enumerate();
    let mut drawn: Vec<(Rect, Line<'static>, String)> = visible
        .map(|(y, (line, id))| {
            let y = area.y + u16::try_from(y).unwrap_or(0);
            (Rect::new(area.x, y, area.width, 1), line, id)
        })
        .collect();
    let more = |sign: &'static str| Span::styled(sign, theme.dim());
    let is_free = |(_, line, _): &&mut (Rect, Line<'static>, String)| line.spans.is_empty();
    if let Some((_, line, _)) = drawn.last_mut().filter(|_| hidden_below).filter(is_free) {
        *line = Line::from(more(" ↓ more"));
    }
    if let Some((_, line, _)) = drawn.first_mut().filter(|_| hidden_above).filter(is_free) {
        *line = Line::from(more(" ↑ more"));
    }
    if drawn.is_empty() && high > 0 && cards.is_empty() {
        let rect = Rect::new(area.x, area.y, area.width, 1);
        drawn.push((rect, Line::styled("  –", theme.dim()), String::new()));
    }
    drawn
}
