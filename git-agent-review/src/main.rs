//! `git agent review`: the command line.

mod args;

use std::process::ExitCode;

use git_agent::invoke::{self, complete};

use args::Cli;

fn main() -> ExitCode {
    invoke::main("git-agent-review", |env, arguments| {
        if let [verb, words @ ..] = arguments
            && verb == complete::VERB
        {
            return complete::run::<Cli>(env, words);
        }
        let Cli {} = invoke::parse(arguments)?;
        invoke::usage::<Cli>()
    })
}
