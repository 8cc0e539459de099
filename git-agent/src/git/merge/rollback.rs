//! Restores files whose move from one commit to another failed or was interrupted by a crash.
//!
//! git writes files one by one and the index last. So a file may have its old content, its new content, a part of the
//! new content, or be missing. Those are restored; any other content was written since by the user, and is kept.

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

/// The largest file that is checked for being a part of another.
const LARGEST_PART: u64 = 512 << 20;

impl Repo {
    /// Restores the files of a worktree that were being moved from `old` to `new`. All of them had the content of `old`
    /// before. Returns those that were changed since, which are kept.
    ///
    /// `index` is the index of the move; it is restored too if the move reached it.
    pub fn take_back(
        &self,
        at: &Checkout,
        index: &Path,
        old: ObjectId,
        new: ObjectId,
    ) -> Result<Vec<String>> {
        let cannot = || format!("cannot restore the files in '{}'", at.top.display());
        let _record = self.record_locks(self.locks_of_checkout(at))?;
        let touched = self.touched_between(old, new)?;
        let known = self.read_index(index)?;
        let switched = follows(&known, touched.changes());
        // The others were not on disk, or are not git's to write.
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
                // The files below may be removed in a moment.
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
        // Removals come first: they make room on a full disk, and for files in place of directories.
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
            if in_the_way {
                stays.push(change.path.to_str_lossy().into_owned())
            } else {
                wanted.push((change, change.before))
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
        // Restored files look changed until git compares them.
        self.git_at(&at.admin_dir, &at.top)
            .env_remove("GIT_OPTIONAL_LOCKS")
            .index_file(index)
            .args(["update-index", "-q", "--refresh"])
            .answer()?;
        Ok(stays)
    }

    /// Restores the old entries in an index that has reached the end of a move.
    fn point_index_back(&self, at: &Checkout, index: &Path, changes: &[Change]) -> Result<()> {
        let mut lines = Vec::new();
        let null = self.null_id();
        // Removals first: a file may be in the place of a directory.
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
        // Another git that works there ends soon. Without the index, the files would stay between two commits.
        for attempt in 0..ATTEMPTS {
            if written.is_ok() || !lock.exists() {
                break;
            }
            std::thread::sleep(pause(attempt));
            written = write();
        }
        written.map(|_| ()).map_err(|error| {
            error.hint("wait for the other git command in this worktree, then run this again")
        })
    }

    /// Returns the paths where the disk has a different content than the given one, which may be none.
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

    /// Returns an index of only these files; `None` if there are none.
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

    /// Returns whether a file on disk is the start of the content that a checkout would write there.
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

/// Returns whether an index contains the result of all changes.
pub(in crate::git) fn follows(index: &State, changes: &[Change]) -> bool {
    changes.iter().all(|change| {
        let known = index.entry_by_path(change.path.as_bstr());
        match (known, change.after) {
            (Some(entry), Some(leaf)) => is_leaf(entry, leaf),
            (Some(_), None) => false,
            (None, None) => true,
            // A sparse index has the directory instead of its files.
            (None, Some(_)) => index.is_sparse(),
        }
    })
}

/// Returns whether an index entry is this file.
pub(in crate::git) fn is_leaf(entry: &gix::index::Entry, (kind, id): Leaf) -> bool {
    entry.id == id && entry.mode.bits() == u32::from(kind as u16)
}

/// Returns whether a change does not affect files on disk: a submodule, or a path outside a sparse checkout.
fn is_elsewhere(index: &State, change: &Change) -> bool {
    let is_submodule = |leaf: Option<Leaf>| leaf.is_some_and(|(kind, _)| kind == EntryKind::Commit);
    let entry = index.entry_by_path(change.path.as_bstr());
    is_submodule(change.before)
        || is_submodule(change.after)
        || entry.is_some_and(|entry| entry.flags.contains(Flags::SKIP_WORKTREE))
        || (entry.is_none() && index.is_sparse())
}
