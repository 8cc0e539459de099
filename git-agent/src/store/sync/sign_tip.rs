//! Puts a signed commit on top of a ref of this clone. It adds no content; its signature covers everything below it.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::object::{self, Signature, TreeEntry};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::process::lock::Lock;
use crate::store::log::{EVENTS, STATE, VERSION};
use crate::store::refname::RefName;
use crate::store::sync::validate::chain_parents;
use crate::store::{Store, archive, limits};

/// The most commits that are searched for other writers' records.
const FAR: usize = 100_000;

/// Returns whether the signature of a commit is the user's.
pub type IsUsers<'f> = dyn Fn(ObjectId) -> Result<bool> + 'f;

/// The result of signing a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealed {
    /// The ref is signed; holds its tip.
    At(ObjectId),
    /// The ref is gone or is being written; it is signed later.
    Later,
    /// The ref contains records that this clone did not write, and a signature would vouch for them.
    Foreign,
}

impl Store<'_> {
    /// Signs a ref's tip with the user's key, unless it is signed already. `is_users` tells whether a signature is the
    /// user's: records of others below such a commit were signed knowingly. Without it, all records are known to be
    /// good.
    pub fn seal(&self, name: &RefName, is_users: Option<&IsUsers<'_>>) -> Result<Sealed> {
        let lock = match name {
            RefName::Session(sid) => Lock::try_acquire(self.env, self.write_lock(*sid))?,
            RefName::Archive { .. } => {
                let path = self.require_dir("locks")?.join("archive.lock");
                Lock::try_acquire(self.env, path)?
            }
            RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) => Some(self.lock_notes(name)?),
        };
        let Some(_lock) = lock else {
            return Ok(Sealed::Later);
        };
        let ref_name = name.to_string();
        let Some(tip) = self.repo.find_ref(&ref_name)? else {
            return Ok(Sealed::Later);
        };
        if self.repo.is_signed(tip)? {
            return Ok(Sealed::At(tip));
        }
        if let Some(is_users) = is_users
            && !self.is_vouched(name, tip, is_users)?
        {
            return Ok(Sealed::Foreign);
        }
        let (author, email) = self.repo.committer()?;
        let before = self.repo.read_commit(tip)?;
        let who = Signature {
            name: author,
            email,
            seconds: self.env.now().seconds().max(before.time),
        };
        let (tree, message) = self.seal_content(name, before.tree)?;
        let message = if self.own().wrote_at(tip)? {
            self.marked(tree, &[tip], &message)?
        } else {
            message
        };
        let id = self.repo.signed_commit(tree, &[tip], &who, &message)?;
        let change = RefChange {
            name: ref_name.clone(),
            expected: Expected::At(tip),
            new: Some(id),
        };
        match self.repo.swap_ref(&change)? {
            Swap::Done => Ok(Sealed::At(id)),
            Swap::Stale => Err(Error::fatal(format!(
                "ref '{ref_name}' moved during the signing"
            ))),
        }
    }

    /// Returns whether everything in a ref was written by this clone, or signed by its user before.
    pub fn is_own_word(&self, name: &RefName, is_users: &IsUsers<'_>) -> Result<bool> {
        match self.repo.find_ref(&name.to_string())? {
            Some(tip) => self.is_vouched(name, tip, is_users),
            None => Ok(true),
        }
    }

    fn is_vouched(&self, name: &RefName, tip: ObjectId, is_users: &IsUsers<'_>) -> Result<bool> {
        let own = self.own();
        let is_review = match name {
            // They only link commits to sessions, and no decision depends on them.
            RefName::ProvenanceNotes(_) => return Ok(true),
            RefName::ReviewNotes(_) => true,
            RefName::Session(_) | RefName::Archive { .. } => false,
        };
        // Marked notes contain only this clone's records, whatever they once contained.
        if own.key.is_none() || is_review && own.wrote_at(tip)? {
            return Ok(true);
        }
        let mut signed = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut next = vec![tip];
        while let Some(id) = next.pop() {
            if !seen.insert(id) {
                continue;
            }
            // A commit from before the marks is trusted with everything below it.
            if own.had(&id.to_string()) {
                continue;
            }
            let commit = self.repo.read_commit(id)?;
            let wrote = own.wrote(id, &commit);
            if self.repo.is_signed(id)? && (wrote || is_users(id)?) {
                if is_review {
                    signed.append(&mut self.note_lines_at(commit.tree)?);
                }
                continue;
            }
            if !is_review && !wrote || seen.len() > FAR {
                return Ok(false);
            }
            next.extend(match name {
                RefName::Session(_) => chain_parents(&commit)?,
                _ => commit.parents,
            });
        }
        if !is_review {
            return Ok(true);
        }
        let wrote = self.wrote_record();
        let lines = self.note_lines_at(self.repo.read_commit(tip)?.tree)?;
        let vouched =
            |line: &Vec<u8>| signed.contains(line) || std::str::from_utf8(line).is_ok_and(&wrote);
        Ok(lines.iter().all(vouched))
    }

    /// Returns a tree with the same meaning as the previous one but no new events, and its message.
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
