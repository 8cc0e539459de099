//! Stores a worktree's state as a commit that plain git can show.
//!
//! The commit's tree is the files, so `git show --first-parent` shows the uncommitted work as one diff. Its parents are
//! the commit checked out, the previous snapshot and, unless reachable from those, a commit of the staged files and a
//! commit with everything that no tree can hold (sides of a conflict, marks, bytes that a checkout would convert). They
//! are parents because only parents keep objects alive; trailers tell them apart.

pub(crate) mod beneath;
pub mod capture;
pub(crate) mod filters;
pub(crate) mod index;
pub(crate) mod line_ends;
pub mod move_changes;
pub mod rebase_dirty;
pub mod refused_paths;
pub mod restore;
pub mod restore_mark;
pub mod scan;
pub mod stat_cache;
pub(crate) mod submodule;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod untracked;

use gix::objs::tree::EntryKind;

use crate::error::{Error, Result};
use crate::git::object::{Commit, Signature, TreeEntry};
use crate::git::snapshot::beneath::is_safe;
use crate::git::snapshot::capture::Captured;
use crate::git::snapshot::filters::Raw;
use crate::git::snapshot::index::OddEntry;
use crate::git::{ObjectId, ObjectKind, Repo};

const HEAD: &str = "Snapshot-Head";
const PREVIOUS: &str = "Snapshot-Previous";
const INDEX: &str = "Snapshot-Index";
const DETAILS: &str = "Snapshot-Details";

/// The largest list of details that is read, in bytes.
const DETAILS_LIMIT: u64 = 64 << 20;

#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The snapshot commit.
    pub id: ObjectId,
    /// The time, in seconds since 1970.
    pub time: i64,
    /// The commit that was checked out.
    pub head: Option<ObjectId>,
    pub previous: Option<ObjectId>,
    /// The tree of the files.
    pub tree: ObjectId,
    /// The tree of the staged files.
    pub index_tree: ObjectId,
    /// The index entries that no tree can hold.
    pub odd: Vec<OddEntry>,
    /// The exact bytes of files that a checkout would convert.
    pub raw: Vec<Raw>,
    /// The whole commit, for its message and further trailers.
    pub commit: Commit,
}

impl Snapshot {
    /// Returns whether this snapshot has the captured state.
    pub fn is_state(&self, captured: &Captured) -> bool {
        self.head == captured.head
            && self.tree == captured.tree
            && self.index_tree == captured.index_tree
            && self.odd == captured.odd
            && self.raw == captured.raw
    }

    /// Returns whether another snapshot has the same state.
    pub fn is_same_state(&self, other: &Snapshot) -> bool {
        self.head == other.head
            && self.tree == other.tree
            && self.index_tree == other.index_tree
            && self.odd == other.odd
            && self.raw == other.raw
    }
}

impl Repo {
    /// Writes a captured state as a commit, durably, without a ref.
    pub fn write_snapshot(
        &self,
        captured: &mut Captured,
        previous: Option<ObjectId>,
        who: &Signature,
        title: &str,
        trailers: &[(&str, String)],
    ) -> Result<ObjectId> {
        let mut parents: Vec<ObjectId> = captured.head.into_iter().chain(previous).collect();
        let mut lines = String::new();
        let line = |lines: &mut String, key: &str, value: &str| {
            lines.push_str(&format!("{key}: {}\n", one_line(value)));
        };
        for (key, value) in trailers {
            line(&mut lines, key, value);
        }
        if let Some(head) = captured.head {
            line(&mut lines, HEAD, &head.to_string());
        }
        if let Some(previous) = previous {
            line(&mut lines, PREVIOUS, &previous.to_string());
        }
        line(&mut lines, INDEX, &captured.index_tree.to_string());
        let committed = match captured.head {
            Some(head) => Some(self.read_commit(head)?.tree),
            None => None,
        };
        // Usually nothing or everything is staged: then the index tree is a parent's tree or the files' tree.
        if captured.index_tree != captured.tree && Some(captured.index_tree) != committed {
            let above: Vec<ObjectId> = captured.head.into_iter().collect();
            let tree = captured.index_tree;
            parents.push(captured.batch.commit(tree, &above, who, "staged files\n"));
        }
        if let Some(details) = self.add_details(captured, who)? {
            parents.push(details);
            line(&mut lines, DETAILS, &details.to_string());
        }
        let message = format!("{}\n\n{lines}", one_line(title));
        let id = captured
            .batch
            .commit(captured.tree, &parents, who, &message);
        self.store_captured(captured)?;
        Ok(id)
    }

    /// Adds the commit with everything that no tree can hold; returns `None` if there is nothing.
    fn add_details(&self, captured: &mut Captured, who: &Signature) -> Result<Option<ObjectId>> {
        if captured.odd.is_empty() && captured.raw.is_empty() {
            return Ok(None);
        }
        let batch = &mut captured.batch;
        let (mut entries, mut files) = (Vec::new(), Vec::new());
        let mut objects: Vec<ObjectId> = captured.raw.iter().map(|raw| raw.id).collect();
        for odd in &captured.odd {
            odd.encode(&mut entries);
            if odd.mode != 0o160_000 && !odd.intent_to_add {
                objects.push(odd.id);
            }
        }
        for raw in &captured.raw {
            files.extend_from_slice(format!("{}\t", raw.id).as_bytes());
            files.extend_from_slice(&raw.path);
            files.push(0);
        }
        objects.sort_unstable();
        objects.dedup();
        let keep = batch.tree(objects.into_iter().map(|id| TreeEntry {
            name: id.to_string().into_bytes(),
            kind: EntryKind::Blob,
            id,
        }));
        let entry = |name: &str, kind, id| TreeEntry {
            name: name.into(),
            kind,
            id,
        };
        let (entries, files) = (batch.blob(entries), batch.blob(files));
        let tree = batch.tree([
            entry("entries", EntryKind::Blob, entries),
            entry("files", EntryKind::Blob, files),
            entry("objects", EntryKind::Tree, keep),
        ]);
        let message = "what a tree cannot hold\n\n\
            entries: index entries with sides of a conflict or marks\n\
            files: bytes on disk that a checkout would convert\n";
        Ok(Some(batch.commit(tree, &[], who, message)))
    }

    /// Reads a snapshot.
    pub fn read_snapshot(&self, id: ObjectId) -> Result<Snapshot> {
        let commit = self.read_commit(id)?;
        let named = |key| -> Result<Option<ObjectId>> {
            commit
                .trailers(key)
                .last()
                .map(|value| self.parse_id(value))
                .transpose()
        };
        let index_tree =
            named(INDEX)?.ok_or_else(|| Error::fatal(format!("commit {id} is not a snapshot")))?;
        let (mut odd, mut raw) = (Vec::new(), Vec::new());
        if let Some(details) = named(DETAILS)? {
            let malformed = || Error::fatal(format!("the details of snapshot {id} are malformed"));
            let tree = self.read_tree(self.read_commit(details)?.tree, 4096)?;
            let list = |name: &[u8]| -> Result<Vec<u8>> {
                let found = tree.iter().find(|entry| entry.name == name);
                let blob = found.ok_or_else(malformed)?.id;
                self.read_object(blob, ObjectKind::Blob, DETAILS_LIMIT)
            };
            for record in records(&list(b"entries")?) {
                odd.push(OddEntry::decode(self, record).ok_or_else(malformed)?);
            }
            for record in records(&list(b"files")?) {
                let tab = record.iter().position(|byte| *byte == b'\t');
                let (id, path) = record.split_at(tab.ok_or_else(malformed)?);
                let id = std::str::from_utf8(id).map_err(|_| malformed())?;
                let path = path[1..].to_vec();
                if !is_safe(&path) {
                    return Err(malformed());
                }
                raw.push(Raw {
                    path,
                    id: self.parse_id(id)?,
                });
            }
        }
        Ok(Snapshot {
            id,
            time: commit.time,
            head: named(HEAD)?,
            previous: named(PREVIOUS)?,
            tree: commit.tree,
            index_tree,
            odd,
            raw,
            commit,
        })
    }
}

fn records(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == 0)
        .filter(|record| !record.is_empty())
}

/// Returns text on one line, so that it cannot form a trailer.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control())
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
