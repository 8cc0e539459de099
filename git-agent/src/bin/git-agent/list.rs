//! `git agent list`: one row for each session, with its current state. The user sees the most urgent first; programs
//! get the order of creation.

use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::group::{self, GroupView};
use git_agent::listing::list::{self, Rows};
use git_agent::listing::row::Summary;
use git_agent::listing::urgency;
use git_agent::model::event::Event;
use git_agent::output::human::count;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Format, Ui, group as group_view, json, porcelain, sessions, transcript};
use git_agent::selection::Selection;
use git_agent::session::recent;

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
        let selection = args.choice.selection().spelled_out(context)?;
        if args.watch {
            return watch::watch(context, ui, selection);
        }
        if let [name] = selection.names.as_slice()
            && let Some(group) = find_group(context, ui, name)?
        {
            return write_group(env, ui, &group).map(|()| 0);
        }
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
            if listed.rows.is_empty() {
                nothing(ui, &listed, &selection)
            } else {
                footer(ui, &listed.rows)?
            }
        }
        Ok(0)
    })
}

fn find_group(context: &Context<'_>, ui: &Ui, name: &str) -> Result<Option<GroupView>> {
    let human = ui.format() == Format::Human;
    let shown = |event: &Event| human && transcript::is_worth_showing(&event.body);
    group::find(context, name, &shown)
}

fn write_group(env: &Env, ui: &Ui, group: &GroupView) -> Result<()> {
    match ui.format() {
        Format::Json => json::write_list(ui, "groups", [group]),
        Format::Porcelain { nul } => {
            for row in &group.sessions {
                porcelain::write_record(&mut ui.out(), nul, sessions::record(&row.summary))?;
            }
            Ok(())
        }
        Format::Human => group_view::write(env, ui, group),
    }
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
            recent::note_rows(context, rows.iter().map(|row| row.id.as_str()));
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
fn nothing(ui: &Ui, listed: &Rows, selection: &Selection) {
    if listed.others > 0 {
        let others = count(listed.others as u64, "session");
        let own = if listed.is_empty { "" } else { "open " };
        ui.narrate(format!(
            "no {own}sessions of your own; {others} of teammates"
        ));
        ui.hint("git agent list --all");
    } else if listed.is_empty {
        ui.narrate("no sessions yet");
        ui.hint("git agent new \"<task>\"");
    } else if selection.is_empty() {
        ui.narrate("no open sessions");
        ui.hint("git agent list --all");
    } else {
        ui.narrate("no matching sessions");
    }
}
