//! Checks the records of others before they are used: every name, tree, size and field.
//!
//! git has checked the objects themselves. Here each ref must be exactly what its name promises, with nothing else in
//! its trees. Sizes are checked before anything is read. Messages use only our own words, because a refused record may
//! contain anything.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::error::{Context, Error, Result};
use crate::git::object::{Commit, EntryKind, TreeEntry};
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::model::event::Header;
use crate::model::session::{Record, SessionId, WriterId};
use crate::store::archive::{SESSIONS, read_line};
use crate::store::limits;
use crate::store::log::{ATTACHMENTS, EVENTS, JOINED, STATE, VERSION, require_version};
use crate::store::refname::{Month, RefName};

/// How far a clock may jump from one event to the next: more would exhaust it for all writers.
const CLOCK_JUMP: u64 = crate::model::review::fold::CLOCK_JUMP;
/// The largest number that every JSON reader can represent.
const LARGEST: u64 = 1 << 53;

/// A validated part of a log or an archive, for callers that want to examine it further: reading it is most of the
/// work.
pub(crate) enum Part<'a> {
    /// A commit of a log, with the session's state.
    Log(&'a Commit, &'a Record),
    /// An event: its line, and its record.
    Event(&'a str, Value),
    /// A state, or a line of an archive.
    State(&'a str),
    Attachment(&'a [u8]),
    Archive(&'a Commit),
}

/// A function that receives every part.
pub(crate) type Witness<'a> = &'a mut dyn FnMut(Part<'_>) -> Result<()>;

/// Checks that a ref contains what its name promises. Everything reachable from `known` was checked before and is
/// skipped.
pub fn check(repo: &Repo, name: &RefName, tip: ObjectId, known: &[ObjectId]) -> Result<()> {
    check_before(repo, name, tip, known, &mut |_| Ok(()))
}

/// The same, with a witness that may raise further objections. It does not receive notes.
pub(crate) fn check_before(
    repo: &Repo,
    name: &RefName,
    tip: ObjectId,
    known: &[ObjectId],
    witness: Witness<'_>,
) -> Result<()> {
    let mut check = Check {
        repo,
        known,
        witness,
        seen: BTreeSet::new(),
        bytes: limits::SESSION,
        writer: None,
    };
    match name {
        RefName::Session(sid) => check.log(*sid, tip),
        RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) => check.notes(tip),
        RefName::Archive { month, writer } => check.archive(month, writer, tip),
    }
}

struct Check<'a> {
    repo: &'a Repo,
    known: &'a [ObjectId],
    witness: Witness<'a>,
    seen: BTreeSet<ObjectId>,
    bytes: u64,
    writer: Option<WriterId>,
}

impl Check<'_> {
    fn log(&mut self, sid: SessionId, tip: ObjectId) -> Result<()> {
        let mut next = vec![tip];
        while let Some(id) = next.pop() {
            if self.known.contains(&id) || !self.seen.insert(id) {
                continue;
            }
            if self.seen.len() > limits::CHAIN {
                return Err(wrong(format!(
                    "it has more than the {} commits allowed",
                    limits::CHAIN
                )));
            }
            let commit = self.repo.read_commit(id)?;
            self.log_commit(sid, &commit)?;
            next.extend(chain_parents(&commit)?);
        }
        Ok(())
    }

    fn log_commit(&mut self, sid: SessionId, commit: &Commit) -> Result<()> {
        let entries = self.repo.read_tree(commit.tree, limits::TREE)?;
        require_known(&entries, "a session log")?;
        let mut state = None;
        for entry in &entries {
            match (entry.name.as_slice(), entry.kind) {
                (name, EntryKind::Blob) if name == VERSION.as_bytes() => {
                    self.require_size(entry.id, 0)?;
                }
                (name, EntryKind::Blob) if name == EVENTS.as_bytes() => self.events(entry.id)?,
                (name, EntryKind::Blob) if name == STATE.as_bytes() => state = Some(entry.id),
                (name, EntryKind::Tree) if name == ATTACHMENTS.as_bytes() => {
                    self.attachments(entry.id)?;
                }
                _ => return Err(wrong("its tree has an unexpected entry")),
            }
        }
        let state = state.ok_or_else(|| wrong(format!("it has no {STATE}")))?;
        let bytes = self
            .repo
            .read_object(state, ObjectKind::Blob, limits::STATE)?;
        let text = ascii(&bytes, STATE)?;
        let session: Record =
            serde_json::from_str(text).context(|| format!("its {STATE} is malformed"))?;
        self.state(sid, &session, text)?;
        (self.witness)(Part::State(text))?;
        (self.witness)(Part::Log(commit, &session))
    }

    fn state(&mut self, sid: SessionId, session: &Record, text: &str) -> Result<()> {
        if session.v != 1 {
            return Err(wrong(format!(
                "written by a newer git-agent (format v{})",
                session.v
            )));
        }
        if session.sid != sid {
            return Err(wrong("it belongs to another session"));
        }
        let writer = self.writer.get_or_insert_with(|| session.writer.clone());
        if *writer != session.writer {
            return Err(wrong("it has more than one writer"));
        }
        if !says_writer(text, &session.writer) {
            return Err(wrong("its writer is malformed"));
        }
        let names = [
            Some(&session.name),
            Some(&session.author.name),
            Some(&session.author.email),
            Some(&session.agent),
            session.model.as_ref(),
            session.role.as_ref(),
            session.group.as_ref(),
        ];
        if (names.into_iter().flatten()).any(|name| name.len() > limits::NAME) {
            return Err(wrong("a name in it is too long"));
        }
        let ids = [session.base.as_deref(), session.code.as_deref()];
        if ids
            .into_iter()
            .flatten()
            .any(|id| self.repo.parse_id(id).is_err())
        {
            return Err(wrong("it names a commit that is not an object id"));
        }
        self.code(ids)?;
        let branches = [session.branch.as_deref(), session.parent.as_deref()];
        if branches
            .into_iter()
            .flatten()
            .any(|name| !self.repo.is_valid_branch(name))
        {
            return Err(wrong("it names a branch that git would not accept"));
        }
        if session.lc > LARGEST || session.seq > LARGEST {
            return Err(wrong("its clock is too large"));
        }
        Ok(())
    }

    /// Refuses code that no person can have written: a dozen objects can stand for billions of files.
    fn code(&self, ids: [Option<&str>; 2]) -> Result<()> {
        let id = |id: Option<&str>| self.repo.parse_id(id?).ok();
        let (Some(base), Some(code)) = (id(ids[0]), id(ids[1])) else {
            return Ok(());
        };
        // Missing or unreadable code is reported where it is used.
        match self.repo.differing_files(base, code, limits::FILES) {
            Ok(files) if files > limits::FILES => Err(wrong(format!(
                "its code changes {files} files or more, at most {} are allowed",
                limits::FILES
            ))),
            _ => Ok(()),
        }
    }

    fn events(&mut self, blob: ObjectId) -> Result<()> {
        let bytes =
            self.repo
                .read_object(blob, ObjectKind::Blob, limits::EVENTS.min(self.bytes))?;
        self.bytes -= bytes.len() as u64;
        let mut last: Option<(u64, u64)> = None;
        for line in lines(ascii(&bytes, EVENTS)?) {
            if line.len() > limits::EVENT {
                return Err(wrong("an event is too large"));
            }
            let record: Value =
                serde_json::from_str(line).context(|| "an event is malformed".into())?;
            let event = Header::of(&record).context(|| "an event is malformed".into())?;
            if let Some((seq, lc)) = last {
                if event.seq <= seq {
                    return Err(wrong("its events are out of order"));
                }
                if event.lc > lc.saturating_add(CLOCK_JUMP) {
                    return Err(wrong("its clock runs too far ahead"));
                }
            }
            if event.seq > LARGEST || event.lc > LARGEST {
                return Err(wrong("its clock is too large"));
            }
            last = Some((event.seq, event.lc));
            (self.witness)(Part::Event(line, record))?;
        }
        Ok(())
    }

    fn attachments(&mut self, tree: ObjectId) -> Result<()> {
        let entries = self.repo.read_tree(tree, limits::TREE)?;
        if entries.len() > limits::ATTACHMENTS {
            return Err(wrong("it has too many attachments"));
        }
        for entry in entries {
            let name = std::str::from_utf8(&entry.name).unwrap_or_default();
            let is_hash = name.len() == 64 && name.bytes().all(is_lower_hex);
            if !is_hash || entry.kind != EntryKind::Blob {
                return Err(wrong("it has an entry that is not an attachment"));
            }
            let limit = limits::ATTACHMENT as u64;
            let bytes = self
                .repo
                .read_object(entry.id, ObjectKind::Blob, limit.min(self.bytes))?;
            self.bytes -= bytes.len() as u64;
            (self.witness)(Part::Attachment(&bytes))?;
        }
        Ok(())
    }

    fn notes(&mut self, tip: ObjectId) -> Result<()> {
        let commit = self.repo.read_commit(tip)?;
        let known = self
            .known
            .first()
            .map(|id| self.repo.read_commit(*id).map(|commit| commit.tree))
            .transpose()?;
        let mut budget = limits::NOTES;
        let mut bytes = limits::NOTES_BYTES;
        self.notes_tree(commit.tree, known, 0, (&mut budget, &mut bytes))
    }

    /// Checks a tree of notes at a depth, except the parts that the known version shares.
    fn notes_tree(
        &self,
        tree: ObjectId,
        known: Option<ObjectId>,
        depth: usize,
        (budget, bytes): (&mut usize, &mut usize),
    ) -> Result<()> {
        if Some(tree) == known {
            return Ok(());
        }
        let entries = self.repo.read_tree(tree, limits::NOTES_TREE)?;
        *budget = budget
            .checked_sub(entries.len() + 1)
            .ok_or_else(|| wrong("it has too many notes"))?;
        let before = match known {
            Some(known) => self.repo.read_tree(known, limits::NOTES_TREE)?,
            None => Vec::new(),
        };
        let id_digits = self.repo.hash_kind().len_in_hex();
        for entry in entries {
            if before.contains(&entry) {
                continue;
            }
            if !entry.name.iter().copied().all(is_lower_hex) {
                return Err(wrong("its tree has an unexpected entry"));
            }
            match entry.kind {
                EntryKind::Blob if entry.name.len() == id_digits - 2 * depth => {
                    let note = self
                        .repo
                        .read_object(entry.id, ObjectKind::Blob, limits::NOTE)?;
                    *bytes = bytes
                        .checked_sub(note.len())
                        .ok_or_else(|| wrong("its notes are too large"))?;
                    check_note(&note)?;
                }
                EntryKind::Tree if entry.name.len() == 2 && 2 * (depth + 1) < id_digits => {
                    let same = before
                        .iter()
                        .find(|old| old.name == entry.name && old.kind == EntryKind::Tree)
                        .map(|old| old.id);
                    self.notes_tree(entry.id, same, depth + 1, (budget, bytes))?;
                }
                _ => return Err(wrong("its tree has an unexpected entry")),
            }
        }
        Ok(())
    }

    fn archive(&mut self, month: &Month, writer: &WriterId, tip: ObjectId) -> Result<()> {
        let mut next = vec![tip];
        let mut commits = 0;
        while let Some(id) = next.pop() {
            if self.known.contains(&id) || !self.seen.insert(id) {
                continue;
            }
            commits += 1;
            if commits > limits::ARCHIVE_CHAIN {
                return Err(wrong(format!(
                    "it has more than the {} commits allowed",
                    limits::ARCHIVE_CHAIN
                )));
            }
            let commit = self.repo.read_commit(id)?;
            let tips = self.archive_commit(month, writer, &commit)?;
            (self.witness)(Part::Archive(&commit))?;
            let joined: Vec<&str> = commit.trailers(JOINED).collect();
            for (at, parent) in commit.parents.iter().enumerate() {
                let is_archive = at == 0 || joined.contains(&parent.to_string().as_str());
                if tips.contains(parent) {
                    continue;
                }
                if !is_archive {
                    return Err(wrong("it has a parent that it does not name"));
                }
                next.push(*parent);
            }
        }
        Ok(())
    }

    fn archive_commit(
        &mut self,
        month: &Month,
        writer: &WriterId,
        commit: &Commit,
    ) -> Result<BTreeSet<ObjectId>> {
        let entries = self.repo.read_tree(commit.tree, limits::TREE)?;
        require_known(&entries, "an archive")?;
        let mut sessions = None;
        for entry in &entries {
            match (entry.name.as_slice(), entry.kind) {
                (name, EntryKind::Blob) if name == VERSION.as_bytes() => {
                    self.require_size(entry.id, 0)?;
                }
                (name, EntryKind::Blob) if name == SESSIONS.as_bytes() => {
                    sessions = Some(entry.id);
                }
                _ => return Err(wrong("its tree has an unexpected entry")),
            }
        }
        let sessions = sessions.ok_or_else(|| wrong(format!("it has no {SESSIONS}")))?;
        let bytes = self
            .repo
            .read_object(sessions, ObjectKind::Blob, limits::ARCHIVE)?;
        let mut tips = BTreeSet::new();
        for line in lines(ascii(&bytes, SESSIONS)?) {
            let archived = read_line(self.repo, line.as_bytes())
                .context(|| format!("a line of its {SESSIONS} is malformed"))?;
            let sid = archived.session.sid;
            if !commit.parents.contains(&archived.tip) || sid.month() != month.as_str() {
                return Err(wrong("it names a session that it does not contain"));
            }
            // A writer archives only its own sessions, so an archive cannot speak for another writer.
            self.writer = Some(writer.clone());
            self.state(sid, &archived.session, line)?;
            (self.witness)(Part::State(line))?;
            // Each log has its own limit.
            self.bytes = limits::SESSION;
            self.log(sid, archived.tip)?;
            tips.insert(archived.tip);
        }
        Ok(tips)
    }

    fn require_size(&self, id: ObjectId, size: u64) -> Result<()> {
        match self.repo.object_header(id)? {
            Some((ObjectKind::Blob, found)) if found == size => Ok(()),
            _ => Err(wrong("its version is not an empty file")),
        }
    }
}

/// Returns the parents that belong to the same log. Every other parent must be code that a trailer names.
pub(crate) fn chain_parents(commit: &Commit) -> Result<Vec<ObjectId>> {
    let code: Vec<&str> = commit.trailers("Agent-Code").collect();
    let joined: Vec<&str> = commit.trailers(JOINED).collect();
    let mut chain = Vec::new();
    for (at, parent) in commit.parents.iter().enumerate() {
        let hex = parent.to_string();
        if code.contains(&hex.as_str()) {
            continue;
        }
        if at > 0 && !joined.contains(&hex.as_str()) {
            return Err(wrong("it has a parent that it does not name"));
        }
        chain.push(*parent);
    }
    Ok(chain)
}

/// Returns whether a state names its writer in the exact form of every writer. A server that separates writers looks
/// for exactly these bytes: a blank or an escaped letter would show it another writer.
fn says_writer(text: &str, writer: &WriterId) -> bool {
    let field = format!("\"writer\":\"{writer}\"");
    let around = |at: usize| {
        let before = text[..at].chars().next_back();
        let after = text[at + field.len()..].chars().next();
        matches!(before, Some('{' | ',')) && matches!(after, Some(',' | '}'))
    };
    text.match_indices(&field).any(|(at, _)| around(at))
}

fn check_note(note: &[u8]) -> Result<()> {
    for line in lines(ascii(note, "text of notes")?) {
        if line.len() > limits::NOTE_LINE {
            return Err(wrong("a record of its notes is too large"));
        }
        match serde_json::from_str(line) {
            Ok(Value::Object(_)) => {}
            _ => return Err(wrong("a record of its notes is malformed")),
        }
    }
    Ok(())
}

fn require_known(entries: &[TreeEntry], what: &str) -> Result<()> {
    require_version(entries)
        .map_err(|newer| newer.unwrap_or_else(|| wrong(format!("it is not {what}"))))
}

/// Returns text that is safe to display: printable ASCII, in lines.
fn ascii<'b>(bytes: &'b [u8], what: &str) -> Result<&'b str> {
    let plain = |byte: &u8| (0x20..0x7f).contains(byte) | (*byte == b'\n');
    // Whole chunks are checked, because a processor handles many bytes at once if no single one decides.
    let all = |piece: &[u8]| piece.iter().fold(true, |all, byte| all & plain(byte));
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.chunks(256).all(all) => Ok(text),
        _ => Err(wrong(format!("its {what} is not plain ASCII"))),
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').filter(|line| !line.is_empty())
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn wrong(what: impl Into<String>) -> Error {
    Error::fatal(what)
}
