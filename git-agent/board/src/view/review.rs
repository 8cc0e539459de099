//! The review screen: a title line, the file tree and the diff with its threads.

use git_agent::model::review::standing::Standing;
use git_agent::review::diff_scope::Scope;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::app::App;
use crate::app::board::conflicts;
use crate::app::review::WITH_TREE;
use crate::text;
use crate::view::code::Painter;
use crate::view::theme::{Theme, sign};
use crate::view::{spread, tree};

/// Paints the review screen.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let [title, second, body] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
    ])
    .areas(area);
    frame.render_widget(headline(app, usize::from(area.width), theme), title);
    frame.render_widget(state_line(app, usize::from(area.width), theme), second);
    let Some(review) = &mut app.review else {
        return;
    };
    let Some(shown) = review.shown.clone() else {
        frame.render_widget(Line::styled(" reading …", theme.dim()), body);
        return;
    };
    if shown.files.is_empty() && review.rows.is_empty() {
        frame.render_widget(
            Line::styled(" no changes here: w shows another part", theme.dim()),
            body,
        );
        return;
    }
    let with_tree = review.tree.unwrap_or(area.width >= WITH_TREE) && shown.files.len() > 1;
    let tree_width = if with_tree {
        tree::width(&shown).min(area.width / 3)
    } else {
        0
    };
    let [tree_area, diff_area] =
        Layout::horizontal([Constraint::Length(tree_width), Constraint::Fill(1)]).areas(body);
    review.resize(diff_area.width, usize::from(diff_area.height));
    app.areas.diff = diff_area;
    if with_tree {
        let files = tree::draw(frame, tree_area, review, &shown, theme);
        app.areas.files = files;
    }
    let painter = Painter::of(&shown, review, theme);
    let end = (review.top + review.height).min(review.rows.len());
    for (y, at) in (review.top..end).enumerate() {
        let y = diff_area.y + u16::try_from(y).unwrap_or(0);
        let wide = usize::from(diff_area.width.saturating_sub(1));
        let mut line = painter.row(review.rows[at], wide);
        let is_cursor = at == review.cursor;
        let bar = match (is_cursor, review.in_range(at)) {
            (true, _) => Span::styled("▌", theme.accent()),
            (false, true) => Span::styled("┃", theme.waiting()),
            (false, false) => Span::raw(" "),
        };
        if is_cursor || review.in_range(at) {
            let mark = if theme.has_backgrounds() {
                Style::new().add_modifier(Modifier::BOLD)
            } else {
                Style::new().add_modifier(Modifier::REVERSED)
            };
            let is_plain = |style: Style| style.bg.is_none();
            line.spans = line
                .spans
                .into_iter()
                .map(|span| {
                    let own = if is_plain(span.style) {
                        theme.selected()
                    } else {
                        Style::new()
                    };
                    let style = span.style.patch(own).patch(mark);
                    span.style(style)
                })
                .collect();
            if line.style.bg.is_none() {
                line.style = line.style.patch(theme.selected());
            }
        }
        line.spans.insert(0, bar);
        frame.render_widget(line, Rect::new(diff_area.x, y, diff_area.width, 1));
    }
}

fn headline(app: &App, wide: usize, theme: Theme) -> Line<'static> {
    let Some(review) = &app.review else {
        return Line::default();
    };
    let mut left = Vec::new();
    if let Some(row) = app.row(&review.id) {
        left.push(Span::styled(
            format!(" {} ", sign(row.state)),
            theme.state(row.state),
        ));
        left.push(Span::styled(
            text::cut_middle(&text::line(&row.name), 40),
            theme.heading(),
        ));
        left.push(Span::styled(
            format!("  {}", row.state),
            theme.state(row.state),
        ));
        let agent = text::line(&row.agent);
        left.push(Span::styled(
            format!("  {agent}  turn {}", row.turns),
            theme.dim(),
        ));
    }
    if let Some(shown) = &review.shown {
        let (added, deleted) = shown.counts();
        left.push(Span::styled(format!("  +{added}"), theme.added()));
        left.push(Span::styled(format!(" −{deleted}"), theme.deleted()));
        let many = shown.files.len();
        let word = if many == 1 { "file" } else { "files" };
        left.push(Span::raw(format!("  {many} {word}")));
    }
    let scope = match review.scope {
        Scope::Branch => "all changes".to_owned(),
        Scope::SinceReview => "since my last review".to_owned(),
        Scope::Uncommitted => "not committed".to_owned(),
        Scope::Staged => "staged".to_owned(),
        Scope::Unstaged => "not staged".to_owned(),
        Scope::Turn(turn) => format!("turn {turn}"),
    };
    let right = vec![Span::styled(format!("{scope} ▾ "), theme.accent())];
    spread(left, right, wide)
}

/// Returns the line with verdict, conflicts, comments, progress through the files, and changes meanwhile.
fn state_line(app: &App, wide: usize, theme: Theme) -> Line<'static> {
    let Some(review) = &app.review else {
        return Line::default();
    };
    let mut left: Vec<Span<'static>> = vec![Span::raw(" ")];
    let mut add = |words: String, style: Style| {
        if left.len() > 1 {
            left.push(Span::raw("   "));
        }
        left.push(Span::styled(words, style));
    };
    if let Some(shown) = &review.shown {
        match shown.standing {
            Standing::Approved => add("✓ approved".to_owned(), theme.good()),
            Standing::Stale => add("approved earlier work".to_owned(), theme.waiting()),
            Standing::ChangesRequested => add("↺ changes requested".to_owned(), theme.waiting()),
            Standing::Rejected => add("⊘ rejected".to_owned(), theme.bad()),
            Standing::Unjudged => add("no verdict".to_owned(), theme.dim()),
        }
        if !shown.is_committed {
            add("has uncommitted work".to_owned(), theme.dim());
        }
    }
    if let Some(row) = app.row(&review.id) {
        let clash = conflicts(row);
        if let [first, ..] = clash {
            let parent = text::line(row.parent.as_deref().unwrap_or("parent"));
            add(
                format!("≠ {parent}: {}", text::cut(&text::line(first), 24)),
                theme.bad(),
            );
        }
    }
    let (open, unsent) = review.open_comments();
    if open > 0 {
        let words = match unsent {
            0 => format!("✎ {open} open, all sent"),
            _ => format!("✎ {open} open, {unsent} to send"),
        };
        add(words, theme.waiting());
    }
    if review.has_changed {
        add("! changed since it was opened".to_owned(), theme.bad());
    }
    if !review.search.is_empty() {
        add(
            format!("/{}", text::cut(&text::line(&review.search), 20)),
            theme.accent(),
        );
    }
    let mut right = Vec::new();
    if !review.rows.is_empty() {
        let percent = (review.cursor + 1) * 100 / review.rows.len();
        right.push(Span::styled(format!("{percent}% "), theme.dim()));
    }
    spread(left, right, wide)
}
