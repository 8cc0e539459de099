//! `git agent review diff`: the changes of a session as git shows them, with the open comments at their lines.

use std::ffi::OsString;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::merge::candidates;
use git_agent::output::review::diff_view::{self, DiffOptions};
use git_agent::review::diff_scope::Scope;
use git_agent::review::diff_text::pathspec;
use git_agent::selection;

#[derive(Debug, Args)]
pub struct Diff {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// All changes since the session's base, committed or not (the default)
    #[arg(long, group = "scope")]
    branch: bool,
    /// All changes that a merge into this branch would bring
    #[arg(long, value_name = "BRANCH", group = "scope")]
    into: Option<String>,
    /// Staged changes
    #[arg(long, group = "scope")]
    staged: bool,
    /// Unstaged changes, including untracked files
    #[arg(long, group = "scope")]
    unstaged: bool,
    /// Uncommitted changes
    #[arg(long, group = "scope")]
    uncommitted: bool,
    /// Changes since your last 'diff', verdict or 'send'
    #[arg(long, group = "scope")]
    since_review: bool,
    /// The changes of one turn
    #[arg(long, value_name = "N", group = "scope")]
    turn: Option<u64>,
    /// Only the number of changed lines in each file
    #[arg(long, conflicts_with = "name_only")]
    stat: bool,
    /// Only the names of the files
    #[arg(long)]
    name_only: bool,
    /// Show changed words within lines
    #[arg(long)]
    word_diff: bool,
    /// Do not show comments
    #[arg(long)]
    no_comments: bool,
    /// Also show resolved comments
    #[arg(long, conflicts_with = "no_comments")]
    resolved: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// Only these paths
    #[arg(last = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

impl Diff {
    /// Returns the requested part of the work.
    fn scope(&self) -> Scope {
        match self.turn {
            Some(turn) => Scope::Turn(turn),
            None if self.staged => Scope::Staged,
            None if self.unstaged => Scope::Unstaged,
            None if self.uncommitted => Scope::Uncommitted,
            None if self.since_review => Scope::SinceReview,
            None => Scope::Branch,
        }
    }
}

/// Runs the verb.
pub fn run(env: &Env, args: &Diff) -> Result<u8> {
    let mut output = args.output.options();
    output.pager = true;
    output.pager_key = Some("pager.diff");
    in_repo::run(env, output, |context, ui| {
        let options = DiffOptions {
            scope: args.scope(),
            stat: args.stat,
            name_only: args.name_only,
            word_diff: args.word_diff,
            no_comments: args.no_comments,
            resolved: args.resolved,
            color: output.color,
            paths: pathspec::all_from_top(context, &args.paths),
        };
        diff_view::show(context, ui, &options, || {
            let listed = selection::select_one(context, args.session.as_deref())?;
            candidates::towards(context, listed, args.into.as_deref())
        })?;
        Ok(0)
    })
}
