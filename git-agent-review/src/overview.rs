//! `git agent review` without a command: the sessions that wait for a reviewer, the size of their
//! changes, their comments and verdicts, and the next commands.

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::review::overview;
use git_agent::output::Format;
use git_agent::output::review::overview as table;

/// Which sessions
#[derive(Debug, Args)]
pub struct Overview {
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    output: OutputArgs,
}

impl Overview {
    /// Returns the names that were given.
    pub fn names(&self) -> &[String] {
        &self.choice.names
    }

    /// Returns the session that alone is asked for, for a person rather than a program.
    pub fn only_session(&self) -> Option<String> {
        let options = self.output.options();
        let selection = self.choice.selection();
        let is_plain = selection.group.is_none() && selection.states.is_empty() && !selection.all;
        match selection.names.as_slice() {
            [only] if options.format == Format::Human && is_plain => Some(only.clone()),
            _ => None,
        }
    }
}

/// Runs it.
pub fn run(env: &Env, args: &Overview) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let overview = overview::overview(context, &args.choice.selection())?;
        if let Some(error) = &overview.conflicts_unknown {
            ui.warning(format!("cannot tell conflicts: {}", error.message()));
        }
        table::write(ui, &overview.rows)?;
        if ui.format() == Format::Human {
            for step in overview::next_steps(context, &overview) {
                ui.hint(step);
            }
        }
        Ok(0)
    })
}
