//! `git agent start`: one task in several parts, each with an agent, a branch and a worktree of its own.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result, shell_word};
use git_agent::file::{self, Durability};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::plan::Gate;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, json};
use git_agent::plan::start::{self, Prepared, Request, Started};

use crate::plan_view as view;

#[derive(Debug, Args)]
pub struct Start {
    /// The whole task in words
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Take the plan from a file or a directory of tasks ('-' is standard input)
    #[arg(long, value_name = "FILE", conflicts_with = "by_role")]
    plan: Option<PathBuf>,
    /// Make one part for each configured role, without a planner
    #[arg(long)]
    by_role: bool,
    /// Agents for parts that name none, in turn
    #[arg(long, value_name = "AGENT", value_delimiter = ',')]
    agents: Vec<String>,
    /// When a part counts as done for those that need it: ready, tested, approved or merged
    #[arg(long, value_name = "GATE")]
    gate: Option<Gate>,
    /// How many parts run at once (default: agent.maxParallel)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50))]
    batch_size: Option<u32>,
    /// The branch that the parts start from and merge into (default: the current branch)
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Let the parts merge into a new branch, which lands as one
    #[arg(long, value_name = "BRANCH")]
    integrate: Option<String>,
    /// Write the plan to a file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Only show the plan
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Start) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        begin(context, ui, args)
    })
}

fn begin(context: &Context<'_>, ui: &Ui, args: &Start) -> Result<u8> {
    let request = Request {
        task: args.task.clone(),
        plan: args.plan.as_deref(),
        by_role: args.by_role,
        agents: args.agents.clone(),
        gate: args.gate,
        batch_size: args.batch_size,
        into: args.into.clone(),
        integrate: args.integrate.clone(),
    };
    let mut tell = |words: String| ui.narrate(one_line(&words));
    let prepared = start::prepare(context, &request, &mut tell)?;
    if let Some(path) = &args.save {
        let path = context.env.absolute(path);
        let mut text = json::pretty(&prepared.plan)?;
        text.push('\n');
        file::replace(&path, text.into_bytes(), Durability::Synced)?;
    }
    if args.dry_run {
        view::plan(ui, &prepared)?;
        return Ok(0);
    }
    if !args.yes && !agrees(ui, &prepared)? {
        ui.narrate("nothing was started");
        return Ok(1);
    }
    if args.yes && ui.format() == Format::Human {
        view::plan(ui, &prepared)?;
    }
    let human = ui.format() == Format::Human;
    let mut trouble = None;
    let started = start::carry_out(context, &prepared, &mut |one: &Started| {
        if human && let Err(error) = view::started(ui, one) {
            trouble.get_or_insert(error);
        }
    })?;
    if let Some(error) = trouble {
        return Err(error);
    }
    if !human {
        return view::sessions(ui, &started).map(|()| 0);
    }
    let group = shell_word(&prepared.group);
    writeln!(
        ui.out(),
        "{} started as group {group}",
        view::parts(started.len())
    )?;
    ui.hint(format!("git agent status {group}    see how far they are"));
    ui.hint(format!(
        "git agent log -f --group {group}    watch them work"
    ));
    Ok(0)
}

/// Shows a plan and asks. Without a terminal the user says so with an option.
fn agrees(ui: &Ui, prepared: &Prepared) -> Result<bool> {
    if !ui.may_ask() {
        return Err(
            Error::usage("the plan needs a confirmation, and this is not a terminal")
                .hint("git agent start --yes …    start without a question")
                .hint("git agent start --dry-run …    only show the plan"),
        );
    }
    view::plan(ui, prepared)?;
    let parts = view::parts(prepared.plan.parts.len());
    ui.confirm(&format!("Start {parts}?"))
}
