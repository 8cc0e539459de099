//! Restores a worktree to a recorded state: files, modes, links, deletions and staged files.
//!
//! git itself moves the files, with a two-way merge of trees on a private index: it checks every file before it changes
//! the first one, never follows links, and refuses to overwrite files that no tree holds, such as ignored ones. HEAD
//! and branches do not change. Nothing is overwritten or removed unless it is committed or in the safety state.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;

use gix::bstr::ByteSlice;
use gix::index::entry::{Flags, Mode, Stage, Stat};
use rustix::fs::FileType;

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::file::{Temporary, sync_dir};
use crate::git::snapshot::Snapshot;
use crate::git::snapshot::beneath::{Content, Disk};
use crate::git::snapshot::capture::{Captured, Checkout, is_sparse};
use crate::git::snapshot::filters::Raw;
use crate::git::snapshot::index::{Item, OddEntry, ScratchIndex};
use crate::git::snapshot::scan::Hidden;
use crate::git::{ObjectId, ObjectKind, Repo};

/// The largest file whose exact bytes are restored; writers keep to less.
const RAW_LIMIT: u64 = 64 << 20;

/// The target state of a worktree.
#[derive(Debug, Clone)]
pub struct Target {
    /// The tree of the files.
    pub tree: ObjectId,
    /// The tree of the staged files.
    pub index_tree: ObjectId,
    /// The index entries that no tree can hold.
    pub odd: Vec<OddEntry>,
    /// The exact bytes of files that a checkout would convert.
    pub raw: Vec<Raw>,
}

impl From<&Snapshot> for Target {
    fn from(snapshot: &Snapshot) -> Self {
        Target {
            tree: snapshot.tree,
            index_tree: snapshot.index_tree,
            odd: snapshot.odd.clone(),
            raw: snapshot.raw.clone(),
        }
    }
}

/// The parts that a restore leaves to the user.
#[derive(Debug, Default)]
pub struct Restored {
    /// Submodules that are not at their recorded commit; `git submodule update` is the user's decision.
    pub submodules: Vec<Vec<u8>>,
}

/// The options of a restore.
#[derive(Debug, Clone, Copy)]
pub(in crate::git) struct Manner<'a> {
    /// A state that the caller has saved: its files may be overwritten and removed.
    pub(in crate::git) safety: Option<&'a Target>,
    /// The treatment of files marked skip-worktree or assume-unchanged.
    pub(in crate::git) hidden: Hidden,
}

impl Repo {
    /// Restores a worktree to a snapshot.
    ///
    /// `safety` is a snapshot of the worktree's current state. Without it only committed content may be overwritten, as
    /// in a fresh worktree. Ignored files and nested repositories stay. On success the result was compared with the
    /// target.
    pub fn restore(
        &self,
        at: &Checkout,
        to: &Snapshot,
        safety: Option<&Snapshot>,
    ) -> Result<Restored> {
        let safety = safety.map(Target::from);
        let manner = Manner {
            safety: safety.as_ref(),
            hidden: Hidden::Look,
        };
        self.restore_to(at, &Target::from(to), manner)
    }

    pub(in crate::git) fn restore_to(
        &self,
        at: &Checkout,
        to: &Target,
        manner: Manner<'_>,
    ) -> Result<Restored> {
        let index_path = at.admin_dir.join("index");
        refuse_locked(&index_path)?;
        let before = read_or_empty(&index_path)?;
        let mut current = self.capture_anyway(at, manner.hidden)?;
        self.store_captured(&mut current)?;
        self.refuse_loss(at, &current, to, manner.safety)?;
        fault::point("restore.checked").context(|| "cannot restore".into())?;
        let moved = self.move_files(at, current.tree, to.tree)?;
        fault::point("restore.files.moved").context(|| "cannot restore".into())?;
        self.put_raw(at, &to.raw)?;
        fault::point("restore.raw.written").context(|| "cannot restore".into())?;
        let staged = self.staged_index(at, to, moved.path())?;
        self.install_index(&index_path, &before, &staged)?;
        fault::point("restore.index.installed").context(|| "cannot restore".into())?;
        self.verify(at, to, manner.hidden)
    }

    /// Completes a fresh worktree into which the files of a state were just checked out: exact bytes and staged files.
    pub(in crate::git) fn complete(&self, at: &Checkout, to: &Target) -> Result<Restored> {
        self.put_raw(at, &to.raw)?;
        fault::point("restore.raw.written").context(|| "cannot restore".into())?;
        if to.index_tree != to.tree || !to.odd.is_empty() || !to.raw.is_empty() {
            let index_path = at.admin_dir.join("index");
            let before = read_or_empty(&index_path)?;
            let staged = self.staged_index(at, to, &index_path)?;
            self.install_index(&index_path, &before, &staged)?;
            fault::point("restore.index.installed").context(|| "cannot restore".into())?;
        }
        self.verify(at, to, Hidden::Look)
    }

    /// Fails if git would refuse to restore a snapshot, by the same rules.
    pub fn prove_restorable(&self, at: &Checkout, snapshot: &Snapshot) -> Result<()> {
        for tree in [snapshot.tree, snapshot.index_tree] {
            let scratch = self.write_scratch_index(gix::index::State::new(self.hash_kind()))?;
            self.git_in(at)
                .index_file(scratch.path())
                .args(["read-tree", "--reset"])
                .arg(tree.to_string())
                .run()?;
        }
        for raw in &snapshot.raw {
            if self.object_header(raw.id)?.is_none() {
                return Err(Error::fatal(format!("object {} is missing", raw.id)));
            }
        }
        Ok(())
    }

    /// Fails if the restore would remove content that neither a commit nor the safety state holds.
    fn refuse_loss(
        &self,
        at: &Checkout,
        current: &Captured,
        to: &Target,
        safety: Option<&Target>,
    ) -> Result<()> {
        let committed = match current.head {
            Some(head) => self.read_commit(head)?.tree,
            None => ObjectId::empty_tree(self.hash_kind()),
        };
        let refuse = |what: &str| {
            Error::fatal(format!("{what} in '{}' is not saved", at.top.display()))
                .hint("git agent snapshot")
        };
        let saved = |tree: fn(&Target) -> ObjectId, now: ObjectId| {
            now == committed || now == tree(to) || safety.is_some_and(|safety| now == tree(safety))
        };
        if !saved(|target| target.index_tree, current.index_tree)
            && current.index_tree != ObjectId::empty_tree(self.hash_kind())
            && current.index_tree != current.tree
        {
            return Err(refuse("staged content"));
        }
        let odd_saved = current.is_settled()
            || current.odd == to.odd
            || safety.is_some_and(|safety| safety.odd == current.odd);
        if !odd_saved {
            return Err(refuse("an unfinished merge"));
        }
        if saved(|target| target.tree, current.tree) {
            return Ok(());
        }
        let map = |tree| -> Result<BTreeMap<Vec<u8>, (Mode, ObjectId)>> {
            let items = self.tree_items(tree)?;
            Ok(items
                .into_iter()
                .map(|item| (item.path, (item.mode, item.id)))
                .collect())
        };
        let mut known = vec![map(committed)?, map(to.tree)?];
        if let Some(safety) = safety {
            known.push(map(safety.tree)?);
        }
        let mut disk =
            Disk::open(&at.top).context(|| format!("cannot open '{}'", at.top.display()))?;
        for Item { path, mode, id } in self.tree_items(current.tree)? {
            let mut held = known.iter().filter_map(|tree| tree.get(&path));
            if !held.any(|held| *held == (mode, id) || self.has_bytes(&mut disk, &path, held.1)) {
                let path = String::from_utf8_lossy(&path).into_owned();
                return Err(refuse(&format!("'{path}'")));
            }
        }
        Ok(())
    }

    /// Returns whether a file's bytes on disk equal a blob, whatever git would store for it now.
    ///
    /// git stores some contents differently each time (`\r\r\n` loses one `\r`), so that a fresh checkout differs from
    /// its own commit.
    fn has_bytes(&self, disk: &mut Disk, path: &[u8], id: ObjectId) -> bool {
        match disk.read(path) {
            Ok(Some(Content::File(data, _))) => {
                gix::objs::compute_hash(self.hash_kind(), ObjectKind::Blob, &data)
                    .is_ok_and(|found| found == id)
            }
            _ => false,
        }
    }

    /// Lets git move the files from one tree to another, and returns the resulting index.
    fn move_files(&self, at: &Checkout, from: ObjectId, to: ObjectId) -> Result<ScratchIndex> {
        let mut state = self.index_of_tree(from)?;
        let index_path = at.admin_dir.join("index");
        let mut known = self.read_index(&index_path)?;
        if known.is_sparse() {
            known = self.expanded_index(at, &index_path)?;
        }
        let sparse = is_sparse(at);
        // Only unchanged files outside the cone keep their skip-worktree mark: a changed one exists on disk.
        let wanted = if sparse {
            self.index_of_tree(to)?
        } else {
            gix::index::State::new(self.hash_kind())
        };
        for (entry, path) in state.entries_mut_with_paths() {
            let stays = wanted
                .entry_by_path(path)
                .is_some_and(|wanted| wanted.id == entry.id && wanted.mode == entry.mode);
            let Some(old) = known.entry_by_path_and_stage(path, Stage::Unconflicted) else {
                continue;
            };
            if old.id == entry.id && old.mode == entry.mode {
                entry.stat = old.stat;
            }
            if sparse && stays && old.flags.contains(Flags::SKIP_WORKTREE) {
                entry.flags.insert(Flags::SKIP_WORKTREE | Flags::EXTENDED);
            }
        }
        let scratch = self.write_scratch_index(state)?;
        // Exits 1 if something differs; the merge below detects that too, with a better message.
        let refreshed = self
            .git_in(at)
            .index_file(scratch.path())
            .args(["update-index", "-q", "--really-refresh"])
            .answer()?;
        drop(refreshed);
        if from != to {
            self.refuse_in_the_way(at, from, to)?;
            self.git_in(at)
                // Existing files outside the cone are restored too.
                .config("core.sparseCheckout", "false")
                .index_file(scratch.path())
                .args(["read-tree", "-m", "-u"])
                .args([from.to_string(), to.to_string()])
                .run()?;
        }
        Ok(scratch)
    }

    /// Fails if a file that no tree holds, such as an ignored one, is in the place of a target file: git would
    /// overwrite it.
    fn refuse_in_the_way(&self, at: &Checkout, from: ObjectId, to: ObjectId) -> Result<()> {
        let cannot = || format!("cannot read '{}'", at.top.display());
        let from: BTreeSet<Vec<u8>> = paths(self.tree_items(from)?);
        let to: BTreeSet<Vec<u8>> = paths(self.tree_items(to)?);
        let mut disk = Disk::open(&at.top).context(cannot)?;
        let mut way = BTreeSet::new();
        for path in to.difference(&from) {
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            way.extend(ends.map(|(end, _)| path[..end].to_vec()));
            let Some(stat) = disk.stat(path).context(cannot)? else {
                continue;
            };
            let mut there = vec![path.clone()];
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                there.clear();
                let mut dirs = vec![path.clone()];
                while let Some(dir) = dirs.pop() {
                    for (name, is_dir) in disk.list(&dir).context(cannot)? {
                        let below = [&dir, &b"/"[..], &name].concat();
                        let list = if is_dir { &mut dirs } else { &mut there };
                        list.push(below);
                    }
                }
            }
            if let Some(other) = there.iter().find(|other| !from.contains(*other)) {
                return Err(in_the_way(other));
            }
        }
        for dir in way.iter().filter(|dir| !from.contains(*dir)) {
            if let Some(stat) = disk.stat(dir).context(cannot)?
                && FileType::from_raw_mode(stat.st_mode) != FileType::Directory
            {
                return Err(in_the_way(dir));
            }
        }
        Ok(())
    }

    /// Writes the exact bytes of converted files.
    fn put_raw(&self, at: &Checkout, files: &[Raw]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let mut disk =
            Disk::open(&at.top).context(|| format!("cannot open '{}'", at.top.display()))?;
        for raw in files {
            let cannot = || format!("cannot write '{}'", String::from_utf8_lossy(&raw.path));
            let data = self.read_object(raw.id, ObjectKind::Blob, RAW_LIMIT)?;
            let same = match disk.read(&raw.path).context(cannot)? {
                Some(Content::File(now, _)) => now == data,
                _ => return Err(Error::fatal(cannot())),
            };
            if !same {
                disk.replace(&raw.path, &data).context(cannot)?;
            }
        }
        Ok(())
    }

    /// Returns an index with the target's staged files and the stat data of the files on disk.
    fn staged_index(&self, at: &Checkout, to: &Target, files: &Path) -> Result<ScratchIndex> {
        let moved = self.read_index(files)?;
        let mut state = self.index_of_tree(to.index_tree)?;
        let sparse = is_sparse(at);
        // Their size differs from the checked-out one, and git would not even compare them.
        let raw: BTreeSet<&[u8]> = to.raw.iter().map(|raw| raw.path.as_slice()).collect();
        for (entry, path) in state.entries_mut_with_paths() {
            match moved.entry_by_path(path) {
                Some(file) => {
                    let known = file.id == entry.id && file.mode == entry.mode;
                    if known && !raw.contains(path.as_bytes()) {
                        entry.stat = file.stat;
                    }
                    if sparse && file.flags.contains(Flags::SKIP_WORKTREE) {
                        entry.flags.insert(Flags::SKIP_WORKTREE | Flags::EXTENDED);
                    }
                }
                None => entry.stat = Stat::default(),
            }
        }
        let odd: BTreeMap<&[u8], ()> = to.odd.iter().map(|odd| (odd.path.as_slice(), ())).collect();
        let known: BTreeMap<Vec<u8>, Stat> = state
            .entries()
            .iter()
            .map(|entry| (entry.path(&state).to_vec(), entry.stat))
            .filter(|(path, _)| odd.contains_key(path.as_slice()))
            .collect();
        state.remove_entries(|_, path, _| odd.contains_key(path.as_bytes()));
        for entry in &to.odd {
            let stat = match entry.stage {
                0 => known.get(&entry.path).copied().unwrap_or_default(),
                _ => Stat::default(),
            };
            state.dangerously_push_entry(
                stat,
                entry.id,
                entry.flags(),
                Mode::from_bits_truncate(entry.mode),
                entry.path.as_bstr(),
            );
        }
        state.sort_entries();
        let scratch = self.write_scratch_index(state)?;
        // Exits 1 if files differ from the index, which is intended.
        let refreshed = self
            .git_in(at)
            .index_file(scratch.path())
            .args(["update-index", "-q", "--unmerged", "--refresh"])
            .answer()?;
        drop(refreshed);
        Ok(scratch)
    }

    /// Installs an index under git's own lock, unless the current one was changed meanwhile.
    fn install_index(&self, path: &Path, before: &[u8], new: &ScratchIndex) -> Result<()> {
        let cannot = || format!("cannot write the index '{}'", path.display());
        let data = fs::read(new.path()).context(cannot)?;
        let dir = path.parent().unwrap_or(path);
        // Written completely beside its place first, so that the lock is held only briefly and never half written.
        let mut ready = Temporary::create(dir, "index-", 0o644).context(cannot)?;
        ready.file.write_all(&data).context(cannot)?;
        ready.file.sync_all().context(cannot)?;
        let lock = crate::git::refs::lock_path(path);
        let taken = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&lock);
        match taken {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return refuse_locked(path);
            }
            Err(error) => return Err(Error::fatal(cannot()).because(error)),
        }
        let result = (|| {
            if read_or_empty(path)? != before {
                return Err(Error::fatal(format!(
                    "the index '{}' changed during the restore",
                    path.display()
                )));
            }
            fs::rename(ready.path(), path).context(cannot)?;
            sync_dir(dir).context(cannot)
        })();
        let _ = fs::remove_file(&lock);
        result
    }

    /// Compares the worktree with the target, and fails if it differs.
    fn verify(&self, at: &Checkout, to: &Target, hidden: Hidden) -> Result<Restored> {
        let mut now = self.capture_anyway(at, hidden)?;
        let mut restored = Restored::default();
        let mut wrong = Vec::new();
        if now.tree != to.tree {
            self.store_captured(&mut now)?;
            let mut disk =
                Disk::open(&at.top).context(|| format!("cannot open '{}'", at.top.display()))?;
            let is = self.tree_items(now.tree)?;
            let wanted = self.tree_items(to.tree)?;
            for item in is.iter().chain(&wanted) {
                let both = |items: &[Item]| {
                    items
                        .binary_search_by(|other| other.path.cmp(&item.path))
                        .ok()
                        .map(|at| items[at].clone())
                };
                let (is, wanted) = (both(&is), both(&wanted));
                if is == wanted {
                    continue;
                }
                let submodule = |item: &Option<Item>| {
                    item.as_ref().is_none_or(|item| item.mode == Mode::COMMIT)
                };
                let exact = wanted
                    .as_ref()
                    .is_some_and(|wanted| self.has_bytes(&mut disk, &item.path, wanted.id));
                if submodule(&is) && submodule(&wanted) {
                    restored.submodules.push(item.path.clone());
                } else if !exact {
                    wrong.push(String::from_utf8_lossy(&item.path).into_owned());
                }
            }
            restored.submodules.sort();
            restored.submodules.dedup();
        }
        if let Some(first) = wrong.first() {
            return Err(Error::fatal(format!(
                "'{}' differs from its record after the restore: '{first}'",
                at.top.display()
            )));
        }
        let staged = now.index_tree == to.index_tree && now.odd == to.odd;
        if !staged {
            return Err(Error::fatal(format!(
                "the index of '{}' differs from its record after the restore",
                at.top.display()
            )));
        }
        Ok(restored)
    }
}

fn paths(items: Vec<Item>) -> BTreeSet<Vec<u8>> {
    items.into_iter().map(|item| item.path).collect()
}

fn in_the_way(path: &[u8]) -> Error {
    Error::fatal(format!(
        "'{}' is in the way: it is ignored or in a nested repository, and is not saved",
        String::from_utf8_lossy(path)
    ))
}

/// Fails while another git command holds an index.
pub(in crate::git) fn refuse_locked(index: &Path) -> Result<()> {
    let lock = crate::git::refs::lock_path(index);
    if lock.exists() {
        return Err(Error::fatal(format!(
            "'{}' exists: another git command is running here",
            lock.display()
        ))
        .hint("if none is, remove the file"));
    }
    Ok(())
}

fn read_or_empty(path: &Path) -> Result<Vec<u8>> {
    match fs::read(path) {
        Ok(data) => Ok(data),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::fatal(format!("cannot read '{}'", path.display())).because(error)),
    }
}
