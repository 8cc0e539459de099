//! What may be typed after `git agent merge`.

use clap::Parser;

/// Merges what agents made
#[derive(Debug, Parser)]
#[command(
    name = "git-agent-merge",
    bin_name = "git agent merge",
    version = concat!("version ", env!("CARGO_PKG_VERSION"))
)]
pub struct Cli {}
