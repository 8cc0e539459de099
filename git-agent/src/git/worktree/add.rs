//! Adds a linked worktree on a new branch: registers it as git does, fills it by
//! [`checkout`](crate::git::worktree::checkout) or by git itself, and removes it completely on failure.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::git::worktree::branch::{self, Branch};
use crate::git::worktree::checkout::{self, Donor, Job, Refusal, Report};
use crate::git::worktree::finish::INITIALIZING;
use crate::git::worktree::hook::{self, Hook};
use crate::git::worktree::list::read_gitdir;
use crate::git::worktree::place::Undo;
use crate::git::{Git, ObjectId, Repo};

/// The worktree to add.
#[derive(Debug)]
pub struct AddOptions<'a> {
    /// The path: missing, or an empty directory.
    pub path: &'a Path,
    /// The short name of the branch to create.
    pub branch: &'a str,
    /// The commit at which it starts.
    pub start: ObjectId,
    /// The user's name for that commit, for the reflog; by default its id.
    pub start_name: Option<&'a str>,
    /// The preferred name of the admin directory; by default the last component of the path.
    pub name_hint: Option<&'a str>,
    /// Whether to leave the worktree without files.
    pub no_checkout: bool,
    /// Set by a signal handler to cancel and undo everything.
    pub interrupt: &'a AtomicBool,
}

/// How the files were created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Copied and written here.
    Fast(Report),
    /// Checked out by git, for this reason.
    Git(&'static str),
    /// No files were requested.
    NoCheckout,
}

/// The result of adding a worktree.
#[derive(Debug)]
pub struct Added {
    /// Its name below `worktrees/`.
    pub id: String,
    /// The real path.
    pub path: PathBuf,
    /// Its own git directory.
    pub admin_dir: PathBuf,
    /// How the files were created.
    pub way: Way,
    /// The result of the hook, if there is one. As in git, a failing hook does not undo the worktree.
    pub hook: Option<Hook>,
}

/// Adds a worktree. On an error nothing of it is left, and nothing else was changed.
pub fn add(repo: &Repo, options: &AddOptions<'_>) -> Result<Added> {
    let full_name = branch::full_name(options.branch)?;
    if repo.find_ref(&full_name)?.is_some() {
        return Err(branch::already_exists(options.branch));
    }
    let tree = repo
        .gix()
        .find_commit(options.start)
        .and_then(|commit| Ok(commit.tree_id()?.detach()))
        .context(|| format!("'{}' is not a commit", options.start))?;

    let mut undo = Undo::default();
    let path = undo.make_folder(options.path)?;
    refuse_registered(repo, &path)?;
    let branch = Branch::create(repo, options.branch, options.start, options.start_name)?;
    let added = fill(repo, options, &mut undo, &path, tree, &branch).inspect_err(|_| {
        branch.release(repo);
    })?;
    undo.keep();
    let hook = match added.way {
        Way::NoCheckout => None,
        _ => hook::post_checkout(repo, &added.path, options.start)?,
    };
    Ok(Added { hook, ..added })
}

fn fill(
    repo: &Repo,
    options: &AddOptions<'_>,
    undo: &mut Undo,
    path: &Path,
    tree: ObjectId,
    branch: &Branch,
) -> Result<Added> {
    let by_git = checkout::why_git(repo).or(branch.by_git);
    let admin_dir = match by_git {
        Some(_) => register_by_git(repo.git(), undo, path, options.branch)?,
        None => {
            let entry = WorktreeEntry {
                hint: match options.name_hint {
                    Some(hint) => OsStr::new(hint),
                    None => path.file_name().unwrap_or(OsStr::new("")),
                },
                folder: path,
                place: path,
                branch: &branch.full_name,
                log_line: branch.log_line.as_deref(),
            };
            register(repo, undo, &entry)?
        }
    };
    fault::point("worktree.registered").context(|| "cannot add the worktree".into())?;
    let way = if options.no_checkout {
        Way::NoCheckout
    } else {
        check_out(repo, options, undo, path, &admin_dir, tree, by_git)?
    };
    fault::point("worktree.filled").context(|| "cannot add the worktree".into())?;
    match fs::remove_file(admin_dir.join("locked")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::fatal("cannot unlock the new worktree").because(error));
        }
        _ => {}
    }
    Ok(Added {
        id: admin_dir
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        path: path.to_owned(),
        admin_dir,
        way,
        hook: None,
    })
}

/// The record of a worktree.
pub(super) struct WorktreeEntry<'a> {
    /// The preferred name of the admin directory.
    pub(super) hint: &'a OsStr,
    /// The directory of the files while the worktree is created.
    pub(super) folder: &'a Path,
    /// The final directory of the files.
    pub(super) place: &'a Path,
    /// The full name of the branch.
    pub(super) branch: &'a str,
    /// The first line of HEAD's reflog without a message, if it gets one.
    pub(super) log_line: Option<&'a str>,
}

/// Writes git's files for a new worktree on a branch.
pub(super) fn register(repo: &Repo, undo: &mut Undo, entry: &WorktreeEntry<'_>) -> Result<PathBuf> {
    let admin_dir = undo.make_admin_dir(repo, entry.hint, |staged| {
        fs::write(staged.join("gitdir"), line(b"", &entry.place.join(".git")))?;
        fs::write(staged.join("commondir"), "../..\n")?;
        fs::create_dir(staged.join("refs"))?;
        if let Some(line) = entry.log_line {
            branch::append_log(&staged.join("logs/HEAD"), line, "")?;
        }
        fs::write(staged.join("HEAD"), format!("ref: {}\n", entry.branch))
    })?;
    fs::write(entry.folder.join(".git"), line(b"gitdir: ", &admin_dir))
        .context(|| format!("cannot write to '{}'", entry.folder.display()))?;
    Ok(admin_dir)
}

fn line(prefix: &[u8], path: &Path) -> Vec<u8> {
    [prefix, path.as_os_str().as_bytes(), b"\n"].concat()
}

/// Lets git register the worktree according to its settings.
pub(super) fn register_by_git(
    git: Git,
    undo: &mut Undo,
    path: &Path,
    branch: &str,
) -> Result<PathBuf> {
    git.args(["worktree", "add", "--quiet", "--no-checkout"])
        // Locked until it is filled, which identifies the remains of a crash.
        .args(["--lock", "--reason", INITIALIZING, "--"])
        .arg(path)
        .arg(branch)
        .run()?;
    let text = fs::read(path.join(".git"))
        .context(|| format!("cannot read '{}'", path.join(".git").display()))?;
    let target = text
        .strip_prefix(b"gitdir: ")
        .map(|rest| rest.strip_suffix(b"\n").unwrap_or(rest))
        .unwrap_or_default();
    let target = path.join(OsStr::from_bytes(target));
    let admin_dir =
        fs::canonicalize(&target).context(|| format!("cannot resolve '{}'", target.display()))?;
    undo.adopt_admin_dir(admin_dir.clone());
    Ok(admin_dir)
}

fn check_out(
    repo: &Repo,
    options: &AddOptions<'_>,
    undo: &Undo,
    path: &Path,
    admin_dir: &Path,
    tree: ObjectId,
    by_git: Option<&'static str>,
) -> Result<Way> {
    let reason = match by_git {
        Some(reason) => reason,
        None => {
            let donor = main_donor(repo);
            let job = Job {
                tree,
                destination: path,
                index: &admin_dir.join("index"),
                donor: donor.as_ref(),
                recorded: false,
                interrupt: options.interrupt,
            };
            match checkout::check_out(repo, &job) {
                Ok(report) => {
                    finish_as_reset(repo, admin_dir, options.start)
                        .context(|| format!("cannot write to '{}'", admin_dir.display()))?;
                    return Ok(Way::Fast(report));
                }
                Err(Refusal::Failed(error)) => return Err(error),
                Err(Refusal::Git(reason)) => reason,
            }
        }
    };
    undo.clear()?;
    // The arguments with which `git worktree add` fills a worktree. Filters and hooks are the user's own.
    repo.git_at(admin_dir, path)
        .with_hooks()
        .args(["reset", "--hard", "--quiet", "--no-recurse-submodules"])
        .run()?;
    Ok(Way::Git(reason))
}

/// Writes the traces of the `git reset --hard` with which git would have filled the worktree.
pub(super) fn finish_as_reset(
    repo: &Repo,
    admin_dir: &Path,
    start: ObjectId,
) -> std::io::Result<()> {
    fs::write(admin_dir.join("ORIG_HEAD"), format!("{start}\n"))?;
    // In a worktree, git ignores `core.bare`: only an explicit setting prevents this line.
    let wanted = branch::log_setting(repo).unwrap_or(true);
    match branch::log_line(repo, start, start).filter(|_| wanted) {
        Some(line) => {
            branch::append_log(&admin_dir.join("logs/HEAD"), &line, "reset: moving to HEAD")
        }
        None => Ok(()),
    }
}

/// Returns the main worktree as a source for copies. Its index is the user's own.
pub(super) fn main_donor(repo: &Repo) -> Option<Donor> {
    let common = repo.common_dir();
    let root = if repo.is_linked_worktree() {
        let config = repo.gix().config_snapshot();
        if config.boolean("core.bare") == Some(true) || config.string("core.worktree").is_some() {
            return None;
        }
        (common.file_name()? == ".git")
            .then(|| common.parent())??
            .to_owned()
    } else {
        repo.work_tree()?.to_owned()
    };
    Some(Donor {
        root,
        index: common.join("index"),
    })
}

fn refuse_registered(repo: &Repo, path: &Path) -> Result<()> {
    let base = repo.common_dir().join("worktrees");
    for entry in fs::read_dir(&base).into_iter().flatten().flatten() {
        if read_gitdir(&entry.path()).is_some_and(|known| known == path) {
            return Err(Error::fatal(format!(
                "'{}' is a missing but already registered worktree",
                path.display()
            ))
            .hint("git worktree prune"));
        }
    }
    Ok(())
}
