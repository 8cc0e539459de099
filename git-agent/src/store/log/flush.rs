//! Moves events from the spool to git, as commits of the session's log, each with the state after its events.

use std::fs;

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::git::ObjectId;
use crate::git::object::{self, Batch, Signature, TreeEntry};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::model::event::Body;
use crate::model::session::fold::shorten;
use crate::model::session::{Record, Session, SessionId};
use crate::redact::{Redacted, Redactor};
use crate::store::log::writer::to_value;
use crate::store::log::{ATTACHMENTS, EVENTS, STATE, Tip, VERSION, spool};
use crate::store::refname::RefName;
use crate::store::{Store, limits};

/// How often a lost race for the ref is retried.
const ATTEMPTS: u32 = 8;

impl Store<'_> {
    /// Moves a session's spool into git, chunk by chunk, and returns the newest commit. The caller holds the write
    /// lock.
    pub(crate) fn flush_spool(&self, sid: SessionId, redactor: &Redactor) -> Result<Option<Tip>> {
        let mut tip = self.log_tip(sid)?;
        let mut lost_races = 0;
        // A large backlog goes to git in chunks; the next chunk begins where the last one ended.
        let mut hint = None;
        loop {
            let base = match &tip {
                Some(tip) => tip.session.clone(),
                None => self.unborn(sid)?,
            };
            let tail =
                spool::read_tail(&self.spool_dir(sid), base.seq, hint, limits::CHUNK as u64)?;
            hint = Some(tail.end);
            if tail.events.is_empty() {
                return Ok(tip);
            }
            // Resumed: it needs its own ref to grow.
            if tip.as_ref().is_some_and(|tip| tip.archived) {
                self.unfold(sid)?;
            }
            match self.write_log(tip.as_ref(), base, &tail, redactor)? {
                Some(written) => tip = Some(written),
                // Only a user with plain git, or a copy of this clone, can interfere.
                None if lost_races < ATTEMPTS => {
                    lost_races += 1;
                    tip = self.log_tip(sid)?;
                }
                None => {
                    return Err(Error::fatal(format!(
                        "ref of session {sid} moved {ATTEMPTS} times in a row"
                    ))
                    .hint("git agent doctor"));
                }
            }
        }
    }

    /// Writes one log commit and moves the ref; returns `None` if another process moved the ref.
    fn write_log(
        &self,
        tip: Option<&Tip>,
        mut session: Session,
        tail: &spool::Tail,
        redactor: &Redactor,
    ) -> Result<Option<Tip>> {
        let sid = session.sid;
        let cannot = || format!("cannot record session {sid}");
        let first = session.seq + 1;
        let mut lines = Vec::with_capacity(tail.events.len());
        let mut code = Vec::new();
        let mut attached = Vec::new();
        for event in &tail.events {
            session.apply(event);
            lines.push(redactor.event(event).to_line());
            match &event.body {
                Body::Submit { commit } => code.extend(self.existing_commit(commit)?),
                Body::ToolResult {
                    attachment: Some(name),
                    ..
                } => attached.push(name.clone()),
                Body::Set { value, .. } => {
                    attached.extend(value["attachment"].as_str().map(str::to_owned));
                }
                _ => {}
            }
        }
        code.dedup();
        code.retain(|id| tip.is_none_or(|tip| tip.id != *id));
        fault::point("flush.read").context(cannot)?;
        if tip.is_none_or(|tip| tip.own) {
            self.keep_local(&session)?;
        }

        let mut batch = self.repo.batch();
        let mut entries = vec![
            blob(&mut batch, VERSION, Redacted::trusted("").into_bytes()),
            blob(&mut batch, EVENTS, join_lines(&lines)),
            blob(&mut batch, STATE, state_line(&session, redactor)?),
        ];
        entries.extend(self.attach(&mut batch, session.sid, &attached, redactor)?);
        let tree = batch.tree(entries);
        let mut parents: Vec<ObjectId> = tip.map(|tip| tip.id).into_iter().collect();
        parents.extend(&code);
        let signature = Signature {
            name: session.author.name.clone(),
            email: session.author.email.clone(),
            seconds: session.updated.seconds(),
        };
        let message = message(&session, first, &code);
        let mut message = redactor.text(&message).into_inner();
        // A commit on top of another writer's does not make that one this clone's.
        if tip.is_none_or(|tip| tip.own) {
            message = self.marked(tree, &parents, &message)?;
        }
        let id = batch.commit(tree, &parents, &signature, &message);
        fault::point("flush.built").context(cannot)?;
        self.repo.write_batch(&batch)?;
        fault::point("flush.written").context(cannot)?;
        let change = RefChange {
            name: RefName::Session(session.sid).to_string(),
            expected: tip.map_or(Expected::Absent, |tip| Expected::At(tip.id)),
            new: Some(id),
        };
        match self.repo.swap_ref(&change)? {
            Swap::Done => {
                fault::point("flush.done").context(cannot)?;
                Ok(Some(Tip {
                    id,
                    session,
                    archived: false,
                    own: tip.is_none_or(|tip| tip.own),
                }))
            }
            Swap::Stale => Ok(None),
        }
    }

    fn existing_commit(&self, hex: &str) -> Result<Option<ObjectId>> {
        let Ok(id) = self.repo.parse_id(hex) else {
            return Ok(None);
        };
        let header = self.repo.object_header(id)?;
        Ok(header
            .filter(|(kind, _)| *kind == crate::git::ObjectKind::Commit)
            .map(|_| id))
    }

    /// Adds the attachments that a chunk of events names.
    fn attach(
        &self,
        batch: &mut Batch,
        sid: SessionId,
        names: &[String],
        redactor: &Redactor,
    ) -> Result<Option<TreeEntry>> {
        let dir = self.spool_dir(sid).join(ATTACHMENTS);
        let mut entries = Vec::new();
        for name in names.iter().take(limits::ATTACHMENTS) {
            let plain = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            // It was removed with the spool. The event still has a shortened text.
            let Some(bytes) = plain.then(|| fs::read(dir.join(name)).ok()).flatten() else {
                continue;
            };
            entries.push(blob(batch, name, redactor.bytes(&bytes)));
        }
        if entries.is_empty() {
            return Ok(None);
        }
        entries.dedup_by(|a, b| a.name == b.name);
        let id = batch.tree(entries);
        Ok(Some(TreeEntry {
            name: ATTACHMENTS.into(),
            kind: object::TREE,
            id,
        }))
    }
}

fn blob(batch: &mut Batch, name: &str, content: Redacted<Vec<u8>>) -> TreeEntry {
    let id = batch.blob(content.into_inner());
    TreeEntry {
        name: name.into(),
        kind: object::BLOB,
        id,
    }
}

fn join_lines(lines: &[Redacted<String>]) -> Redacted<Vec<u8>> {
    let newline = Redacted::trusted("\n");
    Redacted::concat(lines.iter().flat_map(|line| [line, &newline])).into_bytes()
}

/// The length of strings in a state that is too large as a whole.
const SMALL: usize = 500;

/// Returns `state.json`, small enough for every reader.
fn state_line(session: &Record, redactor: &Redactor) -> Result<Redacted<Vec<u8>>> {
    let newline = Redacted::trusted("\n");
    let encode = |session: &Record| -> Result<Redacted<String>> {
        Ok(redactor.json(to_value(session)?).to_line())
    };
    let mut line = encode(session)?;
    if line.as_str().len() as u64 >= limits::STATE {
        let mut small = session.clone();
        // The values that decide how the session runs are short.
        small.settings.drop_larger_than(SMALL);
        small.task = shorten(&small.task, SMALL);
        line = encode(&small)?;
    }
    // A larger state would make the session unreadable.
    if line.as_str().len() as u64 >= limits::STATE {
        return Err(Error::fatal(format!(
            "the record of session '{}' is too large",
            shorten(&session.name, SMALL)
        )));
    }
    Ok(Redacted::concat([&line, &newline]).into_bytes())
}

fn message(session: &Record, first: u64, code: &[ObjectId]) -> String {
    let mut message = format!(
        "agent-log v1\n\n{}: {}, events {first}-{}\n\nAgent-Session: {}\n",
        session.name, session.status, session.seq, session.sid
    );
    for id in code {
        message.push_str(&format!("Agent-Code: {id}\n"));
    }
    message
}
