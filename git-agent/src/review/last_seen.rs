//! The work that the user last saw: kept under a local ref, so that a diff can show only newer changes.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::merge::Merged;
use crate::model::session::SessionId;
use crate::session::caller;
use crate::session::worktree::work::Work;
use crate::store::refname;

const BASE: &str = "Looked-Base";

/// A session's work as a person last saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// The commit that keeps it.
    pub commit: ObjectId,
    /// Where it began.
    pub base: ObjectId,
    /// All files.
    pub tree: ObjectId,
    /// When, in seconds since 1970.
    pub time: i64,
}

/// The files to compare with, since the user last looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// The files as they would be without the news.
    pub tree: ObjectId,
    /// Whether the parent's own news could not be told apart.
    pub mixed: bool,
}

/// Remembers that this work was looked at.
pub fn remember(context: &Context<'_>, sid: SessionId, work: &Work) -> Result<()> {
    let repo = context.repo;
    // Without it, another process that does the same takes this one's lock of the ref for a dead one.
    let _lock = context.store.lock_snapshots(sid)?;
    repo.update_ref(&refname::looked_at(sid), |before| {
        let known = before.and_then(|id| read(context, id).ok());
        if known.is_some_and(|known| known.tree == work.tree && known.base == work.base) {
            return Ok(None);
        }
        let mut batch = repo.batch();
        let message = format!("looked at\n\nAgent-Session: {sid}\n{BASE}: {}\n", work.base);
        let mut parents = vec![work.base];
        parents.extend((work.tip != work.base).then_some(work.tip));
        let id = batch.commit(work.tree, &parents, &context.store.signature(), &message);
        repo.write_batch(&batch)?;
        Ok(Some(id))
    })?;
    Ok(())
}

/// Remembers that a reviewer saw this work. An agent that reads a diff, its own say, is not the reviewer.
pub fn remember_shown(context: &Context<'_>, sid: SessionId, work: &Work) -> Result<()> {
    let by_agent = context.env.var(caller::MARK).is_some();
    if by_agent || context.repo.is_read_only() || caller::session(context)?.is_some() {
        return Ok(());
    }
    remember(context, sid, work)
}

/// Returns the work that the user last saw.
pub fn last(context: &Context<'_>, sid: SessionId) -> Result<Option<Looked>> {
    match context.repo.find_ref(&refname::looked_at(sid))? {
        Some(id) => read(context, id).map(Some),
        None => Ok(None),
    }
}

fn read(context: &Context<'_>, id: ObjectId) -> Result<Looked> {
    let commit = context.repo.read_commit(id)?;
    let base = commit
        .trailers(BASE)
        .last()
        .map(|hex| context.repo.parse_id(hex));
    let base =
        base.ok_or_else(|| Error::fatal(format!("commit {id} does not record a reviewed state")))??;
    Ok(Looked {
        commit: id,
        base,
        tree: commit.tree,
        time: commit.time,
    })
}

/// Returns the last seen files, rebased onto the current base of the work, so that a rebase alone shows no change.
pub fn since(context: &Context<'_>, looked: &Looked, work: &Work) -> Result<Since> {
    if looked.base == work.base {
        return Ok(Since {
            tree: looked.tree,
            mixed: false,
        });
    }
    let repo = context.repo;
    let mut batch = repo.batch();
    let who = context.store.signature();
    let seen = batch.commit(looked.tree, &[looked.base], &who, "seen\n");
    repo.write_batch(&batch)?;
    Ok(match repo.merge_commits(work.base, seen)? {
        Merged::Clean(tree) => Since { tree, mixed: false },
        Merged::Conflict(_) => Since {
            tree: looked.tree,
            mixed: true,
        },
    })
}
