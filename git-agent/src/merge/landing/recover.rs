//! What a merge that died left: finished where the target has moved, taken back where it has not.

use std::path::PathBuf;

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::fault;
use crate::git::worktree::temporary;
use crate::merge::landing::journal::{Applied, Journal, Move, Right};
use crate::merge::landing::land::{self, Origins};
use crate::merge::landing::undo;
use crate::merge::{apply, testing};

/// What was found and done about it.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// It had landed; the records were completed.
    Finished(Vec<String>),
    /// It had not landed, and was taken back.
    TakenBack {
        /// What was to land.
        names: Vec<String>,
        /// Files that somebody has changed since, which stay as they are.
        stays: Vec<PathBuf>,
    },
}

/// Puts right what a merge that died left behind. Returns that merge, too, for those who want to go on with it.
pub fn recover(context: &Context<'_>, right: &Right) -> Result<(Found, Option<Journal>)> {
    context.repo.clear_recorded_locks()?;
    for path in temporary::sweep(context.repo, testing::PURPOSE)? {
        // A folder that git had not finished making or removing.
        let _ = std::fs::remove_dir_all(path);
    }
    fault::point("recover.swept").context(|| "cannot recover".into())?;
    let Some(journal) = right.unfinished()? else {
        return Ok((Found::Nothing, None));
    };
    testing::tidy(context);
    let names = names(&journal);
    if let Some(applied) = &journal.applying {
        let stays = take_back_apply(context, applied)?;
        right.forget()?;
        return Ok((Found::TakenBack { names, stays }, Some(journal)));
    }
    let Some(landing) = &journal.landing else {
        right.forget()?;
        let stays = Vec::new();
        return Ok((Found::TakenBack { names, stays }, Some(journal)));
    };
    let found = match (has_landed(context, landing)?, journal.undoes) {
        (true, Some(undone)) => {
            undo::finish(context, right, undone, landing)?;
            Found::Finished(names)
        }
        (true, None) => {
            land::record(context, &journal, Origins::begin(context, &journal)?)?;
            right.keep(&journal)?;
            Found::Finished(names)
        }
        (false, _) => {
            let stays = take_back(context, landing)?;
            fault::point("recover.taken_back").context(|| "cannot recover".into())?;
            right.forget()?;
            Found::TakenBack { names, stays }
        }
    };
    Ok((found, Some(journal)))
}

fn names(journal: &Journal) -> Vec<String> {
    if let Some(applied) = &journal.applying {
        return vec![applied.name.clone()];
    }
    let parts = journal.landing.iter().flat_map(|landing| &landing.parts);
    parts.map(|part| part.name.clone()).collect()
}

/// Returns whether the target has what was to land.
fn has_landed(context: &Context<'_>, landing: &Move) -> Result<bool> {
    let repo = context.repo;
    let (before, after) = (
        repo.parse_id(&landing.before)?,
        repo.parse_id(&landing.after)?,
    );
    match repo.branch_tip(&landing.branch)? {
        // A target that goes back has had what it goes back to all the time: it went when it lacks what it came from.
        Some(tip) if repo.is_ancestor(after, before)? => Ok(!repo.is_ancestor(before, tip)?),
        Some(tip) => repo.is_ancestor(after, tip),
        None => Ok(false),
    }
}

/// Takes the files of those who had the target checked out back to where they still are. Returns what somebody has
/// changed meanwhile, which stays.
fn take_back(context: &Context<'_>, landing: &Move) -> Result<Vec<PathBuf>> {
    let repo = context.repo;
    let before = repo.parse_id(&landing.before)?;
    let after = repo.parse_id(&landing.after)?;
    let mut stays = Vec::new();
    for place in &landing.places {
        let at = place.checkout();
        // Whoever has gone to another commit since went there with files and all.
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
