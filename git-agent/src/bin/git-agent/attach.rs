//! `git agent attach`: the agent's own interface on a session's conversation.

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::selection;
use git_agent::session::conversation::attach;

#[derive(Debug, Args)]
pub struct Attach {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Attach) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, _ui| {
        let session = selection::select_mine(context, args.session.as_deref())?.session;
        let code = attach::attach(context, &session)?;
        Ok(u8::try_from(code).unwrap_or(128))
    })
}
