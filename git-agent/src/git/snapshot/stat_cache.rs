//! A cache of the blobs of larger unstaged files, keyed by their stat data, so that unchanged files are not read again.
//!
//! The cache has the form of an index, one per worktree, and follows git's rule for the index: a file with the recorded
//! stat data that is old enough to be certain has the recorded content. Losing the cache only costs time: 5 s of processor
//! time with `git hash-object -w` for every 100 MB that do not compress.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use gix::bstr::ByteSlice;
use gix::index::entry::{Flags, Mode};
use rustix::fs::Stat;

use crate::error::Result;
use crate::git::Repo;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::index::Item;
use crate::git::snapshot::scan::{Hidden, Manner, Rules, is_unchanged};

/// Smaller files are read as fast as they are looked up.
const SMALLEST: i64 = 1 << 20;

/// The cache of a worktree.
pub(in crate::git) struct Remembered {
    path: PathBuf,
    known: Option<(gix::index::File, Rules)>,
    /// The files that git converts by rules outside of them.
    converted: BTreeSet<Vec<u8>>,
}

impl Repo {
    /// Reads the cache of a worktree. An unreadable file counts as empty.
    pub(in crate::git) fn remembered(
        &self,
        at: &Checkout,
        paths: &BTreeSet<Vec<u8>>,
        converts: bool,
    ) -> Result<Remembered> {
        let name = at.admin_dir.file_name().unwrap_or_default();
        let mut file = std::ffi::OsString::from("files-");
        file.push(name);
        let path = self.private_dir("agents").join("cache").join(file);
        let mut memory = Remembered {
            path,
            known: None,
            converted: BTreeSet::new(),
        };
        if !memory.path.is_file() {
            return Ok(memory);
        }
        let Ok(index) = self.read_index(&memory.path) else {
            return Ok(memory);
        };
        let rules = self.rules(&index, Manner::of(at, Hidden::Look))?;
        if converts {
            let concerned = paths.iter().filter(|path| {
                let entry = index.entry_by_path(path.as_bstr());
                entry.is_some()
            });
            memory.converted = self.converted(at, concerned)?;
        }
        memory.known = Some((index, rules));
        Ok(memory)
    }

    /// Returns which of these files git may store with other bytes.
    fn converted<'a>(
        &self,
        at: &Checkout,
        paths: impl Iterator<Item = &'a Vec<u8>>,
    ) -> Result<BTreeSet<Vec<u8>>> {
        let items: Vec<Item> = paths
            .map(|path| Item {
                path: path.clone(),
                mode: Mode::FILE,
                id: crate::git::ObjectId::empty_blob(self.hash_kind()),
            })
            .collect();
        if items.is_empty() {
            return Ok(BTreeSet::new());
        }
        let items: Vec<&Item> = items.iter().collect();
        self.converts_any(at, &items)
    }

    /// Caches the blobs that git has just stored. A failure is not an error.
    pub(in crate::git) fn remember(
        &self,
        memory: &Remembered,
        stored: &gix::index::File,
        paths: &[Vec<u8>],
        began: std::time::SystemTime,
    ) {
        let since = began.duration_since(std::time::UNIX_EPOCH);
        let began = since.map_or(0, |since| since.as_secs());
        // A file that was written during the read may have the same stat data; one that was unchanged for a while is
        // certain.
        let rested = |entry: &gix::index::Entry| u64::from(entry.stat.mtime.secs) + 1 < began;
        let mut state = gix::index::State::new(self.hash_kind());
        let mut kept = BTreeSet::new();
        let mut keep = |entry: &gix::index::Entry, path: &[u8]| {
            let file = matches!(entry.mode, Mode::FILE | Mode::FILE_EXECUTABLE);
            let large = i64::from(entry.stat.size) >= SMALLEST;
            if file && large && rested(entry) && kept.insert(path.to_vec()) {
                let (stat, id, mode) = (entry.stat, entry.id, entry.mode);
                state.dangerously_push_entry(stat, id, Flags::empty(), mode, path.as_bstr());
            }
        };
        for path in paths {
            if let Some(entry) = stored.entry_by_path(path.as_bstr()) {
                keep(entry, path);
            }
        }
        for (index, _) in memory.known.iter() {
            for entry in index.entries() {
                keep(entry, entry.path(index));
            }
        }
        if kept.is_empty() || self.is_read_only() {
            return;
        }
        state.sort_entries();
        let written = self.write_scratch_index(state);
        if let (Ok(scratch), Some(dir)) = (written, memory.path.parent())
            && fs::create_dir_all(dir).is_ok()
        {
            let _ = scratch.persist(&memory.path);
        }
    }
}

impl Remembered {
    /// Returns the blob of a file, if the file is unchanged and the blob still exists.
    pub(in crate::git) fn item(&self, repo: &Repo, path: &[u8], stat: &Stat) -> Option<Item> {
        let (index, rules) = self.known.as_ref()?;
        let entry = index.entry_by_path(path.as_bstr())?;
        let usable = stat.st_size >= SMALLEST
            && !self.converted.contains(path)
            && is_unchanged(entry, stat, *rules)
            && repo.object_header(entry.id).ok()?.is_some();
        usable.then(|| Item {
            path: path.to_vec(),
            mode: entry.mode,
            id: entry.id,
        })
    }
}
