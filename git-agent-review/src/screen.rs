//! A diff as a person sees it: git's own, with the open comments in their places.

use std::io::Write;

use git_agent::error::{Context as _, Result};
use git_agent::git::diff::Stream;
use git_agent::git::{Git, ObjectId};
use git_agent::output::style::Slot;
use git_agent::output::{Ui, cannot_write};
use git_agent::session::anchors::{Placed, Spot};
use git_agent::session::context::Context;
use git_agent::session::scope::Scope;

use crate::diff::Diff;
use crate::outline::Outline;
use crate::threads::Look;
use crate::weave::{Manner, Weaver};

/// Pagers that find what changed within a line by themselves.
const CLEVER_PAGERS: [&str; 4] = ["delta", "diff-so-fancy", "diff-highlight", "riff"];

fn is_colored(context: &Context<'_>, ui: &Ui) -> bool {
    let configured = context.repo.config_string("color.diff");
    let never = matches!(configured.as_deref(), Some("never" | "false"));
    ui.palette().is_colored() && !never
}

/// Returns git's diff of two trees, as it is asked for.
pub fn program(
    context: &Context<'_>,
    ui: &Ui,
    args: &Diff,
    (old, new): (ObjectId, ObjectId),
) -> Git {
    let mut options = vec![match is_colored(context, ui) {
        true => "--color=always".to_owned(),
        false => "--color=never".to_owned(),
    }];
    if args.stat {
        options.push(format!("--stat={}", ui.width()));
    } else if args.name_only {
        options.push("--name-only".to_owned());
    } else {
        options.extend(["--patch-with-raw", "--no-abbrev"].map(str::to_owned));
    }
    if args.word_diff {
        options.push("--word-diff".to_owned());
    }
    // What is read by a program may be applied.
    if args.no_comments && ui.table_width().is_none() && !args.word_diff {
        options.push("--binary".to_owned());
    }
    // Renames are found unless the user said otherwise, however old git's own default is.
    if context.repo.config_string("diff.renames").is_none() {
        options.push("-M".to_owned());
    }
    context
        .repo
        .diff_program(old, new, &options, &args.paths(context))
}

/// Returns the same diff with a sign before every line.
fn outline(context: &Context<'_>, args: &Diff, (old, new): (ObjectId, ObjectId)) -> Git {
    let mut options = vec!["--color=never".to_owned(), "--word-diff=none".to_owned()];
    if context.repo.config_string("diff.renames").is_none() {
        options.push("-M".to_owned());
    }
    context
        .repo
        .diff_program(old, new, &options, &args.paths(context))
}

/// Returns the files that threads hang on.
fn paths_of<'p>(placed: &'p [Placed<'_>]) -> Vec<&'p [u8]> {
    let path = |placed: &'p Placed<'_>| match &placed.spot {
        Spot::File { path, .. } | Spot::Lines { path, .. } => Some(path.as_slice()),
        _ => None,
    };
    let mut paths: Vec<&[u8]> = placed.iter().filter_map(path).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Shows git's diff of two trees with the threads that hang in it.
pub fn show(
    context: &Context<'_>,
    ui: &Ui,
    args: &Diff,
    trees: (ObjectId, ObjectId),
    stream: Stream,
    placed: &[Placed<'_>],
) -> Result<()> {
    let on_screen = ui.table_width().is_some();
    let summary = args.stat || args.name_only;
    let colored = is_colored(context, ui);
    let manner = Manner {
        on_screen,
        colored,
        emphasis: colored && !args.word_diff && !has_clever_pager(context),
        words: args.word_diff,
    };
    let mut weaver = Weaver::new(context, ui, placed, manner);
    if summary {
        stream.lines(&mut |line| weaver.plain(line).map(|()| true))?;
        return Ok(());
    }
    let paths = paths_of(placed);
    weaver.set_converted(match context.env.var_os("GIT_EXTERNAL_DIFF") {
        Some(program) if !program.is_empty() => paths.iter().map(|path| path.to_vec()).collect(),
        _ => context.repo.shown_converted(trees.1, &paths)?,
    });
    if args.word_diff && !paths.is_empty() {
        weaver.set_outline(Outline::read(outline(context, args, trees))?);
    }
    about_everything(context, ui, placed)?;
    stream.lines(&mut |line| weaver.line(line).map(|()| true))?;
    match args.paths.is_empty() && args.scope() == Scope::Branch {
        true => {
            weaver.finish()?;
            outdated(context, ui, placed)
        }
        // Only a part is shown: what hangs elsewhere has no place in it.
        false => weaver.end(),
    }
}

/// Writes what is about the session as a whole.
fn about_everything(context: &Context<'_>, ui: &Ui, placed: &[Placed<'_>]) -> Result<()> {
    let is_general = |placed: &&Placed<'_>| matches!(placed.spot, Spot::Session | Spot::Event(_));
    write_blocks(context, ui, placed.iter().filter(is_general))
}

/// Writes what is about code that is not there any more.
fn outdated(context: &Context<'_>, ui: &Ui, placed: &[Placed<'_>]) -> Result<()> {
    let mut old = placed
        .iter()
        .filter(|placed| placed.spot == Spot::Outdated)
        .peekable();
    if old.peek().is_some() {
        let heading = ui.palette().paint(Slot::Header, "outdated comments");
        writeln!(ui.out(), "\n{heading}").context(cannot_write)?;
    }
    write_blocks(context, ui, old)
}

fn write_blocks<'p, 'r: 'p>(
    context: &Context<'_>,
    ui: &Ui,
    placed: impl Iterator<Item = &'p Placed<'r>>,
) -> Result<()> {
    let look = Look {
        palette: ui.palette(),
        now: context.env.now(),
    };
    for placed in placed {
        let text = look.block(placed, Some(&Look::place(placed)));
        ui.out().write_all(text.as_bytes()).context(cannot_write)?;
    }
    Ok(())
}

fn has_clever_pager(context: &Context<'_>) -> bool {
    let pager = context
        .env
        .var("GIT_PAGER")
        .map(str::to_owned)
        .or_else(|| context.repo.config_string("core.pager"))
        .unwrap_or_default();
    CLEVER_PAGERS.iter().any(|name| pager.contains(name))
}
