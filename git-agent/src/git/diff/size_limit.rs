//! How many files differ between two trees, told without listing them: a dozen objects can stand for billions of files,
//! and whoever shares a session chooses its trees.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::git::command::Git;
use crate::git::object::{EntryKind, TreeEntry};
use crate::git::{ObjectId, ObjectKind, Repo};

/// More files than this are neither counted nor compared.
pub const MOST_FILES: u64 = 100_000;

/// Files above this size have no lines: git would hold them in memory.
const BIG_FILE: &str = "16m";

/// Larger trees are not looked into.
const TREE_LIMIT: u64 = 8 << 20;

/// How deep trees are followed.
const DEPTH: usize = 1024;

/// A pair of trees; one of them may be missing.
type Pair = (Option<ObjectId>, Option<ObjectId>);

/// What is known of pairs seen before: a tree that stands in many places is walked once and counted for each.
struct Scales<'a> {
    repo: &'a Repo,
    known: HashMap<Pair, u64>,
    most: u64,
}

impl Repo {
    /// Returns how many files differ between two trees or commits. When it is more than `most` at least, the number may
    /// be too small.
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

    /// Refuses two trees between which too many files differ.
    pub fn require_comparable(&self, old: ObjectId, new: ObjectId) -> Result<()> {
        let files = self.differing_files(old, new, MOST_FILES)?;
        if files <= MOST_FILES {
            return Ok(());
        }
        Err(Error::fatal(format!(
            "{files} files or more differ, at most {MOST_FILES} are compared"
        )))
    }
}

impl Git {
    /// Lets git compare no file for which it would need much memory.
    pub(in crate::git) fn without_big_files(self) -> Git {
        self.config("core.bigFileThreshold", BIG_FILE)
    }
}

impl Scales<'_> {
    fn weigh(&mut self, pair: Pair, depth: usize) -> Result<u64> {
        if let Some(files) = self.known.get(&pair) {
            return Ok(*files);
        }
        // Every pair that is walked has something that differs, so this bounds the work as well.
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
