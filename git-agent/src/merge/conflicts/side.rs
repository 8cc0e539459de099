//! One side of a merge that is only looked at: a branch, or all of a session's work, what it has not committed included.

use crate::context::Context;
use crate::error::Result;
use crate::git::object::Batch;
use crate::git::snapshot::capture::Checkout;
use crate::git::{ObjectId, Repo};
use crate::model::session::{Session, SessionId};
use crate::session::worktree::work;

/// Where a session's uncommitted work is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Look {
    /// In its last snapshot: as of the end of its last turn.
    #[default]
    Recorded,
    /// In its worktree, now.
    Live,
}

/// One side of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// The branch or the session, by name.
    pub name: String,
    /// The session, if it is one.
    pub session: Option<SessionId>,
    /// The last commit.
    pub tip: ObjectId,
    /// All files, committed or not.
    pub tree: ObjectId,
    /// The commit that stands for this side: its tip, or one on top of it that no ref points at.
    pub commit: ObjectId,
    /// The commit that its own changes began at: its merge base with the branch it goes to. `None` where everything counts
    /// as its own.
    pub base: Option<ObjectId>,
}

impl Side {
    /// Returns a branch as a side; `None` when there is no such branch.
    pub fn of_branch(repo: &Repo, name: &str) -> Result<Option<Self>> {
        let Some(tip) = repo.branch_tip(name)? else {
            return Ok(None);
        };
        Side::new(repo, name, None, tip, repo.tree_of(tip)?).map(Some)
    }

    /// Returns a session's work as a side; `None` when it has no commit (any more).
    pub fn of_session(
        context: &Context<'_>,
        session: &Session,
        look: Look,
    ) -> Result<Option<Self>> {
        let checkout = match look {
            Look::Recorded => None,
            Look::Live => work::checkout(context, session)?,
        };
        match checkout {
            Some(checkout) => Side::of_worktree(context.repo, session, &checkout),
            None => Side::of_record(context, session),
        }
    }

    fn of_record(context: &Context<'_>, session: &Session) -> Result<Option<Self>> {
        let repo = context.repo;
        let Some(tip) = tip_of(repo, session)? else {
            return Ok(None);
        };
        let tree = match context.store.last_snapshot(session.sid) {
            Ok(Some(kept)) if kept.snapshot.head == Some(tip) => kept.snapshot.tree,
            // Committed since, or a snapshot that cannot be read: the branch is what is known.
            _ => repo.tree_of(tip)?,
        };
        Side::new(repo, &session.name, Some(session.sid), tip, tree).map(Some)
    }

    /// Returns what is in a session's worktree now as a side.
    pub fn of_worktree(repo: &Repo, session: &Session, at: &Checkout) -> Result<Option<Self>> {
        let Some(tip) = repo.head_of(at)? else {
            return Ok(None);
        };
        let tree = repo.snapshot_tree(at)?;
        Side::new(repo, &session.name, Some(session.sid), tip, tree).map(Some)
    }

    fn new(
        repo: &Repo,
        name: &str,
        session: Option<SessionId>,
        tip: ObjectId,
        tree: ObjectId,
    ) -> Result<Self> {
        let mut side = Side {
            name: name.to_owned(),
            session,
            tip,
            tree,
            commit: tip,
            base: None,
        };
        if repo.tree_of(tip)? != tree {
            side.commit = repo.stand_in_batch(tree, tip)?.0;
        }
        Ok(side)
    }

    /// Returns whether there is something that is not committed.
    pub fn has_uncommitted(&self) -> bool {
        self.commit != self.tip
    }

    /// Returns the commit that stands for this side, where the repository does not have it.
    pub fn missing(&self, repo: &Repo) -> Result<Option<Batch>> {
        if !self.has_uncommitted() || repo.object_header(self.commit)?.is_some() {
            return Ok(None);
        }
        Ok(Some(repo.stand_in_batch(self.tree, self.tip)?.1))
    }
}

/// Returns the last commit of a session: its branch's, or the recorded one when the branch is gone.
fn tip_of(repo: &Repo, session: &Session) -> Result<Option<ObjectId>> {
    if let Some(branch) = session.branch.as_deref()
        && let Some(tip) = repo.branch_tip(branch)?
    {
        return Ok(Some(tip));
    }
    let code = session.code.as_deref();
    let code = code.and_then(|hex| repo.parse_id(hex).ok());
    Ok(code.filter(|id| repo.tree_of(*id).is_ok()))
}
