//! Lists worktrees from git's own records, in the order and with the words of `git worktree list --porcelain -z`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Context, Error, Result};
use crate::git::command::Answer;
use crate::git::refs::Target;
use crate::git::worktree::finish::INITIALIZING;
use crate::git::{ObjectId, RefBackend, Repo};

/// How often git is asked for its list, and the delay in between: creating the files of a worktree takes a moment.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(25);

/// One worktree that git knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its name below `worktrees/`; `None` for the main one.
    pub id: Option<String>,
    /// The top directory, which may be missing.
    pub path: PathBuf,
    /// Its own git directory.
    pub admin_dir: PathBuf,
    /// The full name of the branch that is checked out; `None` if HEAD is detached.
    pub branch: Option<String>,
    /// The commit of HEAD; `None` if the branch has none yet.
    pub head: Option<ObjectId>,
    /// The reason of its lock, if it is locked; often empty.
    pub locked: Option<String>,
    /// The reason why git would prune it, if it would.
    pub prunable: Option<String>,
    /// Whether it is a bare repository.
    pub bare: bool,
}

impl Worktree {
    /// Returns whether it is still being created, or its creator died.
    pub fn is_initializing(&self) -> bool {
        self.locked.as_deref() == Some(INITIALIZING)
    }

    /// Returns whether this is the main worktree.
    pub fn is_main(&self) -> bool {
        self.id.is_none()
    }
}

/// Returns all worktrees, the main one first, the others by path.
pub fn list(repo: &Repo) -> Result<Vec<Worktree>> {
    let mut all = vec![main(repo)?];
    let mut linked = Vec::new();
    for admin_dir in admin_dirs(repo)? {
        linked.extend(linked_at(repo, &admin_dir)?);
    }
    linked.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    all.extend(linked);
    if repo.ref_backend() == RefBackend::Reftable {
        add_heads_from_git(repo, &mut all)?;
    }
    Ok(all)
}

/// Returns the HEAD of each worktree by its top: a branch, even without a commit, or a commit. There may be many
/// worktrees, and nothing else of them is read.
pub fn heads(repo: &Repo) -> Result<Vec<(PathBuf, Target)>> {
    if repo.ref_backend() == RefBackend::Reftable {
        let head = |worktree: Worktree| {
            let target = match worktree.branch {
                Some(branch) => Target::Symbolic(branch),
                None => Target::Object(worktree.head?),
            };
            Some((worktree.path, target))
        };
        return Ok(list(repo)?.into_iter().filter_map(head).collect());
    }
    let mut heads = Vec::new();
    let (path, bare) = main_path(repo)?;
    if !bare {
        let head = head_at(repo, repo.common_dir())?;
        heads.extend(head.map(|head| (path, head)));
    }
    for admin_dir in admin_dirs(repo)? {
        if let Some(path) = read_gitdir(&admin_dir) {
            heads.extend(head_at(repo, &admin_dir)?.map(|head| (path, head)));
        }
    }
    Ok(heads)
}

/// Returns the own git directories of all linked worktrees.
pub(super) fn admin_dirs(repo: &Repo) -> Result<Vec<PathBuf>> {
    let base = repo.common_dir().join("worktrees");
    let cannot = || format!("cannot read '{}'", base.display());
    let entries = match fs::read_dir(&base) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::fatal(cannot()).because(error)),
    };
    entries
        .map(|entry| Ok(entry.context(cannot)?.path()))
        .collect()
}

/// Returns the own git directory of the linked worktree at a path; `None` if git knows none there.
pub fn admin_dir_of(repo: &Repo, path: &Path) -> Result<Option<PathBuf>> {
    let is_it = |admin_dir: &PathBuf| read_gitdir(admin_dir).is_some_and(|top| top == path);
    // git names it after the directory if that name is free.
    let likely = (path.file_name()).map(|name| repo.common_dir().join("worktrees").join(name));
    match likely.filter(is_it) {
        Some(likely) => Ok(Some(likely)),
        None => Ok(admin_dirs(repo)?.into_iter().find(is_it)),
    }
}

/// Returns the linked worktree with this admin directory; `None` if git would not list it either.
pub(super) fn linked_at(repo: &Repo, admin_dir: &Path) -> Result<Option<Worktree>> {
    let Some(path) = read_gitdir(admin_dir) else {
        return Ok(None);
    };
    let Some(id) = admin_dir.file_name().and_then(OsStr::to_str) else {
        return Ok(None);
    };
    let locked = fs::read(admin_dir.join("locked"))
        .ok()
        .map(|reason| String::from_utf8_lossy(&reason).trim_end().to_owned());
    let prunable = match &locked {
        Some(_) => None,
        // A worktree with an unreadable path is not listed at all.
        None => match fs::symlink_metadata(path.join(".git")) {
            Ok(_) => None,
            Err(_) => Some("gitdir file points to non-existent location".to_owned()),
        },
    };
    let (branch, head) = head_of(repo, admin_dir)?;
    Ok(Some(Worktree {
        id: Some(id.to_owned()),
        path,
        admin_dir: admin_dir.to_owned(),
        branch,
        head,
        locked,
        prunable,
        bare: false,
    }))
}

fn main(repo: &Repo) -> Result<Worktree> {
    let (path, bare) = main_path(repo)?;
    let (branch, head) = if bare {
        (None, None)
    } else {
        head_of(repo, repo.common_dir())?
    };
    Ok(Worktree {
        id: None,
        path,
        admin_dir: repo.common_dir().to_owned(),
        branch,
        head,
        locked: None,
        prunable: None,
        bare,
    })
}

/// Returns the path of the main worktree, and whether the repository is bare.
fn main_path(repo: &Repo) -> Result<(PathBuf, bool)> {
    let common = repo.common_dir();
    let top = repo.main_work_tree();
    // A variable may give a bare repository files.
    let bare = top.is_none() && repo.config_bool("core.bare")?.unwrap_or(false);
    // If the location of the files is unknown, git lists the repository itself, by this rule.
    let path = top.unwrap_or_else(|| match (common.file_name(), common.parent()) {
        (Some(name), Some(parent)) if name == ".git" => parent.to_owned(),
        _ => common.to_owned(),
    });
    Ok((path, bare))
}

/// Returns the top directory that an admin directory names.
pub(super) fn read_gitdir(admin_dir: &Path) -> Option<PathBuf> {
    let mut text = fs::read(admin_dir.join("gitdir")).ok()?;
    while text.last().is_some_and(u8::is_ascii_whitespace) {
        text.pop();
    }
    if text.is_empty() {
        return None;
    }
    if text.ends_with(b"/.git") {
        text.truncate(text.len() - b"/.git".len());
    }
    let path = PathBuf::from(std::ffi::OsString::from_vec(text));
    Some(if path.is_absolute() {
        path
    } else {
        crate::git::worktree::place::normalize(&admin_dir.join(path))
    })
}

/// Reads HEAD of one worktree: the branch and the commit, if it has them.
fn head_of(repo: &Repo, git_dir: &Path) -> Result<(Option<String>, Option<ObjectId>)> {
    if repo.ref_backend() == RefBackend::Reftable {
        return Ok((None, None));
    }
    Ok(match head_at(repo, git_dir)? {
        None => (None, None),
        Some(Target::Object(id)) => (None, Some(id)),
        Some(Target::Symbolic(name)) => {
            let id = repo.find_ref(&name).unwrap_or(None);
            (Some(name), id)
        }
    })
}

/// Reads the HEAD file of one worktree.
fn head_at(repo: &Repo, git_dir: &Path) -> Result<Option<Target>> {
    let path = git_dir.join("HEAD");
    let head = match fs::read(&path) {
        Ok(head) => head,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Error::fatal(format!("cannot read '{}'", path.display())).because(error));
        }
    };
    let head = String::from_utf8_lossy(head.trim_ascii_end()).into_owned();
    Ok(match head.strip_prefix("ref:") {
        Some(name) => Some(Target::Symbolic(name.trim_start().to_owned())),
        None => {
            let id = repo.parse_id(&head).ok().filter(|id| !id.is_null());
            id.map(Target::Object)
        }
    })
}

/// Returns the output of `git worktree list`, with fields ended by NUL. git fails on a worktree that is just being
/// created, so it is asked again.
fn as_git_lists(repo: &Repo) -> Result<Answer> {
    let mut patience = ATTEMPTS;
    loop {
        let answer = repo
            .git_common()
            .args(["worktree", "list", "--porcelain", "-z"])
            .run();
        patience -= 1;
        if answer.is_ok() || patience == 0 {
            return answer;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Asks git for the heads, which are not in files on reftable.
fn add_heads_from_git(repo: &Repo, worktrees: &mut [Worktree]) -> Result<()> {
    let answer = as_git_lists(repo)?;
    let mut current = None;
    let mut is_first = true;
    for field in answer.stdout.split(|byte| *byte == 0) {
        let (key, value) = match field.iter().position(|byte| *byte == b' ') {
            Some(space) => (&field[..space], &field[space + 1..]),
            None => (field, &[][..]),
        };
        match key {
            b"worktree" => {
                // The first is the main worktree, whatever path git gives.
                let path = Path::new(OsStr::from_bytes(value));
                let main = std::mem::take(&mut is_first);
                current = worktrees
                    .iter_mut()
                    .find(|known| known.is_main() == main && (main || known.path == path));
            }
            b"HEAD" => {
                if let Some(worktree) = &mut current {
                    let id = repo.parse_id(&String::from_utf8_lossy(value))?;
                    worktree.head = (!id.is_null()).then_some(id);
                }
            }
            b"branch" => {
                if let Some(worktree) = &mut current {
                    worktree.branch = Some(String::from_utf8_lossy(value).into_owned());
                }
            }
            _ => {}
        }
    }
    Ok(())
}
