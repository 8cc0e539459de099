//! `git agent review list`: verdicts with their reasons, and comments with their states.

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Result, shell_word};
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::review::reviews::{self, Filter};
use git_agent::output::Format;
use git_agent::output::human::count;
use git_agent::output::review::list::ReviewWriter;

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    choice: Choice,
    /// Only open comments whose code has not changed
    #[arg(long)]
    open: bool,
    /// Only resolved comments
    #[arg(long)]
    resolved: bool,
    /// Only open comments whose code has changed since
    #[arg(long)]
    outdated: bool,
    /// Everything, resolved or not
    #[arg(short, long, conflicts_with_all = ["open", "resolved", "outdated"])]
    everything: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    /// Names the requested kind of comments.
    fn wanted(&self) -> &'static str {
        match (self.open, self.resolved, self.outdated) {
            (false, true, false) => "resolved",
            (false, false, true) => "outdated",
            (_, false, false) => "open",
            _ => "such",
        }
    }
}

/// Runs the verb.
pub fn run(env: &Env, args: &List) -> Result<u8> {
    let mut options = args.output.options();
    options.pager = true;
    in_repo::run(env, options, |context, ui| {
        let selection = args.choice.selection();
        let filter = Filter {
            open: args.open,
            resolved: args.resolved,
            outdated: args.outdated,
            everything: args.everything,
        };
        let mut writer = ReviewWriter::new(context, ui);
        let total = reviews::list(context, &selection, filter, &mut writer)?;
        writer.finish()?;
        if ui.format() != Format::Human {
            return Ok(0);
        }
        if total.shown + total.others + total.verdicts == 0 {
            ui.narrate("no comments");
        } else if total.shown == 0 && total.others > 0 {
            let others = count(total.others as u64, "other");
            ui.narrate(format!("no {} comments, but {others}", args.wanted()));
            let names: Vec<String> = (selection.names.iter())
                .map(|name| format!(" {}", shell_word(name)))
                .collect();
            ui.hint(format!(
                "git agent review list --everything{}",
                names.concat()
            ));
        }
        Ok(0)
    })
}
