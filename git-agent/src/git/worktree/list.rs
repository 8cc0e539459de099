//! Lists worktrees from git's own records, in the order and with the words of `git worktree list --porcelain -z`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Context, Error, Result};
use crate::git::command::Answer;
use crate::git::{ObjectId, RefBackend, Repo};

/// How often git is asked for its list, and how long to wait in between: making the files of a worktree takes a moment.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(25);

/// One worktree that git knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its name below `worktrees/`; `None` for the main one.
    pub id: Option<String>,
    /// Its top directory, which may be gone.
    pub path: PathBuf,
    /// Its own git directory.
    pub admin_dir: PathBuf,
    /// The full name of the branch that is checked out; `None` if HEAD is detached.
    pub branch: Option<String>,
    /// What HEAD points at; `None` if the branch has no commit yet.
    pub head: Option<ObjectId>,
    /// Why it is locked, if it is; often empty.
    pub locked: Option<String>,
    /// Why git would forget it, if it would.
    pub prunable: Option<String>,
    /// Whether it is a repository without files.
    pub bare: bool,
}

impl Worktree {
    /// Returns whether this is the main worktree.
    pub fn is_main(&self) -> bool {
        self.id.is_none()
    }
}

/// Returns all worktrees, the main one first, the others by path.
pub fn list(repo: &Repo) -> Result<Vec<Worktree>> {
    let mut all = vec![main(repo)?];
    let mut linked = Vec::new();
    let base = repo.common_dir().join("worktrees");
    let cannot = || format!("cannot read '{}'", base.display());
    let entries = match fs::read_dir(&base) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::fatal(cannot()).because(error)),
    };
    for entry in entries.into_iter().flatten() {
        let entry = entry.context(cannot)?;
        if let Some(worktree) = linked_at(repo, &entry.path())? {
            linked.push(worktree);
        }
    }
    linked.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    all.extend(linked);
    if repo.ref_backend() == RefBackend::Reftable {
        add_heads_from_git(repo, &mut all)?;
    }
    Ok(all)
}

/// Returns the own git directory of the linked worktree at a path; `None` when git knows of none there.
pub fn admin_dir_of(repo: &Repo, path: &Path) -> Result<Option<PathBuf>> {
    let base = repo.common_dir().join("worktrees");
    let is_it = |admin_dir: &Path| read_gitdir(admin_dir).is_some_and(|top| top == path);
    // git names it after the directory, where that name is free.
    if let Some(likely) = path.file_name().map(|name| base.join(name))
        && is_it(&likely)
    {
        return Ok(Some(likely));
    }
    let cannot = || format!("cannot read '{}'", base.display());
    let entries = match fs::read_dir(&base) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::fatal(cannot()).because(error)),
    };
    for entry in entries {
        let admin_dir = entry.context(cannot)?.path();
        if is_it(&admin_dir) {
            return Ok(Some(admin_dir));
        }
    }
    Ok(None)
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
        None => prunable(admin_dir),
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
    let common = repo.common_dir();
    let top = repo.main_work_tree();
    // A variable may give a bare repository files.
    let bare = top.is_none() && repo.config_bool("core.bare")?.unwrap_or(false);
    // Where nothing tells where the files are git lists the repository itself, by this rule.
    let path = top.unwrap_or_else(|| match (common.file_name(), common.parent()) {
        (Some(name), Some(parent)) if name == ".git" => parent.to_owned(),
        _ => common.to_owned(),
    });
    let (branch, head) = if bare {
        (None, None)
    } else {
        head_of(repo, common)?
    };
    Ok(Worktree {
        id: None,
        path,
        admin_dir: common.to_owned(),
        branch,
        head,
        locked: None,
        prunable: None,
        bare,
    })
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
        super::place::normalize(&admin_dir.join(path))
    })
}

fn prunable(admin_dir: &Path) -> Option<String> {
    let gitdir = match fs::read(admin_dir.join("gitdir")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Some("gitdir file does not exist".to_owned());
        }
        Err(error) => return Some(format!("unable to read gitdir file ({error})")),
    };
    if gitdir.trim_ascii_end().is_empty() {
        return Some("invalid gitdir file".to_owned());
    }
    let top = read_gitdir(admin_dir)?;
    if fs::symlink_metadata(top.join(".git")).is_err() {
        return Some("gitdir file points to non-existent location".to_owned());
    }
    None
}

/// Reads HEAD of one worktree: the branch, if any, and the commit, if any.
fn head_of(repo: &Repo, git_dir: &Path) -> Result<(Option<String>, Option<ObjectId>)> {
    if repo.ref_backend() == RefBackend::Reftable {
        return Ok((None, None));
    }
    let path = git_dir.join("HEAD");
    let head = match fs::read(&path) {
        Ok(head) => head,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, None)),
        Err(error) => {
            return Err(Error::fatal(format!("cannot read '{}'", path.display())).because(error));
        }
    };
    let head = String::from_utf8_lossy(head.trim_ascii_end()).into_owned();
    match head.strip_prefix("ref:") {
        Some(name) => {
            let name = name.trim_start().to_owned();
            let id = repo.find_ref(&name).unwrap_or(None);
            Ok((Some(name), id))
        }
        None => Ok((None, repo.parse_id(&head).ok().filter(|id| !id.is_null()))),
    }
}

/// Returns what `git worktree list` says, fields ended by NUL. Git gives up on a worktree that somebody is just making, so
/// it is asked again.
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

/// Asks git for the heads, which no file tells on reftable.
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
                // The first is the main one, wherever git believes it to be.
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
