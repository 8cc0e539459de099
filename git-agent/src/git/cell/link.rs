//! Where the `.git` file of a worktree leads: to the worktree's record in the repository, or to a cell.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{Context, Result};
use crate::file::{self, Durability};
use crate::git::cell::{Cell, SMALL, read_plain};
use crate::git::snapshot::capture::Checkout;

/// Where a worktree's `.git` file leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the worktree's own record.
    Home,
    /// To the cell.
    Cell,
    /// Elsewhere, or it is not a file of git's.
    Astray,
}

impl Cell {
    /// Returns where the worktree leads now.
    pub fn way(&self, at: &Checkout) -> Way {
        let Ok(text) = read_plain(&at.top.join(".git"), SMALL) else {
            return Way::Astray;
        };
        let is = |dir: &Path| text == line(dir);
        match (is(&self.dir), is(&at.admin_dir)) {
            (true, _) => Way::Cell,
            (_, true) => Way::Home,
            _ => Way::Astray,
        }
    }

    /// Lets the worktree lead to the cell.
    pub fn open(&self, at: &Checkout) -> Result<()> {
        lead(at, &self.dir)
    }

    /// Lets the worktree lead to its own record again, whatever is in the place of its `.git` file.
    pub fn close(&self, at: &Checkout) -> Result<()> {
        if self.way(at) == Way::Home || !at.top.is_dir() {
            return Ok(());
        }
        let link = at.top.join(".git");
        if fs::symlink_metadata(&link).is_ok_and(|meta| meta.is_dir()) {
            // A repository that was made in its place. It stays, under a name that git passes over.
            let aside = at.top.join(".git-of-agent");
            fs::rename(&link, &aside).context(|| format!("cannot rename '{}'", link.display()))?;
        }
        lead(at, &at.admin_dir)
    }
}

fn line(dir: &Path) -> Vec<u8> {
    [b"gitdir: ", dir.as_os_str().as_bytes(), b"\n"].concat()
}

/// Replaces the file by a rename: a link that is there is replaced, not followed.
fn lead(at: &Checkout, dir: &Path) -> Result<()> {
    let path = at.top.join(".git");
    file::replace_with_mode(&path, &line(dir), 0o644, Durability::Synced)
}
