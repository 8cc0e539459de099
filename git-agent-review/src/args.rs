//! The command line of `git agent review`: its verbs and their one-line help.

use clap::{Parser, Subcommand};
use git_agent::invoke::Later;

/// Reviews the work of agents
#[derive(Debug, Parser)]
#[command(
    name = "git-agent-review",
    bin_name = "git agent review",
    version = concat!("version ", env!("CARGO_PKG_VERSION")),
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "command"
)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// Without a command: the overview.
    #[command(flatten)]
    pub overview: crate::overview::Overview,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show the changes of a session with the open comments at their lines
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
    /// Comment in the editor, in the whole diff of a session; or change one of your comments
    Edit(Later<crate::edit::Edit>),
    /// Delete your own comments
    Delete(Later<crate::reply::Delete>),
    /// Send open comments back to a session's agent, as one prompt
    Send(Later<crate::send::Send>),
    /// Approve the work for merging, exactly as it is
    Approve(Later<crate::verdict::Judge>),
    /// Request changes to the work
    RequestChanges(Later<crate::verdict::Judge>),
    /// Reject the work
    Reject(Later<crate::verdict::Judge>),
    /// Compare the work of several sessions, side by side
    Compare(Later<crate::compare::Compare>),
    /// Open the review screen of a session
    Ui(Later<crate::ui::Ui>),
    /// Let an agent review; its findings become comments
    Ai(Later<crate::ai::Ai>),
}
