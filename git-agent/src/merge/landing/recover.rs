//! Recovers an interrupted merge: finishes it if the target has moved, rolls it back if not.

use std::path::PathBuf;

use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::fault;
use crate::git::worktree::temporary;
use crate::guard::test_cell;
use crate::merge::landing::journal::{Applied, Asked, Journal, MergeLock, Move};
use crate::merge::landing::land::{self, Origins};
use crate::merge::landing::undo;
use crate::merge::run::{self, Agree, MergeOutcome, MergeRequest, Tell, Told};
use crate::merge::{apply, testing};

/// Result of a recovery.
#[derive(Debug, PartialEq, Eq)]
pub enum UnfinishedMerge {
    /// No merge was interrupted.
    Nothing,
    /// The target had moved; the records were completed.
    Finished(Vec<String>),
    /// The target had not moved; the merge was rolled back.
    TakenBack {
        /// The sessions that were to be merged.
        names: Vec<String>,
        /// Files that were edited since and stay as they are.
        stays: Vec<PathBuf>,
    },
}

/// Recovers an interrupted merge. Also returns its journal, for `--continue`.
pub fn recover(
    context: &Context<'_>,
    right: &MergeLock,
) -> Result<(UnfinishedMerge, Option<Journal>)> {
    context.repo.clear_recorded_locks()?;
    for path in temporary::sweep(context.repo, testing::PURPOSE)? {
        // A directory that git had not finished making or removing.
        let _ = std::fs::remove_dir_all(path);
    }
    test_cell::sweep(context)?;
    fault::point("recover.swept").context(|| "cannot recover".into())?;
    let Some(journal) = right.unfinished()? else {
        return Ok((UnfinishedMerge::Nothing, None));
    };
    testing::tidy(context);
    let names = names(&journal);
    if let Some(applied) = &journal.applying {
        let stays = take_back_apply(context, applied)?;
        right.forget()?;
        return Ok((UnfinishedMerge::TakenBack { names, stays }, Some(journal)));
    }
    let Some(landing) = &journal.landing else {
        right.forget()?;
        let stays = Vec::new();
        return Ok((UnfinishedMerge::TakenBack { names, stays }, Some(journal)));
    };
    let found = match (has_landed(context, landing)?, journal.undoes) {
        (true, Some(undone)) => {
            undo::finish(context, right, undone, landing)?;
            UnfinishedMerge::Finished(names)
        }
        (true, None) => {
            land::record(context, &journal, Origins::begin(context, &journal)?)?;
            right.keep(&journal)?;
            UnfinishedMerge::Finished(names)
        }
        (false, _) => {
            let stays = take_back(context, landing)?;
            fault::point("recover.taken_back").context(|| "cannot recover".into())?;
            right.forget()?;
            UnfinishedMerge::TakenBack { names, stays }
        }
    };
    Ok((found, Some(journal)))
}

/// Completes an interrupted merge, or else rolls it back. With `go_on` the rolled-back merge runs again, and its
/// request and result are returned.
pub fn take_up(
    context: &Context<'_>,
    go_on: bool,
    tell: &mut Tell<'_>,
    agree: &mut Agree<'_>,
) -> Result<Option<(MergeRequest, Option<MergeOutcome>)>> {
    let right = MergeLock::take(context)?;
    let (found, journal) = recover(context, &right)?;
    let Some(journal) = journal.filter(|_| found != UnfinishedMerge::Nothing) else {
        return Err(Error::fatal("no interrupted merge")
            .hint("git agent merge --undo    undo the last merge"));
    };
    tell(Told::Recovered(&found));
    if let UnfinishedMerge::Finished(_) = found {
        return if go_on {
            Ok(None)
        } else {
            Err(Error::fatal("already merged").hint("git agent merge --undo"))
        };
    }
    if !go_on || journal.asked.sessions.is_empty() {
        return Ok(None);
    }
    let request = journal.asked.request();
    let plan = run::plan(context, &request)?;
    let outcome = run::execute(context, &right, plan, &request, tell, agree)?;
    Ok(Some((request, outcome)))
}

impl Asked {
    /// Returns the request that an interrupted merge was made for.
    fn request(&self) -> MergeRequest {
        MergeRequest {
            into: Some(self.into.clone()),
            names: self.sessions.iter().map(ToString::to_string).collect(),
            style: Some(self.style),
            test: self.test.clone(),
            no_test: self.no_test,
            give_back: self.give_back,
            ..MergeRequest::default()
        }
    }
}

fn names(journal: &Journal) -> Vec<String> {
    if let Some(applied) = &journal.applying {
        return vec![applied.name.clone()];
    }
    let parts = journal.landing.iter().flat_map(|landing| &landing.parts);
    parts.map(|part| part.name.clone()).collect()
}

/// Returns whether the target contains the merged result.
fn has_landed(context: &Context<'_>, landing: &Move) -> Result<bool> {
    let repo = context.repo;
    let (before, after) = (
        repo.parse_id(&landing.before)?,
        repo.parse_id(&landing.after)?,
    );
    match repo.branch_tip(&landing.branch)? {
        // In an undo the target moves backwards and always contained the new tip; it has moved if it lacks the old one.
        Some(tip) if repo.is_ancestor(after, before)? => Ok(!repo.is_ancestor(before, tip)?),
        Some(tip) => repo.is_ancestor(after, tip),
        None => Ok(false),
    }
}

/// Restores the files in checkouts of the target that are still at the old commit. Returns the files that were edited
/// meanwhile; they stay as they are.
fn take_back(context: &Context<'_>, landing: &Move) -> Result<Vec<PathBuf>> {
    let repo = context.repo;
    let before = repo.parse_id(&landing.before)?;
    let after = repo.parse_id(&landing.after)?;
    let mut stays = Vec::new();
    for place in &landing.places {
        let at = place.checkout();
        // A checkout that moved to another commit since has its files from there.
        if !at.top.is_dir() || repo.head_of(&at).unwrap_or(None) != Some(before) {
            continue;
        }
        let left = repo.take_back(&at, &at.admin_dir.join("index"), before, after)?;
        stays.extend(left.into_iter().map(|path| at.top.join(path)));
    }
    Ok(stays)
}

fn take_back_apply(context: &Context<'_>, applied: &Applied) -> Result<Vec<PathBuf>> {
    let mut stays = Vec::new();
    if applied.index.exists() {
        let left = apply::put_back(context, applied)?;
        stays = left.iter().map(|path| applied.top.join(path)).collect();
    }
    let _ = std::fs::remove_file(&applied.index);
    Ok(stays)
}
