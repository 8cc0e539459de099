//! Distinguishes records that this clone wrote from those that others wrote in its name.
//!
//! Anyone who may push can write a session, an archive or a comment in any name, and plain git can put it onto this
//! clone's own refs. So each log commit, archive commit and review record of this clone carries a mark: a checksum with
//! a key that never leaves the clone. A commit of notes that contains only such records carries one too, which saves
//! reading each record. The marks need no state beside the refs, so a crash cannot separate them. A copy of the clone
//! has the key too, and is trusted like the clone.
//!
//! A record without a mark is treated as another writer's. If the newest commit of a session has no mark, its state is
//! the last one that this clone wrote, with the news from above: words, but nothing that decides what runs and where.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};
use std::fs;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::file::{self, Durability};
use crate::git::object::Commit;
use crate::git::{ObjectId, sha256};
use crate::model::review::fold::CLOCK_JUMP;
use crate::model::session::{Record, SessionId};
use crate::redact::Redacted;
use crate::store::Store;
use crate::store::list::Scope;
use crate::store::notes::Kind;
use crate::store::refname::{self, RefName};
use crate::store::sync::validate::chain_parents;

/// The trailer with the mark of a commit.
pub const TRAILER: &str = "Agent-Own";
/// The field with the mark of a record.
const FIELD: &str = "own";
/// The length of a mark, in characters of the checksum.
const LENGTH: usize = 40;
/// The file with the key.
const KEY: &str = "key";
/// The file with everything that was this clone's before it had the key: commits, and checksums of records.
const BEFORE: &str = "own-before";
/// A number of other writers' commits on top of this clone's own that is read without a noticeable delay.
const NEAR: usize = 64;
/// The most commits that are searched.
const FAR: usize = 10_000;
/// The block size of the HMAC.
const BLOCK: usize = 64;

/// The key of this clone.
#[derive(Debug, Clone)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    /// Returns the HMAC of a text with this key.
    fn sum(&self, text: &str) -> String {
        let padded = |with: u8, text: &[u8]| {
            let mut bytes = vec![with; BLOCK];
            for (byte, own) in bytes.iter_mut().zip(&self.0) {
                *byte ^= own;
            }
            bytes.extend_from_slice(text);
            sha256(&bytes)
        };
        let inner = padded(0x36, text.as_bytes());
        let mut sum = padded(0x5c, inner.as_bytes());
        sum.truncate(LENGTH);
        sum
    }

    fn of_commit(&self, tree: ObjectId, parents: &[ObjectId], message: &str) -> String {
        let mut text = format!("commit\n{tree}\n");
        for parent in parents {
            text.push_str(&format!("{parent}\n"));
        }
        text.push_str(message.trim_end());
        self.sum(&text)
    }

    /// Returns whether a commit has the mark of this clone.
    pub(crate) fn is_on(&self, commit: &Commit) -> bool {
        let Some((message, mark)) = commit.message.trim_end().rsplit_once('\n') else {
            return false;
        };
        let mark = mark
            .strip_prefix(TRAILER)
            .and_then(|mark| mark.strip_prefix(": "));
        mark.is_some_and(|mark| mark == self.of_commit(commit.tree, &commit.parents, message))
    }

    /// Returns whether a line of notes has the mark of this clone.
    fn is_in(&self, line: &str) -> bool {
        let start = format!(",\"{FIELD}\":\"");
        let Some((before, rest)) = line.split_once(&start) else {
            return false;
        };
        let Some((mark, after)) = rest.split_once('"') else {
            return false;
        };
        mark == self.sum(&format!("{before}{after}"))
    }
}

/// This clone's view of a session with other writers' versions on top.
pub(crate) struct View {
    /// The state.
    pub(crate) record: Record,
    /// Whether the search was so long that a commit of this clone should be added on top.
    pub(crate) is_deep: bool,
}

/// Decides whether this clone wrote a record. Loads the old list only when it is needed.
pub(crate) struct Own<'s, 'a> {
    store: &'s Store<'a>,
    /// The key; without one, no record has a mark yet.
    pub(crate) key: Option<Key>,
    before: OnceCell<HashSet<String>>,
}

impl Own<'_, '_> {
    /// Returns whether this clone wrote a commit, as far as it has marks.
    pub(crate) fn wrote(&self, id: ObjectId, commit: &Commit) -> bool {
        self.key.as_ref().is_some_and(|key| key.is_on(commit)) || self.had(&id.to_string())
    }

    /// Returns whether this clone wrote the commit with an id.
    pub(crate) fn wrote_at(&self, id: ObjectId) -> Result<bool> {
        Ok(self.wrote(id, &self.store.repo.read_commit(id)?))
    }

    /// Returns whether a commit was this clone's before it had a key.
    pub(crate) fn had(&self, id: &str) -> bool {
        let before = || {
            let text = fs::read_to_string(self.store.dir().join(BEFORE));
            let text = text.unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        };
        self.before.get_or_init(before).contains(id)
    }

    /// Returns the last state that this clone wrote in a log with other versions on top, and how many commits were
    /// read. Returns `None` if it wrote none, or too long ago to search for it each time.
    fn last(&self, tip: ObjectId, sid: SessionId) -> Result<Option<(Record, usize)>> {
        let mut found: Option<Record> = None;
        let mut seen = BTreeSet::new();
        let mut next = vec![tip];
        while let Some(id) = next.pop() {
            if !seen.insert(id) || seen.len() > FAR {
                continue;
            }
            let commit = self.store.repo.read_commit(id)?;
            if !self.wrote(id, &commit) {
                next.extend(chain_parents(&commit)?);
                continue;
            }
            // Of several candidates without a commit of this clone on top, the one with the most events.
            let state = self.store.state_at(id, sid)?;
            if found.as_ref().is_none_or(|known| known.seq < state.seq) {
                found = Some(state);
            }
        }
        Ok(found.map(|found| (found, seen.len())))
    }

    /// Returns this clone's view of a session whose newest commit is not this clone's; `None` if this clone wrote
    /// nothing of it.
    pub(crate) fn view(&self, tip: ObjectId, told: &Record) -> Result<Option<View>> {
        let Some((own, walked)) = self.last(tip, told.sid)? else {
            return Ok(None);
        };
        // A jump would use up the numbers of this clone's own events.
        let jumps = told.seq > own.seq.saturating_add(CLOCK_JUMP);
        let record = if jumps { own } else { own.with_news_of(told) };
        Ok(Some(View {
            record,
            is_deep: walked > NEAR,
        }))
    }
}

impl<'a> Store<'a> {
    /// Returns the test for this clone's own records.
    pub(crate) fn own(&self) -> Own<'_, 'a> {
        Own {
            store: self,
            key: self.key(),
            before: OnceCell::new(),
        }
    }

    /// Returns the key; a clone that has not written since keys exist has none.
    pub(crate) fn key(&self) -> Option<Key> {
        let text = fs::read_to_string(self.dir().join(KEY)).ok()?;
        let text = text.trim().as_bytes();
        (text.len() == BLOCK).then(|| Key(text.to_vec()))
    }

    /// Checks that the key file, if it exists, contains a key.
    pub fn check_key(&self) -> Result<()> {
        let path = self.dir().join(KEY);
        let error = match fs::read_to_string(&path) {
            Ok(text) if text.trim().len() == BLOCK => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Ok(_) => Error::fatal(format!("'{}' does not contain a key", path.display())),
            Err(error) => Error::fatal(format!("cannot read '{}'", path.display())).because(error),
        };
        Err(error.hint("git agent doctor --fix"))
    }

    fn require_key(&self) -> Result<Key> {
        if let Some(key) = self.key() {
            return Ok(key);
        }
        self.check_key()?;
        self.require_dir("")?;
        let before = self.before()?;
        let path = self.dir().join(KEY);
        let drawn: String = self
            .env
            .random::<32>()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        // Written first, so that every record is always covered by the list or the key.
        if !before.is_empty() {
            file::replace(&self.dir().join(BEFORE), before, Durability::Synced)?;
        }
        file::create_once(&path, drawn.as_bytes())?;
        self.check_key()?;
        self.key()
            .ok_or_else(|| Error::fatal(format!("'{}' disappeared", path.display())))
    }

    /// Returns the records of this clone while it has no key: the newest commits of its sessions, its archives and its
    /// notes.
    fn before(&self) -> Result<String> {
        let mut lines = String::new();
        for listed in self.list(Scope::Archived)?.sessions {
            if let Some(tip) = listed.tip.filter(|_| listed.is_mine()) {
                lines.push_str(&format!("{tip}\n"));
            }
        }
        let writers = self.own_writers()?;
        for archive in self.repo.refs_under(refname::ARCHIVES)?.refs {
            let name = RefName::parse(&archive.name);
            let is_own =
                name.is_some_and(|name| name.writer().is_some_and(|by| writers.contains(by)));
            let mut next = Some(archive.id).filter(|_| is_own);
            while let Some(id) = next {
                let commit = self.repo.read_commit(id)?;
                let is_archive = commit.message.starts_with("agent-archive");
                next = commit.parents.first().copied().filter(|_| is_archive);
                lines.push_str(&format!("{id}\n"));
            }
        }
        for notes in self.notes_refs(Kind::Review)? {
            if notes.remote.is_none() && writers.contains(&notes.writer) {
                lines.push_str(&format!("{}\n", notes.tip));
            }
        }
        let sums = self.note_texts(Kind::Review)?.records(&|source, line| {
            let own = writers.contains(source.writer);
            own.then(|| Some(sha256(line.as_bytes())))
        });
        for sum in sums.records {
            lines.push_str(&format!("{}\n", sum.value));
        }
        Ok(lines)
    }

    /// Returns the message of a commit with this clone's mark. The message must end with trailers or with an empty
    /// line.
    pub(crate) fn marked(
        &self,
        tree: ObjectId,
        parents: &[ObjectId],
        message: &str,
    ) -> Result<String> {
        let mark = self.require_key()?.of_commit(tree, parents, message);
        Ok(format!("{message}{TRAILER}: {mark}\n"))
    }

    /// Returns a record with this clone's mark.
    pub(crate) fn marked_record(&self, record: &Redacted<Value>) -> Result<Redacted<Value>> {
        let record = record.without(FIELD);
        let mark = self.require_key()?.sum(record.to_line().as_str());
        Ok(record.with_sum(FIELD, mark))
    }

    /// Returns a test for whether this clone wrote a line of its own notes.
    pub fn wrote_record(&self) -> impl Fn(&str) -> bool + Sync + use<> {
        let key = self.key();
        let before = match key {
            Some(_) => fs::read_to_string(self.dir().join(BEFORE)).unwrap_or_default(),
            None => String::new(),
        };
        let before: HashSet<String> = before.lines().map(str::to_owned).collect();
        move |line| {
            let marked = key.as_ref().is_none_or(|key| key.is_in(line));
            marked || !before.is_empty() && before.contains(&sha256(line.as_bytes()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::object::Signature;
    use crate::git::refs::{Expected, RefChange, Swap};
    use crate::model::event::Body;
    use crate::store::log::writer::SessionWriter;
    use crate::store::tests::{Fixture, all_formats, redactor, session};

    fn made(store: &Store<'_>) -> (SessionId, ObjectId) {
        let made = session(store, "made");
        let sid = made.sid;
        let mut writer = SessionWriter::create(store, made, redactor()).expect("creates");
        writer
            .append(Body::Notice { text: "x".into() })
            .expect("appends");
        writer.close().expect("closes");
        (sid, store.log_tip(sid).expect("reads").expect("there").id)
    }

    #[test]
    fn a_mark_is_for_one_commit_and_one_clone() {
        for format in all_formats() {
            let fixture = Fixture::new(&format);
            let repo = fixture.repo();
            let store = Store::new(&fixture.env, &repo);
            let (_, tip) = made(&store);
            let key = store.key().expect("it was drawn");
            let commit = repo.read_commit(tip).expect("reads");
            assert!(key.is_on(&commit));
            assert!(!Key(vec![b'0'; BLOCK]).is_on(&commit));
            let (mut tree, mut parents, mut message) =
                (commit.clone(), commit.clone(), commit.clone());
            tree.tree = repo.empty_tree_id();
            parents.parents.push(tip);
            message.message.insert_str(0, "more\n");
            for other in [tree, parents, message] {
                assert!(!key.is_on(&other));
            }
            assert!(store.require_key().is_ok_and(|again| again.0 == key.0));
        }
    }

    #[test]
    fn what_has_no_mark_is_as_this_clone_said_last() {
        let fixture = Fixture::new(&[]);
        let repo = fixture.repo();
        let store = Store::new(&fixture.env, &repo);
        let (sid, tip) = made(&store);
        let mut batch = repo.batch();
        let commit = repo.read_commit(tip).expect("reads");
        let who = Signature {
            name: "Eve".into(),
            email: "eve@example.com".into(),
            seconds: commit.time,
        };
        // The same state, with another writer's message.
        let on_top = batch.commit(commit.tree, &[tip], &who, "agent-log v1\n");
        let anew = batch.commit(commit.tree, &[], &who, &commit.message);
        repo.write_batch(&batch).expect("writes");
        for (before, id, own) in [(tip, on_top, true), (on_top, anew, false)] {
            let change = RefChange {
                name: RefName::Session(sid).to_string(),
                expected: Expected::At(before),
                new: Some(id),
            };
            assert_eq!(repo.swap_ref(&change).expect("moves"), Swap::Done);
            let found = store.log_tip(sid).expect("reads").expect("there");
            assert_eq!(found.own, own);
            let listed = store.list(Scope::All).expect("lists").sessions;
            assert_eq!((listed.len(), listed[0].is_mine()), (1, own));
            assert_eq!(SessionWriter::open(&store, sid, redactor()).is_ok(), own);
        }
    }

    #[test]
    fn a_long_way_to_what_this_clone_said_is_gone_once() {
        let fixture = Fixture::new(&[]);
        let repo = fixture.repo();
        let store = Store::new(&fixture.env, &repo);
        let (sid, tip) = made(&store);
        let key = store.key().expect("it was drawn");
        let commit = repo.read_commit(tip).expect("reads");
        let who = Signature {
            name: "Eve".into(),
            email: "eve@example.com".into(),
            seconds: commit.time,
        };
        let mut batch = repo.batch();
        let mut theirs = tip;
        for (count, marked) in [(3, false), (NEAR + 3, true)] {
            for _ in 0..count {
                theirs = batch.commit(commit.tree, &[theirs], &who, "agent-log v1\n");
            }
            repo.write_batch(&batch).expect("writes");
            let name = RefName::Session(sid);
            store.join(&name, theirs, &redactor()).expect("joins");
            let found = store.log_tip(sid).expect("reads").expect("there");
            assert!(found.own);
            let on_top = key.is_on(&repo.read_commit(found.id).expect("reads"));
            assert_eq!((on_top, found.id != theirs), (marked, marked));
        }
    }

    #[test]
    fn what_was_there_before_the_key_stays_this_clones() {
        let fixture = Fixture::new(&[]);
        let repo = fixture.repo();
        let store = Store::new(&fixture.env, &repo);
        let (old, _) = made(&store);
        fs::remove_file(store.dir().join(KEY)).expect("removes");
        assert!(store.log_tip(old).expect("reads").expect("there").own);
        let (new, _) = made(&store);
        for sid in [old, new] {
            assert!(store.log_tip(sid).expect("reads").expect("there").own);
        }
        let listed = store.list(Scope::Mine).expect("lists").sessions;
        assert_eq!(listed.len(), 2);
        SessionWriter::open(&store, old, redactor()).expect("opens");
    }

    #[test]
    fn a_line_with_another_word_has_no_mark() {
        let fixture = Fixture::new(&[]);
        let repo = fixture.repo();
        let store = Store::new(&fixture.env, &repo);
        let record = redactor().json(serde_json::json!({"id": "x", "text": ",\"own\":\"y\""}));
        let line = store.marked_record(&record).expect("marks").to_line();
        let line = line.into_inner();
        let wrote = store.wrote_record();
        assert!(wrote(&line), "{line}");
        assert!(!wrote(&line.replace("\"x\"", "\"z\"")));
        assert!(!wrote(record.to_line().as_str()));
    }
}
