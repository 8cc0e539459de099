//! `git agent send`: sends a further prompt to a session; it waits while a turn runs.

use std::path::PathBuf;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo, text_input};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::selection;
use git_agent::session::control::send::{self, Delivery};

use crate::changed_sessions;

#[derive(Debug, Args)]
pub struct Send {
    /// The session
    #[arg(value_name = "SESSION")]
    session: String,
    /// The prompt ('-' is standard input; default: the editor)
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(short = 'F', long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Send) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let listed = selection::select_mine(context, Some(&args.session))?;
        let read = || {
            text_input::read(
                context,
                "prompt",
                args.prompt.as_deref(),
                args.file.as_deref(),
            )
        };
        let name = one_line(listed.session.name.as_str()).to_string();
        match send::send(context, &listed.session, read)? {
            Delivery::Queued => ui.narrate(format!("queued for '{name}'")),
            Delivery::Started => ui.narrate(format!("started '{name}'")),
        }
        ui.hint(format!(
            "git agent log -f {}",
            shell_word(&listed.session.name)
        ));
        changed_sessions::tell(context, ui, [listed.session.sid])?;
        Ok(0)
    })
}
