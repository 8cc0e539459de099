//! Resolves a conflict by hand: opens it in a temporary worktree until the user continues or aborts.

use std::collections::HashSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{Context as _, Error, Result, shell_word};
use crate::file::{self, Durability};
use crate::git::snapshot::capture::Checkout;
use crate::git::{Git, ObjectId, worktree};
use crate::merge::resolve::{Case, check, land};
use crate::model::session::{Session, SessionId};
use crate::session::caller::{self, Act};
use crate::session::create::location;

/// The record of an open resolution, `resolve/<sid>.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Open {
    /// The session's name.
    pub name: String,
    /// The branch it conflicts with.
    pub target: String,
    /// The session's commit.
    pub ours: String,
    /// The branch's commit.
    pub theirs: String,
    /// The worktree with the open conflict.
    #[serde(with = "crate::model::review::path::as_text")]
    pub path: PathBuf,
    /// The conflicting paths.
    pub conflicts: Vec<String>,
    /// The message of the merge commit.
    pub message: String,
}

/// Opens the conflict of a session with a branch for the user, in a worktree of its own. `None` when there is none.
pub fn begin(context: &Context<'_>, session: &Session, target: &str) -> Result<Option<Open>> {
    require_none_open(context, session)?;
    match Case::open(context, session, target)? {
        Some(case) => open(context, &case).map(Some),
        None => Ok(None),
    }
}

/// Refuses to begin another resolution, or any for an agent that may not resolve.
pub fn require_none_open(context: &Context<'_>, session: &Session) -> Result<()> {
    caller::permit(context, Act::Resolve, [session])?;
    let Some(open) = opened(context, session.sid) else {
        return Ok(());
    };
    let name = &session.name;
    let message = format!(
        "a conflict of '{name}' is open in '{}'",
        open.path.display()
    );
    let word = shell_word(name);
    Err(Error::fatal(message)
        .hint(format!("git agent merge resolve --continue {word}"))
        .hint(format!("git agent merge resolve --abort {word}")))
}

fn open(context: &Context<'_>, case: &Case) -> Result<Open> {
    let repo = context.repo;
    let name = &case.session.name;
    let path = location::worktree_dir(context)?.join(format!("{name}-resolve"));
    if std::fs::symlink_metadata(&path).is_ok() {
        return Err(Error::fatal(format!("'{}' already exists", path.display())));
    }
    let open = Open {
        name: name.clone(),
        target: case.target.clone(),
        ours: case.place.tip.to_string(),
        theirs: case.theirs.to_string(),
        path: path.clone(),
        conflicts: case.paths(),
        message: crate::merge::resolve::update::message(&case.session, &case.target, &case.place),
    };
    // Write the record first, so that --abort can remove the rest after a crash.
    write(context, case.session.sid, &open)?;
    repo.git_common()
        .args(["worktree", "add", "--quiet", "--detach"])
        .arg(&path)
        .arg(case.place.tip.to_string())
        .run()?;
    let at = checkout(context, &open)?;
    let merged = start_merge(context, &at, case.theirs, &case.target)?;
    if merged {
        return Err(Error::fatal("the conflict no longer exists")
            .hint(format!("git agent update {}", shell_word(name))));
    }
    Ok(open)
}

/// Starts a merge in a worktree and leaves its conflicts there. Returns whether it merged cleanly.
pub(super) fn start_merge(
    context: &Context<'_>,
    at: &Checkout,
    theirs: ObjectId,
    called: &str,
) -> Result<bool> {
    let answer = git(context, at)
        .config("merge.conflictStyle", "diff3")
        .config("rerere.enabled", "false")
        .args(["merge", "--no-commit", "--no-ff", "--quiet"])
        .arg("-m")
        .arg(format!("Merge branch '{called}'"))
        .arg(theirs.to_string())
        .answer()?;
    match answer.code {
        Some(0) => Ok(true),
        Some(1) if at.admin_dir.join("MERGE_HEAD").exists() => Ok(false),
        _ => {
            let said = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
            Err(Error::fatal(format!("cannot open the conflict: {said}")))
        }
    }
}

/// Resets a worktree to a commit on its branch and removes all changes. The caller has taken a snapshot.
pub(super) fn start_over(
    context: &Context<'_>,
    at: &Checkout,
    branch: &str,
    commit: ObjectId,
) -> Result<()> {
    git(context, at)
        .args(["checkout", "--quiet", "--force", "-B", branch])
        .arg(commit.to_string())
        .run()?;
    git(context, at).args(["clean", "--quiet", "-fd"]).run()?;
    Ok(())
}

fn git(context: &Context<'_>, at: &Checkout) -> Git {
    context
        .repo
        .git_at(&at.admin_dir, &at.top)
        .env_remove("GIT_OPTIONAL_LOCKS")
}

/// Returns the resolution that was begun for a session, if there is one.
fn opened(context: &Context<'_>, sid: SessionId) -> Option<Open> {
    let bytes = std::fs::read(record(context, sid)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Finishes a resolution: commits the files of its worktree as a merge on the session's branch.
pub fn proceed(context: &Context<'_>, session: &Session) -> Result<ObjectId> {
    caller::permit(context, Act::Resolve, [session])?;
    let repo = context.repo;
    let open = require(context, session)?;
    let (ours, theirs) = (repo.parse_id(&open.ours)?, repo.parse_id(&open.theirs)?);
    let at = checkout(context, &open)?;
    let head = repo.head_of(&at)?;
    let commit = match head {
        // The user committed there.
        Some(head) if head != ours => {
            if !(repo.is_ancestor(ours, head)? && repo.is_ancestor(theirs, head)?) {
                return Err(Error::fatal(format!(
                    "the commit in '{}' is not a merge of both sides",
                    at.top.display()
                ))
                .hint(format!(
                    "git agent merge resolve --abort {}",
                    shell_word(&session.name)
                )));
            }
            refuse_markers(context, &at, &open)?;
            head
        }
        _ => {
            let tree = settle(context, &at, &open)?;
            repo.make_commit(&crate::git::merge::NewCommit {
                tree,
                parents: &[ours, theirs],
                message: &open.message,
                author: None,
                sign: true,
            })?
        }
    };
    land(context, session, [ours, theirs], commit, &open.target)?;
    forget(context, session.sid, &open)?;
    Ok(commit)
}

/// Abandons a resolution; the session is unchanged.
pub fn abort(context: &Context<'_>, session: &Session) -> Result<()> {
    caller::permit(context, Act::Resolve, [session])?;
    let open = require(context, session)?;
    forget(context, session.sid, &open)
}

fn require(context: &Context<'_>, session: &Session) -> Result<Open> {
    let name = &session.name;
    opened(context, session.sid).ok_or_else(|| {
        Error::fatal(format!("session '{name}' has no open resolution"))
            .hint(format!("git agent merge resolve {}", shell_word(name)))
    })
}

/// Stages the resolved files and returns their tree. Fails if a path is unresolved.
fn settle(context: &Context<'_>, at: &Checkout, open: &Open) -> Result<ObjectId> {
    refuse_markers(context, at, open)?;
    git(context, at).args(["add", "--update"]).run()?;
    let unmerged = git(context, at)
        .args(["diff", "--name-only", "-z", "--diff-filter=U"])
        .run()?;
    if let Some(path) = unmerged
        .stdout
        .split(|byte| *byte == 0)
        .find(|path| !path.is_empty())
    {
        let path = String::from_utf8_lossy(path).into_owned();
        return Err(Error::fatal(format!("'{path}' is not resolved"))
            .hint(format!("in '{}': git add or git rm", at.top.display())));
    }
    let tree = git(context, at).durable().arg("write-tree").run()?.text();
    context.repo.parse_id(&tree)
}

/// Fails if a conflicting file still has its markers.
fn refuse_markers(context: &Context<'_>, at: &Checkout, open: &Open) -> Result<()> {
    let mut known = HashSet::new();
    let mut sides = Vec::new();
    for commit in [&open.ours, &open.theirs] {
        for path in &open.conflicts {
            let shown = context
                .repo
                .git_common()
                .args(["cat-file", "blob"])
                .arg(format!("{commit}:{path}"))
                .answer()?;
            sides.push(shown.stdout);
        }
    }
    for side in &sides {
        known.extend(side.split(|byte| *byte == b'\n'));
    }
    for path in &open.conflicts {
        let file = at.top.join(path);
        let is_file = std::fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_file());
        if !is_file {
            continue;
        }
        let text = std::fs::read(&file).context(|| format!("cannot read '{}'", file.display()))?;
        if let Some(number) = check::first_marker(&text, &known) {
            return Err(Error::fatal(format!(
                "'{path}' is not resolved: line {number} is a conflict marker"
            ))
            .hint(format!("edit it: {}", file.display())));
        }
    }
    Ok(())
}

fn checkout(context: &Context<'_>, open: &Open) -> Result<Checkout> {
    let path = std::fs::canonicalize(&open.path).unwrap_or_else(|_| open.path.clone());
    let all = worktree::list(context.repo)?;
    let found = all.into_iter().find(|known| known.path == path);
    found
        .filter(|known| known.path.is_dir())
        .map(|known| Checkout {
            admin_dir: known.admin_dir,
            top: known.path,
        })
        .ok_or_else(|| {
            Error::fatal(format!("the worktree '{}' is gone", open.path.display())).hint(format!(
                "git agent merge resolve --abort {}",
                shell_word(&open.name)
            ))
        })
}

/// Removes the worktree and the record of a resolution.
fn forget(context: &Context<'_>, sid: SessionId, open: &Open) -> Result<()> {
    if open.path.is_dir() {
        context
            .repo
            .git_common()
            .args(["worktree", "remove", "--force"])
            .arg(&open.path)
            .run()?;
    } else {
        let path = open.path.clone();
        worktree::prune_missing(context.repo, |known| known.path == path)?;
    }
    let path = record(context, sid);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context(|| format!("cannot remove '{}'", path.display()))
        }
        _ => Ok(()),
    }
}

fn record(context: &Context<'_>, sid: SessionId) -> PathBuf {
    context
        .store
        .dir()
        .join("resolve")
        .join(format!("{sid}.json"))
}

fn write(context: &Context<'_>, sid: SessionId, open: &Open) -> Result<()> {
    context.store.require_dir("resolve")?;
    let path = record(context, sid);
    let cannot = || format!("cannot write '{}'", path.display());
    let bytes = serde_json::to_vec(open).context(cannot)?;
    file::replace(&path, bytes, Durability::Synced)
}
