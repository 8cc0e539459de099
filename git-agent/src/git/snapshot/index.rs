//! Index files: reading them, turning them into trees, and writing them to scratch files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice;
use gix::index::entry::{Flags, Mode, Stage};
use gix::objs::tree::EntryKind;

use crate::error::{Context, Error, Result};
use crate::file::Temporary;
use crate::git::object::{Batch, TreeEntry};
use crate::git::snapshot::beneath::is_safe;
use crate::git::{ObjectId, Repo};

/// A path with its entry in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::git) struct Item {
    /// The path from the top.
    pub(in crate::git) path: Vec<u8>,
    /// File, executable, link, submodule, or (in a sparse index) a whole directory.
    pub(in crate::git) mode: Mode,
    /// The object of the entry.
    pub(in crate::git) id: ObjectId,
}

/// The differences between the files and the index.
pub(in crate::git) struct Changes {
    pub(in crate::git) gone: BTreeSet<Vec<u8>>,
    pub(in crate::git) found: BTreeMap<Vec<u8>, Item>,
}

impl Changes {
    /// Returns the files, sorted.
    pub(in crate::git) fn apply(self, staged: &[Item]) -> Vec<Item> {
        let mut files: Vec<Item> = staged
            .iter()
            .filter(|item| !self.gone.contains(&item.path) && !self.found.contains_key(&item.path))
            .cloned()
            .collect();
        files.extend(self.found.into_values());
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }
}

/// An index entry that a tree cannot hold: one side of a conflict, an intent-to-add entry, or a marked one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddEntry {
    /// The path from the top.
    pub path: Vec<u8>,
    /// The mode, as git writes it in octal.
    pub mode: u32,
    pub id: ObjectId,
    /// 0, or the side of a conflict: 1 base, 2 ours, 3 theirs.
    pub stage: u8,
    /// Added by `git add --intent-to-add`.
    pub intent_to_add: bool,
    /// Marked by `--skip-worktree`.
    pub skip_worktree: bool,
    /// Marked by `--assume-unchanged`.
    pub assume_unchanged: bool,
}

impl Repo {
    /// Reads an index file; a missing one is empty. As in git, the checksum is not verified: that takes longer than
    /// everything else, and programs replace the file atomically.
    pub(in crate::git) fn read_index(&self, path: &Path) -> Result<gix::index::File> {
        gix::index::File::at_or_default(path, self.hash_kind(), true, Default::default()).map_err(
            |error| {
                Error::fatal(format!("cannot read the index '{}'", path.display()))
                    .because(std::io::Error::other(error.to_string()))
            },
        )
    }

    /// Returns the damage of an index file, in words; unlike [`Repo::read_index`], by its checksum as well. A file that
    /// is not there is not damaged.
    pub fn index_damage(&self, path: &Path) -> Option<String> {
        if std::fs::symlink_metadata(path).is_err() {
            return None;
        }
        gix::index::File::at(path, self.hash_kind(), false, Default::default())
            .err()
            .map(|error| error.to_string())
    }

    /// Returns the entries of a tree and all below it, without directories.
    pub(in crate::git) fn tree_items(&self, tree: ObjectId) -> Result<Vec<Item>> {
        let state = self.index_of_tree(tree)?;
        Ok(state
            .entries()
            .iter()
            .map(|entry| Item {
                path: entry.path(&state).to_vec(),
                mode: entry.mode,
                id: entry.id,
            })
            .collect())
    }

    /// Returns an index that contains exactly a tree.
    pub(in crate::git) fn index_of_tree(&self, tree: ObjectId) -> Result<gix::index::State> {
        if tree == ObjectId::empty_tree(self.hash_kind()) {
            return Ok(gix::index::State::new(self.hash_kind()));
        }
        // Names that other systems forbid are allowed, because the files exist here.
        let rules = gix::validate::path::component::Options {
            protect_windows: false,
            protect_hfs: false,
            protect_ntfs: false,
        };
        let state =
            gix::index::State::from_tree(&tree, &self.gix().objects, rules).map_err(|error| {
                Error::fatal(format!("cannot read tree {tree}"))
                    .because(std::io::Error::other(error.to_string()))
            })?;
        match state
            .entries()
            .iter()
            .find(|entry| !is_safe(entry.path(&state)))
        {
            None => Ok(state),
            Some(entry) => Err(Error::fatal(format!(
                "tree {tree} has an entry with the invalid path '{}'",
                entry.path(&state).to_str_lossy().escape_debug()
            ))),
        }
    }

    /// Writes an index to a scratch file.
    pub(in crate::git) fn write_scratch_index(
        &self,
        state: gix::index::State,
    ) -> Result<ScratchIndex> {
        let cannot = || "cannot write a scratch index".to_owned();
        let scratch = self.new_scratch_index()?;
        let mut out = BufWriter::new(&scratch.file.file);
        gix::index::File::from_state(state, scratch.path())
            .write_to(
                &mut out,
                gix::index::write::Options {
                    extensions: gix::index::write::Extensions::None,
                    skip_hash: false,
                },
            )
            .map_err(|error| {
                Error::fatal(cannot()).because(std::io::Error::other(error.to_string()))
            })?;
        out.flush().context(cannot)?;
        drop(out);
        Ok(scratch)
    }

    /// Copies an index file to a scratch file; returns `None` if there is none.
    pub(in crate::git) fn copy_scratch_index(&self, from: &Path) -> Result<Option<ScratchIndex>> {
        let cannot = || format!("cannot copy the index '{}'", from.display());
        let mut index = match fs::File::open(from) {
            Ok(index) => index,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::fatal(cannot()).because(error)),
        };
        let scratch = self.new_scratch_index()?;
        std::io::copy(&mut index, &mut &scratch.file.file).context(cannot)?;
        scratch.age_like(&index)?;
        Ok(Some(scratch))
    }

    fn new_scratch_index(&self) -> Result<ScratchIndex> {
        let dir = self.scratch_dir();
        fs::create_dir_all(&dir).context(|| format!("cannot create '{}'", dir.display()))?;
        let file = Temporary::create(&dir, "index-", 0o600)
            .context(|| "cannot write a scratch index".into())?;
        Ok(ScratchIndex { file })
    }
}

/// A scratch index, removed on drop. git replaces the file by renaming, so only its path is used.
#[derive(Debug)]
pub(in crate::git) struct ScratchIndex {
    file: Temporary,
}

impl ScratchIndex {
    pub(in crate::git) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Renames it to its final name.
    pub(in crate::git) fn persist(self, path: &Path) -> std::io::Result<()> {
        fs::rename(self.path(), path)
    }

    /// Copies the modification time of the original index. git checks the content of files that are not older than the
    /// index: a file changed within the same clock tick as its checkout would look unchanged beside a younger index.
    pub(in crate::git) fn age_like(&self, index: &fs::File) -> Result<()> {
        let written = index.metadata().and_then(|meta| meta.modified());
        written
            .and_then(|written| self.file.file.set_modified(written))
            .context(|| "cannot write a scratch index".into())
    }
}

impl Drop for ScratchIndex {
    fn drop(&mut self) {
        let mut lock = self.path().as_os_str().to_owned();
        lock.push(".lock");
        let _ = fs::remove_file(PathBuf::from(lock));
    }
}

/// Adds the trees of a sorted list of items to a batch and returns the root.
///
/// Returns `None` if a path in the list is both a file and a directory.
pub(in crate::git) fn build_trees(batch: &mut Batch, items: &[Item]) -> Option<ObjectId> {
    build_level(batch, items, 0)
}

fn build_level(batch: &mut Batch, items: &[Item], skip: usize) -> Option<ObjectId> {
    let mut entries: Vec<TreeEntry> = Vec::new();
    let mut at = 0;
    while at < items.len() {
        let item = &items[at];
        let rest = &item.path[skip..];
        let slash = rest.iter().position(|byte| *byte == b'/');
        match slash {
            Some(end) if end + 1 < rest.len() => {
                let prefix = &item.path[..=skip + end];
                let count = items[at..]
                    .iter()
                    .take_while(|item| item.path.starts_with(prefix))
                    .count();
                let id = build_level(batch, &items[at..at + count], prefix.len())?;
                entries.push(TreeEntry {
                    name: rest[..end].to_vec(),
                    kind: EntryKind::Tree,
                    id,
                });
                at += count;
            }
            // A sparse index ends the name of a directory with a slash.
            _ => {
                entries.push(TreeEntry {
                    name: rest[..slash.unwrap_or(rest.len())].to_vec(),
                    kind: entry_kind(item.mode)?,
                    id: item.id,
                });
                at += 1;
            }
        }
    }
    let mut names: Vec<&[u8]> = entries.iter().map(|entry| entry.name.as_slice()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return None;
    }
    Some(batch.tree(entries))
}

fn entry_kind(mode: Mode) -> Option<EntryKind> {
    Some(mode.to_tree_entry_mode()?.kind())
}

/// Returns the entries that `git write-tree` would write, without those that a tree cannot hold.
pub(in crate::git) fn staged_items(index: &gix::index::State) -> Vec<Item> {
    index
        .entries()
        .iter()
        .filter(|entry| {
            entry.stage() == Stage::Unconflicted && !entry.flags.contains(Flags::INTENT_TO_ADD)
        })
        .map(|entry| Item {
            path: entry.path(index).to_vec(),
            mode: entry.mode,
            id: entry.id,
        })
        .collect()
}

/// Returns the entries of an index that a tree cannot hold.
///
/// In a sparse checkout git derives the skip-worktree marks from its patterns, so they are not kept.
pub(in crate::git) fn odd_entries(index: &gix::index::State, sparse: bool) -> Vec<OddEntry> {
    index
        .entries()
        .iter()
        .filter_map(|entry| {
            let odd = OddEntry {
                path: entry.path(index).to_vec(),
                mode: entry.mode.bits(),
                id: entry.id,
                stage: u8::try_from(entry.stage_raw()).unwrap_or(0),
                intent_to_add: entry.flags.contains(Flags::INTENT_TO_ADD),
                skip_worktree: !sparse && entry.flags.contains(Flags::SKIP_WORKTREE),
                assume_unchanged: entry.flags.contains(Flags::ASSUME_VALID),
            };
            let is_odd =
                odd.stage != 0 || odd.intent_to_add || odd.skip_worktree || odd.assume_unchanged;
            is_odd.then_some(odd)
        })
        .collect()
}

impl OddEntry {
    /// Returns the flags of the entry in an index file.
    pub(in crate::git) fn flags(&self) -> Flags {
        let mut flags = Flags::from_bits_truncate(u32::from(self.stage & 3) << 12);
        flags.set(Flags::INTENT_TO_ADD, self.intent_to_add);
        flags.set(Flags::SKIP_WORKTREE, self.skip_worktree);
        flags.set(Flags::ASSUME_VALID, self.assume_unchanged);
        flags.set(Flags::EXTENDED, self.intent_to_add || self.skip_worktree);
        flags
    }

    /// Writes the entry as one record.
    pub(in crate::git) fn encode(&self, out: &mut Vec<u8>) {
        let mark = |set: bool, letter: char| if set { letter } else { '-' };
        let head = format!(
            "{:06o} {} {} {}{}{}\t",
            self.mode,
            self.id,
            self.stage,
            mark(self.intent_to_add, 'i'),
            mark(self.skip_worktree, 's'),
            mark(self.assume_unchanged, 'a'),
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&self.path);
        out.push(0);
    }

    /// Parses one record without its closing NUL.
    pub(in crate::git) fn decode(repo: &Repo, record: &[u8]) -> Option<Self> {
        let tab = record.iter().position(|byte| *byte == b'\t')?;
        let (head, path) = (
            std::str::from_utf8(&record[..tab]).ok()?,
            &record[tab + 1..],
        );
        let mut words = head.split(' ');
        let mode = u32::from_str_radix(words.next()?, 8).ok()?;
        let id = repo.parse_id(words.next()?).ok()?;
        let stage = words.next()?.parse().ok().filter(|stage| *stage <= 3)?;
        let marks = words.next().filter(|marks| marks.len() == 3)?;
        let known = matches!(mode, 0o100_644 | 0o100_755 | 0o120_000 | 0o160_000);
        (known && is_safe(path) && words.next().is_none()).then(|| OddEntry {
            path: path.to_vec(),
            mode,
            id,
            stage,
            intent_to_add: marks.contains('i'),
            skip_worktree: marks.contains('s'),
            assume_unchanged: marks.contains('a'),
        })
    }
}
