//! Working trees for a moment: a commit's files somewhere on disk, for tests and hooks, gone afterwards.
//!
//! They are locked with a reason that names their purpose, so that git prunes none, and so that what a process that died
//! left behind is recognised: whoever holds the lock over a purpose may sweep all of it. The same for files that were on
//! their way to their final name: those are known by the pid of their maker.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::git::snapshot::capture::Checkout;
use crate::git::{ObjectId, Repo, worktree};

/// A working tree for a moment. It goes when dropped.
#[derive(Debug)]
pub struct Scratch<'a> {
    repo: &'a Repo,
    /// Where it is.
    pub checkout: Checkout,
    gone: bool,
}

impl<'a> Scratch<'a> {
    /// Makes one at a path that does not exist, with a commit checked out.
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
            .ok_or_else(|| Error::fatal(format!("'{}' is no worktree", path.display())))?;
        Ok(Scratch {
            repo,
            checkout: Checkout {
                admin_dir: known.admin_dir,
                top: known.path,
            },
            gone: false,
        })
    }

    /// Checks out another commit. Tracked and untracked files are exactly its; ignored ones stay, so that what was built
    /// need not be built again.
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

    /// Returns the top of the files.
    pub fn top(&self) -> &Path {
        &self.checkout.top
    }

    /// Takes it away.
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

/// Takes away what those who died left of a purpose. The caller knows that nobody else works for it now.
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

/// What files and directories on their way to their final name begin with; the pid of their maker follows.
const ON_ITS_WAY: [&str; 4] = ["index-", "packed-", "ref-", "worktree-"];
/// None is needed as long as this by another process than its maker.
const AGE: Duration = Duration::from_secs(60);

impl Repo {
    /// Returns what processes that died left in the directory for what is on its way to its final name.
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
        let removed = match is_dir {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
        removed.context(|| format!("cannot remove '{}'", path.display()))
    }
}

/// Returns the pid in a name of the form `<prefix><pid>-<more>`.
fn maker(name: &str) -> Option<Pid> {
    let rest = ON_ITS_WAY
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))?;
    Pid::from_raw(rest.split('-').next()?.parse().ok()?)
}

fn is_dead(pid: Pid) -> bool {
    test_kill_process(pid) == Err(Errno::SRCH)
}
