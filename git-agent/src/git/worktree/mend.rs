//! Mends the record of a worktree whose files are there: an index that cannot be read, and a record that is gone. No file
//! of the worktree is touched.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result, shell_path};
use crate::git::Repo;
use crate::git::snapshot::capture::Checkout;
use crate::git::worktree::list::{admin_dir_of, list};
use crate::git::worktree::place::staging_place;
use crate::git::worktree::remove::{Finding, inspect, leads_nowhere, repair};

/// Makes the index of a worktree again from HEAD. The caller has put the damaged one aside.
pub fn rebuild_index(repo: &Repo, at: &Checkout) -> Result<()> {
    let _record = repo.record_locks(repo.locks_of_checkout(at))?;
    // Not `reset`: that would end a merge that is in progress.
    repo.git_at(&at.admin_dir, &at.top)
        .args(["read-tree", "HEAD"])
        .run()
        .map(drop)
}

/// Returns the record of a worktree that its folder names, if this repository had it and it is gone.
pub fn lost_record(repo: &Repo, path: &Path) -> Result<Option<PathBuf>> {
    if !leads_nowhere(path) || admin_dir_of(repo, path)?.is_some() {
        return Ok(None);
    }
    let link = path.join(".git");
    let text = fs::read(&link).context(|| format!("cannot read '{}'", link.display()))?;
    let named = text.strip_prefix(b"gitdir:").unwrap_or_default();
    let named = path.join(OsStr::from_bytes(named.trim_ascii()));
    // `worktrees` goes with the last record in it.
    let base = named.parent().filter(|base| base.ends_with("worktrees"));
    let home = base.and_then(Path::parent).map(fs::canonicalize);
    let ours = fs::canonicalize(repo.common_dir());
    let is_ours = matches!((home, ours), (Some(Ok(home)), Ok(ours)) if home == ours);
    Ok(is_ours.then_some(named))
}

/// Makes the record again that [`lost_record`] returned, on a branch, with the index of its tip.
pub fn register_again(repo: &Repo, path: &Path, record: &Path, branch: &str) -> Result<()> {
    let cannot = || format!("cannot register the worktree '{}'", path.display());
    let full = format!("refs/heads/{branch}");
    let staging = staging_place(repo.common_dir()).context(cannot)?;
    let parent = staging.parent().unwrap_or(&staging);
    for known in list(repo)? {
        let elsewhere = known.branch.as_deref() == Some(&full) && !known.path.starts_with(parent);
        if elsewhere && inspect(&known) == Finding::InPlace {
            let word = shell_path(&known.path);
            return Err(Error::fatal(format!(
                "branch '{branch}' is checked out in '{}'",
                known.path.display()
            ))
            .hint(format!("git -C {word} switch --detach")));
        }
    }
    // git names the record after the folder. It is made in a folder without files, and led to the real one when it is whole.
    let folder = staging.join(record.file_name().unwrap_or_default());
    let made = register(repo, &folder, (path, branch));
    let removed = fs::remove_dir_all(&staging);
    made?;
    removed.context(cannot)
}

fn register(repo: &Repo, folder: &Path, (path, branch): (&Path, &str)) -> Result<()> {
    let cannot = || format!("cannot register the worktree '{}'", path.display());
    repo.git_common()
        .args([
            "worktree",
            "add",
            "--quiet",
            "--no-checkout",
            "--force",
            "--",
        ])
        .arg(folder)
        .arg(branch)
        .run()?;
    let folder = fs::canonicalize(folder).context(cannot)?;
    let admin_dir = admin_dir_of(repo, &folder)?
        .ok_or_else(|| Error::fatal(format!("git did not register '{}'", folder.display())))?;
    let at = Checkout {
        admin_dir,
        top: folder,
    };
    rebuild_index(repo, &at)?;
    let link = [b"gitdir: ", at.admin_dir.as_os_str().as_bytes(), b"\n"].concat();
    fs::write(path.join(".git"), link).context(cannot)?;
    // The record follows the link.
    repair(repo, path)?;
    match admin_dir_of(repo, path)? {
        Some(_) => Ok(()),
        None => Err(Error::fatal("git could not repair it")),
    }
}
