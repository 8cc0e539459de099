//! `git agent merge queue`: sessions that wait to be merged.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::merge::queue::{self, Manner, Ready, Waiting};
use git_agent::model::session::Session;
use git_agent::output::table::{Cell, Column, Table};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Options, Ui, json, porcelain};
use git_agent::selection::{self, Selection};

use crate::merge::{StyleArgs, TestArgs};
use crate::view;

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
    in_repo::run(env, output.options(), |context, ui| {
        let Some(verb) = &args.verb else {
            return list(context, ui);
        };
        match verb {
            Verb::Add { names, into } => {
                let sessions = mine(context, names)?;
                let new = queue::add(context, &sessions, into.as_deref())?;
                ui.narrate(format!("{new} added"));
                ui.hint("git agent merge queue run --background");
                Ok(0)
            }
            Verb::Remove { names } => {
                let gone = queue::remove(context, &mine(context, names)?)?;
                ui.narrate(format!("{gone} removed"));
                Ok(u8::from(gone == 0))
            }
            Verb::Pause => {
                queue::pause(context, true)?;
                ui.narrate("paused; 'git agent merge queue run' resumes");
                Ok(0)
            }
            Verb::List { .. } => list(context, ui),
            Verb::Run(run) => start(context, ui, run),
        }
    })
}

fn mine(context: &Context<'_>, names: &[String]) -> Result<Vec<Session>> {
    let selection = Selection {
        names: names.to_vec(),
        ..Selection::default()
    };
    let listed = selection::select(context, &selection)?;
    if let Some(other) = listed.iter().find(|listed| !listed.is_mine()) {
        let name = &other.session.name;
        return Err(Error::fatal(format!(
            "session '{name}' belongs to a teammate"
        )));
    }
    Ok(listed.into_iter().map(|listed| listed.session).collect())
}

fn start(context: &Context<'_>, ui: &Ui, run: &Run) -> Result<u8> {
    queue::pause(context, false)?;
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
        &mut |told| view::told(ui, &told),
        &mut |outcome| view::outcome(ui, outcome),
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

fn list(context: &Context<'_>, ui: &Ui) -> Result<u8> {
    let queue = queue::load(context)?;
    match ui.format() {
        Format::Json => json::write_list(ui, "queue", queue.waiting.iter().map(item))?,
        Format::Porcelain { nul } => {
            for one in &queue.waiting {
                let fields = [
                    one.name.as_str(),
                    one.sid.as_str(),
                    one.into.as_str(),
                    state(one),
                    one.why.as_str(),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields)?;
            }
        }
        Format::Human => {
            let mut table = Table::new([
                Column::new("SESSION").shrinks_to(12).keeps_end(),
                Column::new("INTO").shrinks_to(8),
                Column::new("STATE"),
                Column::new("WHY").shrinks_to(20),
            ]);
            for one in &queue.waiting {
                table.row([
                    Cell::new(&one.name),
                    Cell::new(&one.into),
                    Cell::new(state(one)),
                    Cell::new(&one.why),
                ]);
            }
            ui.table(&table)?;
            if queue.waiting.is_empty() {
                ui.narrate("the queue is empty");
            }
            match (queue.paused, queue::runner(context)?) {
                (_, Some(pid)) => ui.narrate(format!("the queue is running (pid {pid})")),
                (true, None) => ui.narrate("the queue is paused"),
                (false, None) if !queue.waiting.is_empty() => {
                    ui.hint("git agent merge queue run --background");
                }
                _ => {}
            }
            if queue.waiting.iter().any(|one| one.held) {
                ui.hint("git agent merge queue add SESSION    retry a held session");
            }
            let log = queue::log_file(context)?;
            if log.exists() {
                ui.narrate(format!(
                    "log: {}",
                    one_line(log.display().to_string().as_str())
                ));
            }
        }
    }
    Ok(0)
}

fn state(one: &Waiting) -> &'static str {
    match one.held {
        true => "held",
        false => "waiting",
    }
}

fn item(one: &Waiting) -> serde_json::Value {
    let mut item = serde_json::json!({
        "name": one.name,
        "id": one.sid.to_string(),
        "into": one.into,
        "state": state(one),
        "added": one.added,
    });
    if !one.why.is_empty() {
        item["why"] = one.why.as_str().into();
    }
    item
}
