//! What may be typed after `git agent review`.

use clap::{Parser, Subcommand};

/// Reviews what agents changed
#[derive(Debug, Parser)]
#[command(
    name = "git-agent-review",
    bin_name = "git agent review",
    version = concat!("version ", env!("CARGO_PKG_VERSION")),
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "command"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// Without a command: the table.
    #[command(flatten)]
    pub table: crate::table::Table,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    Diff(crate::diff::Diff),
    List(crate::list::List),
    Comment(crate::comment::Comment),
    Reply(crate::answer::Reply),
    /// Close threads
    Resolve(crate::answer::Close),
    /// Open threads again
    Reopen(crate::answer::Close),
    Edit(crate::edit::Edit),
    Delete(crate::answer::Delete),
    Send(crate::send::Send),
    /// Say that the work may land exactly as it is
    Approve(crate::verdict::Judge),
    /// Say what must change before the work may land
    RequestChanges(crate::verdict::Judge),
    /// Say that the work shall not land
    Reject(crate::verdict::Judge),
    Compare(crate::compare::Compare),
    Ai(crate::ai::Ai),
}
