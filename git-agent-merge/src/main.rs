//! The program `git-agent-merge`.

mod apply;
mod args;
mod at_once;
mod clean;
mod conflicts;
mod group_verdict;
mod merge;
mod merge_args;
mod queue;
mod resolve;
mod undo;

use std::process::ExitCode;

use git_agent::invoke;
use git_agent::invoke::{complete, shim};
use git_agent::merge::queue::VERB;

use args::{Cli, Verb};

fn main() -> ExitCode {
    invoke::main("git-agent-merge", |env, arguments| {
        match arguments.first().and_then(|first| first.to_str()) {
            Some(shim::VERB) => return Err(shim::exec_shim(arguments[1..].iter().cloned())),
            Some(complete::VERB) => return complete::run::<Cli>(env, &arguments[1..]),
            Some(VERB) => return queue::background(env, &arguments[1..]),
            _ => {}
        }
        let cli: Cli = invoke::parse(arguments)?;
        match &cli.verb {
            Some(Verb::Conflicts(args)) => conflicts::run(env, args),
            Some(Verb::Resolve(args)) => resolve::run(env, args),
            Some(Verb::Queue(args)) => queue::run(env, args),
            None => merge::run(env, &cli.merge)
                .map_err(|error| invoke::or_verb::<Cli>(&cli.merge.names, error)),
        }
    })
}
