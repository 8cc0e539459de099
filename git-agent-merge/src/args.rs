//! The arguments of `git agent merge`.

use clap::{Parser, Subcommand};
use git_agent::invoke::Later;

/// Merge the work of agents into a branch: in the right order, tested, without losing anything
#[derive(Debug, Parser)]
#[command(
    name = "git-agent-merge",
    bin_name = "git agent merge",
    version = concat!("version ", env!("CARGO_PKG_VERSION")),
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "command"
)]
pub struct Cli {
    /// Subcommand instead of a merge.
    #[command(subcommand)]
    pub verb: Option<Verb>,
    #[command(flatten)]
    pub merge: crate::merge_args::Merge,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show conflicts in advance: each session with its target branch, and each two sessions
    Conflicts(Later<crate::conflicts::Conflicts>),
    /// Resolve the conflicts of a session with its target branch
    Resolve(Later<crate::resolve::Resolve>),
    /// Merge sessions in batches, as soon as they are ready
    Queue(Later<crate::queue::Queue>),
}
