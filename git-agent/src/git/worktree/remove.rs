//! Takes worktrees away, and finds those that were moved by hand. What may go is decided elsewhere: callers bring proof.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::list::{Worktree, linked_at, list, read_gitdir};
use super::place::empty;
use crate::error::{Context, Error, Result};
use crate::git::{ObjectId, Repo};

/// The caller's word that everything in a worktree is saved elsewhere, as of the HEAD it looked at.
#[derive(Debug, Clone, Copy)]
pub struct ProvenSafe {
    head: Option<ObjectId>,
}

impl ProvenSafe {
    /// States that all work of a worktree whose HEAD is here has been saved.
    pub fn at(head: Option<ObjectId>) -> Self {
        ProvenSafe { head }
    }
}

/// What a look at a worktree's folder finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The folder is there and belongs to the record.
    InPlace,
    /// There is no such folder.
    Missing,
    /// The folder is there, but its `.git` file is gone or names something else.
    Foreign,
}

/// Looks whether a worktree's folder is where its record says.
pub fn inspect(worktree: &Worktree) -> Finding {
    if worktree.is_main() {
        return Finding::InPlace;
    }
    match fs::symlink_metadata(&worktree.path) {
        Err(_) => Finding::Missing,
        Ok(_) if links_to(&worktree.path, &worktree.admin_dir) => Finding::InPlace,
        Ok(_) => Finding::Foreign,
    }
}

/// Returns whether a worktree's record leads git to this repository and no other.
pub fn shares_repository(repo: &Repo, worktree: &Worktree) -> bool {
    let Ok(text) = fs::read(worktree.admin_dir.join("commondir")) else {
        return worktree.is_main();
    };
    let named = worktree
        .admin_dir
        .join(OsStr::from_bytes(text.trim_ascii_end()));
    fs::canonicalize(named).is_ok_and(|common| common == repo.common_dir())
}

/// Removes a linked worktree: its files, then its record. A folder that is gone already is no error.
///
/// Refused for the main worktree, a locked one, one whose HEAD moved since the proof, one whose folder belongs to
/// something else, and one that holds another worktree inside.
pub fn remove(repo: &Repo, id: &str, proof: ProvenSafe) -> Result<Worktree> {
    let worktree = find(repo, id)?;
    let shown = worktree.path.display();
    if let Some(reason) = &worktree.locked {
        let why = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        return Err(Error::fatal(format!("worktree '{shown}' is locked{why}"))
            .hint("git worktree unlock <path>"));
    }
    if worktree.head != proof.head {
        return Err(Error::fatal(format!(
            "worktree '{shown}' has moved on since it was looked at"
        )));
    }
    match inspect(&worktree) {
        Finding::Foreign => {
            return Err(
                Error::fatal(format!("'{shown}' is not the worktree that git registered"))
                    .hint("git worktree repair <path>"),
            );
        }
        Finding::Missing => {}
        Finding::InPlace => {
            for other in list(repo)? {
                if other.admin_dir != worktree.admin_dir && other.path.starts_with(&worktree.path) {
                    return Err(Error::fatal(format!(
                        "worktree '{shown}' holds another one: '{}'",
                        other.path.display()
                    )));
                }
            }
            if repo.common_dir().starts_with(&worktree.path) {
                return Err(Error::fatal(format!(
                    "'{shown}' holds the repository itself"
                )));
            }
            // The link goes last: as long as it is there, an interrupted removal can be taken up again.
            empty(&worktree.path, true)
                .and_then(|()| fs::remove_file(worktree.path.join(".git")))
                .and_then(|()| fs::remove_dir(&worktree.path))
                .context(|| format!("cannot remove '{shown}'"))?;
        }
    }
    forget(repo, &worktree)?;
    Ok(worktree)
}

/// Forgets worktrees whose folder is gone, if `decide` agrees; locked ones are kept. Returns those forgotten.
pub fn prune_missing(
    repo: &Repo,
    mut decide: impl FnMut(&Worktree) -> bool,
) -> Result<Vec<Worktree>> {
    let mut forgotten = Vec::new();
    for worktree in list(repo)? {
        if worktree.is_main()
            || worktree.locked.is_some()
            || inspect(&worktree) != Finding::Missing
            || !decide(&worktree)
        {
            continue;
        }
        forget(repo, &worktree)?;
        forgotten.push(worktree);
    }
    Ok(forgotten)
}

/// Looks for a worktree that was moved by hand: a folder directly below one of `places` that still names its record.
pub fn search_moved(worktree: &Worktree, places: &[PathBuf]) -> Option<PathBuf> {
    places
        .iter()
        .filter_map(|place| fs::read_dir(place).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| *path != worktree.path && links_to(path, &worktree.admin_dir))
        .and_then(|path| fs::canonicalize(path).ok())
}

/// Makes the record of a moved worktree, or the link of one whose repository moved, right again. git does the writing.
pub fn repair(repo: &Repo, path: &Path) -> Result<()> {
    repo.git_common()
        .args(["worktree", "repair", "--"])
        .arg(path)
        .run()
        .map(|_| ())
}

fn find(repo: &Repo, id: &str) -> Result<Worktree> {
    let unknown = || Error::fatal(format!("no worktree is registered as '{id}'"));
    // An id is one plain name: nothing of it may lead out of `worktrees`.
    if id.is_empty() || id.contains('/') || id == "." || id == ".." {
        return Err(unknown());
    }
    let admin_dir = repo.common_dir().join("worktrees").join(id);
    let mut worktree = linked_at(repo, &admin_dir)?.ok_or_else(unknown)?;
    if repo.ref_backend() == crate::git::RefBackend::Reftable {
        worktree = list(repo)?
            .into_iter()
            .find(|known| known.admin_dir == admin_dir)
            .ok_or_else(unknown)?;
    }
    Ok(worktree)
}

fn forget(repo: &Repo, worktree: &Worktree) -> Result<()> {
    let base = repo.common_dir().join("worktrees");
    if worktree.is_main() || worktree.admin_dir.parent() != Some(base.as_path()) {
        return Err(Error::fatal("the main worktree cannot be removed"));
    }
    fs::remove_dir_all(&worktree.admin_dir)
        .context(|| format!("cannot remove '{}'", worktree.admin_dir.display()))?;
    // git keeps no empty `worktrees` directory.
    let _ = fs::remove_dir(base);
    Ok(())
}

/// Returns whether a folder's `.git` file names this admin directory.
fn links_to(path: &Path, admin_dir: &Path) -> bool {
    let link = path.join(".git");
    if !fs::symlink_metadata(&link).is_ok_and(|meta| meta.is_file() && meta.len() < 64 * 1024) {
        return false;
    }
    let Ok(text) = fs::read(&link) else {
        return false;
    };
    let Some(target) = text.strip_prefix(b"gitdir:") else {
        return false;
    };
    let target = path.join(OsStr::from_bytes(target.trim_ascii()));
    match (fs::canonicalize(target), fs::canonicalize(admin_dir)) {
        (Ok(target), Ok(admin_dir)) => target == admin_dir && read_gitdir(&admin_dir).is_some(),
        _ => false,
    }
}
