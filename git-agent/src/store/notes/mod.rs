//! Notes: records about objects, one notes tree per writer, in the form of git's own notes.
//!
//! A note is a blob of lines, each one record of ASCII JSON with sorted keys. The lines are a sorted set, so that the
//! union of two notes is exact. The tree has git's layout, but is written here, because `git notes` refuses refs
//! outside `refs/notes/`. Only this clone's own refs are ever written; a read is the union of all writers.
//!
//! | file | owns |
//! |---|---|
//! | `record_set` | a note's lines |
//! | `trie` | the directory of each note |
//! | `tree` | notes trees in the repository |
//! | `read` | the notes of all writers |
//! | `write` | adding and purging this clone's records |
//! | `overflow` | the place of a record when a note is full |
//! | `merge` | joining two diverged versions of one ref |

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

/// The kind of notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Comments and verdicts: [`crate::model::review`].
    Review,
    /// The origin of commits: [`crate::model::provenance`].
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

    /// Returns the writer of a notes ref, if the ref is of this kind.
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
