//! `git agent review`: the command line.

mod ai;
mod args;
mod comment;
mod compare;
mod diff;
mod draft;
mod edit;
mod list;
mod overview;
mod reply;
mod send;
mod ui;
mod verdict;

use std::process::ExitCode;

use git_agent::invoke;
use git_agent::invoke::complete;
use git_agent::model::review::Verdict;

use args::{Cli, Verb};

fn main() -> ExitCode {
    invoke::main("git-agent-review", |env, arguments| {
        if let [verb, words @ ..] = arguments
            && verb == complete::VERB
        {
            return complete::run::<Cli>(env, words);
        }
        let cli: Cli = invoke::parse(arguments)?;
        match cli.verb {
            None => match ui::wanted(env, &cli.overview) {
                Some(session) => Err(ui::open(env, Some(&session))),
                None => overview::run(env, &cli.overview)
                    .map_err(|error| invoke::or_verb::<Cli>(cli.overview.names(), error)),
            },
            Some(Verb::Diff(args)) => diff::run(env, &args),
            Some(Verb::List(args)) => list::run(env, &args),
            Some(Verb::Comment(args)) => comment::run(env, &args),
            Some(Verb::Reply(args)) => reply::reply(env, &args),
            Some(Verb::Resolve(args)) => reply::resolve(env, &args),
            Some(Verb::Reopen(args)) => reply::reopen(env, &args),
            Some(Verb::Edit(args)) => edit::run(env, &args),
            Some(Verb::Delete(args)) => reply::delete(env, &args),
            Some(Verb::Send(args)) => send::run(env, &args),
            Some(Verb::Approve(args)) => verdict::run(env, &args, Verdict::Approve),
            Some(Verb::RequestChanges(args)) => verdict::run(env, &args, Verdict::RequestChanges),
            Some(Verb::Reject(args)) => verdict::run(env, &args, Verdict::Reject),
            Some(Verb::Compare(args)) => compare::run(env, &args),
            Some(Verb::Ui(args)) => Err(ui::run(env, &args)),
            Some(Verb::Ai(args)) => ai::run(env, &args),
        }
    })
}
