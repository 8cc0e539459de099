//! One side of a predicted merge: a branch, or all work of a session, uncommitted changes included.

use crate::context::Context;
use crate::error::Result;
use crate::git::object::Batch;
use crate::git::snapshot::capture::Checkout;
use crate::git::{ObjectId, Repo};
use crate::model::session::{Session, SessionId};
use crate::session::worktree::work;

/// Where to look for a session's uncommitted work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Look {
    /// In its last snapshot, from the end of its last turn.
    #[default]
    Recorded,
    /// In its worktree, as it is now.
    Live,
}

/// One side of a predicted merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// Name of the branch or session.
    pub name: String,
    /// The session's id, if the side is a session.
    pub session: Option<SessionId>,
    /// The last commit.
    pub tip: ObjectId,
    /// The tree of all files, committed or not.
    pub tree: ObjectId,
    /// The commit that represents this side: its tip, or one on top of it that no ref points at.
    pub commit: ObjectId,
    /// The merge base with the target branch, where the side's own changes begin. `None` if every change counts as its
    /// own.
    pub base: Option<ObjectId>,
}

impl Side {
    /// Returns a branch as a side; `None` if it does not exist.
    pub fn of_branch(repo: &Repo, name: &str) -> Result<Option<Self>> {
        let Some(tip) = repo.branch_tip(name)? else {
            return Ok(None);
        };
        Side::new(repo, name, None, tip, repo.tree_of(tip)?).map(Some)
    }

    /// Returns a session's work as a side; `None` if no commit of it is left.
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
            // Committed since, or an unreadable snapshot: use the branch.
            _ => repo.tree_of(tip)?,
        };
        Side::new(repo, &session.name, Some(session.sid), tip, tree).map(Some)
    }

    /// Returns the current files of a session's worktree as a side.
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

    /// Returns whether there are uncommitted changes.
    pub fn has_uncommitted(&self) -> bool {
        self.commit != self.tip
    }

    /// Returns the commit that represents this side, if the repository does not have it.
    pub fn missing(&self, repo: &Repo) -> Result<Option<Batch>> {
        if !self.has_uncommitted() || repo.object_header(self.commit)?.is_some() {
            return Ok(None);
        }
        Ok(Some(repo.stand_in_batch(self.tree, self.tip)?.1))
    }
}

/// Returns the last commit of a session: the tip of its branch, or the recorded commit if the branch is gone.
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
