//! `git agent review diff`: what a session changed, as git shows it, with the open comments in their places.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result, shell_path};
use git_agent::git::Repo;
use git_agent::git::snapshot::scan::Reason;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::review::path::to_text;
use git_agent::model::review::{Review, Side};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::terminal::style::When;
use git_agent::output::{Format, Ui, cannot_write, json, porcelain, sessions};
use git_agent::review::anchors::{Placed, Spot};
use git_agent::review::diff_scope::{self, Compared, Scope};
use git_agent::review::{last_seen, records};
use git_agent::selection;
use git_agent::session::caller;
use git_agent::session::worktree::work::{self, Keep, Work};
use git_agent::store::Store;
use git_agent::store::list::Listed;
use serde::Serialize;

use crate::ahead;
use crate::into;
use crate::pathspec;
use crate::screen::{Gathering, Screen, Trees};

#[derive(Debug, Args)]
pub struct Diff {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Everything since it left its parent, committed or not (the default)
    #[arg(long, group = "scope")]
    branch: bool,
    /// Everything that a merge into this branch would bring
    #[arg(long, value_name = "BRANCH", group = "scope")]
    into: Option<String>,
    /// What is staged
    #[arg(long, group = "scope")]
    staged: bool,
    /// What is neither staged nor committed, untracked files included
    #[arg(long, group = "scope")]
    unstaged: bool,
    /// What is not committed
    #[arg(long, group = "scope")]
    uncommitted: bool,
    /// What changed since it was last looked at: by 'diff', a verdict or 'send'
    #[arg(long, group = "scope")]
    since_review: bool,
    /// What one turn changed
    #[arg(long, value_name = "N", group = "scope")]
    turn: Option<u64>,
    /// Only how many lines changed in each file
    #[arg(long, conflicts_with = "name_only")]
    pub stat: bool,
    /// Only the names of the files
    #[arg(long)]
    pub name_only: bool,
    /// Show changed words within lines
    #[arg(long)]
    pub word_diff: bool,
    /// Leave the comments out
    #[arg(long)]
    pub no_comments: bool,
    /// Show resolved comments too
    #[arg(long, conflicts_with = "no_comments")]
    pub resolved: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// Only these paths
    #[arg(last = true, value_name = "PATH")]
    pub paths: Vec<OsString>,
}

impl Diff {
    /// Returns which part of the work is asked for.
    pub fn scope(&self) -> Scope {
        match self.turn {
            Some(turn) => Scope::Turn(turn),
            None if self.staged => Scope::Staged,
            None if self.unstaged => Scope::Unstaged,
            None if self.uncommitted => Scope::Uncommitted,
            None if self.since_review => Scope::SinceReview,
            None => Scope::Branch,
        }
    }

    /// Returns what was said about colours, if anything was.
    pub fn color(&self) -> Option<When> {
        self.output.options().color
    }

    /// Returns the paths as seen from the top: they are typed as seen from the current directory.
    pub fn paths(&self, context: &Context<'_>) -> Vec<OsString> {
        let Some(top) = context.repo.work_tree() else {
            return self.paths.clone();
        };
        let below = context.env.cwd.strip_prefix(top).unwrap_or(Path::new(""));
        let seen = |path: &OsString| pathspec::from_top(path, below, top);
        self.paths.iter().map(seen).collect()
    }

    /// Returns whether all that was not seen before is shown.
    fn shows_all_news(&self) -> bool {
        matches!(self.scope(), Scope::Branch | Scope::SinceReview)
            && !self.stat
            && !self.name_only
            && self.paths.is_empty()
    }
}

/// A changed file, for machines.
#[derive(Debug, Serialize)]
struct Row {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_path: Option<String>,
    status: char,
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    binary: bool,
    comments: usize,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Diff) -> Result<u8> {
    let mut options = args.output.options();
    options.pager = true;
    in_repo::run(env, options, |context, ui| {
        std::thread::scope(|scope| {
            // It takes a while, and is the same whichever session is meant.
            let gathering = (!args.no_comments).then(|| {
                let repo = context.repo.clone();
                scope.spawn(move || records::gather(&Store::new(env, &repo)))
            });
            show(&Screen { context, ui, args }, gathering)
        })
    })
}

fn show(screen: &Screen<'_>, gathering: Gathering<'_>) -> Result<u8> {
    let Screen { context, ui, args } = *screen;
    let listed = selection::select_one(context, args.session.as_deref())?;
    let listed = into::towards(context, listed, args.into.as_deref())?;
    let human = ui.format() == Format::Human;
    if human && !listed.is_mine() && listed.session.unshared().is_some() {
        let name = one_line(&listed.session.name);
        ui.warning(format!("'{name}' {}", sessions::UNSHARED));
    }
    let work = match human && args.scope() == Scope::Branch {
        true => ahead::show(screen, &listed, gathering)?,
        false => {
            let (work, review) = look(screen, &listed, gathering)?;
            let compared = diff_scope::compared(context, &listed, &work, args.scope())?;
            let placed = screen.placed(&work, &review)?;
            if !human {
                return machine(context, ui, args, &compared, &placed);
            }
            if let Some(note) = &compared.note {
                ui.narrate(note);
            }
            warn_left_out(context, ui, &work);
            let trees = Trees {
                old: compared.old,
                new: compared.new,
                attributes: context.repo.tree_of(work.base)?,
            };
            screen.show(trees, screen.program(trees, &[])?.stream()?, &placed)?;
            work
        }
    };
    // An agent that reads its own diff is not the reviewer.
    if args.shows_all_news()
        && !context.repo.is_read_only()
        && context.env.var(git_agent::session::caller::MARK).is_none()
        && caller::session(context)?.is_none()
    {
        last_seen::remember(context, listed.session.sid, &work)?;
    }
    Ok(0)
}

/// Looks at the files while what was said is read.
fn look(screen: &Screen<'_>, listed: &Listed, gathering: Gathering<'_>) -> Result<(Work, Review)> {
    let context = screen.context;
    // Reading what was said takes many small pieces of memory, which are cheapest in the first thread.
    std::thread::scope(|scope| {
        let (env, repo) = (context.env, context.repo.clone());
        let looking = scope.spawn(move || look_apart(env, &repo, listed));
        let review = screen.said(listed, gathering)?;
        let work = looking
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((work, review))
    })
}

/// Looks at the files from another thread.
pub fn look_apart(env: &Env, repo: &Repo, listed: &Listed) -> Result<Work> {
    let context = Context::new(env, repo)?;
    work::look(&context, listed, Keep::Nothing)
}

/// Says what in the worktree is neither shown nor judged.
pub fn warn_left_out(context: &Context<'_>, ui: &Ui, work: &Work) {
    for left in &work.left_out {
        let at = work.checkout.as_ref();
        let loose = match left.reason {
            Reason::Submodule => at.and_then(|at| context.repo.has_loose_work(at, &left.path)),
            _ => {
                ui.warning(format!("{left}: it is not part of this"));
                continue;
            }
        };
        match loose {
            Some(false) => {}
            Some(true) => {
                ui.warning(format!(
                    "{left} holds work that is not committed in it, which is not part of this"
                ));
                let top = at.map(|at| at.top.join(OsStr::from_bytes(&left.path)));
                if let Some(top) = top {
                    ui.hint(format!("git -C {} status", shell_path(&top)));
                }
            }
            None => ui.warning(format!(
                "{left}: what is not committed in it is not part of this"
            )),
        }
    }
}

fn machine(
    context: &Context<'_>,
    ui: &Ui,
    args: &Diff,
    compared: &Compared,
    placed: &[Placed<'_>],
) -> Result<u8> {
    let (old, new, paths) = (compared.old, compared.new, args.paths(context));
    let deltas = context.repo.deltas_in(old, new, &paths)?;
    let counts = context.repo.numstat_in(old, new, &paths)?;
    if deltas.len() != counts.len() {
        return Err(Error::fatal("git lists and counts different files"));
    }
    let rows = deltas.iter().zip(&counts).map(|(delta, counted)| Row {
        path: to_text(&delta.path),
        old_path: (delta.old_path != delta.path).then(|| to_text(&delta.old_path)),
        status: delta.status,
        added: counted.lines.map(|(added, _)| added),
        deleted: counted.lines.map(|(_, deleted)| deleted),
        binary: counted.lines.is_none(),
        comments: placed
            .iter()
            .filter(|placed| match &placed.spot {
                Spot::File { path, side } | Spot::Lines { path, side, .. } => {
                    *path == delta.path || (*side == Side::Old && *path == delta.old_path)
                }
                _ => false,
            })
            .count(),
    });
    match ui.format() {
        Format::Porcelain { nul } => {
            for (row, delta) in rows.zip(&deltas) {
                let number = |number: Option<u64>| match number {
                    Some(number) => number.to_string().into_bytes(),
                    None => b"-".to_vec(),
                };
                let fields = [
                    row.status.to_string().into_bytes(),
                    number(row.added),
                    number(row.deleted),
                    row.comments.to_string().into_bytes(),
                    delta.path.clone(),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields).context(cannot_write)?;
            }
        }
        _ => json::write_list(ui, "files", rows)?,
    }
    Ok(0)
}
