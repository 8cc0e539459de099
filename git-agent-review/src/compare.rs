//! `git agent review compare`: versions of a task side by side, and the command that merges one.

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::review::comparison;
use git_agent::output::Format;
use git_agent::output::review::comparison as table;

#[derive(Debug, Args)]
pub struct Compare {
    /// The sessions, at least two, or the name of a group
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// The sessions of a group
    #[arg(long, value_name = "GROUP", conflicts_with = "sessions")]
    group: Option<String>,
    /// Show the difference of each from the first
    #[arg(long, group = "how")]
    diff: bool,
    /// Show how the changes of each differ from those of the first, as if all had the same base
    #[arg(long, group = "how")]
    interdiff: bool,
    /// With --diff or --interdiff: only the number of lines that differ in each file
    #[arg(long, requires = "how")]
    stat: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Compare) -> Result<u8> {
    let mut options = args.output.options();
    options.pager = args.diff || args.interdiff;
    in_repo::run(env, options, |context, ui| {
        let versions = comparison::versions(context, &args.sessions, args.group.as_deref())?;
        if ui.format() == Format::Human && (args.diff || args.interdiff) {
            table::write_diffs(context, ui, &versions, args.interdiff, args.stat)?;
            return Ok(0);
        }
        table::write(ui, &versions)?;
        if ui.format() == Format::Human {
            for step in comparison::next_steps(&versions) {
                ui.hint(step);
            }
        }
        Ok(0)
    })
}
