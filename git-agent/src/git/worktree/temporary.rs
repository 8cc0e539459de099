//! Temporary worktrees: a commit's files on disk, for tests and hooks, removed afterwards.
//!
//! They are locked with a reason that names their purpose, so that git does not prune them and the remains of a dead
//! process are recognised: the holder of the lock over a purpose may remove all of them. Temporary files are recognised
//! by the pid of their creator.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::git::snapshot::capture::Checkout;
use crate::git::{ObjectId, Repo, worktree};

/// A temporary worktree, removed on drop.
#[derive(Debug)]
pub struct Scratch<'a> {
    repo: &'a Repo,
    /// Its location.
    pub checkout: Checkout,
    gone: bool,
}

impl<'a> Scratch<'a> {
    /// Creates one at a missing path, with a commit checked out.
    pub fn add(repo: &'a Repo, path: &Path, commit: ObjectId, purpose: &str) -> Result<Self> {
        fault::point("scratch.before").context(|| "cannot add a worktree".into())?;
        repo.git_common()
            .args(["worktree", "add", "--quiet", "--detach", "--lock"])
            .args(["--reason", purpose])
            .arg(path)
            .arg(commit.to_string())
            .run()?;
        fault::point("scratch.added").context(|| "cannot add a worktree".into())?;
        let path =
            std::fs::canonicalize(path).context(|| format!("cannot find '{}'", path.display()))?;
        let known = worktree::list(repo)?
            .into_iter()
            .find(|known| known.path == path)
            .ok_or_else(|| Error::fatal(format!("'{}' is not a worktree", path.display())))?;
        Ok(Scratch {
            repo,
            checkout: Checkout {
                admin_dir: known.admin_dir,
                top: known.path,
            },
            gone: false,
        })
    }

    /// Checks out another commit. Tracked and untracked files become exactly its own; ignored ones stay, so that build
    /// results are reused.
    pub fn go_to(&self, commit: ObjectId) -> Result<()> {
        let git = || {
            self.repo
                .git_at(&self.checkout.admin_dir, &self.checkout.top)
        };
        git()
            .args(["checkout", "--quiet", "--force", "--detach"])
            .arg(commit.to_string())
            .run()?;
        git().args(["clean", "--quiet", "-ffd"]).run()?;
        Ok(())
    }

    /// Removes it.
    pub fn remove(mut self) -> Result<()> {
        self.gone = true;
        fault::point("scratch.leaving").context(|| "cannot remove a worktree".into())?;
        remove(self.repo, &self.checkout.top)
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if !self.gone {
            let _ = remove(self.repo, &self.checkout.top);
        }
    }
}

fn remove(repo: &Repo, top: &Path) -> Result<()> {
    repo.git_common()
        .args(["worktree", "remove", "--force", "--force"])
        .arg(top)
        .run()
        .map(|_| ())
}

/// Removes the worktrees of a purpose that dead processes left. The caller knows that no other process uses it now.
pub fn sweep(repo: &Repo, purpose: &str) -> Result<Vec<PathBuf>> {
    let mut swept = Vec::new();
    for known in worktree::list(repo)? {
        if known.locked.as_deref() == Some(purpose) && !known.is_main() {
            remove(repo, &known.path)?;
            swept.push(known.path);
        }
    }
    Ok(swept)
}

/// No other process than the creator needs one for as long as this.
const AGE: Duration = Duration::from_secs(60);

impl Repo {
    /// Returns the temporary files and directories that dead processes left.
    pub fn dead_scratch(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.scratch_dir());
        let entries = entries.into_iter().flatten().flatten();
        entries
            .filter(|entry| {
                let name = entry.file_name();
                let pid = name.to_str().and_then(maker);
                let age = entry.metadata().and_then(|meta| meta.modified());
                let age = age.ok().and_then(|then| then.elapsed().ok());
                pid.is_some_and(is_dead) && age.is_some_and(|age| age > AGE)
            })
            .map(|entry| entry.path())
            .collect()
    }

    /// Removes one of those.
    pub fn remove_dead_scratch(&self, path: &Path) -> Result<()> {
        let is_dir = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
        let removed = if is_dir {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        removed.context(|| format!("cannot remove '{}'", path.display()))
    }
}

/// Returns the pid in a name of the form `<words>-<pid>` or `<words>-<pid>-<more>`: all our names there are.
fn maker(name: &str) -> Option<Pid> {
    let mut fields = name.split('-').skip(1);
    fields.find_map(|field| Pid::from_raw(field.parse().ok()?))
}

fn is_dead(pid: Pid) -> bool {
    test_kill_process(pid) == Err(Errno::SRCH)
}
