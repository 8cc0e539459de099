//! Fills a fresh worktree with the files of a tree, faster than git and with the same result.
//!
//! Files whose unmodified copy lies in another worktree are copied from there, all others are written from objects;
//! several threads do both. Whatever makes git itself do more than write bytes (filters, line endings, submodules,
//! sparse checkouts …) is refused here, and left to git.

pub(crate) mod files;
pub(crate) mod index;
pub(crate) mod obstacle;
pub(crate) mod plan;
pub(crate) mod source;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::error::Error;
use crate::git::worktree::checkout::plan::{Names, Plan};
use crate::git::worktree::checkout::source::Source;
use crate::git::{ObjectId, Repo};
pub(in crate::git) use files::Directories;

/// Why a checkout did not happen here.
#[derive(Debug)]
pub enum Refusal {
    /// git has to do it, for this reason. The destination may hold files already.
    Git(&'static str),
    /// It can't be done.
    Failed(Error),
}

/// A worktree that files may be copied from. Its index must be the user's own: whoever can write it decides what ends
/// up in the new worktree, so one that an agent works in is never a donor.
#[derive(Debug, Clone)]
pub struct Donor {
    /// Its top directory.
    pub root: PathBuf,
    /// Its index file.
    pub index: PathBuf,
}

/// One checkout.
#[derive(Debug)]
pub struct Job<'a> {
    /// The tree to check out.
    pub tree: ObjectId,
    /// An existing directory, empty but for `.git`.
    pub destination: &'a Path,
    /// Where to write the new index.
    pub index: &'a Path,
    /// Where files may be copied from.
    pub donor: Option<&'a Donor>,
    /// Whether the tree was recorded from files on this machine: then it may hold names that other systems cannot have.
    pub recorded: bool,
    /// Set by someone else to end the work early.
    pub interrupt: &'a AtomicBool,
}

/// How a checkout went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Files and symlinks made.
    pub files: usize,
    /// How many of them were copied from the donor.
    pub copied: usize,
}

/// Returns why git has to check out this repository's trees, as far as its settings tell.
pub fn why_git(repo: &Repo) -> Option<&'static str> {
    obstacle::in_settings(repo)
}

/// Checks out a tree. On a refusal the caller clears the destination.
pub fn check_out(repo: &Repo, job: &Job<'_>) -> Result<Report, Refusal> {
    if let Some(reason) = obstacle::in_settings(repo) {
        return Err(Refusal::Git(reason));
    }
    let source = job
        .donor
        .and_then(|donor| Source::open_worktree(&donor.root, &donor.index, repo.hash_kind()))
        .filter(|source| !obstacle::converts(repo, &source.index));
    let names = match job.recorded {
        true => Names::OfThisSystem,
        false => Names::OfAnySystem,
    };
    let from_index = source
        .as_ref()
        .and_then(|source| Plan::from_index(&source.index, job.tree, names));
    let mut plan = match from_index {
        Some(plan) => plan,
        None => Plan::from_tree(repo.gix(), job.tree, names)?,
    };
    if let Some(reason) = obstacle::in_attributes(repo, &plan)? {
        return Err(Refusal::Git(reason));
    }
    if let Some(source) = &source {
        plan.mark_copyable(&source.index);
    }
    let shared = repo.gix().clone().into_sync();
    let made = files::make(
        &shared,
        &plan,
        job.destination,
        source.as_ref(),
        job.interrupt,
    )?;
    index::write(job.index, repo.hash_kind(), &plan, &made.stats).map_err(Refusal::Failed)?;
    Ok(Report {
        files: plan.entries.len(),
        copied: made.copied,
    })
}
