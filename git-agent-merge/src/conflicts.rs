//! `git agent merge conflicts`: predicts conflicts before anything is merged.

use std::io::Write;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::merge::conflicts::{self, Look, Matrix, Options, PairResult};
use git_agent::output::merge::conflicts::{self as view, Object};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Format, Ui, human, json, porcelain};
use git_agent::selection;
use git_agent::session::list::Scope;
use git_agent::session::recent;

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
    let mut output = args.output.options();
    output.pager = true;
    in_repo::run(env, output, |context, ui| {
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
            options
                .only
                .push(recent::find(context, &listing, name)?.session.sid);
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
    ui.table(&view::table(matrix))?;
    let clashing = matrix.pairs();
    let clashing = clashing
        .filter(|pair| pair.verdict != PairResult::Clean)
        .count();
    let alone = view::untroubled(matrix);
    if !alone.is_empty() {
        let many = human::count(alone.len() as u64, "session");
        let names = alone.join(", ");
        let line = format!("{many} without conflicts: {}", one_line(&names));
        let line = match ui.table_width() {
            Some(width) => one_line(&line).max_width(width).to_string(),
            None => line,
        };
        writeln!(ui.out(), "{}", ui.palette().paint(Slot::Dim, line))?;
    }
    let all = human::count(matrix.pairs().count() as u64, "merge");
    ui.narrate(format!("{clashing} of {all} would conflict"));
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
