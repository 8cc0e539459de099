//! The arguments of `git agent board`.

use clap::Parser;

/// Show sessions as a board in the terminal, and review their work there
#[derive(Debug, Parser)]
#[command(
    name = "git agent board",
    bin_name = "git agent board",
    disable_version_flag = true
)]
pub struct Cli {
    /// The session to select first: name, id, or end of an id
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Show only the sessions of a group
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Open the review screen of the session
    #[arg(long)]
    pub review: bool,
}
