//! Recreates a worktree on an existing branch: fills it beside its place, and renames it into place.
//!
//! A process that dies on the way leaves no worktree, so that a half-made one is never taken for a session's work. The
//! next attempt removes the remains.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::file::{self, Durability};
use crate::git::snapshot::Snapshot;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::restore::Target;
use crate::git::worktree::add::{
    WorktreeEntry, finish_as_reset, main_donor, register, register_by_git,
};
use crate::git::worktree::branch;
use crate::git::worktree::checkout::{self, Job, Refusal};
use crate::git::worktree::finish::INITIALIZING;
use crate::git::worktree::list::{admin_dirs, read_gitdir};
use crate::git::worktree::place::{Undo, remove_record, rename_to_free};
use crate::git::worktree::remove::{beside, links_to};
use crate::git::{ObjectId, Repo};

/// The suffix of a folder's name while it is filled.
const RESTORING: &str = ".restoring";

/// A worktree that is filled beside its place. If it is dropped before the rename, nothing is left.
#[derive(Debug)]
pub struct Again {
    undo: Undo,
    path: PathBuf,
    at: Checkout,
}

impl Again {
    /// Creates a worktree for a free path, with the files of a snapshot or else of the branch. The caller knows that no
    /// other process creates it.
    pub fn make(
        repo: &Repo,
        path: &Path,
        branch: &str,
        snapshot: Option<&Snapshot>,
    ) -> Result<Self> {
        let cannot = || format!("cannot create the worktree '{}'", path.display());
        let full_name = branch::full_name(branch)?;
        let tip = repo
            .branch_tip(branch)?
            .ok_or_else(|| Error::fatal(format!("branch '{branch}' does not exist")))?;
        let mut undo = Undo::default();
        let aside = undo.make_folder(&beside(path, RESTORING))?;
        let place = aside.with_file_name(path.file_name().unwrap_or_default());
        let by_git = checkout::why_git(repo);
        let admin_dir = match by_git {
            Some(_) => {
                let admin_dir = register_by_git(repo.git_common(), &mut undo, &aside, branch)?;
                name_place(&admin_dir, &aside, &place)?;
                admin_dir
            }
            None => {
                let log_line = branch::log_line(repo, repo.null_id(), tip);
                let log_line = log_line.filter(|_| branch::logs_refs(repo));
                let entry = WorktreeEntry {
                    hint: place.file_name().unwrap_or_default(),
                    folder: &aside,
                    place: &place,
                    branch: &full_name,
                    log_line: log_line.as_deref(),
                };
                register(repo, &mut undo, &entry)?
            }
        };
        fault::point("again.registered").context(cannot)?;
        let again = Again {
            undo,
            path: place,
            at: Checkout {
                admin_dir,
                top: aside,
            },
        };
        again.fill(repo, tip, snapshot, by_git.is_none())?;
        fault::point("again.filled").context(cannot)?;
        Ok(again)
    }

    /// Returns the temporary location of its files.
    pub fn checkout(&self) -> &Checkout {
        &self.at
    }

    /// Renames the worktree to its place. From then on it is complete.
    pub fn put_in_place(self) -> Result<Checkout> {
        let Again { undo, path, at } = self;
        let cannot = || format!("cannot create the worktree '{}'", path.display());
        // After a power cut a name must not exist before its bytes.
        let top = fs::File::open(&at.top).context(cannot)?;
        rustix::fs::syncfs(&top).context(cannot)?;
        fs::remove_file(at.admin_dir.join("locked")).context(cannot)?;
        fault::point("again.unlocked").context(cannot)?;
        rename_to_free(&at.top, &path).context(cannot)?;
        undo.keep();
        fault::point("again.placed").context(cannot)?;
        Ok(Checkout {
            admin_dir: at.admin_dir,
            top: path,
        })
    }

    fn fill(
        &self,
        repo: &Repo,
        tip: ObjectId,
        snapshot: Option<&Snapshot>,
        fast: bool,
    ) -> Result<()> {
        let at = &self.at;
        let target = snapshot.map(Target::from);
        let tree = match &target {
            Some(target) => target.tree,
            None => repo.tree_of(tip)?,
        };
        if fast {
            let donor = main_donor(repo);
            let job = Job {
                tree,
                destination: &at.top,
                index: &at.admin_dir.join("index"),
                donor: donor.as_ref(),
                recorded: target.is_some(),
                interrupt: &AtomicBool::new(false),
            };
            match checkout::check_out(repo, &job) {
                Ok(_) => {
                    finish_as_reset(repo, &at.admin_dir, tip)
                        .context(|| format!("cannot write to '{}'", at.admin_dir.display()))?;
                    return match &target {
                        Some(target) => repo.complete(at, target).map(drop),
                        None => Ok(()),
                    };
                }
                Err(Refusal::Failed(error)) => return Err(error),
                Err(Refusal::Git(_)) => self.undo.clear()?,
            }
        }
        // The arguments with which `git worktree add` fills a worktree.
        repo.git_at(&at.admin_dir, &at.top)
            .args(["reset", "--hard", "--quiet", "--no-recurse-submodules"])
            .run()?;
        match snapshot {
            Some(snapshot) => repo.restore(at, snapshot, None).map(drop),
            None => Ok(()),
        }
    }
}

/// Changes a record that git wrote for the temporary folder to name the final one.
fn name_place(admin_dir: &Path, aside: &Path, place: &Path) -> Result<()> {
    let record = admin_dir.join("gitdir");
    let text = fs::read(&record).context(|| format!("cannot read '{}'", record.display()))?;
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or_default().as_bytes().to_vec();
        [b"/", name.as_slice(), b"/.git"].concat()
    };
    let (from, to) = (name(aside), name(place));
    let end = text.trim_ascii_end();
    let Some(above) = end.strip_suffix(from.as_slice()) else {
        return Err(Error::fatal(format!(
            "'{}' does not name '{}'",
            record.display(),
            aside.display()
        )));
    };
    let text = [above, &to, b"\n"].concat();
    file::replace_with_mode(&record, &text, 0o644, Durability::Volatile)
}

/// The remains of a worktree whose creator died.
#[derive(Debug, Default)]
pub struct Remains {
    /// Unfinished records of git.
    pub records: Vec<PathBuf>,
    /// A folder beside the worktree's place.
    pub folder: Option<PathBuf>,
    /// Whether the place itself has a folder with files and an unfinished record.
    pub half: bool,
}

impl Remains {
    /// Returns whether nothing remains.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.folder.is_none()
    }
}

/// Finds the remains of a worktree for a place. While another process creates it, these are that process's files.
pub fn remains(repo: &Repo, path: &Path) -> Result<Remains> {
    let mut found = Remains::default();
    let aside = beside(path, RESTORING);
    for admin_dir in admin_dirs(repo)? {
        let place = read_gitdir(&admin_dir);
        let same_name = admin_dir.file_name() == path.file_name();
        let concerns = match place.as_deref() {
            Some(place) => place == path || place == aside,
            None => same_name,
        };
        let locked = is_initializing(&admin_dir);
        let half_way = links_to(&aside, &admin_dir) && fs::symlink_metadata(path).is_err();
        if !concerns || !(locked || half_way) {
            continue;
        }
        found.half |= place.as_deref() == Some(path) && holds_files(path);
        found.records.push(admin_dir);
    }
    if is_ours(repo, &aside) {
        found.folder = Some(aside);
    }
    Ok(found)
}

/// Removes the remains of a worktree whose creator died. The caller knows that no other process creates it now.
pub fn sweep(remains: &Remains, path: &Path) -> Result<()> {
    if remains.half {
        return Err(Error::fatal(format!(
            "'{}' contains files and was never finished",
            path.display()
        )));
    }
    let cannot = |what: &Path| format!("cannot remove '{}'", what.display());
    // The records come first: without them nothing refers to the folders.
    for record in &remains.records {
        if read_gitdir(record).as_deref() == Some(path) {
            let _ = fs::remove_file(path.join(".git"));
            let _ = fs::remove_dir(path);
        }
        remove_record(record).context(|| cannot(record))?;
    }
    if let Some(folder) = &remains.folder {
        fs::remove_dir_all(folder).context(|| cannot(folder))?;
    }
    Ok(())
}

/// Returns whether a worktree is still being created, or its creator died.
pub fn is_initializing(admin_dir: &Path) -> bool {
    fs::read(admin_dir.join("locked"))
        .is_ok_and(|reason| reason.trim_ascii() == INITIALIZING.as_bytes())
}

fn holds_files(path: &Path) -> bool {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name() != ".git")
}

/// Returns whether a folder beside a worktree's place is ours: empty, or linked to a record of this repository.
fn is_ours(repo: &Repo, aside: &Path) -> bool {
    if !fs::symlink_metadata(aside).is_ok_and(|meta| meta.is_dir()) {
        return false;
    }
    let base = repo.common_dir().join("worktrees");
    match fs::read(aside.join(".git")) {
        Ok(text) => {
            let target = text.strip_prefix(b"gitdir: ").unwrap_or_default();
            let target = aside.join(std::ffi::OsStr::from_bytes(target.trim_ascii_end()));
            crate::git::worktree::place::normalize(&target).parent() == Some(base.as_path())
        }
        Err(_) => !holds_files(aside),
    }
}
