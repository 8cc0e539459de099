//! Removes worktrees, and finds those that the user moved. The callers decide what may be removed, and bring proof.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result, shell_path};
use crate::git::snapshot::capture::Checkout;
use crate::git::worktree::list::{Worktree, linked_at, list, read_gitdir};
use crate::git::worktree::place::{empty, remove_record, rename_to_free};
use crate::git::{ObjectId, Repo};

/// The suffix of a folder's name during its last check: it is complete, and can be restored.
const REMOVING: &str = ".removing";
/// The suffix of a folder's name once everything in it is saved: it is incomplete, and no longer needed.
const REMOVED: &str = ".removed";

/// The caller's assertion that everything in a worktree is saved elsewhere, at the given HEAD.
#[derive(Debug, Clone, Copy)]
pub struct ProvenSafe {
    head: Option<ObjectId>,
}

impl ProvenSafe {
    /// Asserts that all work of a worktree with this HEAD has been saved.
    pub fn at(head: Option<ObjectId>) -> Self {
        ProvenSafe { head }
    }
}

/// The status of a worktree's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The folder exists and belongs to the record.
    InPlace,
    /// The folder does not exist.
    Missing,
    /// The folder exists, but its `.git` file is missing or names another record.
    Foreign,
}

/// Checks whether a worktree's folder is where its record says.
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

/// Returns whether a worktree's record leads git to this very repository.
pub fn shares_repository(repo: &Repo, worktree: &Worktree) -> bool {
    let Ok(text) = fs::read(worktree.admin_dir.join("commondir")) else {
        return worktree.is_main();
    };
    let named = worktree
        .admin_dir
        .join(OsStr::from_bytes(text.trim_ascii_end()));
    fs::canonicalize(named).is_ok_and(|common| common == repo.common_dir())
}

/// Removes a linked worktree: its files, then its record. A missing folder is not an error.
///
/// Fails for the main worktree, a locked one, one whose HEAD moved since the proof, one whose folder belongs to another
/// record, and one that contains another worktree.
pub fn remove(repo: &Repo, id: &str, proof: ProvenSafe) -> Result<Worktree> {
    remove_after(repo, id, proof, |_| Ok(()))
}

/// Removes a linked worktree after a last check: `look` sees it under a hidden name, so that no process adds files any
/// more. If it fails, everything is restored.
pub fn remove_after(
    repo: &Repo,
    id: &str,
    proof: ProvenSafe,
    look: impl FnOnce(&Checkout) -> Result<()>,
) -> Result<Worktree> {
    let worktree = find(repo, id)?;
    let shown = worktree.path.display();
    if let Some(reason) = &worktree.locked {
        let why = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        return Err(
            Error::fatal(format!("worktree '{shown}' is locked{why}")).hint(format!(
                "git worktree unlock {}",
                shell_path(&worktree.path)
            )),
        );
    }
    if worktree.head != proof.head {
        return Err(Error::fatal(format!(
            "worktree '{shown}' has moved on since the check"
        )));
    }
    match inspect(&worktree) {
        Finding::Foreign => {
            return Err(
                Error::fatal(format!("'{shown}' is not the worktree that git registered")).hint(
                    format!("git worktree repair {}", shell_path(&worktree.path)),
                ),
            );
        }
        Finding::Missing => {}
        Finding::InPlace => {
            for other in list(repo)? {
                if other.admin_dir != worktree.admin_dir && other.path.starts_with(&worktree.path) {
                    return Err(Error::fatal(format!(
                        "worktree '{shown}' contains another one: '{}'",
                        other.path.display()
                    )));
                }
            }
            if repo.common_dir().starts_with(&worktree.path) {
                return Err(Error::fatal(format!(
                    "'{shown}' contains the repository itself"
                )));
            }
            set_aside(&worktree, look)?;
        }
    }
    forget(repo, &worktree)?;
    Ok(worktree)
}

/// Renames the folder out of the way, lets `look` check it, and then gives it the name of a deletable folder.
fn set_aside(worktree: &Worktree, look: impl FnOnce(&Checkout) -> Result<()>) -> Result<()> {
    let cannot = || format!("cannot remove '{}'", worktree.path.display());
    // The remains of an earlier removal are in the way of the next.
    delete_removed(worktree).context(cannot)?;
    let aside = beside(&worktree.path, REMOVING);
    fs::rename(&worktree.path, &aside).context(cannot)?;
    let at = Checkout {
        admin_dir: worktree.admin_dir.clone(),
        top: aside.clone(),
    };
    let judged = look(&at)
        .and_then(|()| fs::rename(&aside, beside(&worktree.path, REMOVED)).context(cannot));
    let Err(error) = judged else {
        return Ok(());
    };
    match rename_to_free(&aside, &worktree.path) {
        Ok(()) => Err(error),
        Err(_) => Err(error.hint(format!("the worktree is now '{}'", aside.display()))),
    }
}

/// Restores the folder of a worktree after an interrupted removal. Returns whether there was one.
pub fn put_back(worktree: &Worktree) -> Result<bool> {
    let aside = beside(&worktree.path, REMOVING);
    if worktree.is_main()
        || inspect(worktree) != Finding::Missing
        || !links_to(&aside, &worktree.admin_dir)
    {
        return Ok(false);
    }
    rename_to_free(&aside, &worktree.path)
        .context(|| format!("cannot restore '{}'", worktree.path.display()))?;
    Ok(true)
}

/// Deletes a folder that was checked; the link comes last, because it alone shows the owner.
fn delete_removed(worktree: &Worktree) -> std::io::Result<()> {
    let removed = beside(&worktree.path, REMOVED);
    if !links_to(&removed, &worktree.admin_dir) {
        return Ok(());
    }
    empty(&removed, true)?;
    fs::remove_file(removed.join(".git"))?;
    fs::remove_dir(&removed)
}

/// Returns the name of a worktree's folder while it is removed or recreated: on the same file system, and hidden.
pub(super) fn beside(path: &Path, how: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(how);
    path.with_file_name(name)
}

/// Prunes worktrees with a missing folder, if `decide` agrees; keeps locked ones. Returns the pruned ones.
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

/// Searches a worktree that the user moved: a folder directly below one of `places` that still names its record.
pub fn search_moved(worktree: &Worktree, places: &[PathBuf]) -> Option<PathBuf> {
    places
        .iter()
        .filter_map(|place| fs::read_dir(place).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| *path != worktree.path && *path != beside(&worktree.path, REMOVED))
        .find(|path| links_to(path, &worktree.admin_dir))
        .and_then(|path| fs::canonicalize(path).ok())
}

/// Returns the worktree that git registered under the name of this path but whose folder is elsewhere: moved with `git
/// worktree move`, or added right after the user moved a folder.
pub fn moved_from(repo: &Repo, path: &Path) -> Result<Option<Worktree>> {
    let Some(id) = path.file_name().and_then(OsStr::to_str) else {
        return Ok(None);
    };
    if !repo.common_dir().join("worktrees").join(id).is_dir() {
        return Ok(None);
    }
    let known = find(repo, id).ok();
    Ok(known.filter(|known| {
        known.path != path
            && fs::symlink_metadata(path).is_err()
            && inspect(known) == Finding::InPlace
            && shares_repository(repo, known)
    }))
}

/// Returns whether a folder's `.git` file names a missing path, as it does after the repository was moved.
pub fn is_stale(worktree: &Worktree) -> bool {
    leads_nowhere(&worktree.path)
}

/// Returns whether a directory is a worktree of a repository that does not exist.
pub fn leads_nowhere(path: &Path) -> bool {
    let Ok(text) = fs::read(path.join(".git")) else {
        return false;
    };
    let Some(target) = text.strip_prefix(b"gitdir:") else {
        return false;
    };
    let target = path.join(OsStr::from_bytes(target.trim_ascii()));
    fs::symlink_metadata(target).is_err()
}

/// Repairs the record of a moved worktree, or the link of one whose repository moved, through git.
pub fn repair(repo: &Repo, path: &Path) -> Result<()> {
    repo.git_common()
        .args(["worktree", "repair", "--"])
        .arg(path)
        .run()
        .map(|_| ())
}

fn find(repo: &Repo, id: &str) -> Result<Worktree> {
    let unknown = || Error::fatal(format!("no worktree is registered as '{id}'"));
    // An id is one plain name, which cannot lead out of `worktrees`.
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
    delete_removed(worktree).context(|| format!("cannot remove '{}'", worktree.path.display()))?;
    remove_record(&worktree.admin_dir)
        .context(|| format!("cannot remove '{}'", worktree.admin_dir.display()))
}

/// Returns whether a folder's `.git` file names this admin directory, or a cell of the same repository.
pub(super) fn links_to(path: &Path, admin_dir: &Path) -> bool {
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
        (Ok(target), Ok(admin_dir)) => {
            let own = target == admin_dir || is_cell_beside(&target, &admin_dir);
            own && read_gitdir(&admin_dir).is_some()
        }
        _ => false,
    }
}

/// Returns whether a directory is a cell of the repository with this record: the worktree leads there during a turn.
fn is_cell_beside(target: &Path, admin_dir: &Path) -> bool {
    let common = admin_dir.parent().and_then(Path::parent);
    common.is_some_and(|common| target.parent() == Some(&common.join("agents/cells")))
}
