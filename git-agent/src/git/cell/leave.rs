//! Brings index and operations of a cell to the worktree's own record, and empties the cell.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::error::{Context, Result};
use crate::git::Repo;
use crate::git::cell::{Cell, LARGEST, OPERATIONS, SMALL, if_there};
use crate::git::snapshot::capture::Checkout;

/// Files of an operation that hold nothing but commits and messages.
const CARRIED: [&str; 8] = [
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "ORIG_HEAD",
    "AUTO_MERGE",
];

/// Returns the files that a cell and a worktree's record hand to each other.
pub(super) fn carried() -> &'static [&'static str] {
    &CARRIED
}

impl Repo {
    /// Copies the index of a cell to the worktree's record. `false` if another git has it locked.
    pub fn bring_index(&self, cell: &Cell, at: &Checkout) -> Result<bool> {
        let cannot = || format!("cannot write the index of '{}'", at.top.display());
        let entries = fs::read_dir(cell.dir()).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name());
        // A split index would need its other part. The record keeps the index that it has, and the files show the work.
        if names.any(|name| name.to_string_lossy().starts_with("sharedindex.")) {
            return Ok(true);
        }
        let Some(bytes) = if_there(cell.read("index", LARGEST)).context(cannot)? else {
            return Ok(true);
        };
        let own = at.admin_dir.join("index");
        if fs::read(&own).is_ok_and(|known| known == bytes) {
            return Ok(true);
        }
        let lock = at.admin_dir.join("index.lock");
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&lock) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error).context(cannot),
        };
        let written = file
            .write_all(&bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&lock, &own));
        if written.is_err() {
            let _ = fs::remove_file(&lock);
        }
        written.context(cannot).map(|()| true)
    }

    /// Hands over a merge, a pick or a revert that is not finished.
    pub fn bring_operation(&self, cell: &Cell, at: &Checkout) -> Result<()> {
        let bring = || -> io::Result<()> {
            for name in CARRIED {
                let own = at.admin_dir.join(name);
                match if_there(cell.read(name, SMALL)) {
                    Ok(Some(bytes)) => fs::write(&own, bytes)?,
                    Ok(None) => match fs::remove_file(&own) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => {}
                    },
                    // A link, or larger than any message: left behind.
                    Err(_) => {}
                }
            }
            Ok(())
        };
        bring().context(|| format!("cannot write in '{}'", at.admin_dir.display()))
    }

    /// Returns the operation that is not finished and stays in a cell.
    pub fn operation_in(&self, cell: &Cell) -> Option<&'static str> {
        let there = |name: &&str| cell.dir().join(name).symlink_metadata().is_ok();
        match OPERATIONS.into_iter().find(there)? {
            "sequencer" => Some("a cherry-pick or revert"),
            name if name.starts_with("rebase") => Some("a rebase"),
            _ => Some("a bisection"),
        }
    }

    /// Empties a cell after its work was brought over. Stashes and unfinished operations stay for the next time.
    pub fn empty_cell(&self, cell: &Cell) -> Result<()> {
        match empty(cell) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).context(|| format!("cannot empty '{}'", cell.dir().display()))
            }
            _ => Ok(()),
        }
    }
}

/// Removes everything but stashes and unfinished operations. The directory itself stays the same one: a process that may
/// write it, may write it again the next time.
pub(super) fn empty(cell: &Cell) -> io::Result<()> {
    clear(cell.dir(), &|name| {
        name == Path::new("refs")
            || name == Path::new("logs")
            || OPERATIONS.iter().any(|kept| name == Path::new(kept))
    })?;
    // From above: a link on the way is gone before anything is removed below it.
    for (dir, stash) in [("refs", "stash"), ("logs", "refs"), ("logs/refs", "stash")] {
        let path = cell.dir().join(dir);
        if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            clear(&path, &|name| name == Path::new(stash))?;
        }
    }
    Ok(())
}

/// Removes the entries of a directory, except for some names. Links are removed and not followed, by whatever name.
fn clear(dir: &Path, keep: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if keep(Path::new(&entry.file_name())) && !kind.is_symlink() {
            continue;
        }
        if kind.is_dir() {
            fs::remove_dir_all(entry.path())?
        } else {
            fs::remove_file(entry.path())?
        }
    }
    Ok(())
}
