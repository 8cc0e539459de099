//! `git agent answer`: what a session asked, answered by a person.

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::OutputArgs;
use git_agent::output::sanitize::one_line;
use git_agent::session::{select, steer};

use crate::site;

#[derive(Debug, Args)]
pub struct Answer {
    /// The session
    #[arg(value_name = "SESSION")]
    session: String,
    /// yes, no, always, never, an option's number or name, or free text
    #[arg(value_name = "ANSWER")]
    answer: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Answer) -> Result<u8> {
    site::run(env, args.output.options(), |context, ui| {
        let listed = select::select_mine(context, Some(&args.session))?;
        steer::answer(context, &listed.session, &args.answer)?;
        ui.narrate(format!(
            "answered '{}'",
            one_line(listed.session.name.as_str())
        ));
        Ok(0)
    })
}
