//! The arguments of a merge.

use clap::Args;
use git_agent::invoke::OutputArgs;
use git_agent::merge::run::MergeRequest;
use git_agent::model::merge::Style;

use crate::group_verdict::VerdictArgs;

/// The options of a merge.
#[derive(Debug, Args)]
pub struct Merge {
    /// Sessions: names or their beginnings, ids, @3 of the last list, '-' the last (default: all approved sessions of the branch)
    #[arg(value_name = "SESSION")]
    pub names: Vec<String>,
    /// The branch to merge into (default: the parent of the sessions, or the current branch)
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Merge the sessions of a group
    #[arg(long, value_name = "GROUP", conflicts_with = "names")]
    pub group: Option<String>,
    #[command(flatten)]
    pub verdict: VerdictArgs,
    #[command(flatten)]
    style: StyleArgs,
    #[command(flatten)]
    testing: TestArgs,
    /// Merge without testing the result; the log records it
    #[arg(long, conflicts_with_all = ["test", "retest"])]
    no_test: bool,
    /// Run the tests even if their result is remembered
    #[arg(long)]
    retest: bool,
    /// Only show the plan
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Afterwards remove the worktrees and branches of the merged sessions
    #[arg(long, conflicts_with_all = ["dry_run", "apply", "go_on", "abort", "undo"])]
    pub clean: bool,
    /// Apply a session's changes to the files here, uncommitted
    #[arg(long, conflicts_with_all = ["into", "group", "pick", "dry_run"])]
    pub apply: bool,
    /// Merge this session of a group, then close and clean the others
    #[arg(long, conflicts_with_all = ["group", "dry_run"])]
    pub pick: bool,
    /// Continue an interrupted merge
    #[arg(long = "continue", conflicts_with_all = ["names", "into", "group", "apply", "pick"])]
    pub go_on: bool,
    /// Roll back an interrupted merge
    #[arg(long, conflicts_with_all = ["names", "into", "group", "apply", "pick", "go_on"])]
    pub abort: bool,
    /// Undo the last merge
    #[arg(long, conflicts_with_all = ["names", "into", "group", "apply", "pick", "go_on", "abort"])]
    pub undo: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The merge style.
#[derive(Debug, Clone, Args)]
pub struct StyleArgs {
    /// Make a merge commit for each session (the default)
    #[arg(long, conflicts_with_all = ["squash", "rebase", "ff_only"])]
    no_ff: bool,
    /// Make one commit for each session
    #[arg(long, conflicts_with_all = ["rebase", "ff_only"])]
    squash: bool,
    /// Rebase each session's commits onto the branch
    #[arg(long, conflicts_with = "ff_only")]
    rebase: bool,
    /// Refuse a merge that is not a fast-forward
    #[arg(long)]
    ff_only: bool,
}

impl StyleArgs {
    /// Returns the requested merge style.
    pub fn style(&self) -> Option<Style> {
        match (self.no_ff, self.squash, self.rebase, self.ff_only) {
            (true, ..) => Some(Style::NoFf),
            (_, true, ..) => Some(Style::Squash),
            (_, _, true, _) => Some(Style::Rebase),
            (.., true) => Some(Style::FfOnly),
            _ => None,
        }
    }
}

/// How to test the merged result.
#[derive(Debug, Clone, Args)]
pub struct TestArgs {
    /// Test the merged result with this command (default: agent.test)
    #[arg(long, value_name = "COMMAND")]
    pub test: Option<String>,
    /// Send a session that breaks the tests their log as its next prompt
    #[arg(long = "return")]
    pub give_back: bool,
}

impl Merge {
    /// Returns the request.
    pub fn request(&self) -> MergeRequest {
        MergeRequest {
            into: self.into.clone(),
            names: self.names.clone(),
            group: self.group.clone(),
            style: self.style.style(),
            test: self.testing.test.clone(),
            no_test: self.no_test,
            again: self.retest,
            give_back: self.testing.give_back,
            look_only: self.dry_run,
            approving: Vec::new(),
        }
    }
}
