//! `git agent commit`: commits what a session has made, on its branch.

use std::io::Write;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Error, Result, shell_word};
use git_agent::invoke::OutputArgs;
use git_agent::invoke::in_repo;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::selection;
use git_agent::session::caller::{self, Act};
use git_agent::session::control;
use git_agent::session::supervisor::launch;
use git_agent::session::worktree::commit;

use crate::changed_sessions;

#[derive(Debug, Args)]
pub struct Commit {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// The message (default: the task)
    #[arg(short, long, value_name = "MESSAGE")]
    message: Option<String>,
    /// Commit even while the agent works
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Commit) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let session = selection::select_mine(context, args.session.as_deref())?.session;
        caller::permit(context, Act::Commit, [&session])?;
        let name = one_line(session.name.as_str());
        if !args.force {
            control::idle::require_idle(context, &session).map_err(|error| {
                error.hint(format!(
                    "or commit what is there now: git agent commit --force {}",
                    shell_word(&session.name)
                ))
            })?;
        }
        let commit = || commit::commit(context, &session, args.message.as_deref());
        let made = match args.force {
            true => commit()?,
            // An update or a rewind at the same time would take the branch back to before the commit.
            false => {
                launch::without_supervisor(context, session.sid, commit)?.ok_or_else(|| {
                    Error::fatal(format!("another command changes session '{name}' just now"))
                        .hint(format!("git agent commit {}", shell_word(&session.name)))
                })?
            }
        };
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
