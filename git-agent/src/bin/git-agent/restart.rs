//! `git agent restart` and `git agent resume`: continue sessions that were interrupted, stopped, failed or never started.

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::selection;
use git_agent::session::control::restart::{self, Options, Restarted};

use crate::changed_sessions;

#[derive(Debug, Args)]
pub struct Restart {
    #[command(flatten)]
    choice: Choice,
    /// Continue with this prompt (default: from the interruption)
    #[arg(short, long, value_name = "PROMPT")]
    message: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `restart`.
pub fn restart(env: &Env, args: &Restart) -> Result<u8> {
    go_on(env, args, true)
}

/// Runs `resume`, which ignores running sessions.
pub fn resume(env: &Env, args: &Restart) -> Result<u8> {
    go_on(env, args, false)
}

fn go_on(env: &Env, args: &Restart, force: bool) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let chosen = selection::select_all_mine(context, &args.choice.selection())?;
        let mut left = false;
        let mut started = Vec::new();
        let options = Options {
            words: args.message.as_deref(),
            leave_running: !force,
        };
        restart::restart(context, &chosen, options, &mut |session, restarted| {
            let name = one_line(session.name.as_str());
            match restarted {
                Restarted::Started => {
                    ui.narrate(format!("started '{name}'"));
                    started.push(session.sid);
                }
                Restarted::RunsAlready => ui.narrate(format!("'{name}' is already running")),
                Restarted::NoBudget(words) => {
                    ui.error(format!("'{name}' cannot continue: it is {words}"));
                    ui.hint(restart::RAISE);
                    left = true;
                }
            }
        })?;
        changed_sessions::tell(context, ui, started)?;
        Ok(u8::from(left))
    })
}
