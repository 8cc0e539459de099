//! What may be typed after `git agent merge`.

use clap::{Parser, Subcommand};

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
    Conflicts(crate::conflicts::Conflicts),
    Resolve(crate::resolve::Resolve),
    Queue(crate::queue::Queue),
}
