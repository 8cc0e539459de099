//! `git agent demo`: shows git-agent at work in a temporary repository.

use std::io::Write;

use clap::Args;
use git_agent::demo::{self, Shown};
use git_agent::env::Env;
use git_agent::error::{Context, Result};
use git_agent::output::terminal::sanitize::block;
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Options, Ui, cannot_write};

#[derive(Debug, Args)]
pub struct Demo {
    /// Keep the repository afterwards
    #[arg(long)]
    keep: bool,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Demo) -> Result<u8> {
    let ui = Ui::new(env, Options::default(), &|_| None)?;
    demo::play(env, args.keep, &mut |shown| {
        show(&ui, shown).context(cannot_write)
    })?;
    ui.finish()?;
    Ok(0)
}

fn show(ui: &Ui, shown: Shown<'_>) -> std::io::Result<()> {
    let mut out = ui.out();
    match shown {
        Shown::Words(words) => writeln!(out, "\n# {}\n", block(words))?,
        Shown::Command(command) => {
            let command = ui.palette().paint(Slot::Prompt, block(command));
            writeln!(out, "$ {command}")?;
        }
        Shown::Output(text) => {
            for line in text.lines() {
                writeln!(out, "{}", block(line))?;
            }
        }
    }
    // The reader of a pipe sees each step when it is done.
    out.flush()
}
