//! Counts the differing files of two trees without listing them: a dozen objects can stand for billions of files, and
//! the author of a shared session chooses its trees.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::git::command::Git;
use crate::git::object::{EntryKind, TreeEntry};
use crate::git::{ObjectId, ObjectKind, Repo};

/// The most files that are counted or compared.
pub const MOST_FILES: u64 = 100_000;

/// Files above this size count without lines, because git would hold them in memory.
const BIG_FILE: &str = "16m";

/// The largest tree that is read.
const TREE_LIMIT: u64 = 8 << 20;

/// The deepest tree that is read.
const DEPTH: usize = 1024;

/// A pair of trees; one of them may be missing.
type Pair = (Option<ObjectId>, Option<ObjectId>);

/// The known counts of pairs: a tree that occurs in many places is walked once and counted for each.
struct Scales<'a> {
    repo: &'a Repo,
    known: HashMap<Pair, u64>,
    most: u64,
}

impl Repo {
    /// Returns how many files differ between two trees or commits. A result above `most` is only a lower bound.
    pub fn differing_files(&self, old: ObjectId, new: ObjectId, most: u64) -> Result<u64> {
        let tree = |id: ObjectId| match self.object_header(id)? {
            Some((ObjectKind::Tree, _)) => Ok(id),
            _ => self.tree_of(id),
        };
        let pair = (Some(tree(old)?), Some(tree(new)?));
        let mut scales = Scales {
            repo: self,
            known: HashMap::new(),
            most,
        };
        scales.weigh(pair, 0)
    }

    /// Fails if too many files differ between two trees.
    pub fn require_comparable(&self, old: ObjectId, new: ObjectId) -> Result<()> {
        let files = self.differing_files(old, new, MOST_FILES)?;
        if files <= MOST_FILES {
            return Ok(());
        }
        Err(Error::fatal(format!(
            "{files} or more files differ, at most {MOST_FILES} can be compared"
        )))
    }
}

impl Git {
    /// Prevents git from comparing files that would need much memory.
    pub(in crate::git) fn without_big_files(self) -> Git {
        self.config("core.bigFileThreshold", BIG_FILE)
    }
}

impl Scales<'_> {
    fn weigh(&mut self, pair: Pair, depth: usize) -> Result<u64> {
        if let Some(files) = self.known.get(&pair) {
            return Ok(*files);
        }
        // Every walked pair differs somewhere, so this bounds the work too.
        if depth > DEPTH || self.known.len() as u64 > self.most {
            return Ok(self.most.saturating_add(1));
        }
        let (before, after) = (self.entries(pair.0)?, self.entries(pair.1)?);
        let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
        let mut files: u64 = 0;
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.name.cmp(&new.name),
            };
            let old = before.next_if(|_| order.is_le());
            let new = after.next_if(|_| order.is_ge());
            if old == new {
                continue;
            }
            let tree = |entry: Option<&TreeEntry>| {
                entry
                    .filter(|entry| entry.kind == EntryKind::Tree)
                    .map(|entry| entry.id)
            };
            let inside = (tree(old), tree(new));
            if inside != (None, None) {
                files = files.saturating_add(self.weigh(inside, depth + 1)?);
            }
            let is_file = |entry: Option<&TreeEntry>| {
                entry.is_some_and(|entry| entry.kind != EntryKind::Tree)
            };
            files = files.saturating_add(u64::from(is_file(old) || is_file(new)));
        }
        self.known.insert(pair, files);
        Ok(files)
    }

    /// Returns the entries of a tree by name, directories among the files.
    fn entries(&self, tree: Option<ObjectId>) -> Result<Vec<TreeEntry>> {
        let Some(tree) = tree else {
            return Ok(Vec::new());
        };
        let mut entries = self.repo.read_tree(tree, TREE_LIMIT)?;
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }
}
