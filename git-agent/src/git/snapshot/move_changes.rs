//! Moves the uncommitted changes of one worktree into another at the same commit.
//!
//! The order makes a crash safe at any step: the changes are recorded and kept by a ref; they are applied at the
//! destination and verified there; the source is compared again; only then is it cleaned. If cleaning fails, the source
//! is restored. Ignored files stay in place, as do files marked skip-worktree or assume-unchanged.

use std::collections::BTreeMap;

use gix::index::entry::Mode;

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::git::object::Signature;
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::snapshot::Snapshot;
use crate::git::snapshot::capture::{Captured, Checkout};
use crate::git::snapshot::index::{Item, build_trees};
use crate::git::snapshot::restore::{Manner, Target, refuse_locked};
use crate::git::snapshot::restore_mark::Way;
use crate::git::snapshot::scan::{Hidden, LeftOut};
use crate::git::worktree::unfinished::unfinished;
use crate::git::{ObjectId, Repo};

/// The result of moving changes.
#[derive(Debug)]
pub struct Carried {
    /// The snapshot of the changes. The ref given to [`Repo::carry`] points at it.
    pub snapshot: ObjectId,
    /// The files that stayed at the source although git does not ignore them.
    pub left_out: Vec<LeftOut>,
}

impl Repo {
    /// Moves the uncommitted changes of `source` to `destination`, a clean worktree at the same commit.
    ///
    /// `keep` is a ref that does not exist yet; it stays behind with the snapshot, also on failure. Returns `Ok(None)`
    /// without writing anything if the source is clean.
    pub fn carry(
        &self,
        source: &Checkout,
        destination: &Checkout,
        keep: &str,
        who: &Signature,
    ) -> Result<Option<Carried>> {
        let cannot = || "cannot move changes".to_owned();
        if let Some(what) = unfinished(source) {
            return Err(
                Error::fatal(format!("cannot move changes: a {what} is in progress"))
                    .hint(format!("finish or abort the {what} first")),
            );
        }
        for checkout in [source, destination] {
            refuse_locked(&checkout.admin_dir.join("index"))?;
        }
        let mut captured = self.capture(source, Hidden::LookAway)?;
        let Some(head) = captured.head else {
            return Err(Error::fatal(
                "cannot move changes: the branch does not have any commits yet",
            ));
        };
        if captured.odd.iter().any(|entry| entry.stage != 0) {
            return Err(Error::fatal(
                "cannot move changes: there are unresolved conflicts",
            ));
        }
        let committed = self.read_commit(head)?.tree;
        if captured.is_clean(self)? {
            return Ok(None);
        }
        self.refuse_hidden(&captured, committed)?;
        let there = self.capture(destination, Hidden::Look)?;
        if there.head != Some(head) || !there.is_clean(self)? {
            return Err(Error::fatal(format!(
                "cannot move changes: '{}' is not a clean checkout of {head}",
                destination.top.display()
            )));
        }
        fault::point("carry.looked").context(cannot)?;
        let left_out = std::mem::take(&mut captured.left_out);
        let title = "changes moved to another worktree";
        let id = self.write_snapshot(&mut captured, None, who, title, &[])?;
        fault::point("carry.snapshot.written").context(cannot)?;
        let change = RefChange {
            name: keep.to_owned(),
            expected: Expected::Absent,
            new: Some(id),
        };
        if self.swap_ref(&change)? == Swap::Stale {
            return Err(Error::fatal(format!("ref '{keep}' already exists")));
        }
        fault::point("carry.kept").context(cannot)?;
        let snapshot = self.read_snapshot(id)?;
        let way = Way {
            to: id,
            done_at: None,
        };
        let mark = self.begin_restoring(destination, way)?;
        self.apply_there(destination, &snapshot)?;
        mark.end()?;
        fault::point("carry.applied").context(cannot)?;
        let again = self.capture(source, Hidden::LookAway)?;
        if !snapshot.is_state(&again) {
            return Err(Error::fatal(format!(
                "'{}' changed while its changes were moved; nothing was removed from it",
                source.top.display()
            )));
        }
        fault::point("carry.compared").context(cannot)?;
        let cleaned = self
            .clean(source, &snapshot, committed)
            .and_then(|()| fault::point("carry.cleaned").context(cannot));
        if let Err(error) = cleaned {
            return Err(match self.put_back(source, &snapshot, committed) {
                Ok(()) => error,
                Err(second) => error.hint(format!(
                    "the changes are kept at {keep}; restoring them failed: {second}"
                )),
            });
        }
        Ok(Some(Carried {
            snapshot: id,
            left_out,
        }))
    }

    /// Refuses to move a staged change of a file marked skip-worktree or assume-unchanged: its content on disk stays,
    /// so the change could be neither cleaned nor moved.
    fn refuse_hidden(&self, captured: &Captured, committed: ObjectId) -> Result<()> {
        let marked: Vec<_> = captured
            .odd
            .iter()
            .filter(|entry| entry.skip_worktree || entry.assume_unchanged)
            .collect();
        if marked.is_empty() {
            return Ok(());
        }
        let known = self.tree_map(committed)?;
        for entry in marked {
            let as_committed = known
                .get(&entry.path)
                .is_some_and(|(mode, id)| mode.bits() == entry.mode && *id == entry.id);
            if !as_committed {
                return Err(Error::fatal(format!(
                    "cannot move changes: '{}' is staged and marked skip-worktree or assume-unchanged",
                    String::from_utf8_lossy(&entry.path)
                )));
            }
        }
        Ok(())
    }

    /// Applies the changes at the destination without the marks, which concern the source's files.
    fn apply_there(&self, destination: &Checkout, snapshot: &Snapshot) -> Result<()> {
        let mut target = Target::from(snapshot);
        target.odd.retain(|entry| entry.intent_to_add);
        let manner = Manner {
            safety: None,
            hidden: Hidden::Look,
        };
        self.restore_to(destination, &target, manner)?;
        Ok(())
    }

    /// Resets the source to its commit, and keeps its marks.
    fn clean(&self, source: &Checkout, snapshot: &Snapshot, committed: ObjectId) -> Result<()> {
        let kept = Target::from(snapshot);
        let mut target = Target {
            tree: committed,
            index_tree: committed,
            odd: kept.odd.clone(),
            raw: Vec::new(),
        };
        target
            .odd
            .retain(|entry| entry.skip_worktree || entry.assume_unchanged);
        let manner = Manner {
            safety: Some(&kept),
            hidden: Hidden::LookAway,
        };
        self.restore_to(source, &target, manner)?;
        Ok(())
    }

    /// Restores the changes of a half-cleaned source. Keeps later changes of the user.
    fn put_back(&self, source: &Checkout, snapshot: &Snapshot, committed: ObjectId) -> Result<()> {
        let mut now = self.capture(source, Hidden::LookAway)?;
        if snapshot.is_state(&now) {
            return Ok(());
        }
        self.store_captured(&mut now)?;
        let mut target = Target::from(snapshot);
        let (committed, recorded) = (self.tree_map(committed)?, self.tree_map(snapshot.tree)?);
        let mut wanted = recorded.clone();
        for Item { path, mode, id } in self.tree_items(now.tree)? {
            let found = Some(&(mode, id));
            if committed.get(&path) != found && recorded.get(&path) != found {
                target.raw.retain(|raw| raw.path != path);
                wanted.insert(path, (mode, id));
            }
        }
        let items: Vec<Item> = wanted
            .into_iter()
            .map(|(path, (mode, id))| Item { path, mode, id })
            .collect();
        let mut batch = self.batch();
        target.tree = build_trees(&mut batch, &items)
            .ok_or_else(|| Error::fatal("a file and a directory now have the same name"))?;
        self.drop_stored(&mut batch);
        self.write_batch(&batch)?;
        let manner = Manner {
            safety: None,
            hidden: Hidden::LookAway,
        };
        self.restore_to(source, &target, manner)?;
        Ok(())
    }

    fn tree_map(&self, tree: ObjectId) -> Result<BTreeMap<Vec<u8>, (Mode, ObjectId)>> {
        let items = self.tree_items(tree)?;
        Ok(items
            .into_iter()
            .map(|item| (item.path, (item.mode, item.id)))
            .collect())
    }
}
