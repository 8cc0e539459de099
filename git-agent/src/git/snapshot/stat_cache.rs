//! Blobs of larger files that are not staged, by the stat data of the files: one that has not changed is not read again.
//!
//! What is remembered has the form of an index, one a working tree, and the rule is that of git's index: a file whose
//! stat data is as recorded, and old enough to be sure, has the recorded content. Losing it costs time only.

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

/// Smaller files are read as soon as they are looked up.
const SMALLEST: i64 = 1 << 20;

/// What is known of the larger files of a working tree.
pub(in crate::git) struct Remembered {
    path: PathBuf,
    known: Option<(gix::index::File, Rules)>,
    /// The files whose content git stores by rules that stand outside of them.
    converted: BTreeSet<Vec<u8>>,
}

impl Repo {
    /// Reads what is remembered of a working tree. A file that cannot be read is none.
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

    /// Returns which of these files git may store as something else than their bytes.
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

    /// Remembers what git has just stored. That it cannot be kept is no error.
    pub(in crate::git) fn remember(
        &self,
        memory: &Remembered,
        stored: &gix::index::File,
        paths: &[Vec<u8>],
        began: std::time::SystemTime,
    ) {
        let since = began.duration_since(std::time::UNIX_EPOCH);
        let began = since.map_or(0, |since| since.as_secs());
        // A file that was written to while it was read may look as it did before: one that rested for a while does not.
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
    /// Returns a file as it was stored, if it has not changed since and its content is still here.
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
