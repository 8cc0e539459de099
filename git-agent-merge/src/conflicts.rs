//! `git agent merge conflicts`: predicts conflicts before anything is merged.

use std::io::Write;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::merge::conflicts::{self, Look, Matrix, Options, Pair, PairResult};
use git_agent::output::merge::conflicts::{self as view, Object};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, human, json, porcelain};
use git_agent::selection;
use git_agent::session::list::{Scope, find_in};

#[derive(Debug, Args)]
pub struct Conflicts {
    /// Show only pairs with these sessions (default: all open sessions)
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Compare with this branch (default: the parent of each session)
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Compare the current files of the worktrees, not those at the end of the last turns
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb. Exit code 1 means that something would conflict.
pub fn run(env: &Env, args: &Conflicts) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let listing = selection::list(context, Scope::Mine)?;
        let mut options = Options {
            into: args.into.clone(),
            look: if args.live {
                Look::Live
            } else {
                Look::Recorded
            },
            ..Options::default()
        };
        for name in &args.sessions {
            options.only.push(find_in(&listing, name)?.session.sid);
        }
        let matrix = conflicts::matrix(context, &listing.sessions, &options)?;
        for (name, why) in &matrix.left_out {
            ui.warning(format!("cannot compare '{}': {why}", one_line(name)));
        }
        write(ui, &matrix)?;
        Ok(u8::from(!matrix.is_clean()))
    })
}

fn write(ui: &Ui, matrix: &Matrix) -> Result<()> {
    match ui.format() {
        Format::Json => json::write_list(ui, "pairs", matrix.pairs().map(Object::new)),
        Format::Porcelain { nul } => {
            for record in matrix.pairs().flat_map(view::records) {
                porcelain::write_record(&mut ui.out(), nul, record)?;
            }
            Ok(())
        }
        Format::Human => show(ui, matrix),
    }
}

fn show(ui: &Ui, matrix: &Matrix) -> Result<()> {
    if matrix.sessions.is_empty() {
        ui.narrate("no open session has changes");
        return Ok(());
    }
    if matrix.is_clean() {
        ui.narrate("no conflicts");
        return Ok(());
    }
    let mut begun = false;
    if let Some(table) = view::matrix(matrix, ui.table_width()) {
        ui.table(&table)?;
        begun = true;
    }
    let clashing: Vec<&Pair> = matrix
        .pairs()
        .filter(|pair| pair.verdict != PairResult::Clean)
        .collect();
    for pair in &clashing {
        if std::mem::replace(&mut begun, true) {
            writeln!(ui.out())?;
        }
        writeln!(ui.out(), "{}", one_line(&view::headline(pair)))?;
        ui.table(&view::files(pair))?;
    }
    let all = human::count(matrix.pairs().count() as u64, "merge");
    ui.narrate(format!("{} of {all} would conflict", clashing.len()));
    if let Some(pair) = matrix
        .against
        .iter()
        .find(|pair| pair.verdict != PairResult::Clean)
    {
        let name = shell_word(&pair.theirs.name);
        ui.hint(format!("git agent merge resolve {name}"));
    }
    Ok(())
}
