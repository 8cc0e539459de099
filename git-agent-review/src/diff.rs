//! `git agent review diff`: what a session changed, as git shows it, with the open comments in their places.

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
    /// Everything since it left its parent, committed or not (the default)
    #[arg(long, group = "scope")]
    branch: bool,
    /// Everything that a merge into this branch would bring
    #[arg(long, value_name = "BRANCH", group = "scope")]
    into: Option<String>,
    /// What is staged
    #[arg(long, group = "scope")]
    staged: bool,
    /// What is neither staged nor committed, untracked files included
    #[arg(long, group = "scope")]
    unstaged: bool,
    /// What is not committed
    #[arg(long, group = "scope")]
    uncommitted: bool,
    /// What changed since it was last looked at: by 'diff', a verdict or 'send'
    #[arg(long, group = "scope")]
    since_review: bool,
    /// What one turn changed
    #[arg(long, value_name = "N", group = "scope")]
    turn: Option<u64>,
    /// Only how many lines changed in each file
    #[arg(long, conflicts_with = "name_only")]
    stat: bool,
    /// Only the names of the files
    #[arg(long)]
    name_only: bool,
    /// Show changed words within lines
    #[arg(long)]
    word_diff: bool,
    /// Leave the comments out
    #[arg(long)]
    no_comments: bool,
    /// Show resolved comments too
    #[arg(long, conflicts_with = "no_comments")]
    resolved: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// Only these paths
    #[arg(last = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

impl Diff {
    /// Returns which part of the work is asked for.
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
