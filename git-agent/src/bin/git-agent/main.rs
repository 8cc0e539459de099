//! `git agent`: the command line.

mod args;

use std::process::ExitCode;

use git_agent::guard::hook::Hook;
use git_agent::invoke;
use git_agent::process::shim;

use args::{Cli, Verb};

fn main() -> ExitCode {
    // git finds this program under the names of hooks and wants an answer in a millisecond: nothing comes before it.
    let hook = std::env::args_os()
        .next()
        .and_then(|program| Hook::from_program_name(&program));
    invoke::main("git-agent", |env, arguments| {
        if let Some(hook) = hook {
            return hook.run(env, arguments);
        }
        if let [verb, name, rest @ ..] = arguments
            && verb == "__hook"
            && let Some(hook) = Hook::from_word(name)
        {
            return hook.run(env, rest);
        }
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
