//! `git agent trust`: a person looks at the team's file and lets it decide what runs.

use std::io::Write;

use clap::Args;
use git_agent::config::{self, TEAM_FILE, Team};
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::git::Repo;
use git_agent::output::terminal::sanitize::{block, one_line};
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Options, Ui};
use git_agent::session::caller;

#[derive(Debug, Args)]
pub struct Trust {
    /// Only show the file and what it would run
    #[arg(long, conflicts_with_all = ["revoke", "yes"])]
    show: bool,
    /// Trust it no longer
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
    /// Trust it without being asked
    #[arg(short, long)]
    yes: bool,
}

/// Runs the verb. It does not go through [`git_agent::invoke::in_repo`]: what is ignored is what this is about.
pub fn run(env: &Env, args: &Trust) -> Result<u8> {
    let repo = Repo::discover(env)?;
    let context = Context::new(env, &repo)?;
    let ui = Ui::new(env, Options::default(), &|key| repo.config_string(key))?;
    if !args.show && (env.var(caller::MARK).is_some() || caller::session(&context)?.is_some()) {
        return Err(Error::fatal("only a person decides what is trusted")
            .hint("this is a session's environment: run it in a terminal of your own"));
    }
    if args.revoke {
        config::trust(&repo, None)?;
        ui.narrate(format!("'{TEAM_FILE}' is not trusted any more"));
        ui.finish()?;
        return Ok(0);
    }
    context.config.require_readable()?;
    let Some(team) = context.config.team() else {
        return Err(Error::negative(format!(
            "there is no file '{TEAM_FILE}' at the top of the repository"
        )));
    };
    show(&ui, team)?;
    let code = match (args.show, team.trusted) {
        (true, _) => 0,
        (false, true) => {
            ui.narrate("it is trusted already");
            0
        }
        (false, false) if args.yes || ui.confirm("trust this file as it is now?")? => {
            // The hash of what was shown, not of what may stand there by now.
            config::trust(&repo, Some(&team.hash))?;
            ui.narrate(format!("'{TEAM_FILE}' is trusted until it changes"));
            0
        }
        (false, false) => {
            ui.narrate("it stays as it was");
            1
        }
    };
    ui.finish()?;
    Ok(code)
}

fn show(ui: &Ui, team: &Team) -> Result<()> {
    let mut out = ui.out();
    let state = match team.trusted {
        true => ui.palette().paint(Slot::Good, "trusted"),
        false => ui.palette().paint(Slot::Waiting, "not trusted"),
    };
    let path = team.path.to_string_lossy();
    writeln!(out, "{} ({state})\n", one_line(path.as_bytes()))?;
    for line in team.text.lines() {
        writeln!(out, "    {}", block(line))?;
    }
    if !team.powerless.is_empty() {
        writeln!(out, "\nIt has no say in these, trusted or not:\n")?;
        for (key, why) in &team.powerless {
            let key = one_line(key.as_bytes()).to_string();
            writeln!(out, "    {} ({why})", ui.palette().paint(Slot::Name, key))?;
        }
    }
    let needs = team.needs_trust();
    if needs.is_empty() {
        writeln!(
            out,
            "\nNothing in it runs anything: it is in force without being trusted."
        )?;
        return Ok(());
    }
    let verb = if team.trusted {
        "are in force"
    } else {
        "are ignored until it is trusted"
    };
    writeln!(out, "\nThese settings run or open something and {verb}:\n")?;
    for (key, value) in needs {
        let key = one_line(key.as_bytes()).to_string();
        writeln!(
            out,
            "    {} = {}",
            ui.palette().paint(Slot::Name, key),
            one_line(value.as_bytes())
        )?;
    }
    writeln!(out)?;
    Ok(())
}
