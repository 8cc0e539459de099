//! `git agent trust`: the user reads the team's file and lets it choose the commands that run.

use std::io::Write;

use clap::Args;
use git_agent::config::{TEAM_FILE, Team};
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::in_repo;
use git_agent::output::terminal::sanitize::{block, one_line};
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Options, Ui};
use git_agent::session::trust::{self, Trusted};

#[derive(Debug, Args)]
pub struct Trust {
    /// Only show the file and the commands in it
    #[arg(long, conflicts_with_all = ["revoke", "yes"])]
    show: bool,
    /// Revoke the trust
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
    /// Trust it without being asked
    #[arg(short, long)]
    yes: bool,
}

/// Runs the verb. No warning comes before it: ignored settings are its subject.
pub fn run(env: &Env, args: &Trust) -> Result<u8> {
    in_repo::run_without_warnings(env, Options::default(), |context, ui| {
        if args.show {
            show(ui, trust::team_file(context)?)?;
            return Ok(0);
        }
        if args.revoke {
            trust::revoke(context)?;
            ui.narrate(format!("'{TEAM_FILE}' is not trusted any more"));
            return Ok(0);
        }
        let mut confirm = || Ok(args.yes || ui.confirm("trust this file as it is now?")?);
        let trusted = trust::trust(context, &mut |team| show(ui, team), &mut confirm)?;
        match trusted {
            Trusted::Already => ui.narrate("already trusted"),
            Trusted::Now => ui.narrate(format!("'{TEAM_FILE}' is trusted until it changes")),
            Trusted::No => ui.narrate("nothing changed"),
        }
        Ok(u8::from(trusted == Trusted::No))
    })
}

fn show(ui: &Ui, team: &Team) -> Result<()> {
    let mut out = ui.out();
    let state = if team.trusted {
        ui.palette().paint(Slot::Good, "trusted")
    } else {
        ui.palette().paint(Slot::Waiting, "not trusted")
    };
    let path = team.path.to_string_lossy();
    writeln!(out, "{} ({state})\n", one_line(path.as_bytes()))?;
    for line in team.text.lines() {
        writeln!(out, "    {}", block(line))?;
    }
    if !team.powerless.is_empty() {
        writeln!(
            out,
            "\nThese settings are ignored in this file, trusted or not:\n"
        )?;
        for (key, why) in &team.powerless {
            let key = one_line(key.as_bytes()).to_string();
            writeln!(out, "    {} ({why})", ui.palette().paint(Slot::Name, key))?;
        }
    }
    let needs = team.needs_trust();
    if needs.is_empty() {
        writeln!(
            out,
            "\nThe file runs no command: it is in force without trust."
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
