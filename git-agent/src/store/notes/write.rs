//! Writes notes: adds records to this clone's own ref under a lock, and moves the ref by compare-and-swap.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::git::ObjectId;
use crate::git::object::{Batch, EntryKind, Signature};
use crate::process::lock::Lock;
use crate::redact::Redacted;
use crate::store::notes::record_set::{Line, Lines};
use crate::store::notes::tree::NotesTree;
use crate::store::notes::{Kind, merge};
use crate::store::refname::RefName;
use crate::store::{Store, limits};

/// How long a write waits for others of this clone.
const PATIENCE: Duration = Duration::from_secs(60);
const ADDED: &str = "Notes added by git-agent\n";
const TAKEN_OUT: &str = "Notes taken out by git-agent\n";

/// A new version of a notes ref: its commit, and the objects it needs.
struct Version {
    commit: ObjectId,
    batch: Batch,
}

impl Store<'_> {
    /// Adds records to this clone's notes of a kind in one commit, and returns the ref's tip.
    ///
    /// A record that is already there is not added again, so a repeated call is harmless. Returns `None` if there is
    /// neither a ref nor anything to add.
    pub fn append_notes(
        &self,
        kind: Kind,
        records: &[(ObjectId, Redacted<Value>)],
    ) -> Result<Option<ObjectId>> {
        let mut wanted: BTreeMap<ObjectId, BTreeSet<Line>> = BTreeMap::new();
        for (on, record) in records {
            if on.kind() != self.repo.hash_kind() {
                return Err(Error::fatal(format!(
                    "'{on}' is not an object id of this repository"
                )));
            }
            let line = self.note_line(kind, record)?;
            wanted.entry(*on).or_default().insert(line);
        }
        let name = kind.ref_name(self.require_writer()?);
        self.change_notes(&name, &mut |tip| self.added(kind, tip, &wanted))
    }

    /// Returns a record in the form in which this clone writes it.
    pub(super) fn note_line(&self, kind: Kind, record: &Redacted<Value>) -> Result<Line> {
        match kind {
            Kind::Review => Line::new(&self.marked_record(record)?),
            Kind::Provenance => Line::new(record),
        }
    }

    fn added(
        &self,
        kind: Kind,
        tip: Option<ObjectId>,
        wanted: &BTreeMap<ObjectId, BTreeSet<Line>>,
    ) -> Result<Option<Version>> {
        let mut notes = self.open_notes(tip)?;
        let mut changed = false;
        for (on, new) in wanted {
            let mut lines = notes.lines(on)?;
            let mut grown = false;
            for line in new {
                grown |= lines.insert(line);
            }
            if grown {
                check_room(on, &lines)?;
                notes.set_lines(*on, lines)?;
                changed = true;
            }
        }
        if !changed {
            return Ok(None);
        }
        fault::point("notes.lines.added").context(|| "cannot build notes".into())?;
        let (tree, mut batch) = notes.build()?;
        fault::point("notes.tree.built").context(|| "cannot build notes".into())?;
        let parents = tip.as_slice();
        let message = if kind == Kind::Review && self.is_all_own(tip)? {
            self.marked(tree, parents, &format!("{ADDED}\n"))?
        } else {
            ADDED.to_owned()
        };
        let commit = batch.commit(tree, parents, &self.notes_signature()?, &message);
        Ok(Some(Version { commit, batch }))
    }

    /// Returns whether a version of this clone's notes is known to be entirely its own.
    fn is_all_own(&self, tip: Option<ObjectId>) -> Result<bool> {
        tip.map_or(Ok(true), |tip| self.own().wrote_at(tip))
    }

    /// Removes the `unwanted` lines that a later version of notes has and an earlier one lacks, and returns them. The
    /// versions before stay in the history.
    pub fn take_out_notes(
        &self,
        name: &RefName,
        (earlier, later): (Option<ObjectId>, ObjectId),
        unwanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Vec<Vec<u8>>> {
        let mut before = self.open_notes(earlier)?;
        let mut found = Vec::new();
        let tree = self.repo.read_commit(later)?.tree;
        crate::store::notes::tree::walk(self.repo, tree, &mut |on, blob| {
            found.push((on, blob));
            Ok(())
        })?;
        let mut gone: BTreeMap<ObjectId, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for (on, blob) in found {
            let mut lines = crate::store::notes::tree::read_lines(self.repo, blob)?;
            let known = before.lines(&on)?;
            lines.retain(|line| {
                if unwanted(line) && !known.has(line) {
                    gone.entry(on).or_default().insert(line.to_vec());
                }
                true
            });
        }
        self.change_notes(name, &mut |tip| {
            let mut notes = self.open_notes(tip)?;
            let mut changed = false;
            for (on, lines) in &gone {
                let before = notes.lines(on)?;
                let mut after = before.clone();
                after.retain(|line| !lines.contains(line));
                if after != before {
                    notes.set_lines(*on, after)?;
                    changed = true;
                }
            }
            if !changed {
                return Ok(None);
            }
            let (tree, mut batch) = notes.build()?;
            let parents = tip.as_slice();
            let message = if self.is_all_own(tip)? {
                self.marked(tree, parents, &format!("{TAKEN_OUT}\n"))?
            } else {
                TAKEN_OUT.to_owned()
            };
            let commit = batch.commit(tree, parents, &self.notes_signature()?, &message);
            Ok(Some(Version { commit, batch }))
        })?;
        Ok(gone.into_values().flatten().collect())
    }

    /// Rewrites notes as one commit without history, with changed lines. Returns `None` if no line changes, neither in
    /// this version nor in an earlier one. Writes the objects, but moves no ref.
    pub(in crate::store) fn clean_notes_tree(
        &self,
        tip: ObjectId,
        message: &str,
        change: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<Option<ObjectId>> {
        let mut found = Vec::new();
        crate::store::notes::tree::walk(
            self.repo,
            self.repo.read_commit(tip)?.tree,
            &mut |on, blob| {
                found.push((on, blob));
                Ok(())
            },
        )?;
        let mut notes = self.open_notes(Some(tip))?;
        let mut changed = false;
        for (on, blob) in found {
            let mut lines = crate::store::notes::tree::read_lines(self.repo, blob)?;
            if lines.replace(change) {
                changed = true;
                notes.set_lines(on, lines)?;
            }
        }
        // Withdrawn records are still in the history, which is pushed with the notes.
        if !changed && !self.would_change_before(tip, change)? {
            return Ok(None);
        }
        let (tree, mut batch) = notes.build()?;
        let commit = batch.commit(tree, &[], &self.notes_signature()?, message);
        self.repo.write_batch(&batch)?;
        Ok(Some(commit))
    }

    /// Returns whether a line of any version of notes would change. Reads common parts of versions once.
    fn would_change_before(
        &self,
        tip: ObjectId,
        change: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        let mut seen = BTreeSet::new();
        let mut commits = vec![tip];
        while let Some(id) = commits.pop() {
            if !seen.insert(id) {
                continue;
            }
            let commit = self.repo.read_commit(id)?;
            commits.extend(commit.parents);
            let mut trees = vec![commit.tree];
            while let Some(tree) = trees.pop() {
                if !seen.insert(tree) {
                    continue;
                }
                for entry in self.repo.read_tree(tree, limits::NOTES_TREE)? {
                    if entry.kind == EntryKind::Tree {
                        trees.push(entry.id);
                    } else if seen.insert(entry.id)
                        && crate::store::notes::tree::read_lines(self.repo, entry.id)?
                            .replace(change)
                    {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Joins another version of one of this clone's own notes refs into it, written by a copied clone or a shared
    /// writer. Both sides get the same commit.
    pub fn join_notes(&self, name: &RefName, theirs: ObjectId) -> Result<Option<ObjectId>> {
        self.change_notes(name, &mut |tip| {
            let Some(ours) = tip else {
                let batch = self.repo.batch();
                return Ok(Some(Version {
                    commit: theirs,
                    batch,
                }));
            };
            let (commit, batch) = merge::union(self.repo, ours, theirs)?;
            Ok((commit != ours).then_some(Version { commit, batch }))
        })
    }

    /// Joins two versions of one of this clone's own notes refs of which one was purged: only new records of the other
    /// are added on top.
    pub(in crate::store) fn graft_notes(
        &self,
        name: &RefName,
        theirs: ObjectId,
        onto_theirs: bool,
    ) -> Result<Option<ObjectId>> {
        self.change_notes(name, &mut |tip| {
            let (base, other) = match (tip, onto_theirs) {
                (Some(ours), true) => (theirs, ours),
                (Some(ours), false) => (ours, theirs),
                (None, _) => (theirs, theirs),
            };
            let mut notes = self.open_notes(Some(base))?;
            let mut found = Vec::new();
            let tree = self.repo.read_commit(other)?.tree;
            crate::store::notes::tree::walk(self.repo, tree, &mut |on, blob| {
                found.push((on, blob));
                Ok(())
            })?;
            let mut changed = false;
            for (on, blob) in found {
                let mut lines = notes.lines(&on)?;
                if lines.add_news(crate::store::notes::tree::read_lines(self.repo, blob)?) {
                    changed = true;
                    notes.set_lines(on, lines)?;
                }
            }
            let (commit, batch) = if changed {
                let (tree, mut batch) = notes.build()?;
                let who = self.notes_signature()?;
                (batch.commit(tree, &[base], &who, ADDED), batch)
            } else {
                (base, self.repo.batch())
            };
            Ok((Some(commit) != tip).then_some(Version { commit, batch }))
        })
    }

    /// Moves a notes ref to the version that `next` builds on its tip, and retries if another process was faster.
    fn change_notes(
        &self,
        name: &RefName,
        next: &mut dyn FnMut(Option<ObjectId>) -> Result<Option<Version>>,
    ) -> Result<Option<ObjectId>> {
        let cannot = || format!("cannot update ref '{name}'");
        let _lock = self.lock_notes(name)?;
        fault::point("notes.locked").context(cannot)?;
        let mut changed = false;
        let tip = self.repo.update_ref(&name.to_string(), |tip| {
            fault::point("notes.tip.read").context(cannot)?;
            let Some(version) = next(tip)? else {
                return Ok(None);
            };
            fault::point("notes.commit.built").context(cannot)?;
            self.repo.write_batch(&version.batch)?;
            fault::point("notes.objects.written").context(cannot)?;
            changed = true;
            Ok(Some(version.commit))
        })?;
        if changed {
            fault::point("notes.ref.swapped").context(cannot)?;
        }
        Ok(tip)
    }

    pub(in crate::store) fn lock_notes(&self, name: &RefName) -> Result<Lock> {
        let flat: String = name
            .to_string()
            .trim_start_matches("refs/")
            .replace('/', "-");
        let path = self.require_dir("locks")?.join(format!("{flat}.lock"));
        Lock::acquire(self.env, path, PATIENCE)
    }

    fn open_notes(&self, tip: Option<ObjectId>) -> Result<NotesTree<'_>> {
        match tip {
            Some(tip) => NotesTree::open(self.repo, self.repo.read_commit(tip)?.tree),
            None => Ok(NotesTree::empty(self.repo)),
        }
    }

    fn notes_signature(&self) -> Result<Signature> {
        let (name, email) = self.repo.committer()?;
        Ok(Signature {
            name,
            email,
            seconds: self.env.now().seconds(),
        })
    }
}

fn check_room(on: &ObjectId, lines: &Lines) -> Result<()> {
    let size = lines.to_blob().len();
    if size > limits::NOTE_WRITE {
        return Err(Error::fatal(format!(
            "notes on {on} would have {size} bytes, more than the {} allowed",
            limits::NOTE_WRITE
        )));
    }
    Ok(())
}
