//! `git agent review` without a command: what is ready, how much it is, what reviewers said, and what to type next.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Deref;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Result, shell_word};
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::row::{self, Summary};
use git_agent::merge::conflicts::{self, Pair, Verdict};
use git_agent::model::known::Finding;
use git_agent::model::session::State;
use git_agent::output::table::{Cell, Column, Table};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Format, Ui, cannot_write, json, porcelain, sessions};
use git_agent::selection;
use git_agent::session::worktree::work;
use git_agent::store::list::{Listed, Scope};
use serde::Serialize;

use git_agent::review::send;

/// So many sessions are asked whether there is something to send to them.
const ASKED: usize = 5;

/// Which sessions
#[derive(Debug, Args)]
pub struct Overview {
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs it.
pub fn run(env: &Env, args: &Overview) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let chosen = chosen(context, args)?;
        let rows = row::summarize(context, &chosen);
        let rows = with_conflicts(context, ui, &chosen, rows);
        match ui.format() {
            Format::Json => json::write_list(ui, "sessions", &rows)?,
            Format::Porcelain { nul } => {
                for row in &rows {
                    porcelain::write_record(&mut ui.out(), nul, record(row))
                        .context(cannot_write)?;
                }
            }
            Format::Human => {
                write(ui, &rows)?;
                next_steps(context, ui, &chosen, &rows);
            }
        }
        Ok(0)
    })
}

/// A session in one row, and what its work does not go together with.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    summary: Summary,
    /// The branch it goes to, and other sessions of the table, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts_with: Vec<String>,
}

impl Deref for Row {
    type Target = Summary;

    fn deref(&self) -> &Summary {
        &self.summary
    }
}

/// Adds what the sessions conflict with: the branches they go to, and each other.
fn with_conflicts(
    context: &Context<'_>,
    ui: &Ui,
    chosen: &[Listed],
    rows: Vec<Summary>,
) -> Vec<Row> {
    let matrix = conflicts::matrix(context, chosen, &conflicts::Options::default());
    if let Err(error) = &matrix {
        ui.warning(format!("cannot tell conflicts: {}", error.message()));
    }
    let pairs: Vec<Pair> = matrix
        .map(|matrix| matrix.against.into_iter().chain(matrix.between).collect())
        .unwrap_or_default();
    rows.into_iter()
        .map(|summary| {
            let sid = Some(summary.session.sid);
            let conflicts_with = pairs
                .iter()
                .filter(|pair| pair.verdict != Verdict::Clean)
                .filter_map(|pair| match sid {
                    sid if pair.ours.session == sid => Some(pair.theirs.name.clone()),
                    sid if pair.theirs.session == sid => Some(pair.ours.name.clone()),
                    _ => None,
                })
                .collect();
            Row {
                summary,
                conflicts_with,
            }
        })
        .collect()
}

/// Returns the sessions that were asked for, otherwise those that wait for a reviewer: this clone's and teammates'.
fn chosen(context: &Context<'_>, args: &Overview) -> Result<Vec<Listed>> {
    let selection = args.choice.selection();
    if !selection.is_empty() {
        return selection::select(context, &selection);
    }
    let mut sessions = selection::list(context, Scope::All)?.sessions;
    sessions.retain(|listed| {
        let waits = matches!(
            listed.session.status,
            State::Ready | State::Approved | State::ChangesRequested
        );
        waits && listed.session.resolves().is_none()
    });
    Ok(sessions)
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

/// Returns a verdict as people say it.
pub fn spoken(verdict: &str) -> &str {
    match verdict {
        "approve" => "approved",
        "stale" => "stale approval",
        "request-changes" => "changes requested",
        "reject" => "rejected",
        other => other,
    }
}

fn record(row: &Row) -> Vec<String> {
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

fn write(ui: &Ui, rows: &[Row]) -> Result<()> {
    if rows.is_empty() {
        ui.narrate("nothing waits for a review");
        ui.hint("git agent list");
        return Ok(());
    }
    let mut grid = Table::new([
        Column::new("SESSION").shrinks_to(16).keeps_end(),
        Column::new("FILES").right().goes(2),
        Column::new("+").right().goes(5),
        Column::new("-").right().goes(5),
        Column::new("COMMITS").right().goes(1),
        Column::new("DIRTY").right().goes(4),
        Column::new("CONFLICTS").shrinks_to(9).goes(7),
        Column::new("COMMENTS").right().goes(6),
        Column::new("VERDICT").shrinks_to(8),
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
        let loose = match part(row, |changes| changes.uncommitted).as_str() {
            "0" => String::new(),
            loose => loose.to_owned(),
        };
        // What nobody has judged is told by its state.
        let (verdict, slot) = match (row.verdict.known().map(String::as_str), verdict(row)) {
            (_, verdict) if verdict.is_empty() => {
                (row.state.as_str().to_owned(), Slot::of_state(row.state))
            }
            (Some("approve"), verdict) => (verdict, Slot::Good),
            (Some("reject"), verdict) => (verdict, Slot::Bad),
            (_, verdict) => (verdict, Slot::Waiting),
        };
        grid.row([
            Cell::new(&row.name),
            Cell::new(part(row, |changes| changes.files)),
            Cell::new(part(row, |changes| changes.added)).in_color(Slot::Added),
            Cell::new(part(row, |changes| changes.deleted)).in_color(Slot::Deleted),
            Cell::new(number(&row.ahead)),
            Cell::new(loose),
            Cell::new(row.conflicts_with.join(" ")).in_color(Slot::Bad),
            Cell::new(open_comments(row)),
            Cell::new(verdict).in_color(slot),
            Cell::new(sessions::author(row)),
        ]);
    }
    ui.table(&grid)?;
    for row in rows.iter().filter(|row| row.unshared.is_some()) {
        let name = one_line(&row.name);
        ui.warning(format!("'{name}' {}", sessions::UNSHARED));
    }
    let sessions = git_agent::output::human::count(rows.len() as u64, "session");
    let comments = git_agent::output::human::count(open, "open comment");
    let files = git_agent::output::human::count(files, "file");
    let mut total = format!("{sessions}, {files}, +{added} -{deleted}, {comments}");
    let unknown = |row: &&Row| matches!(row.changes, Finding::Unknown);
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

/// Says what to type next, for the sessions at hand.
fn next_steps(context: &Context<'_>, ui: &Ui, chosen: &[Listed], rows: &[Row]) {
    let rows: Vec<&Row> = (rows.iter())
        .filter(|row| row.session.resolves().is_none())
        .collect();
    let named = |row: &Row| shell_word(&row.name);
    let verdict = |row: &Row| row.verdict.known().cloned().unwrap_or_default();
    let open = |row: &Row| {
        row.comments
            .known()
            .is_some_and(|comments| comments.open > 0)
    };
    if let Some(row) = rows.iter().copied().find(|row| verdict(row) != "approve") {
        let name = shell_word(&row.name);
        ui.hint(format!("git agent review diff {name}"));
        if !open(row) {
            ui.hint(format!(
                "git agent review comment {name} FILE:LINE -m \"<text>\""
            ));
            ui.hint(format!("git agent review approve {name}"));
        }
        let waits = |row: &&Row| row.mine && row.state == State::Ready && verdict(row).is_empty();
        if rows.iter().copied().filter(waits).count() > 1 {
            ui.hint("git agent review approve --ready    all that are ready, after a question");
        }
    }
    // Where a comment hangs now does not matter for this, so no file is looked at.
    let to_send = |row: &Row| {
        let listed = chosen
            .iter()
            .find(|listed| listed.session.sid == row.session.sid)?;
        let work = work::committed(context, listed).ok()?;
        send::next_step(context, listed, &work)
    };
    let commented = (rows.iter().copied()).filter(|row| row.mine && open(row));
    if let Some(step) = commented.take(ASKED).find_map(to_send) {
        ui.hint(step);
    }
    // Each goes where it came from.
    let mut targets: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let is_empty = |row: &Row| {
        let same = |changes: &row::Changes| changes.files + changes.uncommitted == 0;
        row.changes.known().is_some_and(same) && row.ahead.known().is_none_or(|count| *count == 0)
    };
    let lands = |row: &&Row| row.mine && verdict(row) == "approve" && !is_empty(row);
    for row in rows.iter().copied().filter(lands) {
        let into = row.parent.as_deref().unwrap_or("BRANCH");
        targets.entry(into).or_default().push(named(row));
    }
    for (into, names) in targets {
        let (into, names) = (shell_word(into), names.join(" "));
        ui.hint(format!("git agent merge --into {into} {names}"));
    }
}
