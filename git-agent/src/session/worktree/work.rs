//! The work of a session: its worktree as git knows it, and all of its changes, committed or not.

use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::scan::{Hidden, LeftOut};
use crate::git::worktree::{self, Worktree};
use crate::git::{ObjectId, Repo};
use crate::model::event::Body;
use crate::model::merge::message;
use crate::model::session::Session;
use crate::session::create::location;
use crate::session::task_text::task_text;
use crate::session::worktree::base::{self, Branches};
use crate::session::worktree::finish_restore;
use crate::store::list::Listed;
use crate::store::log::writer::SessionWriter;

/// Returns a session's worktree as git knows it; `None` when it has none (any more). A restore that a process began
/// before it died is finished first.
pub fn checkout(context: &Context<'_>, session: &Session) -> Result<Option<Checkout>> {
    let Some(path) = session.local.worktree.as_deref().map(Path::new) else {
        return Ok(None);
    };
    let found = match worktree::admin_dir_of(context.repo, path)? {
        Some(admin_dir) => path.is_dir().then(|| Checkout {
            admin_dir,
            top: path.to_owned(),
        }),
        None => moved(context, session)?.map(|known| Checkout {
            admin_dir: known.admin_dir,
            top: known.path,
        }),
    };
    // One that is still being made, or whose maker died, is not there yet.
    let Some(found) = found.filter(|found| !worktree::is_initializing(&found.admin_dir)) else {
        return Ok(None);
    };
    finish_restore::finish(context, session, &found)?;
    Ok(Some(found))
}

/// Returns a session's worktree as git knows it; having none is an error.
pub fn require_checkout(context: &Context<'_>, session: &Session) -> Result<Checkout> {
    checkout(context, session)?.ok_or_else(|| no_worktree(context, session))
}

/// Removes the locks of dead git processes in a session's worktree. Returns them.
pub fn clear_locks(context: &Context<'_>, session: &Session) -> Result<Vec<PathBuf>> {
    match checkout(context, session)? {
        Some(at) => context
            .repo
            .clear_worktree_locks(&at, session.branch.as_deref()),
        None => Ok(Vec::new()),
    }
}

/// Returns the error for a session without a worktree.
pub fn no_worktree(context: &Context<'_>, session: &Session) -> Error {
    let name = &session.name;
    match require_started(context, session) {
        Err(error) => error,
        Ok(()) => Error::fatal(format!("session '{name}' has no worktree"))
            .hint(format!("git agent restore {}", shell_word(name))),
    }
}

/// Makes sure that a session has been started: one that has not has no branch, no worktree and no snapshot to go back
/// to.
pub fn require_started(context: &Context<'_>, session: &Session) -> Result<()> {
    let branch = session.branch.as_deref();
    let tip = branch.map(|branch| context.repo.branch_tip(branch));
    let started = session.turns > 0
        || tip.transpose()?.flatten().is_some()
        || context.store.last_snapshot(session.sid)?.is_some();
    if started {
        return Ok(());
    }
    let name = &session.name;
    Err(
        Error::fatal(format!("session '{name}' has not started")).hint(
            if session.status.needs_supervisor() {
                format!("git agent log -f {name}")
            } else {
                format!("git agent resume {name}")
            },
        ),
    )
}

/// Returns a session's worktree that was moved from where its record says, still on the session's branch.
pub fn moved(context: &Context<'_>, session: &Session) -> Result<Option<Worktree>> {
    let (Some(path), Some(branch)) = (session.local.worktree.as_deref(), session.branch.as_deref())
    else {
        return Ok(None);
    };
    if session.settings.shares.is_some() {
        return Ok(None);
    }
    let full = format!("refs/heads/{branch}");
    let known = worktree::moved_from(context.repo, Path::new(path))?;
    Ok(known.filter(|known| known.branch.as_deref() == Some(full.as_str())))
}

/// Chooses the usual place for a session whose place in this clone is lost: that of its host, or the one for its name.
pub fn choose_place(context: &Context<'_>, writer: &mut SessionWriter<'_>) -> Result<()> {
    let session = writer.session();
    if session.local.worktree.is_some() {
        return Ok(());
    }
    let host = session
        .settings
        .shares
        .map(|host| context.store.session(host));
    let host = host.transpose()?.flatten();
    let place = match host.and_then(|host| host.local.worktree) {
        Some(place) => place,
        None => location::worktree_path(context, &session.name)?,
    };
    writer.set_local(|local| local.worktree = Some(place))
}

/// Records where a session's worktree was moved to. The session is one whose writer is at hand.
pub fn record_move(writer: &mut SessionWriter<'_>, moved: &Worktree) -> Result<()> {
    let place = moved.path.to_str().ok_or_else(|| {
        Error::fatal(format!(
            "'{}' cannot be recorded: it is not UTF-8",
            moved.path.display()
        ))
    })?;
    writer.set_local(|local| local.worktree = Some(place.to_owned()))?;
    let text = "the worktree was moved; an agent that finds its conversations by directory may have lost this one";
    writer.append(Body::Notice { text: text.into() })?;
    Ok(())
}

/// Returns the worktree in which a listed session's work is to be found; `None` when that is not here.
pub fn place(context: &Context<'_>, listed: &Listed) -> Result<Option<Checkout>> {
    if listed.is_mine() {
        checkout(context, &listed.session)
    } else {
        Ok(None)
    }
}

/// Returns a commit that holds all of a session's work as it is now. Uncommitted work is put on top of its branch's
/// tip, in a commit that no ref points at.
pub fn as_commit(context: &Context<'_>, session: &Session) -> Result<ObjectId> {
    let now = present(context, &Listed::own(session.clone()), Keep::Nothing)?;
    if now.tree == now.committed {
        return Ok(now.tip);
    }
    let message = message::of_work(session, task_text(context)?);
    context.repo.commit_tree(now.tree, &[now.tip], &message)
}

/// A session's work at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The commit where it left its parent.
    pub base: ObjectId,
    /// The last commit.
    pub tip: ObjectId,
    /// The files of the last commit.
    pub committed: ObjectId,
    /// The files of the index.
    pub staged: ObjectId,
    /// All files, uncommitted and untracked ones included.
    pub tree: ObjectId,
    /// The worktree, where there is one.
    pub checkout: Option<Checkout>,
    /// Entries of the worktree that git cannot store, such as nested repositories.
    pub left_out: Vec<LeftOut>,
}

impl Work {
    /// Returns whether everything is committed.
    pub fn is_committed(&self) -> bool {
        self.tree == self.committed
    }
}

/// Whether a look at a session's work is to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing is kept.
    Nothing,
    /// The seen files stay in the session's chain of snapshots, for the comments about them.
    Snapshot,
}

/// Reads a session's current work. The user's index and HEAD do not change.
pub fn look(context: &Context<'_>, listed: &Listed, keep: Keep) -> Result<Work> {
    let now = present(context, listed, keep)?;
    Ok(Work {
        base: base(context, listed, now.tip)?,
        tip: now.tip,
        committed: now.committed,
        staged: now.staged,
        tree: now.tree,
        checkout: now.checkout,
        left_out: now.left_out,
    })
}

/// A session's work at one moment, wherever it began: as in [`Work`].
struct Present {
    tip: ObjectId,
    committed: ObjectId,
    staged: ObjectId,
    tree: ObjectId,
    checkout: Option<Checkout>,
    left_out: Vec<LeftOut>,
}

/// Returns a session's work as it is now: the files of its worktree or, without one, the last snapshot. Every use of a
/// session's work goes through here.
fn present(context: &Context<'_>, listed: &Listed, keep: Keep) -> Result<Present> {
    let (repo, session) = (context.repo, &listed.session);
    if let Some(at) = place(context, listed)? {
        let (tip, tree, staged, left_out) = match keep {
            Keep::Snapshot => {
                let store = &context.store;
                let taken = store.take_snapshot(session.sid, None, "for review", &at)?;
                let kept = repo.read_snapshot(taken.id)?;
                (kept.head, kept.tree, kept.index_tree, taken.left_out)
            }
            Keep::Nothing => {
                let seen = repo.capture_stored(&at, Hidden::Look)?;
                (seen.head, seen.tree, seen.index_tree, seen.left_out)
            }
        };
        let tip = tip
            .ok_or_else(|| Error::fatal(format!("session '{}' has no commit yet", session.name)))?;
        return Ok(Present {
            tip,
            committed: repo.tree_of(tip)?,
            staged,
            tree,
            checkout: Some(at),
            left_out,
        });
    }
    let tip = last_commit(context, listed)?;
    let committed = repo.tree_of(tip)?;
    let mut tree = committed;
    if listed.is_mine()
        && let Some(kept) = context.store.last_snapshot(session.sid)?
        && kept.snapshot.head == Some(tip)
    {
        tree = kept.snapshot.tree;
    }
    Ok(Present {
        tip,
        committed,
        staged: committed,
        tree,
        checkout: None,
        left_out: Vec::new(),
    })
}

/// Returns a path of a session's work, committed or not, that git refuses to check out.
pub fn refused_path(context: &Context<'_>, work: &Work) -> Result<Option<String>> {
    match context.repo.refused_path_between(work.base, work.tip)? {
        Some(path) => Ok(Some(path)),
        None => context.repo.refused_path(&[work.committed], work.tree),
    }
}

/// Returns a session's work as if everything were committed, without looking at any file.
pub fn committed(context: &Context<'_>, listed: &Listed) -> Result<Work> {
    let tip = tip(context, listed)?;
    let tree = context.repo.tree_of(tip)?;
    Ok(Work {
        base: base(context, listed, tip)?,
        tip,
        committed: tree,
        staged: tree,
        tree,
        checkout: place(context, listed)?,
        left_out: Vec::new(),
    })
}

/// Returns a session's last commit, without looking at any file.
pub fn tip(context: &Context<'_>, listed: &Listed) -> Result<ObjectId> {
    let head = match place(context, listed)? {
        Some(at) => context.repo.head_of(&at)?,
        None => None,
    };
    match head {
        Some(head) => Ok(head),
        None => last_commit(context, listed),
    }
}

/// Returns the last commit of a session without a worktree here.
fn last_commit(context: &Context<'_>, listed: &Listed) -> Result<ObjectId> {
    let (repo, session) = (context.repo, &listed.session);
    let tip = if listed.is_mine() {
        branch_or_code(repo, session)?
    } else {
        code(repo, session)
    };
    let tip =
        tip.ok_or_else(|| Error::fatal(format!("session '{}' has no commit", session.name)))?;
    match repo.object_header(tip)? {
        Some(_) => Ok(tip),
        None => Err(Error::fatal(format!(
            "the work of session '{}' is not in this repository",
            session.name
        ))),
    }
}

/// Returns the tip of the branch of a session of this clone, or the last commit that its record names.
pub fn branch_or_code(repo: &Repo, session: &Session) -> Result<Option<ObjectId>> {
    let tip = match session.branch.as_deref() {
        Some(branch) => repo.branch_tip(branch)?,
        None => None,
    };
    Ok(tip.or_else(|| code(repo, session)))
}

fn code(repo: &Repo, session: &Session) -> Option<ObjectId> {
    repo.parse_id(session.code.as_deref()?).ok()
}

/// Returns where a session's work begins: where it left its parent, or where its record says that it began. The records
/// of others are not believed.
fn base(context: &Context<'_>, listed: &Listed, tip: ObjectId) -> Result<ObjectId> {
    let (repo, session) = (context.repo, &listed.session);
    let found = if listed.is_mine() {
        own_base(repo, session, tip)?
    } else {
        Branches::of(repo).base(session, tip)?
    };
    found.ok_or_else(|| {
        let parent = match session.parent.as_deref() {
            Some(parent) => format!(": it has no common history with its parent '{parent}'"),
            None => String::new(),
        };
        Error::fatal(format!(
            "cannot tell where the work of session '{}' begins{parent}",
            session.name
        ))
        .hint("git fetch")
    })
}

fn own_base(repo: &Repo, session: &Session, tip: ObjectId) -> Result<Option<ObjectId>> {
    let parent = match session.parent.as_deref() {
        Some(parent) if !session.status.is_closed() => repo.branch_tip(parent)?,
        _ => None,
    };
    let shared = match parent {
        Some(parent) => repo.merge_base(parent, tip)?,
        None => None,
    };
    Ok(past_dependencies(repo, session, shared)?
        .or_else(|| base::recorded(repo, session.base.as_deref())))
}

/// Returns where the work of a session begins that was cut from the work of others: after theirs, until the parent has
/// more.
pub fn past_dependencies(
    repo: &Repo,
    session: &Session,
    shared: Option<ObjectId>,
) -> Result<Option<ObjectId>> {
    let cut_from = session.settings.based_on.as_ref();
    let cut_from = cut_from.and_then(|based_on| base::recorded(repo, Some(&based_on.commit)));
    let (Some(cut_from), Some(from_parent)) = (cut_from, shared) else {
        return Ok(shared);
    };
    Ok(if repo.is_ancestor(from_parent, cut_from)? {
        Some(cut_from)
    } else {
        shared
    })
}
