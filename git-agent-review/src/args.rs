//! What may be typed after `git agent review`.

use clap::{Parser, Subcommand};
use git_agent::invoke::Later;

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
    /// Without a command: the overview.
    #[command(flatten)]
    pub overview: crate::overview::Overview,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show what a session changed, with the open comments in their places
    Diff(Later<crate::diff::Diff>),
    /// List comments: open ones, and on request resolved ones
    List(Later<crate::list::List>),
    /// Comment on lines, a file, a turn or a session
    Comment(Later<crate::comment::Comment>),
    /// Answer a comment
    Reply(Later<crate::reply::Reply>),
    /// Close threads
    Resolve(Later<crate::reply::Close>),
    /// Open threads again
    Reopen(Later<crate::reply::Close>),
    /// Comment in the editor, in the whole diff of a session; or give an own comment new words
    Edit(Later<crate::edit::Edit>),
    /// Take back own comments
    Delete(Later<crate::reply::Delete>),
    /// Send open comments back to a session's agent, as one prompt
    Send(Later<crate::send::Send>),
    /// Say that the work may land exactly as it is
    Approve(Later<crate::verdict::Judge>),
    /// Say what must change before the work may land
    RequestChanges(Later<crate::verdict::Judge>),
    /// Say that the work shall not land
    Reject(Later<crate::verdict::Judge>),
    /// Compare the work of several sessions, side by side
    Compare(Later<crate::compare::Compare>),
    /// Let an agent review; what it finds becomes comments
    Ai(Later<crate::ai::Ai>),
}
