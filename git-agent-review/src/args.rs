//! What may be typed after `git agent review`.

use clap::Parser;

/// Reviews what agents changed
#[derive(Debug, Parser)]
#[command(
    name = "git-agent-review",
    bin_name = "git agent review",
    version = concat!("version ", env!("CARGO_PKG_VERSION"))
)]
pub struct Cli {}
