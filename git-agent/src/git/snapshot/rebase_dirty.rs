//! Moves a worktree with uncommitted work from one commit to another: the work stays uncommitted, and every byte of it
//! that the other commit does not touch stays unchanged.

use std::collections::BTreeMap;

use gix::index::entry::Mode;

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::git::merge::Merged;
use crate::git::snapshot::Snapshot;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::restore::{Manner, Target};
use crate::git::snapshot::scan::Hidden;
use crate::git::{ObjectId, Repo};

/// The result of the move.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// The files are the work on top of the other commit.
    Done,
    /// The work conflicts with the other commit in these paths. Nothing was changed.
    Conflict(Vec<String>),
}

impl Repo {
    /// Moves a worktree, whose state `now` was just recorded, to another commit. Does not move branches and HEAD.
    pub fn take_onto(&self, at: &Checkout, now: &Snapshot, to: ObjectId) -> Result<Taken> {
        let Some(from) = now.head else {
            return Err(Error::fatal("the branch does not have any commits yet"));
        };
        if now.odd.iter().any(|entry| entry.stage != 0) {
            return Err(Error::fatal(format!(
                "there are unresolved conflicts in '{}'",
                at.top.display()
            )));
        }
        let tree = match self.replay_files(from, to, now.tree)? {
            Merged::Clean(tree) => tree,
            Merged::Conflict(paths) => return Ok(Taken::Conflict(paths)),
        };
        let index_tree = if now.index_tree == now.tree {
            tree
        } else {
            match self.replay_files(from, to, now.index_tree)? {
                Merged::Clean(tree) => tree,
                Merged::Conflict(paths) => return Ok(Taken::Conflict(paths)),
            }
        };
        let target = self.target_onto(now, tree, index_tree)?;
        fault::point("onto.merged").context(|| "cannot update the worktree".into())?;
        let safety = Target::from(now);
        let manner = Manner {
            safety: Some(&safety),
            hidden: Hidden::Look,
        };
        self.restore_to(at, &target, manner)?;
        Ok(Taken::Done)
    }

    /// Returns the files with their changes since `from` applied to `to`.
    fn replay_files(&self, from: ObjectId, to: ObjectId, files: ObjectId) -> Result<Merged> {
        let (before, after) = (self.tree_of(from)?, self.tree_of(to)?);
        if files == before {
            return Ok(Merged::Clean(after));
        }
        if before == after {
            return Ok(Merged::Clean(files));
        }
        let changes = self.stand_in(files, from)?;
        self.merge_with_base(from, to, changes)
    }

    /// Returns the target state of the worktree, with the exact bytes and marks of unchanged files.
    fn target_onto(&self, now: &Snapshot, tree: ObjectId, index_tree: ObjectId) -> Result<Target> {
        let mut target = Target {
            tree,
            index_tree,
            odd: now.odd.clone(),
            raw: now.raw.clone(),
        };
        if target.odd.is_empty() && target.raw.is_empty() {
            return Ok(target);
        }
        let (before, after) = (self.files_by_path(now.tree)?, self.files_by_path(tree)?);
        target
            .raw
            .retain(|raw| before.get(&raw.path) == after.get(&raw.path));
        let staged = self.files_by_path(index_tree)?;
        for entry in &target.odd {
            let marked = entry.skip_worktree || entry.assume_unchanged;
            let same = staged
                .get(&entry.path)
                .is_some_and(|(mode, id)| mode.bits() == entry.mode && *id == entry.id);
            if marked && !same {
                return Err(Error::fatal(format!(
                    "'{}' is marked skip-worktree or assume-unchanged, and would change",
                    String::from_utf8_lossy(&entry.path)
                )));
            }
        }
        Ok(target)
    }

    fn files_by_path(&self, tree: ObjectId) -> Result<BTreeMap<Vec<u8>, (Mode, ObjectId)>> {
        let items = self.tree_items(tree)?;
        Ok(items
            .into_iter()
            .map(|item| (item.path, (item.mode, item.id)))
            .collect())
    }
}
