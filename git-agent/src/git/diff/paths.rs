//! The paths that each side of a merge touched, and whether two sides can conflict at all.
//!
//! Most pairs of branches change different files. Their lists of paths alone show that they merge cleanly: git would
//! take each path from the side that changed it. If renames, directories or a common path are involved, the answer is
//! "perhaps", and git decides. Errors are only in that direction. A matrix of 210 merges takes 0.2 × the time of a
//! `git merge-tree` for each (`bench-merge`).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use gix::objs::tree::EntryKind;

use crate::error::{Context, Error, Result};
use crate::git::{ObjectId, Repo};

/// The deepest tree that is read; a deeper one is not a person's work, and could overflow the stack.
pub(in crate::git) const DEPTH: usize = 512;
/// The most files that are compared: a dozen objects can stand for billions.
const MOST: usize = 1_000_000;

/// A file at one path: its kind and content.
pub type Leaf = (EntryKind, ObjectId);

/// A path that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: Vec<u8>,
    /// The file before; `None` if it was added.
    pub before: Option<Leaf>,
    /// The file after; `None` if it was deleted.
    pub after: Option<Leaf>,
}

/// All differences between a base and one side.
#[derive(Debug, Clone, Default)]
pub struct Touched {
    /// The changed paths, sorted by bytes.
    changes: Vec<Change>,
    /// Directories of the base that the side removed.
    removed_dirs: BTreeSet<Vec<u8>>,
    adds: bool,
    deletes: bool,
}

impl Touched {
    /// Returns the changed paths, sorted.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns whether git could detect a rename: some file was deleted and some file was added.
    pub fn may_rename(&self) -> bool {
        self.adds && self.deletes
    }

    /// Returns whether a merge of the two sides could be more than the sum of their changes.
    pub fn may_meet(&self, other: &Touched) -> bool {
        self.moves_additions_of(other) || other.moves_additions_of(self) || self.overlaps(other)
    }

    /// Returns whether this side may have renamed a directory in which the other added a file, which git would move
    /// too.
    fn moves_additions_of(&self, other: &Touched) -> bool {
        self.may_rename()
            && !self.removed_dirs.is_empty()
            && other
                .changes
                .iter()
                .filter(|change| change.before.is_none())
                .any(|change| parents(&change.path).any(|dir| self.removed_dirs.contains(dir)))
    }

    /// Returns whether both sides touch a path, or one touches a path that is a directory for the other.
    fn overlaps(&self, other: &Touched) -> bool {
        let renames = self.may_rename() || other.may_rename();
        let (mut ours, mut theirs) = (self.changes.as_slice(), other.changes.as_slice());
        while let ([our, ..], [their, ..]) = (ours, theirs) {
            match our.path.cmp(&their.path) {
                Ordering::Equal => {
                    if !is_same(our, their, renames) {
                        return true;
                    }
                    (ours, theirs) = (&ours[1..], &theirs[1..]);
                }
                Ordering::Less => {
                    if is_new(our) && has_below(theirs, &our.path) {
                        return true;
                    }
                    ours = &ours[1..];
                }
                Ordering::Greater => {
                    if is_new(their) && has_below(ours, &their.path) {
                        return true;
                    }
                    theirs = &theirs[1..];
                }
            }
        }
        false
    }
}

/// Returns whether both sides made the same change to a path, so that nothing is left to decide.
fn is_same(ours: &Change, theirs: &Change, renames: bool) -> bool {
    match (&ours.before, &ours.after) {
        (Some(_), Some(_)) => ours.after == theirs.after,
        // A deleted or added file may be half of a rename, and then the other half counts too.
        _ => !renames && ours.after == theirs.after,
    }
}

/// Returns whether a sorted list has a path below this one, as if it were a directory.
fn has_below(changes: &[Change], path: &[u8]) -> bool {
    // Names between `path` and `path/` sort in between: `path-x`, `path.c`.
    let dir = [path, b"/"].concat();
    let from = changes.partition_point(|change| change.path < dir);
    changes
        .get(from)
        .is_some_and(|change| change.path.starts_with(&dir))
}

/// Returns whether a path was added. A former file can be a directory only on a side that touched it too.
fn is_new(change: &Change) -> bool {
    change.before.is_none()
}

/// Returns the directories of a path, without the top.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| &path[..at])
}

/// Compares trees, with a cache of trees.
#[derive(Debug)]
pub struct Comparer {
    repo: gix::Repository,
}

impl Comparer {
    /// Returns a comparer that caches up to `memory` bytes of trees.
    pub fn new(repo: &Repo, memory: usize) -> Self {
        let mut repo = repo.gix().clone();
        repo.object_cache_size(memory);
        Comparer { repo }
    }

    /// Returns the best common ancestors of two commits: none without a common history, several after a criss-cross.
    pub fn merge_bases(&self, one: ObjectId, other: ObjectId) -> Result<Vec<ObjectId>> {
        let bases = self
            .repo
            .merge_bases_many(one, &[other])
            .context(|| format!("cannot relate {one} to {other}"))?;
        Ok(bases.iter().map(|id| id.detach()).collect())
    }

    /// Returns the differences between two trees.
    pub fn touched(&self, base: ObjectId, side: ObjectId) -> Result<Touched> {
        let mut touched = Touched::default();
        if base != side {
            let mut path = Vec::new();
            self.compare(Some(base), Some(side), &mut path, 0, &mut touched)?;
            // Trees sort a directory as if its name ended in a slash; whole paths sort by bytes.
            touched
                .changes
                .sort_unstable_by(|one, other| one.path.cmp(&other.path));
        }
        Ok(touched)
    }

    /// Returns the file at a path of a tree; `None` if it is not a file.
    pub fn file_at(&self, tree: ObjectId, path: &[u8]) -> Result<Option<ObjectId>> {
        let mut id = tree;
        let mut names = path.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            let entries = self.entries(Some(id))?;
            let Some(entry) = entries.iter().find(|entry| entry.name == name) else {
                return Ok(None);
            };
            let is_last = names.peek().is_none();
            match entry.kind {
                EntryKind::Tree if !is_last => id = entry.id,
                EntryKind::Tree | EntryKind::Commit => return Ok(None),
                _ => return Ok(is_last.then_some(entry.id)),
            }
        }
        Ok(None)
    }

    fn compare(
        &self,
        base: Option<ObjectId>,
        side: Option<ObjectId>,
        path: &mut Vec<u8>,
        depth: usize,
        touched: &mut Touched,
    ) -> Result<()> {
        if depth > DEPTH {
            return Err(Error::fatal("a tree is too deep to compare"));
        }
        let (before, after) = (self.entries(base)?, self.entries(side)?);
        let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.name.cmp(&new.name),
            };
            let old = (order != Ordering::Greater)
                .then(|| before.next())
                .flatten();
            let new = (order != Ordering::Less).then(|| after.next()).flatten();
            let pair = |entry: Option<&Entry>| entry.map(|entry| (entry.kind, entry.id));
            let (old_leaf, new_leaf) = (pair(old), pair(new));
            if old_leaf == new_leaf {
                continue;
            }
            let name = old.or(new).map_or(&[][..], |entry| &entry.name);
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let tree = |leaf: Option<Leaf>| {
                leaf.and_then(|(kind, id)| (kind == EntryKind::Tree).then_some(id))
            };
            let file = |leaf: Option<Leaf>| leaf.filter(|(kind, _)| *kind != EntryKind::Tree);
            let (old_tree, new_tree) = (tree(old_leaf), tree(new_leaf));
            if old_tree.is_some() && new_tree.is_none() {
                touched.removed_dirs.insert(path.clone());
            }
            if old_tree.is_some() || new_tree.is_some() {
                self.compare(old_tree, new_tree, path, depth + 1, touched)?;
            }
            let (old_file, new_file) = (file(old_leaf), file(new_leaf));
            if old_file.is_some() || new_file.is_some() {
                if touched.changes.len() >= MOST {
                    return Err(Error::fatal(format!("more than {MOST} files differ")));
                }
                touched.adds |= old_file.is_none();
                touched.deletes |= new_file.is_none();
                touched.changes.push(Change {
                    path: path.clone(),
                    before: old_file,
                    after: new_file,
                });
            }
            path.truncate(length);
        }
    }

    /// Returns the entries of a tree by name, directories among the files.
    pub(in crate::git) fn entries(&self, tree: Option<ObjectId>) -> Result<Vec<Entry>> {
        let Some(id) = tree else {
            return Ok(Vec::new());
        };
        let malformed = || format!("cannot read tree {id}");
        let tree = self.repo.find_tree(id).context(malformed)?;
        let mut entries = Vec::new();
        for entry in tree.iter() {
            let entry = entry.context(malformed)?;
            entries.push(Entry {
                name: entry.filename().to_vec(),
                kind: entry.mode().kind(),
                id: entry.object_id(),
            });
        }
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }
}

/// One entry of a tree.
#[derive(Debug)]
pub(in crate::git) struct Entry {
    pub(in crate::git) name: Vec<u8>,
    pub(in crate::git) kind: EntryKind,
    pub(in crate::git) id: ObjectId,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(content: u8) -> Option<Leaf> {
        let id = ObjectId::from_bytes_or_panic(&[content; 20]);
        (content > 0).then_some((EntryKind::Blob, id))
    }

    /// Builds a side of `path`, before and after as one digit each, 0 for none.
    fn side(changes: &[(&str, u8, u8)], removed: &[&str]) -> Touched {
        let mut touched = Touched::default();
        for (path, before, after) in changes {
            touched.adds |= *before == 0;
            touched.deletes |= *after == 0;
            touched.changes.push(Change {
                path: path.as_bytes().to_vec(),
                before: leaf(*before),
                after: leaf(*after),
            });
        }
        touched
            .changes
            .sort_by(|one, other| one.path.cmp(&other.path));
        touched.removed_dirs = removed.iter().map(|dir| dir.as_bytes().to_vec()).collect();
        touched
    }

    #[track_caller]
    fn meet(expected: bool, ours: &Touched, theirs: &Touched) {
        assert_eq!(ours.may_meet(theirs), expected);
        assert_eq!(theirs.may_meet(ours), expected, "the other way round");
    }

    #[test]
    fn different_paths_cannot_meet() {
        meet(
            false,
            &side(&[("a", 1, 2)], &[]),
            &side(&[("b", 1, 2)], &[]),
        );
        meet(false, &side(&[], &[]), &side(&[("b", 1, 0)], &[]));
        // A file, and names that share only their start.
        meet(
            false,
            &side(&[("a", 1, 2)], &[]),
            &side(&[("a-b", 0, 1), ("a.c/d", 0, 1), ("ab/c", 0, 1)], &[]),
        );
    }

    #[test]
    fn the_same_path_meets_unless_both_did_the_same() {
        meet(true, &side(&[("a", 1, 2)], &[]), &side(&[("a", 1, 3)], &[]));
        meet(
            false,
            &side(&[("a", 1, 2)], &[]),
            &side(&[("a", 1, 2)], &[]),
        );
        meet(
            false,
            &side(&[("a", 1, 0)], &[]),
            &side(&[("a", 1, 0)], &[]),
        );
        meet(true, &side(&[("a", 1, 0)], &[]), &side(&[("a", 1, 2)], &[]));
        // Both deleted it, but one may have renamed it.
        let renamed = side(&[("a", 1, 0), ("z", 0, 1)], &[]);
        meet(true, &renamed, &side(&[("a", 1, 0)], &[]));
    }

    #[test]
    fn a_file_meets_what_is_below_it() {
        let file = side(&[("a", 0, 1)], &[]);
        meet(true, &file, &side(&[("a.c", 0, 1), ("a/b/c", 0, 1)], &[]));
        meet(true, &file, &side(&[("a!", 0, 1), ("a/b", 1, 2)], &[]));
    }

    #[test]
    fn additions_meet_directories_that_may_have_moved() {
        let moved = side(&[("d/e/x", 1, 0), ("n/e/x", 0, 1)], &["d", "d/e"]);
        meet(true, &moved, &side(&[("d/new", 0, 1)], &[]));
        meet(true, &moved, &side(&[("d/e/f/new", 0, 1)], &[]));
        meet(false, &moved, &side(&[("other/new", 0, 1)], &[]));
        meet(false, &moved, &side(&[("d2", 1, 2)], &[]));
        // Deleted, not moved: no file was added.
        let gone = side(&[("d/x", 1, 0)], &["d"]);
        meet(false, &gone, &side(&[("d/new", 0, 1)], &[]));
    }
}
