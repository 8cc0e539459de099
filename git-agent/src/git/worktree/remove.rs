//! Takes worktrees away, and finds those that were moved by hand. What may go is decided elsewhere: callers bring proof.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};
use crate::git::snapshot::capture::Checkout;
use crate::git::worktree::list::{Worktree, linked_at, list, read_gitdir};
use crate::git::worktree::place::{empty, remove_record, rename_to_free};
use crate::git::{ObjectId, Repo};

/// The end of a folder's name while it is looked at for the last time: it is whole, and can be put back.
const REMOVING: &str = ".removing";
/// The end of a folder's name once all of it is saved: it is not whole, and nobody needs it.
const REMOVED: &str = ".removed";

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
    remove_after(repo, id, proof, |_| Ok(()))
}

/// Removes a linked worktree after a last look: `look` sees it where nobody finds it by its name any more, so that what
/// it sees is all there is. If it fails, everything is put back.
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
            set_aside(&worktree, look)?;
        }
    }
    forget(repo, &worktree)?;
    Ok(worktree)
}

/// Takes the folder out of everybody's sight, lets `look` judge it, and then gives it the name of what may be deleted.
fn set_aside(worktree: &Worktree, look: impl FnOnce(&Checkout) -> Result<()>) -> Result<()> {
    let cannot = || format!("cannot remove '{}'", worktree.path.display());
    // What an earlier removal had no time to delete stands in the way of the next.
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

/// Gives a worktree its folder back that an interrupted removal had set aside. Returns whether there was one.
pub fn put_back(worktree: &Worktree) -> Result<bool> {
    let aside = beside(&worktree.path, REMOVING);
    if worktree.is_main()
        || inspect(worktree) != Finding::Missing
        || !links_to(&aside, &worktree.admin_dir)
    {
        return Ok(false);
    }
    rename_to_free(&aside, &worktree.path)
        .context(|| format!("cannot put '{}' back", worktree.path.display()))?;
    Ok(true)
}

/// Deletes a folder that was judged to be saved; the link goes last, as it alone tells whose it is.
fn delete_removed(worktree: &Worktree) -> std::io::Result<()> {
    let removed = beside(&worktree.path, REMOVED);
    if !links_to(&removed, &worktree.admin_dir) {
        return Ok(());
    }
    empty(&removed, true)?;
    fs::remove_file(removed.join(".git"))?;
    fs::remove_dir(&removed)
}

/// Returns the name of a worktree's folder while it is being removed or made again: on the same file system, and hidden.
pub(super) fn beside(path: &Path, how: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(how);
    path.with_file_name(name)
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
        .filter(|path| *path != worktree.path && *path != beside(&worktree.path, REMOVED))
        .find(|path| links_to(path, &worktree.admin_dir))
        .and_then(|path| fs::canonicalize(path).ok())
}

/// Returns the worktree that git registered under the name of this path, where its folder is somewhere else by now: moved
/// with `git worktree move`, or made right after a move by hand.
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

/// Returns whether a folder's `.git` file names a place where nothing is, as it does after the repository was moved.
pub fn is_stale(worktree: &Worktree) -> bool {
    leads_nowhere(&worktree.path)
}

/// Returns whether a directory says that it is a worktree of a repository which is not there.
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
    delete_removed(worktree).context(|| format!("cannot remove '{}'", worktree.path.display()))?;
    remove_record(&worktree.admin_dir)
        .context(|| format!("cannot remove '{}'", worktree.admin_dir.display()))
}

/// Returns whether a folder's `.git` file names this admin directory.
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
        (Ok(target), Ok(admin_dir)) => target == admin_dir && read_gitdir(&admin_dir).is_some(),
        _ => false,
    }
}
