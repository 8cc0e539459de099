//! `git agent`: the command line.

mod args;

use std::process::ExitCode;

use git_agent::invoke;

use args::{Cli, Verb};

fn main() -> ExitCode {
    invoke::main("git-agent", |env, arguments| {
        let cli: Cli = invoke::parse(arguments)?;
        match cli.verb {
            Verb::External(words) => match words.split_first() {
                Some((verb, rest)) => Err(invoke::external(env, "git-agent-", verb, rest, &[])),
                None => invoke::usage::<Cli>(),
            },
        }
    })
}
