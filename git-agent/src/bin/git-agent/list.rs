//! `git agent list`: one row for each session, with its current state. The user sees the most urgent first; programs
//! get the order of creation.

use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::list;
use git_agent::listing::row::Summary;
use git_agent::listing::urgency;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Format, Ui, json, porcelain, sessions};
use git_agent::selection::Selection;

use crate::watch;

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    choice: Choice,
    /// Update the list on every change, until q; rings when a session needs the user
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &List) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        if args.watch {
            return watch::watch(context, ui, args.choice.selection());
        }
        let selection = args.choice.selection();
        let listed = list::list(context, &selection)?;
        for (name, reason) in &listed.unreadable {
            let (name, reason) = (one_line(name), one_line(reason));
            ui.warning(format!("cannot read '{name}': {reason}"));
        }
        for trouble in &listed.troubles {
            ui.warning(format!("{}: {}", trouble.what, trouble.error));
        }
        write(context, ui, &listed.rows)?;
        if ui.format() == Format::Human {
            match listed.rows.is_empty() {
                true => nothing(ui, listed.is_empty, &selection),
                false => footer(ui, &listed.rows)?,
            }
        }
        Ok(0)
    })
}

/// Writes rows in the form that was asked for.
pub fn write(context: &Context<'_>, ui: &Ui, rows: &[Summary]) -> Result<()> {
    match ui.format() {
        Format::Json => json::write_list(ui, "sessions", rows),
        Format::Porcelain { nul } => {
            for row in rows {
                porcelain::write_record(&mut ui.out(), nul, sessions::record(row))?;
            }
            Ok(())
        }
        Format::Human => {
            let mut rows = rows.to_vec();
            urgency::sort(&mut rows);
            let now = context.env.now();
            ui.table(&sessions::table(&rows, now, ui.table_width()))
        }
    }
}

/// Writes the counts and the next steps, for a user who reads the table on a screen.
fn footer(ui: &Ui, rows: &[Summary]) -> Result<()> {
    if ui.table_width().is_none() {
        return Ok(());
    }
    let counts = ui.palette().paint(Slot::Dim, urgency::counts(rows));
    writeln!(ui.out(), "{counts}")?;
    for command in urgency::commands(rows) {
        ui.hint(command);
    }
    Ok(())
}

/// Says why the list is empty.
fn nothing(ui: &Ui, is_empty: bool, selection: &Selection) {
    if is_empty {
        ui.narrate("no sessions yet");
        ui.hint("git agent new \"<task>\"");
    } else if selection.is_empty() {
        ui.narrate("no open sessions");
        ui.hint("git agent list --all");
    } else {
        ui.narrate("no matching sessions");
    }
}
