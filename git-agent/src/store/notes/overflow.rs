//! Overflow: if a note is full, further records are attached to numbered object ids that stand in for the object.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::redact::Redacted;
use crate::store::notes::Kind;
use crate::store::{Store, limits};

/// How many further notes are tried.
const SHELVES: u32 = 10_000;

impl Store<'_> {
    /// Adds records to this clone's notes on an object and, if that note is full, on ids that stand in for it.
    ///
    /// A reader takes all notes together, so the place of a record does not matter.
    pub fn append_notes_somewhere(
        &self,
        kind: Kind,
        on: ObjectId,
        records: Vec<Redacted<Value>>,
    ) -> Result<()> {
        let mut shelf = 0;
        let mut target = on;
        let mut room = self.room(kind, target)?;
        let mut placed = Vec::with_capacity(records.len());
        for record in records {
            // A record that is too long for any note is refused here.
            let size = self.note_line(kind, &record)?.size();
            while size > room {
                shelf += 1;
                if shelf > SHELVES {
                    return Err(Error::fatal(format!("too many notes on {on}")));
                }
                target = self
                    .repo
                    .batch()
                    .blob(format!("shelf {shelf} of {on}").into_bytes());
                room = self.room(kind, target)?;
            }
            room -= size;
            placed.push((target, record));
        }
        self.append_notes(kind, &placed)?;
        Ok(())
    }

    /// Returns how many bytes this clone may still add to its note on an object.
    fn room(&self, kind: Kind, on: ObjectId) -> Result<usize> {
        let Some(writer) = self.writer()? else {
            return Ok(limits::NOTE_WRITE);
        };
        let (notes, _) = self.notes_on(kind, on)?;
        let used: usize = notes
            .iter()
            .filter(|note| note.writer == writer)
            .flat_map(|note| &note.lines)
            .map(|line| line.len() + 1)
            .sum();
        Ok(limits::NOTE_WRITE.saturating_sub(used))
    }
}
