//! What may be typed after `git agent merge`.

use clap::{Parser, Subcommand};
use git_agent::invoke::Later;

/// Brings what agents changed into a branch: in the right order, tested, and nothing lost
#[derive(Debug, Parser)]
#[command(
    name = "git-agent-merge",
    bin_name = "git agent merge",
    version = concat!("version ", env!("CARGO_PKG_VERSION")),
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "command"
)]
pub struct Cli {
    /// What to do instead of merging.
    #[command(subcommand)]
    pub verb: Option<Verb>,
    #[command(flatten)]
    pub merge: crate::merge::Merge,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show what would conflict: every session with the branch it goes to, and every two sessions
    Conflicts(Later<crate::conflicts::Conflicts>),
    /// Resolve the conflicts of a session with the branch it goes to
    Resolve(Later<crate::resolve::Resolve>),
    /// Let sessions land one batch after the other, as soon as they can
    Queue(Later<crate::queue::Queue>),
}
