//! Checks whether a submodule has uncommitted work, without running programs from its settings.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gix::index::entry::Mode;

use crate::git::snapshot::beneath::{Content, Disk};
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::scan::{Hidden, Manner};
use crate::git::{Git, ObjectKind, Repo};

/// The longest `.git` file that is read.
const LONGEST: u64 = 8 << 10;

impl Repo {
    /// Returns whether a checked-out submodule has uncommitted work; `None` if unknown.
    pub fn has_loose_work(&self, at: &Checkout, submodule: &[u8]) -> Option<bool> {
        let top = at.top.join(std::ffi::OsStr::from_bytes(submodule));
        let git_dir = self.git_dir_of(&top)?;
        let index = git_dir.join("index");
        // An agent can have put anything in its place.
        if !std::fs::symlink_metadata(&index).ok()?.is_file() {
            return None;
        }
        let index = self.read_index(&index).ok()?;
        let mut disk = Disk::open(&top).ok()?;
        let manner = Manner {
            hidden: Hidden::LookAway,
            sparse: false,
        };
        let scan = self.scan(&index, &disk, manner).ok()?;
        if !scan.deleted.is_empty()
            || scan.changed.iter().any(|path| {
                let entry = index.entry_by_path(path.as_slice().into());
                !entry.is_some_and(|entry| self.holds(&mut disk, path, entry).unwrap_or(false))
            })
        {
            return Some(true);
        }
        // Nested submodules are not examined.
        if !scan.submodules.is_empty() {
            return None;
        }
        // For a missing object, git would contact a remote and run a program from the submodule's settings.
        let git = || {
            Git::new(&git_dir, &git_dir, Some(&top))
                .env("GIT_NO_LAZY_FETCH", "1")
                .env("GIT_ALLOW_PROTOCOL", "none")
        };
        let others = git()
            .args(["ls-files", "-z", "--others", "--exclude-standard"])
            .run()
            .ok()?;
        if !others.stdout.is_empty() {
            return Some(true);
        }
        let staged = git()
            .args(["diff-index", "--cached", "--quiet", "--ignore-submodules"])
            .args(["HEAD", "--"])
            .answer()
            .ok()?;
        match staged.code {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => None,
        }
    }

    /// Returns whether a file has exactly the content of its entry.
    fn holds(&self, disk: &mut Disk, path: &[u8], entry: &gix::index::Entry) -> Option<bool> {
        let content = disk.read(path).ok()??;
        let (data, mode) = match content {
            Content::File(data, true) => (data, Mode::FILE_EXECUTABLE),
            Content::File(data, false) => (data, Mode::FILE),
            Content::Link(target) => (target, Mode::SYMLINK),
        };
        let id = gix::objs::compute_hash(self.hash_kind(), ObjectKind::Blob, &data).ok()?;
        Some(id == entry.id && mode == entry.mode)
    }

    /// Returns the git directory of a submodule, if it is inside it or among those of this repository.
    fn git_dir_of(&self, top: &Path) -> Option<PathBuf> {
        let dot_git = top.join(".git");
        let found = std::fs::symlink_metadata(&dot_git).ok()?;
        if found.is_dir() {
            return Some(dot_git);
        }
        if !found.is_file() || found.len() > LONGEST {
            return None;
        }
        let text = std::fs::read(&dot_git).ok()?;
        let named = text.strip_prefix(b"gitdir: ")?.trim_ascii_end();
        let named = top.join(std::ffi::OsStr::from_bytes(named));
        let git_dir = std::fs::canonicalize(named).ok()?;
        git_dir.starts_with(self.common_dir()).then_some(git_dir)
    }
}
