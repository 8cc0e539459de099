//! Rewrites this clone's own refs without a secret that a redactor now finds, or without a whole session.
//!
//! The new version names the versions it replaces, so that a push knows what it may overwrite. Any other version was
//! written by someone else, and is never overwritten.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::error::{Context, Error, Result};
use crate::git::object::{self, Batch, Commit, Signature, TreeEntry};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::{ObjectId, ObjectKind};
use crate::model::event::Event;
use crate::model::session::SessionId;
use crate::process::lock::Lock;
use crate::redact::{Redacted, Redactor};
use crate::store::archive::{Archived, PARENTS, SESSIONS, TIP, read_archive};
use crate::store::log::writer::to_value;
use crate::store::log::{ATTACHMENTS, EVENTS, STATE, VERSION};
use crate::store::refname::{self, Month, RefName};
use crate::store::trash::Lost;
use crate::store::{Store, limits};

/// The trailer that names a version to be overwritten.
pub const REPLACES: &str = "Agent-Replaces";

/// A ref that was rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    pub name: RefName,
    /// The old tip.
    pub old: ObjectId,
    /// The new tip.
    pub new: ObjectId,
}

impl Store<'_> {
    /// Returns whether a version of a ref claims to replace another, or a descendant of that one.
    pub fn is_replaced(&self, tip: ObjectId, old: ObjectId) -> Result<bool> {
        let older_than = |named: &str| {
            let named = self.repo.parse_id(named).ok();
            named.is_some_and(|named| {
                named == old || self.repo.is_ancestor(old, named).unwrap_or(false)
            })
        };
        let found = self.find_rewrite(tip, &|commit| commit.trailers(REPLACES).any(older_than))?;
        Ok(found.is_some())
    }

    /// Returns whether a version of a ref was purged after it diverged from another.
    pub fn is_purged_beyond(&self, tip: ObjectId, other: ObjectId) -> Result<bool> {
        let newest = self.find_rewrite(tip, &|commit| commit.trailers(REPLACES).next().is_some());
        match newest? {
            Some(id) => Ok(!self.repo.is_ancestor(id, other)?),
            None => Ok(false),
        }
    }

    /// Returns the newest rewritten commit of a ref that is wanted.
    fn find_rewrite(
        &self,
        tip: ObjectId,
        wanted: &dyn Fn(&Commit) -> bool,
    ) -> Result<Option<ObjectId>> {
        let mut next = Some(tip);
        for _ in 0..limits::CHAIN {
            let Some(id) = next else { break };
            let commit = self.repo.read_commit(id)?;
            if wanted(&commit) {
                return Ok(Some(id));
            }
            // The first parent may be code, which has no such trailer.
            next = commit.parents.first().copied().filter(|_| {
                commit.message.starts_with("agent-") || commit.message.starts_with("Notes ")
            });
        }
        Ok(None)
    }

    /// Rewrites one of this clone's refs without the secrets that the redactor finds and without the sessions to
    /// `drop`. Returns `None` if nothing changes. `elsewhere` are the versions at remotes.
    pub fn rewrite(
        &self,
        name: &RefName,
        redactor: &Redactor,
        drop: &BTreeSet<SessionId>,
        elsewhere: &[ObjectId],
    ) -> Result<Option<Rewritten>> {
        let lock = match name {
            RefName::Session(sid) => Lock::try_acquire(self.env, self.write_lock(*sid))?,
            RefName::Archive { .. } => {
                let path = self.require_dir("locks")?.join("archive.lock");
                Lock::try_acquire(self.env, path)?
            }
            _ => Some(self.lock_notes(name)?),
        };
        let Some(_lock) = lock else {
            return Err(Error::fatal("it is being written right now").hint("git agent stop"));
        };
        let Some(old) = self.repo.find_ref(&name.to_string())? else {
            return Ok(None);
        };
        let mut replaced: BTreeSet<ObjectId> = elsewhere.iter().copied().collect();
        replaced.insert(old);
        let trailers: String = replaced
            .iter()
            .map(|id| format!("{REPLACES}: {id}\n"))
            .collect();
        let mut batch = self.repo.batch();
        let new = match name {
            RefName::Session(sid) => {
                let old = match self.settled(*sid, old, redactor)? {
                    Some(tip) => tip.id,
                    None => {
                        return Err(Error::fatal("its spool is damaged").hint("git agent doctor"));
                    }
                };
                self.clean_log(&mut batch, old, redactor, &trailers)?
            }
            RefName::Archive { month, .. } => {
                self.clean_archive(&mut batch, (month, old), redactor, drop, &trailers)?
            }
            RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) => {
                self.clean_notes(old, redactor, &trailers)?
            }
        };
        let Some(new) = new else {
            return Ok(None);
        };
        self.repo.write_batch(&batch)?;
        let current = self.repo.find_ref(&name.to_string())?.unwrap_or(old);
        let change = RefChange {
            name: name.to_string(),
            expected: Expected::At(current),
            new: Some(new),
        };
        match self.repo.swap_ref(&change)? {
            Swap::Done => Ok(Some(Rewritten {
                name: name.clone(),
                old: current,
                new,
            })),
            Swap::Stale => Err(Error::fatal(format!(
                "ref '{name}' moved during the rewrite"
            ))),
        }
    }

    /// Returns whether the redactor finds a secret in a version of a ref.
    pub fn holds(&self, name: &RefName, tip: ObjectId, redactor: &Redactor) -> Result<bool> {
        match name {
            RefName::Session(_) => self.log_holds(tip, redactor),
            RefName::Archive { month, .. } => {
                let mut sessions = Vec::new();
                read_archive(self.repo, tip, month, &mut |archived| {
                    sessions.push(archived);
                    true
                })?;
                for archived in sessions {
                    let value = to_value(&archived.session)?;
                    if *redactor.json(value.clone()).get() != value
                        || self.log_holds(archived.tip, redactor)?
                    {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) => {
                Ok(self.clean_notes(tip, redactor, "")?.is_some())
            }
        }
    }

    fn log_holds(&self, tip: ObjectId, redactor: &Redactor) -> Result<bool> {
        // The batch is thrown away.
        let mut batch = self.repo.batch();
        let mut next = Some(tip);
        for _ in 0..limits::CHAIN {
            let Some(id) = next else { break };
            let commit = self.repo.read_commit(id)?;
            if self.clean_tree(&mut batch, &commit, redactor)?.1
                || redactor.text(&commit.message).into_inner() != commit.message
            {
                return Ok(true);
            }
            next = self.log_before(id)?;
        }
        Ok(false)
    }

    /// Rewrites a kept old version of one of this clone's refs without the secrets that the redactor finds. Returns
    /// whether it found any.
    pub fn rewrite_lost(&self, lost: &Lost, redactor: &Redactor) -> Result<bool> {
        let mut batch = self.repo.batch();
        let nothing = BTreeSet::new();
        let new = match refname::lost_own(&lost.name) {
            None => None,
            Some(RefName::Session(_)) => self.clean_log(&mut batch, lost.id, redactor, "")?,
            Some(RefName::Archive { month, .. }) => {
                self.clean_archive(&mut batch, (&month, lost.id), redactor, &nothing, "")?
            }
            Some(RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_)) => {
                self.clean_notes(lost.id, redactor, "")?
            }
        };
        let Some(new) = new else {
            return Ok(false);
        };
        self.repo.write_batch(&batch)?;
        let change = RefChange {
            name: lost.name.clone(),
            expected: Expected::At(lost.id),
            new: Some(new),
        };
        // A ref that was removed meanwhile holds no secret.
        Ok(self.repo.swap_ref(&change)? == Swap::Done)
    }

    /// Returns the tip of a log without the secrets that the redactor finds; `None` if it finds none. Joined versions
    /// become one line, which already contains the other side's events.
    fn clean_log(
        &self,
        batch: &mut Batch,
        tip: ObjectId,
        redactor: &Redactor,
        trailers: &str,
    ) -> Result<Option<ObjectId>> {
        let mut commits = Vec::new();
        let mut next = Some(tip);
        while let Some(id) = next {
            if commits.len() == limits::CHAIN {
                return Err(Error::fatal(format!("log {tip} is too long")));
            }
            let commit = self.repo.read_commit(id)?;
            next = self.log_before(id)?;
            commits.push((id, commit));
        }
        let mut changed = false;
        let mut previous: Option<ObjectId> = None;
        for (id, commit) in commits.iter().rev() {
            let (tree, differs) = self.clean_tree(batch, commit, redactor)?;
            let message = redactor.text(&commit.message).into_inner();
            let joined = commit.parents.len() > 1 && message.contains(crate::store::log::JOINED);
            changed |= differs || message != commit.message || joined;
            if !changed {
                previous = Some(*id);
                continue;
            }
            let own = self.own().wrote(*id, commit);
            let mut message: String = message
                .lines()
                .filter(|line| !line.starts_with(crate::store::log::JOINED))
                .filter(|line| !line.starts_with(crate::store::sync::authorship::TRAILER))
                .map(|line| format!("{line}\n"))
                .collect();
            if *id == tip {
                message.push_str(trailers);
            }
            let parents: Vec<ObjectId> = previous.into_iter().chain(code_parents(commit)).collect();
            let who = Signature {
                name: redactor.text(&commit.author.0).into_inner(),
                email: commit.author.1.clone(),
                seconds: commit.time,
            };
            if own {
                message = self.marked(tree, &parents, &message)?;
            }
            previous = Some(batch.commit(tree, &parents, &who, &message));
        }
        Ok(previous.filter(|new| changed && *new != tip))
    }

    fn clean_tree(
        &self,
        batch: &mut Batch,
        commit: &Commit,
        redactor: &Redactor,
    ) -> Result<(ObjectId, bool)> {
        let mut entries = Vec::new();
        let mut changed = false;
        for mut entry in self.repo.read_tree(commit.tree, limits::TREE)? {
            let before = entry.id;
            if entry.name == EVENTS.as_bytes() {
                let bytes = self.blob(entry.id, limits::EVENTS)?;
                let mut clean = Vec::with_capacity(bytes.len());
                for line in lines(&bytes) {
                    let event =
                        Event::from_line(line).context(|| "an event is malformed".into())?;
                    let redacted = redactor.event(&event);
                    // Lines without a secret stay byte for byte.
                    if *redacted.get() == event {
                        clean.extend_from_slice(line)
                    } else {
                        clean.extend_from_slice(redacted.to_line().as_bytes())
                    }
                    clean.push(b'\n');
                }
                entry.id = batch.blob(clean);
            } else if entry.name == STATE.as_bytes() {
                let bytes = self.blob(entry.id, limits::STATE)?;
                let value: Value =
                    serde_json::from_slice(&bytes).context(|| "a state is malformed".into())?;
                let redacted = redactor.json(value.clone());
                if *redacted.get() != value {
                    entry.id = batch.blob(line_of(&redacted));
                }
            } else if entry.name == ATTACHMENTS.as_bytes() {
                let mut attached = self.repo.read_tree(entry.id, limits::TREE)?;
                for one in &mut attached {
                    let bytes = self.blob(one.id, limits::ATTACHMENT as u64)?;
                    one.id = batch.blob(redactor.bytes(&bytes).into_inner());
                }
                entry.id = batch.tree(attached);
            }
            changed |= entry.id != before;
            entries.push(entry);
        }
        Ok((batch.tree(entries), changed))
    }

    fn clean_archive(
        &self,
        batch: &mut Batch,
        (month, tip): (&Month, ObjectId),
        redactor: &Redactor,
        drop: &BTreeSet<SessionId>,
        trailers: &str,
    ) -> Result<Option<ObjectId>> {
        let mut sessions: BTreeMap<SessionId, Archived> = BTreeMap::new();
        let mut changed = false;
        read_archive(self.repo, tip, month, &mut |archived| {
            let sid = archived.session.sid;
            if drop.contains(&sid) {
                changed = true
            } else {
                // The newest comes first, and counts.
                sessions.entry(sid).or_insert(archived);
            }
            true
        })?;
        let mut clean = Vec::new();
        for (_, archived) in sessions {
            // A remote may still have it under its own ref.
            let replaced = format!("{REPLACES}: {}\n", archived.tip);
            let log = self.clean_log(batch, archived.tip, redactor, &replaced)?;
            let mut value = to_value(&archived.session)?;
            if let Value::Object(fields) = &mut value {
                let tip = log.unwrap_or(archived.tip);
                fields.insert(TIP.to_owned(), tip.to_string().into());
            }
            let redacted = redactor.json(value.clone());
            changed |= log.is_some() || *redacted.get() != value;
            clean.push((log.unwrap_or(archived.tip), redacted));
        }
        if !changed {
            return Ok(None);
        }
        let who = self.own_signature(tip)?;
        let mut previous: Option<ObjectId> = None;
        let mut groups: Vec<_> = clean.chunks(PARENTS - 1).collect();
        if groups.is_empty() {
            groups.push(&[]);
        }
        for (at, group) in groups.iter().enumerate() {
            let text: Vec<u8> = group.iter().flat_map(|(_, line)| line_of(line)).collect();
            let entries = [
                entry(VERSION, batch.blob(Vec::new())),
                entry(SESSIONS, batch.blob(text)),
            ];
            let tree = batch.tree(entries);
            let parents: Vec<ObjectId> = previous
                .into_iter()
                .chain(group.iter().map(|(tip, _)| *tip))
                .collect();
            let last = if at + 1 == groups.len() { trailers } else { "" };
            let message = format!("agent-archive v1\n\nWritten again\n\n{last}");
            previous = Some(batch.commit(tree, &parents, &who, &message));
        }
        Ok(previous)
    }

    fn clean_notes(
        &self,
        tip: ObjectId,
        redactor: &Redactor,
        trailers: &str,
    ) -> Result<Option<ObjectId>> {
        let message = format!("Notes purged by git-agent\n\n{trailers}");
        let wrote = self.wrote_record();
        self.clean_notes_tree(tip, &message, &|line| {
            let text = String::from_utf8_lossy(line);
            match serde_json::from_slice::<Value>(line) {
                Ok(value) => {
                    let mut clean = redactor.json(value.clone());
                    if *clean.get() == value {
                        return None;
                    }
                    // The old mark covers the old text.
                    if wrote(&text)
                        && let Ok(marked) = self.marked_record(&clean)
                    {
                        clean = marked;
                    }
                    Some(clean.to_line().into_inner().into_bytes())
                }
                Err(_) => {
                    let clean = redactor.text(&text).into_inner();
                    (clean != text).then(|| clean.into_bytes())
                }
            }
        })
    }

    fn own_signature(&self, tip: ObjectId) -> Result<Signature> {
        let (name, email) = self.repo.committer()?;
        Ok(Signature {
            name,
            email,
            seconds: self.repo.read_commit(tip)?.time,
        })
    }

    fn blob(&self, id: ObjectId, limit: u64) -> Result<Vec<u8>> {
        self.repo.read_object(id, ObjectKind::Blob, limit)
    }
}

fn code_parents(commit: &Commit) -> Vec<ObjectId> {
    let code: Vec<&str> = commit.trailers("Agent-Code").collect();
    commit
        .parents
        .iter()
        .filter(|parent| code.contains(&parent.to_string().as_str()))
        .copied()
        .collect()
}

fn line_of(value: &Redacted<Value>) -> Vec<u8> {
    let mut line = value.to_line().into_inner().into_bytes();
    line.push(b'\n');
    line
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
}

fn entry(name: &str, id: ObjectId) -> TreeEntry {
    TreeEntry {
        name: name.into(),
        kind: object::BLOB,
        id,
    }
}
