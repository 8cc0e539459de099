//! Finishes a worktree whose maker died half-way. Nobody has worked in it yet: it is still locked as being made.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context, Result};
use crate::git::refs::{Expected, RefChange};
use crate::git::worktree::list::admin_dir_of;
use crate::git::worktree::place::remove_record;
use crate::git::worktree::recreate::is_initializing;
use crate::git::worktree::{branch, hook};
use crate::git::{ObjectId, Repo};

/// Why a worktree that is being made is locked: git's own word for it.
pub(super) const INITIALIZING: &str = "initializing";

/// Takes up what a dead maker left of a worktree on a branch of its own. The caller knows that no maker lives.
///
/// What can be filled is filled, files that are not in the commit stay, and the commit is returned. Of anything less
/// than that only the traces are removed, so that it can be added anew; a branch goes only if it is still at `start`.
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
        // The link is made before the first file: where there is one, somebody else put it there.
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
        // Moved meanwhile: then somebody uses it, and it stays.
        let _ = repo.swap_refs(&[change])?;
    }
    Ok(None)
}

/// Returns the admin directory of a worktree that is registered for a path and was never finished.
fn unfinished(repo: &Repo, path: &Path) -> Option<PathBuf> {
    let parent = fs::canonicalize(path.parent()?).ok()?;
    let path = parent.join(path.file_name()?);
    // A path has one record: git and we refuse to add another.
    let admin_dir = admin_dir_of(repo, &path).ok()??;
    is_initializing(&admin_dir).then_some(admin_dir)
}

fn holds_more_than(link: &Path, path: &Path) -> bool {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|found| found != link)
}

fn fill(repo: &Repo, admin_dir: &Path, path: &Path) -> Result<()> {
    // Both were written by the dead maker: a lock that nobody holds, and an index that may be torn.
    for name in ["index.lock", "index"] {
        let _ = fs::remove_file(admin_dir.join(name));
    }
    repo.git_at(admin_dir, path)
        .with_hooks()
        .args(["reset", "--hard", "--quiet", "--no-recurse-submodules"])
        .run()?;
    fs::remove_file(admin_dir.join("locked")).context(|| "cannot unlock the worktree".into())
}
