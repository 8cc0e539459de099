//! `git agent`: the command line.

mod answer;
mod answer_view;
mod args;
mod artifact;
mod artifact_input;
mod attach;
mod changed_sessions;
mod clean;
mod commit;
mod completion;
mod config;
mod config_view;
mod created_sessions;
mod demo;
mod discard;
mod doctor;
mod enter;
mod event_format;
mod fetch;
mod fetched_refs;
mod forget;
mod fork;
mod install;
mod intent;
mod list;
mod log;
mod mcp;
mod message;
mod new;
mod plan_view;
mod purge;
mod push;
mod remote_findings;
mod restart;
mod restore;
mod send;
mod shared_refs;
mod show;
mod snapshot;
mod start;
mod stop;
mod trust;
mod update;
mod update_view;
mod wait;
mod watch;
mod why;

use std::ffi::OsString;
use std::process::ExitCode;

use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::guard::hook::Hook;
use git_agent::invoke;
use git_agent::invoke::{complete, shim};
use git_agent::listing::list as sessions;
use git_agent::output::terminal::pager;
use git_agent::session::supervisor;
use git_agent::session::supervisor::launch;

use args::{Cli, Verb};

fn main() -> ExitCode {
    // git also starts this program as a hook, and every commit waits for it: this check comes first.
    let program = std::env::args_os().next().unwrap_or_default();
    let hook = Hook::from_program_name(&program);
    invoke::main("git-agent", |env, arguments| {
        if let Some(hook) = hook {
            return hook.run(env, arguments);
        }
        if let [verb, name, rest @ ..] = arguments
            && verb == "__hook"
            && let Some(hook) = Hook::from_word(&program, name)
        {
            return hook.run(env, rest);
        }
        match arguments.first().and_then(|first| first.to_str()) {
            None if arguments.is_empty() && opens_board(env) => {
                return Err(external(env, &["board".into()]));
            }
            Some(shim::VERB) => return Err(shim::exec_shim(arguments[1..].iter().cloned())),
            Some(launch::VERB) => return supervise(env, &arguments[1..]),
            Some(complete::VERB) => {
                return complete::run::<Cli>(env, &intent::to_complete(&arguments[1..]));
            }
            _ => {}
        }
        let arguments = &*intent::meant(env, arguments)?;
        match arguments.first().and_then(|first| first.to_str()) {
            // These programs parse their own arguments.
            Some("board" | "review" | "merge") => return Err(external(env, arguments)),
            Some("--version") => return invoke::version("git-agent"),
            _ => {}
        }
        let cli: Cli = invoke::parse(arguments)?;
        match cli.verb {
            Verb::New(args) => new::run(env, &args),
            Verb::Start(args) => start::run(env, &args),
            Verb::List(args) => list::run(env, &args),
            Verb::Show(args) => show::run(env, &args),
            Verb::Log(args) => log::run(env, &args),
            Verb::Wait(args) => wait::run(env, &args),
            Verb::Path(args) => enter::path(env, &args),
            Verb::Exec(args) => enter::exec(env, &args),
            Verb::Shell(args) => enter::shell(env, &args),
            Verb::Open(args) => enter::open(env, &args),
            Verb::Run(args) => enter::run(env, &args),
            Verb::Send(args) => send::run(env, &args),
            Verb::Answer(args) => answer::run(env, &args),
            Verb::Stop(args) => stop::run(env, &args),
            Verb::Restart(args) => restart::restart(env, &args),
            Verb::Resume(args) => restart::resume(env, &args),
            Verb::Attach(args) => attach::run(env, &args),
            Verb::Artifact(args) => artifact::run(env, &args),
            Verb::Message(args) => message::run(env, &args),
            Verb::Mcp(args) => mcp::run(env, &args),
            Verb::Commit(args) => commit::run(env, &args),
            Verb::Fork(args) => fork::run(env, &args),
            Verb::Update(args) => update::run(env, &args),
            Verb::Why(args) => why::run(env, &args),
            Verb::Push(args) => push::run(env, &args),
            Verb::Fetch(args) => fetch::run(env, &args),
            Verb::Forget(args) => forget::run(env, &args),
            Verb::Purge(args) => purge::run(env, &args),
            Verb::Snapshot(args) => snapshot::run(env, &args),
            Verb::Restore(args) => restore::restore(env, &args),
            Verb::Rewind(args) => restore::rewind(env, &args),
            Verb::Recreate(args) => restore::recreate(env, &args),
            Verb::Clean(args) => clean::run(env, &args),
            Verb::Discard(args) => discard::run(env, &args),
            Verb::Doctor(args) => doctor::run(env, &args),
            Verb::Config(args) => config::run(env, &args),
            Verb::Trust(args) => trust::run(env, &args),
            Verb::Completion(args) => completion::run(&args),
            Verb::Install(args) => install::run(env, &args),
            Verb::Demo(args) => demo::run(env, &args),
            Verb::External(words) if words.is_empty() => invoke::usage::<Cli>(),
            Verb::External(words) => Err(external(env, &words)),
        }
    })
}

/// Returns whether the board is shown where no verb is given: a person sees it, and there are sessions.
fn opens_board(env: &Env) -> bool {
    let is_seen = env.terminals.stdin && env.terminals.stdout && !pager::in_use(env);
    let can_paint = env.var("TERM").is_some_and(|term| term != "dumb");
    is_seen && can_paint && sessions::has_sessions(env)
}

/// Replaces this process by the program of an external verb. Returns only if it is missing or cannot run.
fn external(env: &Env, words: &[OsString]) -> Error {
    match words.split_first() {
        Some((verb, rest)) => invoke::external(env, "git-agent-", verb, rest, &args::verbs),
        None => Error::usage("no command given"),
    }
}

/// The hidden verb by which a session's supervisor is started.
fn supervise(env: &Env, arguments: &[OsString]) -> Result<u8> {
    let sid = arguments
        .first()
        .and_then(|sid| sid.to_str())
        .unwrap_or_default();
    let sid = sid
        .parse()
        .map_err(|_| Error::usage(format!("'{sid}' is not a session id")))?;
    supervisor::run(env, sid)?;
    Ok(0)
}
