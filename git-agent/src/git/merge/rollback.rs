//! Taking files back that were on their way from one commit to another when that failed, or when whoever did it died.
//!
//! git writes files one by one and the index last. So a file may be as it was, as it was to be, missing, or the beginning
//! of what it was to be. Those go back; whatever else is there somebody has written since, and it stays.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use gix::bstr::ByteSlice as _;
use gix::index::State;
use gix::index::entry::{Flags, Mode, Stat};
use gix::objs::tree::EntryKind;
use rustix::fs::FileType;

use crate::error::{Context, Result};
use crate::git::diff::paths::{Change, Leaf};
use crate::git::refs::{ATTEMPTS, lock_path, pause};
use crate::git::snapshot::beneath::{Disk, is_safe};
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::index::ScratchIndex;
use crate::git::{ObjectId, Repo};

/// A file that is larger is not looked at for being the beginning of another.
const LARGEST_PART: u64 = 512 << 20;

impl Repo {
    /// Takes the files of a working tree back that were on their way from `old` to `new`. All of them were as in `old`
    /// before. Returns those that somebody has changed since, which stay.
    ///
    /// `index` is the index that went along; it goes back too where it has got there.
    pub fn take_back(
        &self,
        at: &Checkout,
        index: &Path,
        old: ObjectId,
        new: ObjectId,
    ) -> Result<Vec<String>> {
        let cannot = || format!("cannot take the files in '{}' back", at.top.display());
        let _record = self.record_locks(self.locks_of_checkout(at))?;
        let touched = self.touched_between(old, new)?;
        let known = self.read_index(index)?;
        let switched = follows(&known, touched.changes());
        // Nothing of those was on disk, or is git's to write.
        let changes: Vec<&Change> = touched
            .changes()
            .iter()
            .filter(|change| is_safe(&change.path) && !is_elsewhere(&known, change))
            .collect();
        let unlike_old = self.unlike(at, changes.iter().map(|change| (change, change.before)))?;
        let unlike_new = self.unlike(at, changes.iter().map(|change| (change, change.after)))?;
        let mut disk = Disk::open(&at.top).context(cannot)?;
        let (mut remove, mut write, mut stays) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            let path = &change.path;
            let found = disk.stat(path).context(cannot)?;
            let is_dir = found
                .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
            match (change.before, found) {
                (None, None) => {}
                (Some(_), Some(_)) if !unlike_old.contains(path) => {}
                // What is below may be removed in a moment.
                (Some(_), Some(_)) if is_dir => write.push(change),
                (None, Some(_)) if is_dir => {}
                (Some(_), None) => write.push(change),
                (before, Some(_)) => {
                    let ours = change.after.is_some() && !unlike_new.contains(path)
                        || self.is_beginning(at, &mut disk, path, change.after)?
                        || self.is_beginning(at, &mut disk, path, before)?;
                    match (ours, before) {
                        (true, None) => remove.push(change),
                        (true, Some(_)) => write.push(change),
                        (false, _) => stays.push(path.to_str_lossy().into_owned()),
                    }
                }
            }
        }
        // What is removed makes room, on a full disk and for files where directories are.
        for change in remove {
            disk.remove(&change.path).context(cannot)?;
        }
        let mut disk = Disk::open(&at.top).context(cannot)?;
        let mut wanted = Vec::new();
        for change in write {
            let found = disk.stat(&change.path).context(cannot)?;
            let in_the_way = found
                .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
                || disk.is_blocked(&change.path).context(cannot)?;
            match in_the_way {
                true => stays.push(change.path.to_str_lossy().into_owned()),
                false => wanted.push((change, change.before)),
            }
        }
        if let Some(scratch) = self.index_of_leaves(wanted.into_iter())? {
            self.git_at(&at.admin_dir, &at.top)
                .index_file(scratch.path())
                .args(["checkout-index", "--force", "--all"])
                .run()
                .context(cannot)?;
        }
        if switched {
            self.point_index_back(at, index, touched.changes())?;
        }
        // Files that were written again look changed until git has looked at them.
        self.git_at(&at.admin_dir, &at.top)
            .env_remove("GIT_OPTIONAL_LOCKS")
            .index_file(index)
            .args(["update-index", "-q", "--refresh"])
            .answer()?;
        Ok(stays)
    }

    /// Makes an index that has got to the end of a way say what it said at its beginning.
    fn point_index_back(&self, at: &Checkout, index: &Path, changes: &[Change]) -> Result<()> {
        let mut lines = Vec::new();
        let null = self.null_id();
        // What is gone first: a file may be where a directory was.
        let (gone, there): (Vec<&Change>, Vec<&Change>) =
            changes.iter().partition(|change| change.before.is_none());
        for change in gone.into_iter().chain(there) {
            let (mode, id) = match change.before {
                Some((kind, id)) => (kind as u16, id),
                None => (0, null),
            };
            lines.extend(format!("{mode:o} {id} 0\t").into_bytes());
            lines.extend(&change.path);
            lines.push(0);
        }
        let write = || {
            self.git_at(&at.admin_dir, &at.top)
                .env_remove("GIT_OPTIONAL_LOCKS")
                .index_file(index)
                .args(["update-index", "-z", "--index-info"])
                .input(lines.clone())
                .run()
        };
        let lock = lock_path(index);
        let mut written = write();
        // Another git that is at work in there ends soon; without the index the files would stay between two commits.
        for attempt in 0..ATTEMPTS {
            if written.is_ok() || !lock.exists() {
                break;
            }
            std::thread::sleep(pause(attempt));
            written = write();
        }
        written
            .map(|_| ())
            .map_err(|error| error.hint("is another git command at work in there?"))
    }

    /// Returns the paths at which something else is on disk than what is said, or nothing.
    fn unlike<'c>(
        &self,
        at: &Checkout,
        leaves: impl Iterator<Item = (&'c &'c Change, Option<Leaf>)>,
    ) -> Result<BTreeSet<Vec<u8>>> {
        let leaves = leaves.map(|(change, leaf)| (*change, leaf));
        let Some(scratch) = self.index_of_leaves(leaves)? else {
            return Ok(BTreeSet::new());
        };
        let git = || {
            self.git_at(&at.admin_dir, &at.top)
                .index_file(scratch.path())
        };
        git().args(["update-index", "-q", "--refresh"]).answer()?;
        let listed = git().args(["diff-files", "-z", "--name-only"]).run()?;
        let paths = listed.stdout.split(|byte| *byte == 0);
        Ok(paths
            .filter(|path| !path.is_empty())
            .map(<[u8]>::to_vec)
            .collect())
    }

    /// Returns an index of some files and nothing else; `None` when there are none.
    fn index_of_leaves<'c>(
        &self,
        leaves: impl Iterator<Item = (&'c Change, Option<Leaf>)>,
    ) -> Result<Option<ScratchIndex>> {
        let mut state = State::new(self.hash_kind());
        for (change, leaf) in leaves {
            let Some((kind, id)) = leaf else { continue };
            let Some(mode) = Mode::from_bits(u32::from(kind as u16)) else {
                continue;
            };
            let path = change.path.as_bstr();
            state.dangerously_push_entry(Stat::default(), id, Flags::empty(), mode, path);
        }
        if state.entries().is_empty() {
            return Ok(None);
        }
        state.sort_entries();
        self.write_scratch_index(state).map(Some)
    }

    /// Returns whether a file on disk is the beginning of what a checkout would write there.
    fn is_beginning(
        &self,
        at: &Checkout,
        disk: &mut Disk,
        path: &[u8],
        of: Option<Leaf>,
    ) -> Result<bool> {
        let cannot = || format!("cannot read '{}'", path.to_str_lossy());
        let Some((EntryKind::Blob | EntryKind::BlobExecutable, id)) = of else {
            return Ok(false);
        };
        let Some(file) = disk.open_file(path).context(cannot)? else {
            return Ok(false);
        };
        let mut there = Vec::new();
        file.take(LARGEST_PART)
            .read_to_end(&mut there)
            .context(cannot)?;
        let mut option = std::ffi::OsString::from("--path=");
        option.push(OsStr::from_bytes(path));
        let whole = self
            .git_at(&at.admin_dir, &at.top)
            .args(["cat-file", "--filters"])
            .arg(option)
            .arg(id.to_string())
            .run()?;
        Ok(whole.stdout.starts_with(&there))
    }
}

/// Returns whether an index says what is there after some changes, of all of them.
pub(in crate::git) fn follows(index: &State, changes: &[Change]) -> bool {
    changes.iter().all(|change| {
        let known = index.entry_by_path(change.path.as_bstr());
        match (known, change.after) {
            (Some(entry), Some(leaf)) => is_leaf(entry, leaf),
            (Some(_), None) => false,
            (None, None) => true,
            // A sparse index has the directory instead of what is in it.
            (None, Some(_)) => index.is_sparse(),
        }
    })
}

/// Returns whether an entry of an index is this file.
pub(in crate::git) fn is_leaf(entry: &gix::index::Entry, (kind, id): Leaf) -> bool {
    entry.id == id && entry.mode.bits() == u32::from(kind as u16)
}

/// Returns whether a change is not one of files on disk: a submodule, or outside of a sparse checkout.
fn is_elsewhere(index: &State, change: &Change) -> bool {
    let is_submodule = |leaf: Option<Leaf>| leaf.is_some_and(|(kind, _)| kind == EntryKind::Commit);
    let entry = index.entry_by_path(change.path.as_bstr());
    is_submodule(change.before)
        || is_submodule(change.after)
        || entry.is_some_and(|entry| entry.flags.contains(Flags::SKIP_WORKTREE))
        || (entry.is_none() && index.is_sparse())
}
