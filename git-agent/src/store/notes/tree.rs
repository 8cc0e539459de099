//! Notes trees in the repository: the meaning of entries, walking, and changing single paths.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::git::object::{Batch, EntryKind, TreeEntry};
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::store::limits;
use crate::store::notes::record_set::Lines;
use crate::store::notes::trie::{Dir, Folded, Leaf, Source, Trie};

/// The meaning of an entry in a notes tree.
enum Meaning {
    Leaf(Leaf),
    /// Neither a note nor a directory of notes: kept, never opened.
    Foreign,
}

/// The position of a directory in a notes tree: the leading bytes of the ids below it.
type Leading = Vec<u8>;

fn meaning(entry: &TreeEntry, leading: &[u8], id_bytes: usize) -> Meaning {
    let left = id_bytes - leading.len();
    let is_blob = matches!(entry.kind, EntryKind::Blob | EntryKind::BlobExecutable);
    let is_note = entry.name.len() == 2 * left && is_blob;
    let is_dir = entry.name.len() == 2 && entry.kind == EntryKind::Tree && left > 1;
    let Some(tail) = (is_note || is_dir).then(|| from_hex(&entry.name)).flatten() else {
        return Meaning::Foreign;
    };
    let mut id = leading.to_vec();
    id.extend(tail);
    let bytes = id.len();
    id.resize(id_bytes, 0);
    let id = ObjectId::from_bytes_or_panic(&id);
    Meaning::Leaf(if is_note {
        Leaf::Note {
            object: id,
            blob: entry.id,
        }
    } else {
        Leaf::Folded(Folded {
            prefix: id,
            bytes,
            tree: entry.id,
        })
    })
}

fn from_hex(name: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    name.chunks(2)
        .map(|pair| {
            let value = digit(*pair.first()?)? * 16 + digit(*pair.get(1)?)?;
            u8::try_from(value).ok()
        })
        .collect()
}

/// Counts the entries read, so that a crafted tree that contains itself many times over ends early.
#[derive(Debug)]
struct Budget(usize);

impl Budget {
    fn new() -> Self {
        Budget(limits::NOTES)
    }

    fn spend(&mut self, count: usize) -> Result<()> {
        self.0 = self.0.checked_sub(count).ok_or_else(|| {
            Error::fatal(format!(
                "notes tree has more than the {} entries allowed",
                limits::NOTES
            ))
        })?;
        Ok(())
    }
}

/// Calls `each` with every note below a tree, at any depth: the annotated object and the blob.
///
/// A tree of mixed depths may contain one object several times.
pub(super) fn walk(
    repo: &Repo,
    tree: ObjectId,
    each: &mut dyn FnMut(ObjectId, ObjectId) -> Result<()>,
) -> Result<()> {
    walk_below(repo, tree, &[], &mut Budget::new(), each, &mut |_, _| {})
}

fn walk_below(
    repo: &Repo,
    tree: ObjectId,
    leading: &[u8],
    budget: &mut Budget,
    each: &mut dyn FnMut(ObjectId, ObjectId) -> Result<()>,
    foreign: &mut dyn FnMut(&[u8], TreeEntry),
) -> Result<()> {
    let entries = repo.read_tree(tree, limits::NOTES_TREE)?;
    budget.spend(entries.len() + 1)?;
    for entry in entries {
        match meaning(&entry, leading, repo.hash_kind().len_in_bytes()) {
            Meaning::Foreign => foreign(leading, entry),
            Meaning::Leaf(Leaf::Note { object, blob }) => each(object, blob)?,
            Meaning::Leaf(Leaf::Folded(folded)) => {
                let leading = &folded.prefix.as_slice()[..folded.bytes];
                walk_below(repo, folded.tree, leading, budget, each, foreign)?;
            }
        }
    }
    Ok(())
}

/// Returns the blobs with the notes on one object. Reads only the trees on its path.
pub(super) fn find(repo: &Repo, tree: ObjectId, object: &ObjectId) -> Result<Vec<ObjectId>> {
    let hex = object.to_string();
    let mut found = Vec::new();
    let mut next = Some(tree);
    let mut at = 0;
    while let Some(tree) = next.take() {
        for entry in repo.read_tree(tree, limits::NOTES_TREE)? {
            match meaning(
                &entry,
                &object.as_slice()[..at / 2],
                repo.hash_kind().len_in_bytes(),
            ) {
                Meaning::Leaf(Leaf::Note { object: on, blob }) if on == *object => found.push(blob),
                Meaning::Leaf(Leaf::Folded(folded))
                    if hex.as_bytes()[at..at + 2].eq_ignore_ascii_case(&entry.name) =>
                {
                    next = Some(folded.tree);
                }
                _ => {}
            }
        }
        at += 2;
    }
    Ok(found)
}

/// Reads a note. Never loads more than the allowed size.
pub(super) fn read_blob(repo: &Repo, blob: ObjectId) -> Result<Vec<u8>> {
    repo.read_object(blob, ObjectKind::Blob, limits::NOTE)
}

/// Reads the lines of a note.
pub(super) fn read_lines(repo: &Repo, blob: ObjectId) -> Result<Lines> {
    Ok(Lines::parse(&read_blob(repo, blob)?))
}

/// A notes tree under modification.
#[derive(Debug)]
pub(super) struct NotesTree<'a> {
    trie: Trie,
    access: Access<'a>,
}

#[derive(Debug)]
struct Access<'a> {
    repo: &'a Repo,
    batch: Batch,
    /// Notes that are only in the batch.
    fresh: BTreeMap<ObjectId, Lines>,
    foreign: BTreeMap<Leading, BTreeMap<Vec<u8>, TreeEntry>>,
    budget: Budget,
}

impl Access<'_> {
    fn lines(&self, blob: ObjectId) -> Result<Lines> {
        match self.fresh.get(&blob) {
            Some(lines) => Ok(lines.clone()),
            None => read_lines(self.repo, blob),
        }
    }

    fn add(&mut self, lines: Lines) -> ObjectId {
        let blob = self.batch.blob(lines.to_blob());
        self.fresh.insert(blob, lines);
        blob
    }

    fn keep_foreign(&mut self, leading: &[u8], entry: TreeEntry) {
        let dir = self.foreign.entry(leading.to_vec()).or_default();
        // Two versions of a foreign entry meet only in a union. The same one is chosen in every clone.
        match dir.get(&entry.name) {
            Some(known) if known.id >= entry.id => {}
            _ => {
                dir.insert(entry.name.clone(), entry);
            }
        }
    }

    fn read_dir(&mut self, tree: ObjectId, leading: &[u8]) -> Result<Vec<Leaf>> {
        let entries = self.repo.read_tree(tree, limits::NOTES_TREE)?;
        self.budget.spend(entries.len() + 1)?;
        let mut leaves = Vec::with_capacity(entries.len());
        for entry in entries {
            match meaning(&entry, leading, self.repo.hash_kind().len_in_bytes()) {
                Meaning::Leaf(leaf) => leaves.push(leaf),
                Meaning::Foreign => self.keep_foreign(leading, entry),
            }
        }
        Ok(leaves)
    }

    fn encode(&mut self, dir: Dir) -> ObjectId {
        let mut entries = dir.entries;
        for (name, below) in dir.dirs {
            let id = self.encode(below);
            let kind = EntryKind::Tree;
            entries.insert(name.clone(), TreeEntry { name, kind, id });
        }
        self.batch.tree(entries.into_values())
    }
}

impl Source for Access<'_> {
    fn load(&mut self, folded: &Folded) -> Result<Vec<Leaf>> {
        self.read_dir(folded.tree, &folded.prefix.as_slice()[..folded.bytes])
    }

    fn combine(&mut self, one: ObjectId, other: ObjectId) -> Result<ObjectId> {
        let mut lines = self.lines(one)?;
        lines.union(self.lines(other)?);
        Ok(self.add(lines))
    }
}

impl<'a> NotesTree<'a> {
    /// Returns a tree without notes.
    pub fn empty(repo: &'a Repo) -> Self {
        NotesTree {
            trie: Trie::default(),
            access: Access {
                repo,
                batch: repo.batch(),
                fresh: BTreeMap::new(),
                foreign: BTreeMap::new(),
                budget: Budget::new(),
            },
        }
    }

    /// Opens a tree. Reads only its top.
    pub fn open(repo: &'a Repo, tree: ObjectId) -> Result<Self> {
        let mut notes = NotesTree::empty(repo);
        for leaf in notes.access.read_dir(tree, &[])? {
            notes.trie.insert(leaf, &mut notes.access)?;
        }
        Ok(notes)
    }

    /// Adds every note of a tree, so that the result depends only on the notes, not on the layout of the tree.
    pub fn union(&mut self, tree: ObjectId) -> Result<()> {
        let mut leaves = Vec::new();
        let mut foreign = Vec::new();
        walk_below(
            self.access.repo,
            tree,
            &[],
            &mut Budget::new(),
            &mut |object, blob| {
                leaves.push(Leaf::Note { object, blob });
                Ok(())
            },
            &mut |leading, entry| foreign.push((leading.to_vec(), entry)),
        )?;
        for leaf in leaves {
            self.trie.insert(leaf, &mut self.access)?;
        }
        for (leading, entry) in foreign {
            self.access.keep_foreign(&leading, entry);
        }
        Ok(())
    }

    /// Returns the lines on an object.
    pub fn lines(&mut self, object: &ObjectId) -> Result<Lines> {
        match self.trie.find(object, &mut self.access)? {
            Some(blob) => self.access.lines(blob),
            None => Ok(Lines::default()),
        }
    }

    /// Replaces the lines on an object; without lines, removes its note.
    pub fn set_lines(&mut self, object: ObjectId, lines: Lines) -> Result<()> {
        if lines.is_empty() {
            return self.trie.remove(&object, &mut self.access);
        }
        let blob = self.access.add(lines);
        self.trie.set(object, blob, &mut self.access)
    }

    /// Sets the blob on an object, to compare the result with git's.
    #[cfg(test)]
    pub fn set_blob(&mut self, object: ObjectId, blob: ObjectId) -> Result<()> {
        self.trie.set(object, blob, &mut self.access)
    }

    /// Builds the tree. Its objects are in the batch.
    pub fn build(mut self) -> Result<(ObjectId, Batch)> {
        let mut top = self.trie.lay_out(&mut self.access)?;
        // A note or a directory of notes replaces a foreign entry of the same name.
        for (leading, entries) in std::mem::take(&mut self.access.foreign) {
            if !top.is_open(&leading) {
                continue;
            }
            let dir = top.descend(&leading);
            for (name, entry) in entries {
                if !dir.dirs.contains_key(&name) {
                    dir.entries.entry(name).or_insert(entry);
                }
            }
        }
        let tree = self.access.encode(top);
        Ok((tree, self.access.batch))
    }
}
