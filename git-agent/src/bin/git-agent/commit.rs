//! `git agent commit`: commits a session's work on its branch.

use std::io::Write;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::selection;
use git_agent::session::worktree::commit::{self, Options};

use crate::changed_sessions;

#[derive(Debug, Args)]
pub struct Commit {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// The message (default: the task)
    #[arg(short, long, value_name = "MESSAGE")]
    message: Option<String>,
    /// Commit even while the agent is running
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Commit) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let session = selection::select_mine(context, args.session.as_deref())?.session;
        let name = one_line(session.name.as_str());
        let options = Options {
            message: args.message.as_deref(),
            force: args.force,
        };
        let made = commit::commit(context, &session, options)?;
        if made.is_none() {
            ui.narrate(format!("nothing to commit in '{name}'"));
        }
        let commits = made.iter().map(|id| id.to_string().into()).collect();
        let told =
            changed_sessions::tell_with(context, ui, [session.sid], Some(("commits", commits)))?;
        if let Some(id) = made.filter(|_| !told) {
            writeln!(ui.out(), "{id}")?;
        }
        Ok(0)
    })
}
