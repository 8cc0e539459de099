//! Finishes a worktree whose creator died half-way. No work was done in it yet: it is still locked as initializing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context, Result};
use crate::git::refs::{Expected, RefChange};
use crate::git::worktree::list::admin_dir_of;
use crate::git::worktree::place::remove_record;
use crate::git::worktree::recreate::is_initializing;
use crate::git::worktree::{branch, hook};
use crate::git::{ObjectId, Repo};

/// git's own lock reason for a worktree that is being created.
pub(super) const INITIALIZING: &str = "initializing";

/// Finishes the remains of a worktree on its own branch after its creator died. The caller knows that the creator is
/// dead.
///
/// If the worktree can be filled, fills it, keeps files that are not in the commit, and returns the commit. Otherwise
/// removes the traces, so that it can be added anew; deletes the branch only if it is still at `start`.
pub fn finish(
    repo: &Repo,
    path: &Path,
    branch: &str,
    start: Option<ObjectId>,
) -> Result<Option<ObjectId>> {
    let link = path.join(".git");
    let left = unfinished(repo, path);
    if let Some(admin_dir) = &left {
        let whole = ["HEAD", "commondir"].map(|name| admin_dir.join(name).is_file());
        if link.is_file()
            && whole == [true, true]
            && let Some(head) = repo.branch_tip(branch)?
        {
            fill(repo, admin_dir, path)?;
            hook::post_checkout(repo, path, head)?;
            return Ok(Some(head));
        }
        // The creator writes the link before the first file: without the link, the files are not its own.
        if holds_more_than(&link, path) {
            return Ok(None);
        }
        let _ = fs::remove_file(&link);
        remove_record(admin_dir).context(|| format!("cannot remove '{}'", admin_dir.display()))?;
    }
    if !link.exists()
        && let Some(start) = start
        && repo.branch_tip(branch)? == Some(start)
    {
        let change = RefChange {
            name: branch::full_name(branch)?,
            expected: Expected::At(start),
            new: None,
        };
        // If it moved meanwhile, it is in use, and stays.
        let _ = repo.swap_refs(&[change])?;
    }
    Ok(None)
}

/// Returns the admin directory of a worktree that is registered for a path and was never finished.
fn unfinished(repo: &Repo, path: &Path) -> Option<PathBuf> {
    let parent = fs::canonicalize(path.parent()?).ok()?;
    let path = parent.join(path.file_name()?);
    // A path has only one record, because git and we refuse to add another.
    let admin_dir = admin_dir_of(repo, &path).ok()??;
    is_initializing(&admin_dir).then_some(admin_dir)
}

fn holds_more_than(link: &Path, path: &Path) -> bool {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|found| found != link)
}

fn fill(repo: &Repo, admin_dir: &Path, path: &Path) -> Result<()> {
    // Both are from the dead creator: a lock without a holder, and an index that may be torn.
    for name in ["index.lock", "index"] {
        let _ = fs::remove_file(admin_dir.join(name));
    }
    repo.git_at(admin_dir, path)
        .with_hooks()
        .args(["reset", "--hard", "--quiet", "--no-recurse-submodules"])
        .run()?;
    fs::remove_file(admin_dir.join("locked")).context(|| "cannot unlock the worktree".into())
}
