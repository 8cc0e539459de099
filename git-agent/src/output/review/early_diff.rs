//! The diff of all of a session's work, begun before the whole worktree was read.
//!
//! The diff starts with the committed changes, which usually are all there are. A file that is in the worktree as it was
//! committed looks the same in the complete diff, so it is shown at once. Before the first file for which that is not
//! known, the whole worktree is read. Then the diff continues, or a new one begins with the files not yet shown.
//!
//! With 5,000 other files the first screen comes after 18 ms instead of 29 ms (`bench-review`).

use std::collections::HashSet;
use std::io::Write;

use crate::error::{Context as _, Result};
use crate::git::Repo;
use crate::git::diff::Delta;
use crate::git::snapshot::capture::Checkout;
use crate::model::review::Review;
use crate::output::cannot_write;
use crate::review::anchors::{Placed, Spot};
use crate::session::worktree::work::{self, Work};
use crate::store::list::Listed;

use crate::output::review::diff_view::{DiffView, Gathering, Trees, look_apart};
use crate::output::review::left_out;
use crate::output::review::weave::Weaver;

/// So many files fill any screen.
const MOST: usize = 50;

/// Shows all of a session's work and returns it.
pub fn show(view: &DiffView<'_>, listed: &Listed, gathering: Gathering<'_>) -> Result<Work> {
    let (context, ui) = (view.context, view.ui);
    let guess = work::committed(context, listed)?;
    let before = trees(context.repo, &guess)?;
    let mut stream = view.program(before, &[])?.stream()?;
    std::thread::scope(|scope| {
        let look = || {
            let (env, repo) = (context.env, context.repo.clone());
            scope.spawn(move || look_apart(env, &repo, listed))
        };
        let at = guess.checkout.as_ref().filter(|_| is_plain(view));
        // The first screen must not wait for a processor.
        let looking = at.is_none().then(look);
        let review = view.said(listed, gathering)?;
        let placed = view.placed(&guess, &review)?;
        let looking = looking.unwrap_or_else(look);

        let mut weaver = view.begin(before, &placed)?;
        let mut gate = Gate::new(context.repo, at);
        let mut line = Vec::new();
        let mut more = stream.next_line(&mut line)?;
        while more && gate.lets(&weaver, &line)? {
            view.line(&mut weaver, &line)?;
            more = stream.next_line(&mut line)?;
        }
        ui.out().flush().context(cannot_write)?;
        let work = looking
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        left_out::warn(context, ui, &work);
        if trees(context.repo, &work)? != before {
            weaver.end_file()?;
            let shown = &weaver.deltas()[..gate.files];
            rest(view, &work, shown, &placed, &review)?;
            return Ok(work);
        }
        while more {
            view.line(&mut weaver, &line)?;
            more = stream.next_line(&mut line)?;
        }
        view.finish(weaver, &placed)?;
        Ok(work)
    })
}

/// Shows the rest: after files of which some may have changed meanwhile, and threads among them.
fn rest(
    view: &DiffView<'_>,
    work: &Work,
    shown: &[Delta],
    placed: &[Placed<'_>],
    review: &Review,
) -> Result<()> {
    let repo = view.context.repo;
    let mut done: HashSet<&[u8]> = HashSet::new();
    for delta in shown {
        let entry = repo.entry_at(work.tree, &delta.path)?;
        if entry.is_some_and(|entry| Some(entry.id) == delta.new_id) {
            done.insert(&delta.path);
        }
    }
    let was_shown = |placed: &&Placed<'_>| match placed.spot {
        Spot::Session | Spot::Event(_) => true,
        _ => placed.path().is_some_and(|path| done.contains(path)),
    };
    let said: HashSet<_> = placed
        .iter()
        .filter(was_shown)
        .map(|placed| std::ptr::from_ref(placed.thread))
        .collect();
    let mut left = view.placed(work, review)?;
    left.retain(|placed| !said.contains(&std::ptr::from_ref(placed.thread)));
    let done: Vec<&[u8]> = done.into_iter().collect();
    let now = trees(repo, work)?;
    let stream = view.program(now, &done)?.stream()?;
    view.show(now, stream, &left)
}

/// Returns the trees to compare.
fn trees(repo: &Repo, work: &Work) -> Result<Trees> {
    let base = repo.tree_of(work.base)?;
    Ok(Trees {
        old: base,
        new: work.tree,
        attributes: base,
    })
}

/// Returns whether git shows each file under a heading and by itself, so that one can be shown without the others.
fn is_plain(view: &DiffView<'_>) -> bool {
    let (context, options) = (view.context, view.options);
    let set = |key: &str| {
        context
            .repo
            .config_string(key)
            .filter(|value| !value.is_empty())
    };
    let renames = set("diff.renames").unwrap_or_default().to_ascii_lowercase();
    let external = context
        .env
        .var_os("GIT_EXTERNAL_DIFF")
        .is_some_and(|program| !program.is_empty());
    let drivers = context.repo.config_subsections("diff");
    let command = |name: &String| set(&format!("diff.{name}.command")).is_some();
    !options.stat
        && !options.name_only
        && !options.word_diff
        && options.paths.is_empty()
        && !external
        && set("diff.external").is_none()
        // A copy may be of any file.
        && !renames.starts_with("cop")
        && !drivers.iter().any(command)
}

/// Lets files of a diff pass as long as nothing can change them any more.
struct Gate<'a> {
    repo: &'a Repo,
    /// The worktree; without one nothing passes.
    at: Option<&'a Checkout>,
    /// How many files may pass, once git has announced them.
    sure: Option<usize>,
    /// How many have passed.
    files: usize,
}

impl<'a> Gate<'a> {
    fn new(repo: &'a Repo, at: Option<&'a Checkout>) -> Self {
        Gate {
            repo,
            at,
            sure: None,
            files: 0,
        }
    }

    /// Returns whether the next line of git's diff may be shown.
    fn lets(&mut self, weaver: &Weaver<'_, '_>, line: &[u8]) -> Result<bool> {
        let Some(at) = self.at else {
            return Ok(false);
        };
        let sure = match self.sure {
            Some(sure) => sure,
            None if line.starts_with(b":") => return Ok(true),
            None => {
                let deltas = weaver.deltas();
                let first = &deltas[..deltas.len().min(MOST)];
                let mut sure = self.repo.first_unchanged(at, first)?;
                while sure > 0 && deltas.get(sure).is_some_and(Delta::is_submodule) {
                    sure -= 1;
                }
                self.sure = Some(sure);
                return Ok(line == b"\n");
            }
        };
        if weaver.is_heading(line) {
            if self.files == sure {
                return Ok(false);
            }
            self.files += 1;
        }
        Ok(self.files > 0)
    }
}
