//! `git agent stop`: ends the turns of sessions and every process they started.

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::selection;
use git_agent::session::control::stop;

use crate::changed_sessions;

#[derive(Debug, Args)]
pub struct Stop {
    #[command(flatten)]
    choice: Choice,
    /// The reason
    #[arg(
        short,
        long,
        value_name = "REASON",
        default_value = "stopped by the user"
    )]
    message: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Stop) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let chosen = selection::select_all_mine(context, &args.choice.selection())?;
        stop::stop(
            context,
            &chosen,
            &args.message,
            &mut |session, was_running| {
                let name = one_line(session.name.as_str());
                if was_running {
                    ui.narrate(format!("stopped '{name}'"))
                } else {
                    ui.narrate(format!("'{name}' was not running"))
                }
            },
        )?;
        changed_sessions::tell(context, ui, chosen.iter().map(|listed| listed.session.sid))?;
        Ok(0)
    })
}
