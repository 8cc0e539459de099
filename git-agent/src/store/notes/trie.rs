//! The shape of a notes tree: the directory of each note, decided exactly as in git.
//!
//! git keeps notes in a 16-way tree over the hex digits of the annotated ids, and folds it into directories of two
//! digits each: a directory is opened where, at an even depth, all 16 digits lead to more than one note. Unread
//! directories stay folded and are written back by their id, so that a change reads only the trees on its path. A
//! folded directory counts as more than one note, whatever it contains: the result depends on the path, as in git.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::git::ObjectId;
use crate::git::object::{EntryKind, TreeEntry};

/// A note, or a directory that is not read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    /// One object's notes.
    Note {
        /// The annotated object.
        object: ObjectId,
        /// The blob with the notes.
        blob: ObjectId,
    },
    /// A directory that is not read yet.
    Folded(Folded),
}

/// A directory of a notes tree, by the leading bytes of the ids below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Folded {
    /// The leading bytes, padded with zeros.
    pub prefix: ObjectId,
    /// The number of leading bytes.
    pub bytes: usize,
    pub tree: ObjectId,
}

impl Folded {
    fn nibbles(&self) -> usize {
        self.bytes * 2
    }

    fn covers(&self, leaf: &Leaf) -> bool {
        let long_enough = match leaf {
            Leaf::Note { .. } => true,
            Leaf::Folded(other) => other.bytes >= self.bytes,
        };
        long_enough && self.prefix.as_slice()[..self.bytes] == leaf.key().as_slice()[..self.bytes]
    }
}

impl Leaf {
    fn key(&self) -> &ObjectId {
        match self {
            Leaf::Note { object, .. } => object,
            Leaf::Folded(folded) => &folded.prefix,
        }
    }
}

/// Loads folded directories, and combines colliding notes.
pub(super) trait Source {
    /// Returns the entries of a directory.
    fn load(&mut self, folded: &Folded) -> Result<Vec<Leaf>>;

    /// Returns a blob with the lines of both: a tree with mixed depths can contain two notes on one object.
    fn combine(&mut self, one: ObjectId, other: ObjectId) -> Result<ObjectId>;
}

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Empty,
    Leaf(Leaf),
    Branch(Box<[Slot; 16]>),
}

/// A notes tree in memory, read as far as needed.
#[derive(Debug, Default)]
pub(super) struct Trie {
    root: [Slot; 16],
}

/// A directory of a trie to be written.
#[derive(Debug, Default)]
pub(super) struct Dir {
    /// Notes, folded directories and foreign entries, by name.
    pub entries: BTreeMap<Vec<u8>, TreeEntry>,
    /// Directories that are written anew.
    pub dirs: BTreeMap<Vec<u8>, Dir>,
}

impl Dir {
    /// Returns the directory of these leading bytes, created if it is missing.
    pub fn descend(&mut self, leading: &[u8]) -> &mut Dir {
        leading.iter().fold(self, |dir, byte| {
            dir.dirs
                .entry(format!("{byte:02x}").into_bytes())
                .or_default()
        })
    }

    /// Returns whether no entry, such as a folded directory, has the name of a directory on the path.
    pub fn is_open(&self, leading: &[u8]) -> bool {
        let mut dir = Some(self);
        leading.iter().all(|byte| {
            let name = format!("{byte:02x}").into_bytes();
            let Some(here) = dir else {
                return true;
            };
            dir = here.dirs.get(&name);
            !here.entries.contains_key(&name)
        })
    }

    fn put(&mut self, name: &str, kind: EntryKind, id: ObjectId) {
        let name = name.as_bytes().to_vec();
        let entry = TreeEntry {
            name: name.clone(),
            kind,
            id,
        };
        self.entries.insert(name, entry);
    }
}

impl Trie {
    /// Adds a leaf of a tree.
    pub fn insert(&mut self, leaf: Leaf, source: &mut dyn Source) -> Result<()> {
        insert(&mut self.root[nibble(leaf.key(), 0)], 1, leaf, source)
    }

    /// Returns the blob with an object's notes.
    pub fn find(&mut self, object: &ObjectId, source: &mut dyn Source) -> Result<Option<ObjectId>> {
        let slot = &mut self.root[nibble(object, 0)];
        Ok(match explore(slot, 1, object, source)? {
            Some(Leaf::Note { blob, .. }) => Some(*blob),
            _ => None,
        })
    }

    /// Sets the blob with an object's notes.
    pub fn set(&mut self, object: ObjectId, blob: ObjectId, source: &mut dyn Source) -> Result<()> {
        let slot = &mut self.root[nibble(&object, 0)];
        match explore(slot, 1, &object, source)? {
            Some(found) => {
                *found = Leaf::Note { object, blob };
                Ok(())
            }
            None => self.insert(Leaf::Note { object, blob }, source),
        }
    }

    /// Removes an object's notes.
    pub fn remove(&mut self, object: &ObjectId, source: &mut dyn Source) -> Result<()> {
        let slot = &mut self.root[nibble(object, 0)];
        if explore(slot, 1, object, source)?.is_some() {
            remove(slot, 1, object);
        }
        Ok(())
    }

    /// Distributes the notes over directories. Reads folded directories that have to be dissolved.
    pub fn lay_out(&mut self, source: &mut dyn Source) -> Result<Dir> {
        let mut top = Dir::default();
        lay_out(&mut self.root, 0, 0, &mut top, source)?;
        Ok(top)
    }
}

/// Returns the nth hexadecimal digit of an id.
fn nibble(id: &ObjectId, index: usize) -> usize {
    let byte = id.as_slice()[index / 2];
    usize::from(if index.is_multiple_of(2) {
        byte >> 4
    } else {
        byte & 15
    })
}

/// Adds a leaf to a slot at this depth, in digits.
fn insert(slot: &mut Slot, depth: usize, leaf: Leaf, source: &mut dyn Source) -> Result<()> {
    match slot {
        Slot::Empty => {
            *slot = Slot::Leaf(leaf);
            Ok(())
        }
        Slot::Branch(children) => match leaf {
            // Mixed depths: a directory that spans this whole branch cannot be stored below it.
            Leaf::Folded(folded) if folded.nibbles() <= depth => {
                insert_all(slot, depth, &folded, source)
            }
            _ => insert(
                &mut children[nibble(leaf.key(), depth)],
                depth + 1,
                leaf,
                source,
            ),
        },
        Slot::Leaf(known) => {
            let known = *known;
            if let (
                Leaf::Note { object, blob },
                Leaf::Note {
                    object: same,
                    blob: other,
                },
            ) = (known, leaf)
                && object == same
            {
                if blob != other {
                    let blob = source.combine(blob, other)?;
                    *slot = Slot::Leaf(Leaf::Note { object, blob });
                }
                return Ok(());
            }
            if let Leaf::Folded(folded) = known
                && folded.covers(&leaf)
            {
                *slot = Slot::Empty;
                insert_all(slot, depth, &folded, source)?;
                return insert(slot, depth, leaf, source);
            }
            if let Leaf::Folded(folded) = leaf
                && folded.covers(&known)
            {
                return insert_all(slot, depth, &folded, source);
            }
            *slot = Slot::Branch(Box::default());
            insert(slot, depth, known, source)?;
            insert(slot, depth, leaf, source)
        }
    }
}

fn insert_all(
    slot: &mut Slot,
    depth: usize,
    folded: &Folded,
    source: &mut dyn Source,
) -> Result<()> {
    for leaf in source.load(folded)? {
        insert(slot, depth, leaf, source)?;
    }
    Ok(())
}

/// Returns the leaf with an object's notes. Reads the directories on its path.
fn explore<'t>(
    slot: &'t mut Slot,
    depth: usize,
    object: &ObjectId,
    source: &mut dyn Source,
) -> Result<Option<&'t mut Leaf>> {
    let wanted = Leaf::Note {
        object: *object,
        blob: *object,
    };
    while let Slot::Leaf(Leaf::Folded(folded)) = slot {
        if !folded.covers(&wanted) {
            return Ok(None);
        }
        let folded = *folded;
        *slot = Slot::Empty;
        insert_all(slot, depth, &folded, source)?;
    }
    match slot {
        Slot::Branch(children) => explore(
            &mut children[nibble(object, depth)],
            depth + 1,
            object,
            source,
        ),
        Slot::Leaf(leaf @ Leaf::Note { .. }) if leaf.key() == object => Ok(Some(leaf)),
        _ => Ok(None),
    }
}

/// Empties the slot of an existing object; a branch with only one note left becomes that note.
fn remove(slot: &mut Slot, depth: usize, object: &ObjectId) {
    let Slot::Branch(children) = slot else {
        *slot = Slot::Empty;
        return;
    };
    remove(&mut children[nibble(object, depth)], depth + 1, object);
    let mut left = children
        .iter()
        .filter(|child| !matches!(child, Slot::Empty));
    *slot = match (left.next(), left.next()) {
        (None, _) => Slot::Empty,
        (Some(Slot::Leaf(note @ Leaf::Note { .. })), None) => Slot::Leaf(*note),
        // Any other leaf is found by the digits below this branch, and stays there.
        _ => return,
    };
}

/// Lays out a branch at this depth, in digits, of which `fanout` pairs are directories.
fn lay_out(
    branch: &mut [Slot; 16],
    depth: usize,
    fanout: usize,
    top: &mut Dir,
    source: &mut dyn Source,
) -> Result<()> {
    let dense = |slot: &Slot| matches!(slot, Slot::Branch(_) | Slot::Leaf(Leaf::Folded(_)));
    let opens = depth.is_multiple_of(2) && depth <= 2 * fanout && branch.iter().all(dense);
    let fanout = fanout + usize::from(opens);
    for slot in branch {
        while let Slot::Leaf(Leaf::Folded(folded)) = slot
            && depth >= 2 * fanout
        {
            let folded = *folded;
            *slot = Slot::Empty;
            insert_all(slot, depth + 1, &folded, source)?;
        }
        match slot {
            Slot::Empty => {}
            Slot::Branch(children) => lay_out(children, depth + 1, fanout, top, source)?,
            Slot::Leaf(Leaf::Note { object, blob }) => {
                let (leading, _) = object.as_slice().split_at(fanout);
                let name = object.to_string();
                top.descend(leading)
                    .put(&name[2 * fanout..], EntryKind::Blob, *blob);
            }
            Slot::Leaf(Leaf::Folded(folded)) => {
                let (leading, _) = folded.prefix.as_slice().split_at(folded.bytes - 1);
                let name = folded.prefix.to_string();
                top.descend(leading).put(
                    &name[folded.nibbles() - 2..folded.nibbles()],
                    EntryKind::Tree,
                    folded.tree,
                );
            }
        }
    }
    Ok(())
}
