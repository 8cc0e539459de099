//! `git agent new`: a session with a task, a branch and a worktree of its own, running in the background.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser};

use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::{OutputArgs, in_repo, text_input};
use git_agent::model::name;
use git_agent::output::Ui;
use git_agent::session::create::Options;
use git_agent::session::create::start::{self, Versions};

use crate::created_sessions;

#[derive(Debug, Args)]
pub struct New {
    /// The task in words, quoted or not; with '--' also the session's name
    #[arg(value_name = "TASK")]
    task: Vec<String>,
    /// Read the task from a file ('-' is standard input)
    #[arg(short = 'F', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Name the session (default: made from the task)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Agent, or several for one version each (default: agent.default)
    #[arg(short, long, value_name = "AGENT", value_delimiter = ',', value_parser = name_parser())]
    agent: Vec<String>,
    /// Model, or several for one version each
    #[arg(short, long, value_name = "MODEL", value_delimiter = ',', value_parser = name_parser())]
    model: Vec<String>,
    /// Take agent, model, branch prefix and limits from a role
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Make this many versions of the task, as one group
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    versions: Option<u32>,
    /// Put the session in a group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Start from a revision or from another session's work (default: HEAD)
    #[arg(long, value_name = "REV|SESSION")]
    from: Option<String>,
    /// Share the worktree of a session
    #[arg(long = "in", value_name = "SESSION", conflicts_with_all = ["from", "carry"])]
    shares: Option<String>,
    /// Wait for a session and start from its result (can be repeated)
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["from", "carry"])]
    after: Vec<String>,
    /// Make the session read-only
    #[arg(long)]
    read_only: bool,
    /// Move the uncommitted changes of this checkout into the new worktree
    #[arg(long, conflicts_with = "no_start")]
    carry: bool,
    /// Ask the user for every permission (default: agent.permissions)
    #[arg(long, overrides_with = "no_ask")]
    ask: bool,
    /// Answer permissions by policy
    #[arg(long, overrides_with = "ask")]
    no_ask: bool,
    /// The guard that the session must have: off, refs or cell (default: agent.guard)
    #[arg(long, value_name = "LEVEL", value_parser = ["off", "refs", "cell"], conflicts_with = "no_guard")]
    guard: Option<String>,
    /// Run the agent without the guard; the transcript says so
    #[arg(long)]
    no_guard: bool,
    /// Only create the session; 'git agent resume' starts it
    #[arg(long)]
    no_start: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// A shell command as the agent
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the verb.
pub fn run(env: &Env, args: &New) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        start(context, ui, args)
    })
}

fn start(context: &Context<'_>, ui: &Ui, args: &New) -> Result<u8> {
    let versions = Versions {
        agents: args.agent.clone(),
        models: args.model.clone(),
        count: args.versions,
    };
    let planned = start::plan(context, options(context, args)?, &versions)?;
    let made = start::start_all(context, &planned, &mut |created| {
        created_sessions::tell(ui, created)
    })?;
    created_sessions::answer(context, ui, &made, args.no_start)?;
    if args.from.is_none() && args.shares.is_none() && !args.carry {
        created_sessions::tell_left_behind(context, ui);
    }
    Ok(0)
}

fn options(context: &Context<'_>, args: &New) -> Result<Options> {
    let (task, name) = task(context, args)?;
    Ok(Options {
        task,
        name,
        command: args.command.clone(),
        role: args.role.clone(),
        group: args.group.clone(),
        from: args.from.clone(),
        shares: args.shares.clone(),
        after: args.after.clone(),
        read_only: args.read_only,
        ask: args.ask.then_some(true).or(args.no_ask.then_some(false)),
        no_guard: args.no_guard,
        guard: args.guard.clone(),
        draft: args.no_start,
        carry: args.carry,
        ..Options::default()
    })
}

/// Reads the number of versions.
fn count(text: &str) -> std::result::Result<u32, String> {
    let number = text.parse::<u32>().ok();
    let number = number.filter(|number| (1..=50).contains(number));
    number.ok_or_else(|| "a number between 1 and 50 is needed".to_owned())
}

/// Reads one of several names; after a comma there may be a blank.
fn name_parser() -> impl TypedValueParser<Value = String> {
    NonEmptyStringValueParser::new().try_map(|text| match text.trim() {
        "" => Err("the name is empty"),
        name => Ok(name.to_owned()),
    })
}

/// Returns the task and the name, from wherever they were given.
fn task(context: &Context<'_>, args: &New) -> Result<(String, Option<String>)> {
    let words = (!args.task.is_empty()).then(|| args.task.join(" "));
    if !args.command.is_empty() && args.file.is_none() {
        match (words.as_deref(), &args.name) {
            // A command needs no task.
            (None, name) => return Ok((args.command.join(" "), name.clone())),
            // The words before '--' are the name when they can be one, and the task otherwise.
            (Some(words), None) if words != "-" => {
                let name = name::check(words).is_ok();
                return Ok((words.to_owned(), name.then(|| words.to_owned())));
            }
            _ => {}
        }
    }
    let text = text_input::read(context, "task", words.as_deref(), args.file.as_deref())?;
    Ok((text, args.name.clone()))
}
