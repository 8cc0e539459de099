//! A last look at what is about to leave this machine. Records were redacted when they were made; since then more may be
//! known, and what cannot be taken back deserves a second look.

use std::collections::BTreeSet;

use serde_json::Value;

use super::plan::Item;
use crate::error::{Context as _, Error, Result};
use crate::git::object::Commit;
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::redact::{Redactor, rule_between};
use crate::session::Session;
use crate::store::refname::RefName;
use crate::store::{check, limits, log};
use crate::transcript::{Event, to_ascii_json};

/// Files of code larger than this are not looked into.
const CODE: u64 = 1 << 20;

/// Looks at what a remote is about to get, on all cores. What may not go is marked with the reason.
pub(super) fn inspect_all(repo: &Repo, redactor: &Redactor, items: &mut [Item]) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(cores).max(1);
    std::thread::scope(|scope| {
        for part in items.chunks_mut(share) {
            let repo = repo.clone();
            scope.spawn(move || {
                for item in part.iter_mut().filter(|item| item.refused.is_none()) {
                    if let Err(error) = inspect(&repo, redactor, item) {
                        item.refused = Some(error.message().to_owned());
                    }
                }
            });
        }
    });
}

fn inspect(repo: &Repo, redactor: &Redactor, item: &Item) -> Result<()> {
    let Some(new) = item.new else {
        return Ok(());
    };
    let known: Vec<ObjectId> = item.copy.into_iter().collect();
    check::check(repo, &item.name, new, &known)?;
    let mut look = Look {
        repo,
        redactor,
        known: known.into_iter().collect(),
    };
    match &item.name {
        RefName::Session(sid) => {
            let session = log::read_state(repo, new, *sid)?;
            require_redacted(&session)?;
            look.log(new, session.base.as_deref())
        }
        RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) => look.notes(new, item.copy),
        // What an archive holds are logs that were looked at when they were sessions, or are looked at now.
        RefName::Archive { .. } => look.archive(new),
    }
}

/// Refuses a session that was recorded without redaction.
fn require_redacted(session: &Session) -> Result<()> {
    let off = session.more.get("redaction").and_then(Value::as_str) == Some("off");
    match off {
        true => Err(Error::fatal("it was recorded with redaction off")),
        false => Ok(()),
    }
}

struct Look<'a> {
    repo: &'a Repo,
    redactor: &'a Redactor,
    known: BTreeSet<ObjectId>,
}

impl Look<'_> {
    fn log(&mut self, tip: ObjectId, base: Option<&str>) -> Result<()> {
        let mut next = vec![tip];
        while let Some(id) = next.pop() {
            if !self.known.insert(id) {
                continue;
            }
            let commit = self.repo.read_commit(id)?;
            self.text(&commit.message, "a message")?;
            self.tree(commit.tree)?;
            for code in commit.trailers("Agent-Code") {
                if let Ok(code) = self.repo.parse_id(code) {
                    look_into_code(self.repo, self.redactor, code, base)?;
                }
            }
            next.extend(log_parents(&commit));
        }
        Ok(())
    }

    fn tree(&self, tree: ObjectId) -> Result<()> {
        for entry in self.repo.read_tree(tree, limits::TREE)? {
            match entry.name.as_slice() {
                name if name == log::EVENTS.as_bytes() => {
                    let bytes = self.blob(entry.id, limits::EVENTS)?;
                    for line in lines(&bytes) {
                        self.event(line)?;
                    }
                }
                name if name == log::STATE.as_bytes() => {
                    for line in lines(&self.blob(entry.id, limits::STATE)?) {
                        self.json(line, "its state")?;
                    }
                }
                name if name == log::ATTACHMENTS.as_bytes() => {
                    for attached in self.repo.read_tree(entry.id, limits::TREE)? {
                        let bytes = self.blob(attached.id, limits::ATTACHMENT as u64)?;
                        let clean = self.redactor.bytes(&bytes);
                        same(&bytes, clean.as_bytes(), "an attachment")?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn notes(&self, tip: ObjectId, copy: Option<ObjectId>) -> Result<()> {
        let tree = self.repo.read_commit(tip)?.tree;
        let before = copy
            .map(|copy| self.repo.read_commit(copy).map(|commit| commit.tree))
            .transpose()?;
        self.notes_tree(tree, before)
    }

    fn notes_tree(&self, tree: ObjectId, before: Option<ObjectId>) -> Result<()> {
        if Some(tree) == before {
            return Ok(());
        }
        let old = match before {
            Some(tree) => self.repo.read_tree(tree, limits::NOTES_TREE)?,
            None => Vec::new(),
        };
        for entry in self.repo.read_tree(tree, limits::NOTES_TREE)? {
            if old.contains(&entry) {
                continue;
            }
            if entry.kind == crate::git::object::TREE {
                let same = old.iter().find(|one| one.name == entry.name);
                self.notes_tree(entry.id, same.map(|one| one.id))?;
                continue;
            }
            for line in lines(&self.blob(entry.id, limits::NOTE)?) {
                self.json(line, "a note")?;
            }
        }
        Ok(())
    }

    fn archive(&mut self, tip: ObjectId) -> Result<()> {
        let mut next = vec![tip];
        while let Some(id) = next.pop() {
            if !self.known.insert(id) {
                continue;
            }
            let commit = self.repo.read_commit(id)?;
            for entry in self.repo.read_tree(commit.tree, limits::TREE)? {
                if entry.name == crate::store::archive::SESSIONS.as_bytes() {
                    for line in lines(&self.blob(entry.id, limits::ARCHIVE)?) {
                        self.json(line, "an archive")?;
                        let session: Session = serde_json::from_slice(line)
                            .context(|| "an archive is malformed".into())?;
                        require_redacted(&session)?;
                    }
                }
            }
            // Logs and archives alike: each commit has its news in a tree of closed names.
            for parent in &commit.parents {
                let tree = self.repo.read_commit(*parent)?.tree;
                let entries = self.repo.read_tree(tree, limits::TREE).unwrap_or_default();
                let is_log = entries.iter().any(|one| one.name == log::STATE.as_bytes());
                match is_log {
                    true => self.log(*parent, None)?,
                    false => next.push(*parent),
                }
            }
        }
        Ok(())
    }

    fn blob(&self, id: ObjectId, limit: u64) -> Result<Vec<u8>> {
        self.repo.read_object(id, ObjectKind::Blob, limit)
    }

    fn text(&self, text: &str, what: &str) -> Result<()> {
        same(text.as_bytes(), self.redactor.text(text).as_bytes(), what)
    }

    fn event(&self, line: &[u8]) -> Result<()> {
        let event = Event::from_line(line).context(|| "an event is malformed".into())?;
        let clean = self.redactor.event(&event);
        match *clean.get() == event {
            true => Ok(()),
            false => same(
                line,
                clean.to_line().as_bytes(),
                &format!("event {}", event.seq),
            ),
        }
    }

    fn json(&self, line: &[u8], what: &str) -> Result<()> {
        let value: Value =
            serde_json::from_slice(line).context(|| format!("{what} is malformed"))?;
        let clean = self.redactor.json(value.clone());
        match *clean.get() == value {
            true => Ok(()),
            false => same(
                to_ascii_json(&value).as_bytes(),
                clean.to_line().as_bytes(),
                what,
            ),
        }
    }
}

/// Refuses code that holds what certainly is a secret. Only what a session added since it began is looked at.
pub(super) fn look_into_code(
    repo: &Repo,
    redactor: &Redactor,
    code: ObjectId,
    base: Option<&str>,
) -> Result<()> {
    let base = base.and_then(|base| repo.parse_id(base).ok());
    for (id, path) in repo.objects_between(base, code)? {
        let Some((kind, size)) = repo.object_header(id)? else {
            continue;
        };
        let looked_at = matches!(kind, ObjectKind::Blob | ObjectKind::Commit);
        if !looked_at || size > CODE {
            continue;
        }
        let bytes = repo.read_object(id, kind, CODE)?;
        if let Some(rule) = redactor.certain_secret(&bytes) {
            let place = match kind {
                ObjectKind::Blob => format!("file '{path}' of its code"),
                _ => format!("the message of commit {id}"),
            };
            return Err(secret(&place, &rule));
        }
    }
    Ok(())
}

fn log_parents(commit: &Commit) -> Vec<ObjectId> {
    check::chain_parents(commit).unwrap_or_default()
}

fn same(before: &[u8], after: &[u8], what: &str) -> Result<()> {
    match before == after {
        true => Ok(()),
        false => Err(secret(what, &rule_between(before, after))),
    }
}

fn secret(what: &str, rule: &str) -> Error {
    Error::fatal(format!("{what} holds what looks like a secret ({rule})"))
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
}
