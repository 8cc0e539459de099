//! Joins two diverged versions of one of this clone's own refs, so that both sides create the identical commit.
//!
//! A ref has one writer, but a clone can be copied and machines can share a writer. The result does not depend on who
//! joins, when, or in which order: the versions are ordered by id, the author is fixed, the date is the later of the
//! two, and no redactor with one machine's secrets is involved.
//!
//! If one side was purged, the other is not joined but grafted: only its new records go on top, so that the purged ones
//! stay gone.
//!
//! Anyone who may push can have written the other version in this clone's name. Its statements about how and where a
//! session runs stay in the transcript as words. If it changed the state, a commit on top restores this clone's, in the
//! same ref update, so that the ref never holds the other state.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use crate::error::{Context, Error, Result};
use crate::git::ObjectId;
use crate::git::object::{self, Batch, Signature, TreeEntry};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::model::event::{Body, Event, to_ascii_json};
use crate::model::session::{Record, SessionId, Ulid};
use crate::process::lock::Lock;
use crate::redact::Redactor;
use crate::store::archive::{PARENTS, SESSIONS, TIP, read_archive};
use crate::store::log::{ATTACHMENTS, EVENTS, JOINED, STATE, VERSION};
use crate::store::refname::{Month, RefName};
use crate::store::{Store, limits};

const NAME: &str = "git-agent";
const EMAIL: &str = "merge@git-agent.invalid";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// The ref now contains both versions.
    At(ObjectId),
    /// The ref is being written; try again later.
    Busy,
}

/// The treatment of a second version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    /// It becomes a parent of the result.
    Kept,
    /// Only its new records are taken over.
    News,
}

/// A commit on top of the first version, and its objects.
struct Version {
    commit: ObjectId,
    batch: Batch,
}

impl Store<'_> {
    /// Joins another version of one of this clone's own refs into it.
    pub fn join(&self, name: &RefName, theirs: ObjectId, redactor: &Redactor) -> Result<Joined> {
        match name {
            RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) => {
                let tip = self.join_notes(name, theirs)?;
                Ok(Joined::At(tip.unwrap_or(theirs)))
            }
            RefName::Session(sid) => {
                let Some(_lock) = Lock::try_acquire(self.env, self.write_lock(*sid))? else {
                    return Ok(Joined::Busy);
                };
                self.flush_spool(*sid, redactor)?;
                self.join_ref(name, theirs, &|one, other| {
                    self.join_logs(*sid, (one, other), Second::Kept)
                })
            }
            RefName::Archive { month, .. } => {
                let lock = self.require_dir("locks")?.join("archive.lock");
                let Some(_lock) = Lock::try_acquire(self.env, lock)? else {
                    return Ok(Joined::Busy);
                };
                self.join_ref(name, theirs, &|one, other| {
                    self.join_archives(month, (one, other), Second::Kept)
                })
            }
        }
    }

    /// Joins this clone's version of a ref with another if one of them was purged: the other's new records go on top of
    /// the purged one. `onto_theirs` says that theirs is the purged one.
    pub fn graft(
        &self,
        name: &RefName,
        theirs: ObjectId,
        onto_theirs: bool,
        redactor: &Redactor,
    ) -> Result<Joined> {
        if let Some(ours) = self.repo.find_ref(&name.to_string())?
            && onto_theirs
        {
            // Only their version claims the purge, so keep ours.
            self.keep_lost(&name.to_string(), ours)?;
        }
        let lock = match name {
            RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) => {
                let tip = self.graft_notes(name, theirs, onto_theirs)?;
                return Ok(Joined::At(tip.unwrap_or(theirs)));
            }
            RefName::Session(sid) => Lock::try_acquire(self.env, self.write_lock(*sid))?,
            RefName::Archive { .. } => {
                let lock = self.require_dir("locks")?.join("archive.lock");
                Lock::try_acquire(self.env, lock)?
            }
        };
        let Some(_lock) = lock else {
            return Ok(Joined::Busy);
        };
        if let RefName::Session(sid) = name {
            let tip = self.flush_spool(*sid, redactor)?;
            if let Some(tip) = tip.filter(|tip| tip.own) {
                self.keep_local(&tip.session)?;
            }
        }
        let Some(ours) = self.repo.find_ref(&name.to_string())? else {
            return Err(Error::fatal(format!("ref '{name}' is gone")));
        };
        let sides = if onto_theirs {
            (theirs, ours)
        } else {
            (ours, theirs)
        };
        let version = match name {
            RefName::Session(sid) => self.join_logs(*sid, sides, Second::News)?,
            RefName::Archive { month, .. } => self.join_archives(month, sides, Second::News)?,
            RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) => return Ok(Joined::At(ours)),
        };
        self.repo.write_batch(&version.batch)?;
        let new = self.keep_own(name, ours, version.commit)?;
        let change = RefChange {
            name: name.to_string(),
            expected: Expected::At(ours),
            new: Some(new),
        };
        match self.repo.swap_ref(&change)? {
            Swap::Done => Ok(Joined::At(new)),
            Swap::Stale => Ok(Joined::Busy),
        }
    }

    fn join_ref(
        &self,
        name: &RefName,
        theirs: ObjectId,
        join: &dyn Fn(ObjectId, ObjectId) -> Result<Version>,
    ) -> Result<Joined> {
        let name_text = name.to_string();
        let joined = self.repo.update_ref(&name_text, |tip| {
            let Some(ours) = tip else {
                return Ok(Some(theirs));
            };
            let new = if self.repo.is_ancestor(theirs, ours)? {
                return Ok(None);
            } else if self.repo.is_ancestor(ours, theirs)? {
                theirs
            } else {
                let version = join(ours.min(theirs), ours.max(theirs))?;
                self.repo.write_batch(&version.batch)?;
                version.commit
            };
            self.keep_own(name, ours, new).map(Some)
        })?;
        Ok(Joined::At(joined.unwrap_or(theirs)))
    }

    /// Restores on top of a log the fields of this clone's version that no other may change. Returns the tip.
    ///
    /// A copy of this clone counts as this clone. A repeated statement is answered only once: this clone recognises its
    /// own state by its marks, and two clones that each restore theirs would never stop.
    fn keep_own(&self, name: &RefName, ours: ObjectId, new: ObjectId) -> Result<ObjectId> {
        let RefName::Session(sid) = name else {
            return Ok(new);
        };
        let own = self.own();
        if own.wrote_at(new)? {
            return Ok(new);
        }
        let told = self.state_at(new, *sid)?;
        let view = match own.key {
            Some(_) => own.view(new, &told)?,
            None => None,
        };
        let known = own.key.is_none() || view.as_ref().is_some_and(|view| !view.is_deep);
        let mut session = match view {
            Some(view) => view.record,
            None => self.tip_at(ours, *sid)?.session.with_news_of(&told),
        };
        let (fields, mut bodies) = session.put_back(&told);
        if known && (fields.is_empty() || self.was_told(ours, &fields, &told)?) {
            return Ok(new);
        }
        if !fields.is_empty() {
            let text = format!(
                "a fetched version of this session differs in: {}; the values of this clone are kept",
                fields.join(", ")
            );
            bodies.push(Body::Notice { text });
        }
        let mut chunk = Chunk::default();
        for body in bodies {
            session.seq += 1;
            session.lc += 1;
            let event = Event {
                id: Ulid::new(self.env),
                seq: session.seq,
                lc: session.lc,
                ts: self.env.now(),
                turn: session.turns,
                body,
            };
            chunk.add(self, new, event)?;
        }
        let mut batch = self.repo.batch();
        let signature = self.joint_signature(ours, new)?;
        let place = (&[new][..], None, true);
        let commit = self.log_chunk(&mut batch, &session, &chunk, place, &signature)?;
        self.repo.write_batch(&batch)?;
        Ok(commit)
    }

    /// Returns whether the last foreign version in a log had the same values in these fields.
    fn was_told(&self, ours: ObjectId, fields: &[String], told: &Record) -> Result<bool> {
        let own = self.own();
        let mut next = Some(ours);
        for _ in 0..limits::CHAIN {
            let Some(id) = next else { break };
            if !own.wrote_at(id)? {
                return Ok(self.state_at(id, told.sid)?.says_the_same(told, fields));
            }
            next = self.log_before(id)?;
        }
        Ok(false)
    }

    /// Appends the events that only the second log has to those of the first.
    fn join_logs(
        &self,
        sid: SessionId,
        (one, other): (ObjectId, ObjectId),
        second: Second,
    ) -> Result<Version> {
        let mut session = self.state_at(one, sid)?;
        let mut known = HashSet::new();
        for event in self.transcript(one)? {
            known.insert(event?.id);
        }
        let mut batch = self.repo.batch();
        let signature = self.joint_signature(one, other)?;
        let kept = second == Second::Kept;
        let mut parents = vec![one];
        parents.extend(kept.then_some(other));
        let mut joined = kept.then_some(other);
        let mut chunk = Chunk::default();
        for event in self.transcript(other)? {
            let mut event = event?;
            if !known.insert(event.id) {
                continue;
            }
            event.seq = session.seq + 1;
            if chunk.bytes + event.to_line().len() > limits::CHUNK {
                let place = (parents.as_slice(), joined.take(), false);
                let id = self.log_chunk(&mut batch, &session, &chunk, place, &signature)?;
                parents = vec![id];
                chunk = Chunk::default();
            }
            session.apply(&event);
            chunk.add(self, other, event)?;
        }
        if !kept && chunk.bytes == 0 {
            let commit = parents[0];
            return Ok(Version { commit, batch });
        }
        let place = (parents.as_slice(), joined, false);
        let commit = self.log_chunk(&mut batch, &session, &chunk, place, &signature)?;
        Ok(Version { commit, batch })
    }

    fn log_chunk(
        &self,
        batch: &mut Batch,
        session: &Record,
        chunk: &Chunk,
        (parents, joined, own): (&[ObjectId], Option<ObjectId>, bool),
        signature: &Signature,
    ) -> Result<ObjectId> {
        let state = serde_json::to_value(session)
            .context(|| format!("cannot join session {}", session.sid))?;
        let mut entries = vec![
            entry(VERSION, batch.blob(Vec::new())),
            entry(EVENTS, batch.blob(chunk.lines.clone().into_bytes())),
            entry(STATE, batch.blob(line(&state).into_bytes())),
        ];
        if !chunk.attachments.is_empty() {
            let attached = chunk.attachments.iter().map(|(name, id)| entry(name, *id));
            entries.push(TreeEntry {
                name: ATTACHMENTS.into(),
                kind: object::TREE,
                id: batch.tree(attached.collect::<Vec<_>>()),
            });
        }
        let tree = batch.tree(entries);
        let mut message = format!(
            "agent-log v1\n\nTwo versions joined by git-agent\n\nAgent-Session: {}\n",
            session.sid
        );
        if let Some(other) = joined {
            message.push_str(&format!("{JOINED}: {other}\n"));
        }
        if own {
            message = self.marked(tree, parents, &message)?;
        }
        Ok(batch.commit(tree, parents, signature, &message))
    }

    /// Adds the sessions that only the second archive has on top of the first.
    fn join_archives(
        &self,
        month: &Month,
        (one, other): (ObjectId, ObjectId),
        second: Second,
    ) -> Result<Version> {
        let mut known: BTreeMap<SessionId, u64> = BTreeMap::new();
        read_archive(self.repo, one, month, &mut |archived| {
            let seq = known.entry(archived.session.sid).or_default();
            *seq = (*seq).max(archived.session.seq);
            true
        })?;
        let mut newer = BTreeMap::new();
        read_archive(self.repo, other, month, &mut |archived| {
            let sid = archived.session.sid;
            if known
                .get(&sid)
                .is_none_or(|seq| *seq < archived.session.seq)
            {
                newer.entry(sid).or_insert(archived);
            }
            true
        })?;
        let kept = second == Second::Kept;
        // The log of a session that continued contains the purged records.
        if !kept && newer.keys().any(|sid| known.contains_key(sid)) {
            return Err(Error::fatal(
                "a copy of this clone purged the archive, but this clone continued a session in it",
            ));
        }
        let newer: Vec<_> = newer.into_values().collect();
        let signature = self.joint_signature(one, other)?;
        let mut batch = self.repo.batch();
        let mut parents = vec![one];
        parents.extend(kept.then_some(other));
        let mut trailer = if kept {
            format!("{JOINED}: {other}\n")
        } else {
            String::new()
        };
        let mut groups: Vec<_> = newer.chunks(PARENTS - 2).collect();
        if groups.is_empty() && kept {
            groups.push(&[]);
        }
        for group in groups {
            let mut lines = String::new();
            for archived in group {
                let mut value = serde_json::to_value(&archived.session)
                    .context(|| "cannot join archives".into())?;
                if let Value::Object(fields) = &mut value {
                    fields.insert(TIP.to_owned(), archived.tip.to_string().into());
                }
                lines.push_str(&line(&value));
                parents.push(archived.tip);
            }
            let entries = [
                entry(VERSION, batch.blob(Vec::new())),
                entry(SESSIONS, batch.blob(lines.into_bytes())),
            ];
            let tree = batch.tree(entries);
            let message =
                format!("agent-archive v1\n\nTwo versions joined by git-agent\n\n{trailer}");
            let id = batch.commit(tree, &parents, &signature, message.trim_end());
            parents = vec![id];
            trailer.clear();
        }
        let commit = parents[0];
        Ok(Version { commit, batch })
    }

    fn joint_signature(&self, one: ObjectId, other: ObjectId) -> Result<Signature> {
        let time = |id| self.repo.read_commit(id).map(|commit| commit.time);
        Ok(Signature {
            name: NAME.to_owned(),
            email: EMAIL.to_owned(),
            seconds: time(one)?.max(time(other)?),
        })
    }
}

/// Events for one commit.
#[derive(Default)]
struct Chunk {
    lines: String,
    bytes: usize,
    attachments: BTreeMap<String, ObjectId>,
}

impl Chunk {
    fn add(&mut self, store: &Store<'_>, from: ObjectId, event: Event) -> Result<()> {
        if let Body::ToolResult {
            attachment: Some(name),
            ..
        } = &event.body
            && self.attachments.len() < limits::ATTACHMENTS
            && let Some(id) = store.find_attachment(from, name)?
        {
            self.attachments.insert(name.clone(), id);
        }
        self.lines.push_str(&event.to_line());
        self.lines.push('\n');
        self.bytes = self.lines.len();
        Ok(())
    }
}

fn entry(name: &str, id: ObjectId) -> TreeEntry {
    TreeEntry {
        name: name.into(),
        kind: object::BLOB,
        id,
    }
}

fn line(value: &Value) -> String {
    let mut line = to_ascii_json(value);
    line.push('\n');
    line
}
