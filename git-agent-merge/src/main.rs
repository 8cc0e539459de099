//! `git agent merge`: the command line.

mod args;

use std::process::ExitCode;

use git_agent::invoke;

use args::Cli;

fn main() -> ExitCode {
    invoke::main("git-agent-merge", |_env, arguments| {
        let Cli {} = invoke::parse(arguments)?;
        invoke::usage::<Cli>()
    })
}
