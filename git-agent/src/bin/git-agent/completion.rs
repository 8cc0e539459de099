//! `git agent completion`: the completion scripts of the shells.

use clap::{Args, ValueEnum};
use git_agent::error::Result;
use git_agent::{install, output};

#[derive(Debug, Args)]
pub struct Completion {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Runs the verb.
pub fn run(args: &Completion) -> Result<u8> {
    let script = match args.shell {
        Shell::Bash => install::BASH,
        Shell::Zsh => install::ZSH,
        Shell::Fish => install::FISH,
    };
    output::print(script, false)?;
    Ok(0)
}
