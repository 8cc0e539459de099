//! The cell of a session: made before a turn, brought over during and after it.
//!
//! A journal beside the cell names the worktree and the state before the turn. It is written first and removed last, so
//! that the next command finishes a turn whose supervisor died. Every step can be repeated.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::file::{self, Durability};
use crate::git::cell::{Cell, Contents, Seen};
use crate::git::refs::{Expected, RefChange, Swap, Target};
use crate::git::snapshot::capture::Checkout;
use crate::git::{ObjectId, worktree};
use crate::guard::environment::repository_hooks;
use crate::guard::policy::{Own, short};
use crate::guard::push;
use crate::guard::watch::{Refs, keep};
use crate::model::session::SessionId;
use crate::process::lock::Lock;
use crate::store::refname;

/// The directory of the cells, in the store's.
pub(super) const DIRECTORY: &str = "cells";
/// How long another process may take to bring the same cell over.
const PATIENCE: Duration = Duration::from_secs(60);

/// The journal of a cell in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Journal {
    /// The session's branch, in full.
    branch: String,
    /// Its tip when the cell was made or last brought over.
    base: Option<String>,
    /// The worktree, and its record in the repository.
    top: PathBuf,
    admin_dir: PathBuf,
    /// The last seen state: the branch's tip in the cell, and the index.
    #[serde(default)]
    seen: Option<String>,
    /// Commits of the cell that are kept already.
    #[serde(default)]
    kept: Vec<String>,
}

/// Returns the directory of a session's cell.
pub fn dir(context: &Context<'_>, sid: SessionId) -> PathBuf {
    context.store.dir().join(DIRECTORY).join(sid.as_str())
}

fn journal_file(context: &Context<'_>, sid: SessionId) -> PathBuf {
    beside(context, sid, "json")
}

/// Returns a file of ours beside a cell.
fn beside(context: &Context<'_>, sid: SessionId, extension: &str) -> PathBuf {
    dir(context, sid).with_extension(extension)
}

/// Returns the sessions whose cell is in use, or was when their supervisor died.
pub fn in_use(context: &Context<'_>) -> Vec<SessionId> {
    let entries = fs::read_dir(context.store.dir().join(DIRECTORY));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_suffix(".json")?
                .parse()
                .ok()
        })
        .collect()
}

fn load(context: &Context<'_>, sid: SessionId) -> Result<Option<Journal>> {
    let path = journal_file(context, sid);
    let cannot = || format!("cannot read '{}'", path.display());
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).context(cannot),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(cannot),
    }
}

fn save(context: &Context<'_>, sid: SessionId, journal: &Journal) -> Result<()> {
    let bytes = serde_json::to_vec(journal).context(|| "cannot write the journal".into())?;
    file::replace(&journal_file(context, sid), bytes, Durability::Synced)
}

fn lock(context: &Context<'_>, sid: SessionId) -> Result<Lock> {
    let path = beside(context, sid, "lock");
    Lock::acquire(context.env, path, PATIENCE)
}

/// Makes the cell of a session and lets its worktree lead there. `refs` are those of the repository now.
pub fn begin(
    context: &Context<'_>,
    (sid, branch): (SessionId, &str),
    at: &Checkout,
    refs: &Refs,
) -> Result<()> {
    context.store.require_dir(DIRECTORY)?;
    let _lock = lock(context, sid)?;
    let full = format!("refs/heads/{branch}");
    let cell = Cell::at(&dir(context, sid));
    let visible: Vec<(String, Target)> = refs
        .all()
        .filter(|(name, _)| is_visible(name))
        .map(|(name, target)| (name.to_owned(), target.clone()))
        .collect();
    let head = refs.head(&at.top).cloned();
    let head = match head {
        Some(head) => head,
        None => heads(context, &at.top)?,
    };
    let hooks = hooks(context, sid, at, &full)?;
    let kept = fs::read_to_string(beside(context, sid, "kept")).unwrap_or_default();
    let journal = Journal {
        branch: full.clone(),
        base: refs.id(&full).map(|id| id.to_string()),
        top: at.top.clone(),
        admin_dir: at.admin_dir.clone(),
        seen: None,
        kept: kept.lines().map(str::to_owned).collect(),
    };
    let lines = visible.iter().filter_map(|(name, target)| match target {
        Target::Object(id) => Some(format!("{id} {name}\n")),
        Target::Symbolic(_) => None,
    });
    let original: String = lines.collect();
    file::replace(
        &beside(context, sid, "refs"),
        original,
        Durability::Volatile,
    )?;
    // Before the worktree leads there: from then on it must be brought back.
    save(context, sid, &journal)?;
    let contents = Contents {
        head: &head,
        refs: &visible,
        hooks: hooks.as_deref().map(Path::as_os_str),
        branch: Some(branch),
    };
    let made = context
        .repo
        .make_cell(&cell, at, &contents)
        .and_then(|()| cell.open(at));
    if made.is_err() {
        cell.close(at)?;
        let_go(context, sid)?;
    }
    made
}

pub(super) fn heads(context: &Context<'_>, top: &Path) -> Result<Target> {
    let all = worktree::heads(context.repo)?;
    let own = all.into_iter().find(|(path, _)| path == top);
    own.map(|(_, head)| head)
        .ok_or_else(|| Error::fatal(format!("'{}' has no HEAD", top.display())))
}

/// Returns whether an agent sees a ref of the repository in its cell.
pub(super) fn is_visible(name: &str) -> bool {
    let hidden = name == "refs/stash" || refname::ROOTS.iter().any(|root| name.starts_with(root));
    !hidden
}

/// Makes the directory of hooks for a cell: the repository's own, and one that lets only the session's branch be pushed.
fn hooks(
    context: &Context<'_>,
    sid: SessionId,
    at: &Checkout,
    branch: &str,
) -> Result<Option<PathBuf>> {
    let theirs = repository_hooks(context.repo, context.env, &at.admin_dir)?;
    let own = context.store.require_dir(&format!("guard/{sid}/hooks"))?;
    let cannot = || format!("cannot write in '{}'", own.display());
    for entry in fs::read_dir(&own).context(cannot)?.flatten() {
        fs::remove_file(entry.path()).context(cannot)?;
    }
    for entry in fs::read_dir(&theirs).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name != push::PRE_PUSH && crate::guard::hooks::is_executable(&entry.path()) {
            std::os::unix::fs::symlink(entry.path(), own.join(name)).context(cannot)?;
        }
    }
    let script = push::script(branch, &theirs.join(push::PRE_PUSH));
    file::replace_with_mode(
        &own.join(push::PRE_PUSH),
        script.as_bytes(),
        0o700,
        Durability::Volatile,
    )?;
    Ok(Some(own))
}

/// Brings the work of a cell over while it is in use, for a command that looks at the session. A cell that changes at the
/// same moment is left for the next command.
pub fn sync(context: &Context<'_>, sid: SessionId) -> Result<()> {
    let Some(journal) = load(context, sid)? else {
        return Ok(());
    };
    let cell = Cell::at(&dir(context, sid));
    if journal.seen == state(&cell, &journal) {
        return Ok(());
    }
    let path = beside(context, sid, "lock");
    let Some(_lock) = Lock::try_acquire(context.env, path)? else {
        return Ok(());
    };
    let Some(mut journal) = load(context, sid)? else {
        return Ok(());
    };
    let now = state(&cell, &journal);
    let seen = context.repo.look_into(&cell);
    if context.repo.bring_objects(&cell).is_err() {
        return Ok(());
    }
    let at = journal.checkout();
    let (moved, _) = move_branch(context, &mut journal, &seen)?;
    if moved && seen.head == Some(Target::Symbolic(journal.branch.clone())) {
        context.repo.bring_index(&cell, &at)?;
    }
    journal.seen = now;
    save(context, sid, &journal)
}

/// Returns a short text that changes with the cell's branch and index.
fn state(cell: &Cell, journal: &Journal) -> Option<String> {
    let meta = fs::symlink_metadata(cell.dir().join("index")).ok();
    let index = meta.map(|meta| (meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()));
    let loose = fs::symlink_metadata(cell.dir().join(&journal.branch)).ok();
    let loose = loose.map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec()));
    let packed = fs::symlink_metadata(cell.dir().join("packed-refs")).ok();
    let packed = packed.map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec()));
    Some(format!("{index:?} {loose:?} {packed:?}"))
}

/// Ends the use of a cell: brings everything over, leads the worktree back, and empties the cell. Returns what the person
/// should know. Does nothing without a cell in use.
pub fn finish(context: &Context<'_>, sid: SessionId, own: &Own) -> Result<Vec<String>> {
    if load(context, sid)?.is_none() {
        return Ok(Vec::new());
    }
    let _lock = lock(context, sid)?;
    let Some(mut journal) = load(context, sid)? else {
        return Ok(Vec::new());
    };
    let cell = Cell::at(&dir(context, sid));
    let at = journal.checkout();
    let mut told = Vec::new();
    if cell.dir().join("objects").is_dir() {
        let original = beside(context, sid, "refs");
        match bring_all(context, (&cell, &at), (&mut journal, &original), own) {
            Ok(more) => {
                let kept = journal.kept.join("\n");
                file::replace(&beside(context, sid, "kept"), kept, Durability::Volatile)?;
                told = more;
            }
            Err(error) => {
                cell.close(&at)?;
                let aside = set_aside(context, sid, &cell)?;
                told.push(format!(
                    "the commits of the turn cannot be taken over: {}; they are kept in '{}'",
                    error.with_causes(),
                    aside.display()
                ));
            }
        }
    }
    cell.close(&at)?;
    context.repo.empty_cell(&cell)?;
    let_go(context, sid)?;
    Ok(told)
}

/// Moves a cell that cannot be brought over out of the way. Nothing of it is used, and nothing is lost.
fn set_aside(context: &Context<'_>, sid: SessionId, cell: &Cell) -> Result<PathBuf> {
    let kept = context.store.require_dir("kept-cells")?;
    let aside = kept.join(format!("{sid}-{}", context.env.now().seconds()));
    fs::rename(cell.dir(), &aside)
        .context(|| format!("cannot rename '{}'", cell.dir().display()))?;
    fs::create_dir(cell.dir()).context(|| format!("cannot create '{}'", cell.dir().display()))?;
    Ok(aside)
}

fn let_go(context: &Context<'_>, sid: SessionId) -> Result<()> {
    let path = journal_file(context, sid);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).context(|| format!("cannot remove '{}'", path.display()))
        }
        _ => Ok(()),
    }
}

impl Journal {
    fn checkout(&self) -> Checkout {
        Checkout {
            admin_dir: self.admin_dir.clone(),
            top: self.top.clone(),
        }
    }

    fn base(&self) -> Option<ObjectId> {
        self.base.as_deref()?.parse().ok()
    }
}

fn bring_all(
    context: &Context<'_>,
    (cell, at): (&Cell, &Checkout),
    (journal, original): (&mut Journal, &Path),
    own: &Own,
) -> Result<Vec<String>> {
    let repo = context.repo;
    let seen = repo.look_into(cell);
    repo.bring_objects(cell)?;
    let (moved, mut told) = move_branch(context, journal, &seen)?;
    let original = fs::read_to_string(original).unwrap_or_default();
    told.extend(keep_foreign(context, journal, (&seen, &original), own)?);
    if moved {
        told.extend(bring_head(context, journal, at, &seen)?);
        if !repo.bring_index(cell, at)? {
            told.push(
                "another git process has the index of the worktree locked: it was not updated"
                    .to_owned(),
            );
        }
        if seen.head == Some(Target::Symbolic(journal.branch.clone())) {
            repo.bring_operation(cell, at)?;
        }
    }
    if let Some(operation) = repo.operation_in(cell) {
        told.push(format!(
            "{operation} is not finished: it waits in the session for the next prompt"
        ));
    }
    Ok(told)
}

/// Moves the session's branch to where it is in the cell. Returns whether both agree then, and words if they do not.
fn move_branch(
    context: &Context<'_>,
    journal: &mut Journal,
    seen: &Seen,
) -> Result<(bool, Vec<String>)> {
    let repo = context.repo;
    let name = journal.branch.clone();
    let here = repo.find_ref(&name)?;
    let Some(new) = seen.refs.get(&name).copied() else {
        let unborn = here.is_none();
        let words = format!("'{}' was deleted in the session: it stays", short(&name));
        return Ok((unborn, if unborn { Vec::new() } else { vec![words] }));
    };
    if here == Some(new) {
        return Ok((true, Vec::new()));
    }
    if Some(new) == journal.base() {
        // Only moved here meanwhile.
        return Ok((false, Vec::new()));
    }
    // A commit that git has checked, or one that the repository had before.
    if let Err(error) = repo.tree_of(new) {
        let words = format!("'{}' cannot be read: {}", short(&name), error.message());
        return Ok((false, vec![words]));
    }
    let follows = here == journal.base()
        || here.map(|here| repo.is_ancestor(here, new)).transpose()? == Some(true);
    if follows {
        let change = RefChange {
            name: name.clone(),
            expected: here.map_or(Expected::Absent, Expected::At),
            new: Some(new),
        };
        if repo.swap_refs(&[change])? == Swap::Done {
            journal.base = Some(new.to_string());
            return Ok((true, Vec::new()));
        }
    }
    if !remember(journal, new) {
        return Ok((false, Vec::new()));
    }
    let kept = keep(context.env, repo, &name, new)?;
    let words = format!(
        "'{}' moved outside of the session during the turn: the agent's commits are kept as {kept}",
        short(&name)
    );
    Ok((false, vec![words]))
}

/// Remembers a commit that is kept. `false` if it was kept before.
fn remember(journal: &mut Journal, id: ObjectId) -> bool {
    let id = id.to_string();
    let new = !journal.kept.contains(&id);
    if new {
        journal.kept.push(id);
    }
    new
}

/// Keeps the commits that are not on the branch of the session: other branches, tags, notes and stashes of the cell.
fn keep_foreign(
    context: &Context<'_>,
    journal: &mut Journal,
    (seen, original): (&Seen, &str),
    own: &Own,
) -> Result<Vec<String>> {
    let repo = context.repo;
    let lines = original.lines().filter_map(|line| line.split_once(' '));
    let original: BTreeMap<&str, &str> = lines.map(|(id, name)| (name, id)).collect();
    let known: BTreeMap<String, Target> = repo.refs_as_they_are()?.into_iter().collect();
    let mut told = Vec::new();
    let mut tell = |journal: &mut Journal, what: String, name: &str, id: ObjectId| -> Result<()> {
        if remember(journal, id) {
            let kept = keep(context.env, repo, name, id)?;
            told.push(format!("{what} of the session is kept as {kept}"));
        }
        Ok(())
    };
    for (name, id) in &seen.refs {
        let unmoved = original.get(name.as_str()) == Some(&id.to_string().as_str());
        if *name == journal.branch || name == "refs/stash" || unmoved || !is_visible(name) {
            continue;
        }
        if repo.object_header(*id)?.is_none() {
            continue;
        }
        if own.owns(name) {
            let expected = match known.get(name) {
                Some(Target::Object(old)) => Expected::At(*old),
                _ => Expected::Absent,
            };
            let change = RefChange {
                name: name.clone(),
                expected,
                new: Some(*id),
            };
            let _ = repo.swap_refs(&[change])?;
            continue;
        }
        let reachable = journal
            .base()
            .is_some_and(|tip| repo.is_ancestor(*id, tip).unwrap_or(false));
        if !reachable && !is_in(&known, *id) {
            tell(journal, format!("'{}'", short(name)), name, *id)?;
        }
    }
    for (number, stash) in seen.stashes.iter().enumerate() {
        if repo.object_header(stash.id)?.is_some() {
            tell(
                journal,
                format!("stash@{{{number}}}"),
                "refs/stash",
                stash.id,
            )?;
        }
    }
    Ok(told)
}

fn is_in(known: &BTreeMap<String, Target>, id: ObjectId) -> bool {
    known.values().any(|target| *target == Target::Object(id))
}

/// Lets the worktree's own HEAD follow that of the cell: to a commit, or back to the branch. Another branch is only told.
fn bring_head(
    context: &Context<'_>,
    journal: &Journal,
    at: &Checkout,
    seen: &Seen,
) -> Result<Option<String>> {
    let repo = context.repo;
    let git = || repo.git_at(&at.admin_dir, &at.top);
    let now = git().args(["symbolic-ref", "--quiet", "HEAD"]).answer()?;
    let on_branch = now.text() == journal.branch;
    match &seen.head {
        Some(Target::Symbolic(name)) if *name == journal.branch => {
            if !on_branch {
                git()
                    .args(["symbolic-ref", "HEAD", &journal.branch])
                    .run()?;
            }
            Ok(None)
        }
        Some(Target::Object(id)) if repo.tree_of(*id).is_ok() => {
            let id = id.to_string();
            git()
                .args(["update-ref", "--no-deref", "HEAD", &id])
                .run()?;
            Ok(None)
        }
        Some(Target::Symbolic(name)) => Ok(Some(format!(
            "the agent left the worktree on '{}': it is on '{}' again, and the files stay as they are",
            short(name),
            short(&journal.branch)
        ))),
        _ => Ok(None),
    }
}
