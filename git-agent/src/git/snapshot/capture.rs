//! Captures the whole state of a worktree as object ids: the files on disk, and the index.
//!
//! Changes nothing of the user's: reads the index without writing or locking it, and reads HEAD. git decides which
//! untracked files count, if there are any. Changed files without conversion are stored here; where attributes, line
//! endings, sizes or submodules are involved, git stores them by its own rules through a private copy of the index.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice;
use gix::index::entry::{Flags, Mode};

use crate::error::{Context, Error, Result};
use crate::git::command::{self, Git};
use crate::git::object::Batch;
use crate::git::snapshot::beneath::{Content, Disk, is_safe};
use crate::git::snapshot::filters::Raw;
use crate::git::snapshot::index::{
    Changes, Item, OddEntry, ScratchIndex, build_trees, odd_entries, staged_items,
};
use crate::git::snapshot::scan::{Hidden, LeftOut, Manner, Reason, Scan};
use crate::git::snapshot::stat_cache::Remembered;
use crate::git::{ObjectId, ObjectKind, RefBackend, Repo};

/// Above these limits, git's streaming into the object database is better than storing from memory.
pub(in crate::git) const LARGE_FILE: u64 = 8 << 20;
const LARGE_TOTAL: u64 = 32 << 20;
/// The largest untracked file in a snapshot, unless `agent.maxSnapshot` sets another limit.
const MOST_OF_A_FILE: i64 = 1 << 30;
pub(in crate::git) const MANY_FILES: usize = 256;
/// How often a tree that changes meanwhile is captured again.
const ATTEMPTS: usize = 4;

/// One worktree of a repository: its files, and the directory of its HEAD and index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// Its own git directory: the repository's for the main worktree, `worktrees/<name>` below it for others.
    pub admin_dir: PathBuf,
    /// The top of its files.
    pub top: PathBuf,
}

/// A worktree's state. New objects are still in memory.
#[derive(Debug)]
pub struct Captured {
    /// The commit checked out; `None` before the first one.
    pub head: Option<ObjectId>,
    /// The tree of the files, including untracked ones.
    pub tree: ObjectId,
    /// The tree of the staged files.
    pub index_tree: ObjectId,
    /// The index entries that no tree can hold, sorted by path and stage.
    pub odd: Vec<OddEntry>,
    /// Files whose bytes on disk differ from the result of a checkout, sorted by path.
    pub raw: Vec<Raw>,
    /// The files that are not captured.
    pub left_out: Vec<LeftOut>,
    pub(in crate::git) batch: Batch,
}

impl Captured {
    /// Returns whether there are neither staged nor unstaged nor untracked changes.
    pub fn is_clean(&self, repo: &Repo) -> Result<bool> {
        let committed = match self.head {
            Some(head) => repo.tree_of(head)?,
            None => ObjectId::empty_tree(repo.hash_kind()),
        };
        Ok(self.tree == committed && self.index_tree == committed && self.is_settled())
    }

    /// Returns whether the index has neither conflicts nor intent-to-add entries.
    pub fn is_settled(&self) -> bool {
        !self
            .odd
            .iter()
            .any(|entry| entry.stage != 0 || entry.intent_to_add)
    }
}

impl Repo {
    /// Returns this repository's own worktree.
    pub fn checkout(&self) -> Result<Checkout> {
        Ok(Checkout {
            admin_dir: self.git_dir().to_owned(),
            top: self.require_work_tree()?.to_owned(),
        })
    }

    /// Writes the files of a worktree as a tree, durably, and returns it.
    pub fn snapshot_tree(&self, at: &Checkout) -> Result<ObjectId> {
        let mut captured = self.capture(at, Hidden::Look)?;
        self.store_captured(&mut captured)?;
        Ok(captured.tree)
    }

    /// Captures a worktree and writes its objects, durably, without a ref.
    pub fn capture_stored(&self, at: &Checkout, hidden: Hidden) -> Result<Captured> {
        let mut captured = self.capture(at, hidden)?;
        self.store_captured(&mut captured)?;
        Ok(captured)
    }

    /// Writes the objects of a captured state, durably.
    pub(in crate::git) fn store_captured(&self, captured: &mut Captured) -> Result<()> {
        self.drop_stored(&mut captured.batch);
        self.write_batch(&captured.batch)
    }

    /// Captures a worktree. Fails during a restore: half-restored files are not a valid state.
    pub fn capture(&self, at: &Checkout, hidden: Hidden) -> Result<Captured> {
        self.refuse_half(at)?;
        self.capture_anyway(at, hidden)
    }

    /// Captures a worktree, even during a restore.
    pub(in crate::git) fn capture_anyway(&self, at: &Checkout, hidden: Hidden) -> Result<Captured> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match self.capture_once(at, hidden) {
                Ok(Some(captured)) => return Ok(captured),
                Ok(None) => {}
                Err(error) if command::is_cancelled() => return Err(error),
                // A file vanished or changed its kind during the capture; the next attempt shows whether that was the
                // cause.
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            Error::fatal(format!(
                "the files in '{}' changed during the snapshot, {ATTEMPTS} times in a row",
                at.top.display()
            ))
        }))
    }

    /// Returns `None` if the result is inconsistent because files changed meanwhile.
    fn capture_once(&self, at: &Checkout, hidden: Hidden) -> Result<Option<Captured>> {
        let opened = self.opened(at)?;
        let search = self.search_untracked(at, &opened.index);
        // Compares the index entries here while another thread walks the directories.
        let (scan, untracked) = std::thread::scope(|scope| {
            let searching = scope.spawn(|| search.run());
            let disk = opened.disk;
            let scan = self.scan(&opened.index, &disk, Manner::of(at, hidden));
            let untracked = searching
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (scan.map(|scan| (scan, disk)), untracked)
        });
        let ((mut scan, mut disk), untracked) = (scan?, untracked?);
        let left_out = |path: Vec<u8>, reason| LeftOut { path, reason };
        scan.left_out.extend(
            untracked
                .repositories
                .into_iter()
                .map(|path| left_out(path, Reason::Repository)),
        );
        // git reports unreadable directories and continues.
        if !untracked.complaint.is_empty() {
            scan.left_out
                .push(left_out(untracked.complaint, Reason::Unreadable));
        }
        let mut paths = untracked.files;
        self.leave_out_large(&mut paths, &mut scan, &mut disk)?;
        paths.extend(std::mem::take(&mut scan.changed));
        let seen = Seen {
            head: opened.head,
            index: opened.index,
            disk,
            scan,
        };
        self.settle(at, seen, paths)
    }

    /// Removes untracked files that are too large for a snapshot.
    fn leave_out_large(
        &self,
        paths: &mut BTreeSet<Vec<u8>>,
        scan: &mut Scan,
        disk: &mut Disk,
    ) -> Result<()> {
        let set = self.config_number("agent.maxSnapshot")?;
        let most = set.unwrap_or(MOST_OF_A_FILE);
        if most == 0 {
            return Ok(());
        }
        paths.retain(|path| {
            let large = matches!(disk.stat(path), Ok(Some(stat)) if stat.st_size > most);
            if large {
                let path = path.clone();
                let reason = Reason::Large;
                scan.left_out.push(LeftOut { path, reason });
            }
            !large
        });
        Ok(())
    }

    /// Reads the index of a worktree and compares its files with it.
    pub(in crate::git) fn look(&self, at: &Checkout, hidden: Hidden) -> Result<Seen> {
        let Opened { head, index, disk } = self.opened(at)?;
        let scan = self.scan(&index, &disk, Manner::of(at, hidden))?;
        Ok(Seen {
            head,
            index,
            disk,
            scan,
        })
    }

    /// Opens a worktree and reads its index.
    fn opened(&self, at: &Checkout) -> Result<Opened> {
        let cannot = || format!("cannot open '{}'", at.top.display());
        let head = self.head_of(at)?;
        let path = at.admin_dir.join("index");
        let mut index = self.read_index(&path)?;
        let mut disk = Disk::open(&at.top).context(cannot)?;
        if self.needs_expansion(&index, &mut disk)? {
            index = self.expanded_index(at, &path)?;
        }
        Ok(Opened { head, index, disk })
    }

    /// Stores the changed files and assembles the state.
    fn settle(
        &self,
        at: &Checkout,
        mut seen: Seen,
        paths: BTreeSet<Vec<u8>>,
    ) -> Result<Option<Captured>> {
        let mut batch = self.batch();
        let mut changes = Changes {
            gone: seen.scan.deleted.drain(..).collect(),
            found: BTreeMap::new(),
        };
        let staged = staged_items(&seen.index);
        let index_tree = build_trees(&mut batch, &staged).ok_or_else(|| {
            let top = at.top.display();
            Error::fatal(format!(
                "the index of '{top}' has a path that is both a file and a directory"
            ))
        })?;
        let committed = match seen.head {
            Some(head) => Some(self.tree_of(head)?),
            None => None,
        };
        let converts = self.may_convert(at, &seen.index, &mut seen.disk, &paths)?;
        let outward = converts && self.may_write_crlf(&seen.index, &mut seen.disk, &paths)?;
        let plain = !converts && paths.len() <= MANY_FILES;
        let began = std::time::SystemTime::now();
        let memory = self.remembered(at, &paths, converts)?;
        let manner = (plain, &memory);
        let for_git = self.store_plain(&mut seen, paths, manner, &mut batch, &mut changes)?;
        let mut private = None;
        if !for_git.is_empty() {
            let updated = self.update_private_index(at, &seen.index, &for_git)?;
            self.remember(&memory, &updated, &for_git, began);
            for path in for_git {
                match updated.entry_by_path(path.as_bstr()) {
                    None => {
                        changes.gone.insert(path);
                    }
                    Some(entry) => {
                        let (mode, id) = (entry.mode, entry.id);
                        changes.found.insert(path.clone(), Item { path, mode, id });
                    }
                }
            }
            private = Some(updated);
        }
        let untouched = changes.gone.is_empty() && changes.found.is_empty();
        // Sorting and hashing everything again would only reproduce the index.
        let files = (!untouched).then(|| changes.apply(&staged));
        let mut raw = Vec::new();
        if converts {
            let files = files.as_deref().unwrap_or(&staged);
            let mut unsaved = self.differing(files, &staged, index_tree, committed)?;
            let stored = [private.as_ref(), Some(&seen.index)];
            unsaved.extend(self.unconverted(
                (at, &mut seen.disk),
                (files, &unsaved),
                &stored,
                outward,
            )?);
            match self.raw_files(at, &mut seen.disk, &stored, &unsaved, &mut batch)? {
                Some(found) => raw = found,
                None => return Ok(None),
            }
        }
        let tree = match files {
            None => index_tree,
            Some(files) => match build_trees(&mut batch, &files) {
                Some(tree) => tree,
                None => return Ok(None),
            },
        };
        Ok(Some(Captured {
            head: seen.head,
            tree,
            index_tree,
            odd: odd_entries(&seen.index, is_sparse(at)),
            raw,
            left_out: seen.scan.left_out,
            batch,
        }))
    }

    /// Stores the files that need no conversion, and returns those that git must store.
    fn store_plain(
        &self,
        seen: &mut Seen,
        paths: BTreeSet<Vec<u8>>,
        (plain, memory): (bool, &Remembered),
        batch: &mut Batch,
        changes: &mut Changes,
    ) -> Result<Vec<Vec<u8>>> {
        let mut for_git: Vec<Vec<u8>> = seen.scan.submodules.clone();
        let mut total = 0;
        for path in paths {
            let small = match seen.disk.stat(&path) {
                Ok(Some(stat)) => {
                    if let Some(item) = memory.item(self, &path, &stat) {
                        changes.found.insert(path, item);
                        continue;
                    }
                    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
                    total += size;
                    size <= LARGE_FILE && total <= LARGE_TOTAL
                }
                _ => true,
            };
            let readable = if plain && small {
                read_item(&mut seen.disk, &path, batch).map(|item| match item {
                    Some(item) => {
                        changes.found.insert(path.clone(), item);
                    }
                    None => {
                        changes.gone.insert(path.clone());
                    }
                })
            } else {
                let opened = seen.disk.open_file(&path).map(drop);
                if opened.is_ok() {
                    for_git.push(path.clone());
                }
                opened
            };
            match readable {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    seen.scan.left_out.push(LeftOut {
                        path,
                        reason: Reason::Unreadable,
                    });
                }
                Err(error) => {
                    let path = String::from_utf8_lossy(&path).into_owned();
                    return Err(Error::fatal(format!("cannot read '{path}'")).because(error));
                }
            }
        }
        Ok(for_git)
    }

    /// Returns the files that differ from the commit.
    fn differing<'a>(
        &self,
        files: &'a [Item],
        staged: &[Item],
        index_tree: ObjectId,
        committed: Option<ObjectId>,
    ) -> Result<Vec<&'a Item>> {
        let known;
        let base = match committed {
            Some(tree) if tree == index_tree => staged,
            Some(tree) => {
                known = self.tree_items(tree)?;
                &known
            }
            None => &[],
        };
        Ok(files
            .iter()
            .filter(|item| {
                base.binary_search_by(|other| other.path.cmp(&item.path))
                    .map_or(true, |at| base[at] != **item)
            })
            .collect())
    }

    /// Lets git store paths in a copy of the index, and returns that copy.
    fn update_private_index(
        &self,
        at: &Checkout,
        index: &gix::index::File,
        paths: &[Vec<u8>],
    ) -> Result<gix::index::File> {
        let marked = Flags::ASSUME_VALID | Flags::SKIP_WORKTREE;
        let has_marks = paths.iter().any(|path| {
            index
                .entry_by_path(path.as_bstr())
                .is_some_and(|entry| entry.flags.intersects(marked))
        });
        // git would skip marked entries, but here the file on disk counts.
        let unmarked = |index: &gix::index::File| -> Result<ScratchIndex> {
            let mut state = gix::index::State::clone(index);
            state.remove_tree();
            for entry in state.entries_mut() {
                entry
                    .flags
                    .remove(Flags::ASSUME_VALID | Flags::SKIP_WORKTREE);
            }
            self.write_scratch_index(state)
        };
        let path = at.admin_dir.join("index");
        let scratch = if has_marks {
            let scratch = unmarked(index)?;
            let index = fs::File::open(&path)
                .context(|| format!("cannot open the index '{}'", path.display()))?;
            scratch.age_like(&index)?;
            scratch
        } else {
            match self.copy_scratch_index(&path)? {
                Some(scratch) => scratch,
                None => self.write_scratch_index(gix::index::State::new(self.hash_kind()))?,
            }
        };
        let mut input = Vec::new();
        for path in paths {
            input.extend_from_slice(path);
            input.push(0);
        }
        self.git_in(at)
            .durable()
            // The scratch index itself need not be durable.
            .config("core.fsync", "loose-object,pack,pack-metadata")
            .config("core.safecrlf", "false")
            .index_file(scratch.path())
            .args([
                "update-index",
                "--add",
                "--remove",
                "--replace",
                "-z",
                "--stdin",
            ])
            .input(input)
            .run()?;
        self.read_index(scratch.path())
    }

    /// Returns whether a directory that the index holds as one entry exists on disk.
    fn needs_expansion(&self, index: &gix::index::File, disk: &mut Disk) -> Result<bool> {
        for entry in index
            .entries()
            .iter()
            .filter(|entry| entry.mode == Mode::DIR)
        {
            let path: &[u8] = entry.path(index);
            let path = path.strip_suffix(b"/").unwrap_or(path);
            let there = is_safe(path)
                && disk
                    .stat(path)
                    .context(|| "cannot read a directory".into())?
                    .is_some();
            if there {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a sparse index with all directories expanded.
    pub(in crate::git) fn expanded_index(
        &self,
        at: &Checkout,
        path: &Path,
    ) -> Result<gix::index::File> {
        let Some(scratch) = self.copy_scratch_index(path)? else {
            return self.read_index(path);
        };
        self.git_in(at)
            .index_file(scratch.path())
            .args(["update-index", "--force-write-index"])
            .run()?;
        self.read_index(scratch.path())
    }

    /// Returns a call of git on a worktree that does not write the user's index.
    pub(in crate::git) fn git_in(&self, at: &Checkout) -> Git {
        let git = self
            .git_at(&at.admin_dir, &at.top)
            .env_remove("GIT_ATTR_SOURCE")
            .env_remove("GIT_LITERAL_PATHSPECS")
            .config("core.splitIndex", "false")
            .config("index.sparse", "false")
            // File names that another system forbids must not prevent recording or restoring them here.
            .config("core.protectNTFS", "false")
            .config("submodule.recurse", "false");
        // If git is set to ignore case but the file system does not, git misses files: the file system decides.
        let ignores = self.config_bool("core.ignoreCase").ok().flatten() == Some(true);
        if ignores && std::fs::symlink_metadata(at.top.join(".gIt")).is_err() {
            git.config("core.ignoreCase", "false")
        } else {
            git
        }
    }

    /// Returns the commit that a worktree has checked out; `None` before the first one.
    pub fn head_of(&self, at: &Checkout) -> Result<Option<ObjectId>> {
        let path = at.admin_dir.join("HEAD");
        let text = std::fs::read_to_string(&path)
            .context(|| format!("cannot read '{}'", path.display()))?;
        let found = match (self.ref_backend(), text.trim().strip_prefix("ref:")) {
            (RefBackend::Files, None) => Some(self.parse_id(text.trim())?),
            (RefBackend::Files, Some(name)) if name.trim().starts_with("refs/heads/") => {
                self.find_ref(name.trim())?
            }
            _ => {
                let answer = self
                    .git_in(at)
                    .args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
                    .answer()?;
                match answer.code {
                    Some(0) => Some(self.parse_id(&answer.text())?),
                    _ => None,
                }
            }
        };
        if let Some(id) = found
            && !matches!(self.object_header(id)?, Some((ObjectKind::Commit, _)))
        {
            return Err(Error::fatal(format!(
                "HEAD of '{}' is not a commit",
                at.top.display()
            )));
        }
        Ok(found)
    }
}

/// A worktree whose files are not compared yet.
struct Opened {
    head: Option<ObjectId>,
    index: gix::index::File,
    disk: Disk,
}

/// The result of comparing a worktree with its index.
pub(in crate::git) struct Seen {
    /// The commit checked out.
    pub(in crate::git) head: Option<ObjectId>,
    pub(in crate::git) index: gix::index::File,
    /// The files.
    pub(in crate::git) disk: Disk,
    /// The differences.
    pub(in crate::git) scan: Scan,
}

/// Returns whether git derives skip-worktree marks from patterns here.
pub(in crate::git) fn is_sparse(at: &Checkout) -> bool {
    at.admin_dir.join("info/sparse-checkout").exists()
}

/// Reads a file or link into a batch; returns `None` if it is gone.
pub(in crate::git) fn read_item(
    disk: &mut Disk,
    path: &[u8],
    batch: &mut Batch,
) -> io::Result<Option<Item>> {
    let (mode, data) = match disk.read(path)? {
        None => return Ok(None),
        Some(Content::Link(target)) => (Mode::SYMLINK, target),
        Some(Content::File(data, true)) => (Mode::FILE_EXECUTABLE, data),
        Some(Content::File(data, false)) => (Mode::FILE, data),
    };
    Ok(Some(Item {
        path: path.to_vec(),
        mode,
        id: batch.blob(data),
    }))
}
