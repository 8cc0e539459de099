//! The content of a checkout: the entries of a tree in index order, with the cache tree that saves the first `git
//! status` a walk.

use gix::bstr::{BStr, ByteSlice};
use gix::objs::FindExt;
use gix::validate::path::component;
use gix::{ObjectId, Repository};
use rustix::fs::Stat;

use crate::git::worktree::checkout::Refusal;

/// The kind of an entry on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Executable,
    Symlink,
}

impl Kind {
    /// Returns the mode in the form of index entries.
    pub(crate) fn index_mode(self) -> u32 {
        match self {
            Kind::File => 0o100_644,
            Kind::Executable => 0o100_755,
            Kind::Symlink => 0o120_000,
        }
    }

    fn from_index_mode(mode: gix::index::entry::Mode) -> Option<Self> {
        use gix::index::entry::Mode;
        match mode {
            Mode::FILE => Some(Kind::File),
            Mode::FILE_EXECUTABLE => Some(Kind::Executable),
            Mode::SYMLINK => Some(Kind::Symlink),
            _ => None,
        }
    }
}

/// The metadata of a file that an index stores, truncated as in the index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StatData {
    pub(crate) ctime: (u32, u32),
    pub(crate) mtime: (u32, u32),
    pub(crate) dev: u32,
    pub(crate) ino: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u32,
}

impl StatData {
    /// Keeps the low 32 bits of each value, as the index does.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "the index format truncates, and field types differ between platforms"
    )]
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        StatData {
            ctime: (stat.st_ctime as u32, stat.st_ctime_nsec as u32),
            mtime: (stat.st_mtime as u32, stat.st_mtime_nsec as u32),
            dev: stat.st_dev as u32,
            ino: stat.st_ino as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: stat.st_size as u32,
        }
    }

    fn from_index(stat: &gix::index::entry::Stat) -> Self {
        StatData {
            ctime: (stat.ctime.secs, stat.ctime.nsecs),
            mtime: (stat.mtime.secs, stat.mtime.nsecs),
            dev: stat.dev,
            ino: stat.ino,
            uid: stat.uid,
            gid: stat.gid,
            size: stat.size,
        }
    }

    /// Returns whether both describe the same unmodified file. Ignores the device, whose number changes over a reboot.
    pub(crate) fn same_file(&self, other: &StatData) -> bool {
        StatData { dev: 0, ..*self } == StatData { dev: 0, ..*other }
    }
}

/// One file or symlink to be created.
#[derive(Debug)]
pub(crate) struct CheckoutEntry {
    path: std::ops::Range<usize>,
    pub(crate) kind: Kind,
    pub(crate) id: ObjectId,
    /// The stat data of an unmodified copy of this very blob in another worktree, from its index.
    pub(crate) copyable: Option<StatData>,
}

/// A directory's tree id and number of entries, as in the index's `TREE` extension.
#[derive(Debug)]
pub(crate) struct CacheTree {
    pub(crate) name: Vec<u8>,
    pub(crate) id: ObjectId,
    pub(crate) entries: usize,
    pub(crate) children: Vec<CacheTree>,
}

/// The names that a tree may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// Only names that are harmless on every system, as in git.
    OfAnySystem,
    /// Also names that stand for `.git` only on NTFS: they were files here before.
    OfThisSystem,
}

/// The content of a checkout, in index order.
#[derive(Debug)]
pub(crate) struct CheckoutPlan {
    names: Names,
    paths: Vec<u8>,
    pub(crate) entries: Vec<CheckoutEntry>,
    pub(crate) tree: CacheTree,
}

impl CheckoutPlan {
    /// Reads the plan from the tree's objects.
    pub(crate) fn from_tree(
        repo: &Repository,
        tree: ObjectId,
        names: Names,
    ) -> Result<Self, Refusal> {
        let mut plan = CheckoutPlan {
            names,
            paths: Vec::new(),
            entries: Vec::new(),
            tree: CacheTree {
                name: Vec::new(),
                id: tree,
                entries: 0,
                children: Vec::new(),
            },
        };
        let mut prefix = Vec::new();
        plan.tree = plan.descend(repo, tree, Vec::new(), &mut prefix)?;
        Ok(plan)
    }

    /// Takes the plan from an index whose cache tree proves that it contains exactly this tree; otherwise returns
    /// `None`.
    pub(crate) fn from_index(
        index: &gix::index::State,
        tree: ObjectId,
        names: Names,
    ) -> Option<Self> {
        let cached = index.tree().filter(|cached| cached.id == tree)?;
        if usize::try_from(cached.num_entries?).ok()? != index.entries().len() {
            return None;
        }
        let mut plan = CheckoutPlan {
            names,
            paths: Vec::with_capacity(index.path_backing().len()),
            entries: Vec::with_capacity(index.entries().len()),
            tree: cache_tree(cached)?,
        };
        for entry in index.entries() {
            if entry.stage_raw() != 0
                || entry
                    .flags
                    .intersects(gix::index::entry::Flags::INTENT_TO_ADD)
            {
                return None;
            }
            let kind = Kind::from_index_mode(entry.mode)?;
            plan.push(entry.path(index), kind, entry.id).ok()?;
        }
        Some(plan)
    }

    /// Returns an entry's path, relative to the worktree.
    pub(crate) fn path(&self, entry: &CheckoutEntry) -> &BStr {
        self.paths[entry.path.clone()].as_bstr()
    }

    /// Marks every entry for which `index` has the same blob under the same path, unless its file changed too close to
    /// the writing of the index for its times to prove anything.
    pub(crate) fn mark_copyable(&mut self, index: &gix::index::State) {
        let written = index.timestamp();
        let written = (
            u32::try_from(written.unix_seconds()).unwrap_or(0),
            written.nanoseconds(),
        );
        let paths = &self.paths;
        let mut theirs = index.entries().iter().peekable();
        for entry in &mut self.entries {
            let path = paths[entry.path.clone()].as_bstr();
            while theirs.next_if(|their| their.path(index) < path).is_some() {}
            let Some(their) = theirs.next_if(|their| their.path(index) == path) else {
                continue;
            };
            let stat = StatData::from_index(&their.stat);
            let plain = their.stage_raw() == 0
                && their.id == entry.id
                && Kind::from_index_mode(their.mode)
                    .is_some_and(|kind| (kind == Kind::Symlink) == (entry.kind == Kind::Symlink))
                && !their.flags.intersects(
                    gix::index::entry::Flags::INTENT_TO_ADD
                        | gix::index::entry::Flags::SKIP_WORKTREE,
                );
            if plain && entry.kind != Kind::Symlink && stat.mtime < written && stat.ino != 0 {
                entry.copyable = Some(stat);
            }
        }
    }

    fn descend(
        &mut self,
        repo: &Repository,
        id: ObjectId,
        name: Vec<u8>,
        prefix: &mut Vec<u8>,
    ) -> Result<CacheTree, Refusal> {
        let mut buffer = Vec::new();
        let tree = repo
            .objects
            .find_tree_iter(&id, &mut buffer)
            .map_err(|_| Refusal::Git("an object of the tree is missing"))?;
        let before = self.entries.len();
        let mut children = Vec::new();
        for entry in tree {
            let entry = entry.map_err(|_| Refusal::Git("a tree object is damaged"))?;
            let length = prefix.len();
            prefix.extend_from_slice(entry.filename);
            let kind = match entry.mode.kind() {
                gix::objs::tree::EntryKind::Tree => {
                    check_component(entry.filename, false, self.names)?;
                    prefix.push(b'/');
                    children.push(self.descend(
                        repo,
                        entry.oid.to_owned(),
                        entry.filename.to_vec(),
                        prefix,
                    )?);
                    prefix.truncate(length);
                    continue;
                }
                gix::objs::tree::EntryKind::Blob => Kind::File,
                gix::objs::tree::EntryKind::BlobExecutable => Kind::Executable,
                gix::objs::tree::EntryKind::Link => Kind::Symlink,
                gix::objs::tree::EntryKind::Commit => return Err(Refusal::Git("submodules")),
            };
            check_component(entry.filename, kind == Kind::Symlink, self.names)?;
            self.append(prefix.as_bstr(), kind, entry.oid.to_owned())?;
            prefix.truncate(length);
        }
        Ok(CacheTree {
            name,
            id,
            entries: self.entries.len() - before,
            children,
        })
    }

    fn push(&mut self, path: &BStr, kind: Kind, id: ObjectId) -> Result<(), Refusal> {
        // Directories shared with the previous entry were checked with it.
        let previous = self.entries.last().map_or(&[][..], |last| self.path(last));
        let shared = previous
            .iter()
            .zip(path.iter())
            .take_while(|(a, b)| a == b)
            .count();
        let from = path[..shared].rfind_byte(b'/').map_or(0, |slash| slash + 1);
        let mut rest = path[from..].split(|byte| *byte == b'/').peekable();
        while let Some(component) = rest.next() {
            let symlink = rest.peek().is_none() && kind == Kind::Symlink;
            check_component(component.as_bstr(), symlink, self.names)?;
        }
        self.append(path, kind, id)
    }

    fn append(&mut self, path: &BStr, kind: Kind, id: ObjectId) -> Result<(), Refusal> {
        if self
            .entries
            .last()
            .is_some_and(|last| self.path(last) >= path)
        {
            return Err(Refusal::Git("a tree object is not sorted"));
        }
        let start = self.paths.len();
        self.paths.extend_from_slice(path);
        self.entries.push(CheckoutEntry {
            path: start..self.paths.len(),
            kind,
            id,
            copyable: None,
        });
        Ok(())
    }
}

fn cache_tree(tree: &gix::index::extension::Tree) -> Option<CacheTree> {
    Some(CacheTree {
        name: tree.name.to_vec(),
        id: tree.id,
        entries: usize::try_from(tree.num_entries?).ok()?,
        children: tree
            .children
            .iter()
            .map(cache_tree)
            .collect::<Option<_>>()?,
    })
}

/// Refuses names that could leave the worktree or reach `.git` on any file system; git then reports them.
fn check_component(name: &BStr, symlink: bool, names: Names) -> Result<(), Refusal> {
    let options = component::Options {
        protect_windows: false,
        protect_hfs: true,
        protect_ntfs: names == Names::OfAnySystem,
    };
    let mode = symlink.then_some(component::Mode::Symlink);
    if name.contains(&0) || gix::validate::path::component(name, mode, options).is_err() {
        return Err(Refusal::Git("the tree holds a forbidden name"));
    }
    Ok(())
}
