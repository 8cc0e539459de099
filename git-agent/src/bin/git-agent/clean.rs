//! `git agent clean`: removes worktrees and merged branches. It never removes unsaved work, and `restore` brings everything back.

use std::io::Write;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, json};
use git_agent::selection::{self, Selection};
use git_agent::session::worktree::clean::{self, Cleaned, Options};
use git_agent::session::worktree::ignored_files;

#[derive(Debug, Args)]
#[command(mut_arg("names", |arg| arg.help(
    "Sessions: names or their beginnings, ids, @3 of the last list, '-' the last (default: all that are merged or closed)"
)))]
pub struct Clean {
    #[command(flatten)]
    choice: Choice,
    /// Keep sessions that failed or were interrupted
    #[arg(long)]
    keep_failed: bool,
    /// Only list the worktrees and branches that would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Clean) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let mut selection = args.choice.selection();
        let named = !selection.is_empty();
        if !named {
            selection = Selection {
                all: true,
                ..Selection::default()
            };
        }
        let chosen = selection::select(context, &selection)?;
        let options = Options {
            named,
            keep_failed: args.keep_failed,
            dry_run: args.dry_run,
            ..Options::default()
        };
        let (cleaned, folded) = clean::clean(context, &chosen, options)?;
        if folded > 0 {
            ui.narrate(format!("archived {folded} sessions closed long ago"));
        }
        if ui.format() == Format::Json {
            return json::write_list(ui, "cleaned", &cleaned).map(|()| 0);
        }
        for one in &cleaned {
            let name = one_line(one.name.as_str());
            let words = words(one, args.dry_run);
            writeln!(ui.out(), "{name}: {}", one_line(&words))?;
        }
        if cleaned.is_empty() {
            ui.narrate("nothing to clean up");
        } else if !args.dry_run && cleaned.iter().any(|one| one.worktree.is_some()) {
            ui.hint("git agent restore SESSION    restore a worktree");
        }
        Ok(0)
    })
}

/// Returns one line about a session: the parts that are removed, and the parts that are kept and why.
fn words(one: &Cleaned, dry_run: bool) -> String {
    let verb = if dry_run { "would remove" } else { "removed" };
    let mut words: Vec<String> = Vec::new();
    match (&one.worktree, &one.branch) {
        (Some(_), Some(branch)) => words.push(format!("{verb} worktree and branch {branch}")),
        (Some(_), None) => words.push(format!("{verb} worktree")),
        (None, Some(branch)) => words.push(format!("{verb} branch {branch}")),
        (None, None) => {}
    }
    for (names, what) in [
        (&one.ignored.kept, "ignored, kept for 'restore'"),
        (&one.ignored.gone, "ignored, deleted"),
    ] {
        if !names.is_empty() {
            words.push(format!("{what}: {}", ignored_files::name_some(names)));
        }
    }
    words.extend(one.kept.iter().map(|reason| format!("kept, {reason}")));
    words.join("; ")
}
