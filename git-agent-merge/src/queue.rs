//! `git agent merge queue`: sessions that wait to be merged.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::merge::queue::{self, Manner, Ready};
use git_agent::output::merge::{queue as view, report};
use git_agent::output::{Format, Options, Ui};

use crate::merge_args::{StyleArgs, TestArgs};

#[derive(Debug, Args)]
pub struct Queue {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    output: OutputArgs,
}

/// The subcommands of the queue.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Add sessions
    Add {
        /// Sessions: names or their beginnings, ids, @3 of the last list, '-' the last
        #[arg(value_name = "SESSION", required = true)]
        names: Vec<String>,
        /// The branch to merge into (default: the parent of each session)
        #[arg(long, value_name = "BRANCH")]
        into: Option<String>,
    },
    /// Remove sessions
    Remove {
        /// Sessions: names or their beginnings, ids, @3 of the last list, '-' the last
        #[arg(value_name = "SESSION", required = true)]
        names: Vec<String>,
    },
    /// Show the queue (the default)
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Merge everything that merges cleanly
    Run(Run),
    /// Pause the queue
    Pause,
}

/// How to run the queue.
#[derive(Debug, Clone, Args)]
struct Run {
    #[command(flatten)]
    style: StyleArgs,
    #[command(flatten)]
    testing: TestArgs,
    /// Run in the background, and wait for sessions that are not done or not approved yet
    #[arg(short, long)]
    background: bool,
}

impl Run {
    fn manner(&self, wait: bool) -> Manner {
        Manner {
            style: self.style.style(),
            test: self.testing.test.clone(),
            give_back: self.testing.give_back,
            wait,
        }
    }
}

/// Arguments of the background process.
#[derive(Debug, Parser)]
#[command(name = "git-agent-merge")]
struct Hidden {
    #[command(flatten)]
    run: Run,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Queue) -> Result<u8> {
    let output = match &args.verb {
        Some(Verb::List { output }) => output,
        _ => &args.output,
    };
    in_repo::run(env, output.options(), |context, ui| match &args.verb {
        Some(Verb::Add { names, into }) => {
            let new = queue::add(context, names, into.as_deref())?;
            ui.narrate(format!("{new} added"));
            ui.hint("git agent merge queue run --background");
            Ok(0)
        }
        Some(Verb::Remove { names }) => {
            let gone = queue::remove(context, names)?;
            ui.narrate(format!("{gone} removed"));
            Ok(u8::from(gone == 0))
        }
        Some(Verb::Pause) => {
            queue::pause(context, true)?;
            ui.narrate("paused; 'git agent merge queue run' resumes");
            Ok(0)
        }
        None | Some(Verb::List { .. }) => view::show(ui, &queue::overview(context)?).map(|()| 0),
        Some(Verb::Run(run)) => start(context, ui, run),
    })
}

fn start(context: &Context<'_>, ui: &Ui, run: &Run) -> Result<u8> {
    if run.background {
        let pid = queue::start(context, &run.manner(true))?;
        ui.narrate(format!("the queue runs in the background (pid {pid})"));
        ui.hint("git agent merge queue list");
        return Ok(0);
    }
    go(context, ui, &run.manner(false), None)
}

fn go(context: &Context<'_>, ui: &Ui, manner: &Manner, ready: Option<Ready>) -> Result<u8> {
    if ready.is_none() && queue::load(context)?.waiting.is_empty() {
        ui.narrate("the queue is empty");
        ui.hint("git agent merge queue add SESSION");
    }
    queue::run(
        context,
        manner,
        ready,
        &mut |told| report::told(ui, &told),
        &mut |outcome| {
            report::outcome(ui, outcome).map(|()| report::next_steps(ui, outcome, false))
        },
    )?;
    let left = queue::load(context)?.waiting;
    if !left.is_empty() && ui.format() == Format::Human {
        let many = left.len();
        ui.narrate(format!("{many} still in the queue"));
        ui.hint("git agent merge queue list");
    }
    Ok(u8::from(!left.is_empty()))
}

/// Runs the queue in the background process.
pub fn background(env: &Env, arguments: &[OsString]) -> Result<u8> {
    let ready = queue::leave_terminal()?;
    let hidden: Hidden = git_agent::invoke::parse(arguments)?;
    in_repo::run_without_warnings(env, Options::default(), |context, ui| {
        go(context, ui, &hidden.run.manner(true), Some(ready))
    })
}
