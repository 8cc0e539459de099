//! Sessions that their owners deleted. An archive or a teammate may still have a copy: the owner's decision counts, and
//! the session is no longer listed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::error::Result;
use crate::file::{self, Durability};
use crate::model::review::{Action, Record};
use crate::model::session::{Person, SessionId, Ulid, WriterId};
use crate::redact::Redactor;
use crate::store::Store;
use crate::store::list::Listing;
use crate::store::notes::Kind;

/// The file with the ids of sessions deleted in this clone.
const HIDDEN: &str = "forgotten";

impl Store<'_> {
    /// Returns the sessions with a deletion record, and the writers of the records. Only the session's own writer
    /// counts.
    ///
    /// Such records are notes on the empty tree, so that one read of each writer's ref finds them all.
    pub fn forgotten(&self) -> Result<BTreeMap<SessionId, BTreeSet<WriterId>>> {
        let mut forgotten: BTreeMap<SessionId, BTreeSet<WriterId>> = BTreeMap::new();
        let (notes, _) = self.notes_on(Kind::Review, self.repo.empty_tree_id())?;
        let own = self.own_writers().unwrap_or_default();
        let wrote = self.wrote_record();
        for note in notes {
            for line in &note.lines {
                if let Ok(record) = serde_json::from_str::<Record>(line)
                    && record.action == (Action::Del { target: None })
                    // Only this clone can delete its own sessions.
                    && (!own.contains(&note.writer) || wrote(line))
                {
                    let writers = forgotten.entry(record.sid).or_default();
                    writers.insert(note.writer.clone());
                }
            }
        }
        Ok(forgotten)
    }

    /// Records that this clone's session is deleted.
    pub fn record_forgotten(&self, sid: SessionId, redactor: &Redactor) -> Result<()> {
        let (name, email) = self.repo.committer().unwrap_or_default();
        let record = Record {
            id: Ulid::new(self.env),
            sid,
            after: Vec::new(),
            lc: 1,
            ts: self.env.now(),
            who: Person { name, email },
            action: Action::Del { target: None },
        };
        let record = redactor.json(record.to_json());
        self.append_notes(Kind::Review, &[(self.repo.empty_tree_id(), record)])?;
        Ok(())
    }

    /// Remembers that this clone deleted its own session: a copy that a remote still has is not listed here.
    pub fn hide_here(&self, sid: SessionId) -> Result<()> {
        let mut hidden = self.hidden_here();
        if hidden.insert(sid) {
            let lines: String = hidden.iter().map(|sid| format!("{sid}\n")).collect();
            file::replace(&self.dir().join(HIDDEN), lines, Durability::Synced)?;
        }
        Ok(())
    }

    /// Returns the sessions that this clone deleted while a remote had a copy.
    pub fn hidden_here(&self) -> BTreeSet<SessionId> {
        let text = fs::read_to_string(self.dir().join(HIDDEN)).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Removes the sessions that their own writers deleted from a listing.
    pub(crate) fn hide_forgotten(&self, listing: &mut Listing) -> Result<()> {
        if listing.sessions.is_empty() {
            return Ok(());
        }
        let forgotten = self.forgotten()?;
        listing.sessions.retain(|listed| {
            // A session that still has a ref in this clone was resumed after its deletion.
            let has_ref = listed.is_mine() && !listed.archived;
            has_ref
                || !forgotten
                    .get(&listed.session.sid)
                    .is_some_and(|writers| writers.contains(&listed.session.writer))
        });
        Ok(())
    }
}
