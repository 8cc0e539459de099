//! The overview of a reviewer, as a table and for programs.

use std::io::Write;

use crate::error::{Context as _, Result};
use crate::listing::review::overview::OverviewRow;
use crate::listing::row::{self, Summary};
use crate::listing::urgency;
use crate::model::known::Finding;
use crate::output::human::count;
use crate::output::table::{Cell, Column, Table};
use crate::output::terminal::sanitize::one_line;
use crate::output::terminal::style::Slot;
use crate::output::{Format, Ui, cannot_write, json, porcelain, sessions};

/// Writes the rows of an overview.
pub fn write(ui: &Ui, rows: &[OverviewRow]) -> Result<()> {
    match ui.format() {
        Format::Json => json::write_list(ui, "sessions", rows),
        Format::Porcelain { nul } => rows.iter().try_for_each(|row| {
            porcelain::write_record(&mut ui.out(), nul, record(row)).context(cannot_write)
        }),
        Format::Human => write_table(ui, rows),
    }
}

fn number(found: &Finding<u64>) -> String {
    match found {
        Finding::Nothing => String::new(),
        Finding::Unknown => "?".to_owned(),
        Finding::Known(number) => number.to_string(),
    }
}

fn part(row: &Summary, part: fn(&row::Changes) -> u64) -> String {
    match &row.changes {
        Finding::Nothing => String::new(),
        Finding::Unknown => "?".to_owned(),
        Finding::Known(changes) => part(changes).to_string(),
    }
}

fn open_comments(row: &Summary) -> String {
    match &row.comments {
        Finding::Nothing => String::new(),
        Finding::Unknown => "?".to_owned(),
        Finding::Known(comments) => comments.open.to_string(),
    }
}

fn verdict(row: &Summary) -> String {
    match &row.verdict {
        Finding::Nothing => String::new(),
        Finding::Unknown => "?".to_owned(),
        Finding::Known(verdict) => spoken(verdict).to_owned(),
    }
}

/// Returns a verdict as text.
pub fn spoken(verdict: &str) -> &str {
    match verdict {
        "approve" => "approved",
        "stale" => "stale approval",
        "request-changes" => "changes requested",
        "reject" => "rejected",
        other => other,
    }
}

fn record(row: &OverviewRow) -> Vec<String> {
    vec![
        row.id.clone(),
        row.state.as_str().to_owned(),
        part(row, |changes| changes.files),
        part(row, |changes| changes.added),
        part(row, |changes| changes.deleted),
        number(&row.ahead),
        part(row, |changes| changes.uncommitted),
        open_comments(row),
        match &row.verdict {
            Finding::Known(verdict) => verdict.clone(),
            Finding::Unknown => "?".to_owned(),
            Finding::Nothing => String::new(),
        },
        row.conflicts_with.len().to_string(),
        row.name.clone(),
    ]
}

fn write_table(ui: &Ui, rows: &[OverviewRow]) -> Result<()> {
    if rows.is_empty() {
        ui.narrate("nothing waits for a review");
        ui.hint("git agent list");
        return Ok(());
    }
    let mut grid = Table::new([
        Column::new("SESSION").keeps_end(),
        Column::new("STATE"),
        Column::new("VERDICT").shrinks_to(8),
        Column::new("FILES").right().goes(2),
        Column::new("+").right().goes(4),
        Column::new("−").right().goes(4),
        Column::new("COMMITS").right().goes(1),
        Column::new("COMMENTS").right().goes(5),
        Column::new("CONFLICTS").shrinks_to(9).goes(6),
        Column::new("AUTHOR").shrinks_to(6).goes(3),
    ]);
    let (mut files, mut added, mut deleted, mut open) = (0, 0, 0, 0);
    for row in rows {
        if let Some(changes) = row.changes.known() {
            files += changes.files;
            added += changes.added;
            deleted += changes.deleted;
        }
        open += row.comments.known().map_or(0, |comments| comments.open);
        let slot = match row.verdict.known().map(String::as_str) {
            Some("approve") => Slot::Good,
            Some("reject") => Slot::Bad,
            _ => Slot::Waiting,
        };
        let nonzero = |count: String| match count.as_str() {
            "0" => String::new(),
            _ => count,
        };
        grid.row([
            Cell::new(&row.name),
            Cell::new(row.state.as_str()).in_color(Slot::of_state(row.state)),
            Cell::new(verdict(row)).in_color(slot),
            Cell::new(part(row, |changes| changes.files)),
            Cell::new(part(row, |changes| changes.added)).in_color(Slot::Added),
            Cell::new(part(row, |changes| changes.deleted)).in_color(Slot::Deleted),
            Cell::new(number(&row.ahead)).in_color(Slot::Dim),
            Cell::new(nonzero(open_comments(row))),
            Cell::new(row.conflicts_with.join(" ")).in_color(Slot::Bad),
            Cell::new(sessions::author(row)),
        ]);
    }
    ui.table(&grid)?;
    for row in rows.iter().filter(|row| row.unshared.is_some()) {
        let name = one_line(&row.name);
        ui.warning(format!("'{name}' {}", urgency::UNSHARED));
    }
    let sessions = count(rows.len() as u64, "session");
    let comments = count(open, "open comment");
    let files = count(files, "file");
    let mut total = format!("{sessions}, {files}, +{added} −{deleted}, {comments}");
    let unknown = |row: &&OverviewRow| matches!(row.changes, Finding::Unknown);
    let uncounted = rows.iter().filter(unknown).count();
    if uncounted > 0 {
        total += &format!(", {uncounted} not counted");
    }
    let clashes = rows
        .iter()
        .filter(|row| !row.conflicts_with.is_empty())
        .count();
    if clashes > 0 {
        total += &format!(", {clashes} in conflict");
    }
    writeln!(ui.out(), "{}", ui.palette().paint(Slot::Dim, total)).context(cannot_write)
}
