//! `git agent list`: every session in a row, in the state it is really in.

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::OutputArgs;
use git_agent::invoke::in_repo;
use git_agent::invoke::session_args::Choice;
use git_agent::listing::row::{self, Summary};
use git_agent::output::sessions::{self, When};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, json, porcelain};
use git_agent::review::state;
use git_agent::selection;
use git_agent::session::control::recover;
use git_agent::store::list::{Listed, Listing, Scope, find_in};

use crate::watch;

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    pub choice: Choice,
    /// Show it again whenever something changes, until q; rings when a session needs a person
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &List) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        if args.watch {
            return watch::watch(context, ui, args);
        }
        let listing = read(context, &args.choice)?;
        for bad in &listing.unreadable {
            let (name, reason) = (one_line(&bad.name), one_line(&bad.reason));
            ui.warning(format!("cannot read '{name}': {reason}"));
        }
        for trouble in recover::heal(context, &listing) {
            ui.warning(format!("{}: {}", trouble.what, trouble.error));
        }
        let chosen = choose(&listing, &args.choice)?;
        let rows = row::summarize(context, &chosen);
        write(context, ui, &rows)?;
        if rows.is_empty() && ui.format() == Format::Human {
            nothing(ui, &listing, args);
        }
        Ok(0)
    })
}

/// Reads the sessions that a choice may be about.
pub fn read(context: &Context<'_>, choice: &Choice) -> Result<Listing> {
    if !choice.names.is_empty() {
        return selection::list_for(context, &choice.names);
    }
    let scope = match choice.all {
        true => Scope::Archived,
        false => Scope::Mine,
    };
    let mut listing = selection::list(context, scope)?;
    if !choice.selection().states.is_empty() {
        state::settle(context, &mut listing.sessions);
    }
    Ok(listing)
}

/// Returns the chosen ones. Without a choice closed sessions are left out; asked for by state or name they are shown.
pub fn choose(listing: &Listing, choice: &Choice) -> Result<Vec<Listed>> {
    let selection = choice.selection();
    if !selection.names.is_empty() {
        let found = selection.names.iter().map(|name| find_in(listing, name));
        return found.map(|found| found.cloned()).collect();
    }
    let fits = |listed: &&Listed| {
        let session = &listed.session;
        let grouped = selection.group.is_none() || session.group == selection.group;
        let stated = match selection.states.as_slice() {
            [] => selection.all || !session.status.is_closed(),
            states => states.contains(&session.status),
        };
        grouped && stated
    };
    Ok(listing.sessions.iter().filter(fits).cloned().collect())
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
        Format::Human => ui.table(&sessions::table(rows, &When::Ago(context.env.now()))),
    }
}

/// Says why there is nothing to see.
fn nothing(ui: &Ui, listing: &Listing, args: &List) {
    if listing.sessions.is_empty() {
        ui.narrate("no sessions yet");
        ui.hint("git agent new \"what to do\"");
    } else if args.choice.selection().is_empty() {
        ui.narrate("no open sessions");
        ui.hint("git agent list --all");
    } else {
        ui.narrate("no such sessions");
    }
}
