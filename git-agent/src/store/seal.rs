//! A signed commit on top of a ref of this clone: it says nothing new, and its signature covers everything below it.

use super::log::{EVENTS, STATE, VERSION};
use super::refname::RefName;
use super::{Store, archive, limits};
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::object::{self, Signature, TreeEntry};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::process::lock::Lock;

impl Store<'_> {
    /// Signs a ref's tip with the user's key, unless it is signed already. `None` when it is being written right now: what
    /// is still growing is signed later.
    pub fn seal(&self, name: &RefName) -> Result<Option<ObjectId>> {
        let lock = match name {
            RefName::Session(sid) => Lock::try_acquire(self.env, self.write_lock(*sid))?,
            RefName::Archive { .. } => {
                let path = self.require_dir("locks")?.join("archive.lock");
                Lock::try_acquire(self.env, path)?
            }
            RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) => Some(self.lock_notes(name)?),
        };
        let Some(_lock) = lock else {
            return Ok(None);
        };
        let ref_name = name.to_string();
        let Some(tip) = self.repo.find_ref(&ref_name)? else {
            return Ok(None);
        };
        if self.repo.is_signed(tip)? {
            return Ok(Some(tip));
        }
        let (author, email) = self.repo.committer()?;
        let before = self.repo.read_commit(tip)?;
        let who = Signature {
            name: author,
            email,
            seconds: self.env.now().seconds().max(before.time),
        };
        let (tree, message) = self.seal_content(name, before.tree)?;
        let message = match self.own().wrote_at(tip)? {
            true => self.marked(tree, &[tip], &message)?,
            false => message,
        };
        let id = self.repo.signed_commit(tree, &[tip], &who, &message)?;
        let change = RefChange {
            name: ref_name.clone(),
            expected: Expected::At(tip),
            new: Some(id),
        };
        match self.repo.swap_ref(&change)? {
            Swap::Done => Ok(Some(id)),
            Swap::Stale => Err(Error::fatal(format!("ref '{ref_name}' keeps moving"))),
        }
    }

    /// Returns a tree with the same meaning as the one before, without its news, and the message that goes with it.
    fn seal_content(&self, name: &RefName, tree: ObjectId) -> Result<(ObjectId, String)> {
        let mut batch = self.repo.batch();
        let empty = batch.blob(Vec::new());
        let (news, kept, title) = match name {
            RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) => {
                return Ok((tree, "Notes signed by git-agent\n".to_owned()));
            }
            RefName::Session(sid) => (
                EVENTS,
                Some(STATE),
                format!("agent-log v1\n\nSigned\n\nAgent-Session: {sid}\n"),
            ),
            RefName::Archive { .. } => (
                archive::SESSIONS,
                None,
                "agent-archive v1\n\nSigned\n\n".to_owned(),
            ),
        };
        let entry = |name: &str, id| TreeEntry {
            name: name.into(),
            kind: object::BLOB,
            id,
        };
        let mut entries = vec![entry(VERSION, empty), entry(news, empty)];
        if let Some(kept) = kept {
            let before = self.repo.read_tree(tree, limits::TREE)?;
            let found = before.into_iter().find(|one| one.name == kept.as_bytes());
            entries.extend(found);
        }
        let tree = batch.tree(entries);
        self.repo.write_batch(&batch)?;
        Ok((tree, title))
    }
}
