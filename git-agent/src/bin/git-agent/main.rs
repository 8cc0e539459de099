//! `git agent`: the command line.

mod args;

use std::process::ExitCode;

use git_agent::invoke;
use git_agent::process::shim;

use args::{Cli, Verb};

fn main() -> ExitCode {
    invoke::main("git-agent", |env, arguments| {
        // The half of starting an agent that runs in its process: nobody types it, and its options are another's.
        if let Some((verb, rest)) = arguments.split_first()
            && verb == shim::VERB
        {
            return Err(shim::exec_shim(rest.iter().cloned()));
        }
        let cli: Cli = invoke::parse(arguments)?;
        match cli.verb {
            Verb::External(words) => match words.split_first() {
                Some((verb, rest)) => Err(invoke::external(env, "git-agent-", verb, rest, &[])),
                None => invoke::usage::<Cli>(),
            },
        }
    })
}
