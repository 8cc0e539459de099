//! Notes: records about objects, one notes tree a writer, in the form that git's own notes have.
//!
//! A note is a blob of lines, each one record of ASCII JSON with sorted keys; the lines are a sorted set, so the union
//! of two notes is exact. The tree is laid out as git lays it out, but written here: `git notes` refuses refs outside
//! `refs/notes/`. Only this clone's own refs are ever written; a read is the union of all writers.
//!
//! | file | owns |
//! |---|---|
//! | `lines` | a note's lines |
//! | `trie` | which directory a note goes into |
//! | `tree` | notes trees in the repository |
//! | `read` | the notes of all writers |
//! | `write` | adding and purging records of our own |
//! | `room` | where a record goes when a note is full |
//! | `merge` | bringing two diverged versions of one ref together |

mod merge;
mod overflow;
mod read;
mod record_set;
#[cfg(test)]
mod tests;
mod tree;
mod trie;
mod write;

pub use read::{Note, NotesRef, Problem, Record, Records, Source, Texts};

use crate::model::session::WriterId;
use crate::store::refname::{self, RefName};

/// What notes are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Comments and verdicts: [`crate::model::review`].
    Review,
    /// Where commits come from: [`crate::model::provenance`].
    Provenance,
}

impl Kind {
    /// Returns the ref of a writer's notes.
    pub fn ref_name(self, writer: WriterId) -> RefName {
        match self {
            Kind::Review => RefName::ReviewNotes(writer),
            Kind::Provenance => RefName::ProvenanceNotes(writer),
        }
    }

    /// Returns whose notes of this kind a ref holds, if it does.
    fn writer(self, name: RefName) -> Option<WriterId> {
        match (self, name) {
            (Kind::Review, RefName::ReviewNotes(writer))
            | (Kind::Provenance, RefName::ProvenanceNotes(writer)) => Some(writer),
            _ => None,
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Kind::Review => refname::REVIEW_NOTES,
            Kind::Provenance => refname::PROVENANCE_NOTES,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Kind::Review => "review",
            Kind::Provenance => "provenance",
        }
    }
}
