//! The cell of a test: a git directory for the time that tests of merged work run. Nothing of it is taken over.

use std::fs;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::git::cell::{Cell, Contents};
use crate::git::snapshot::capture::Checkout;
use crate::guard::cell::{DIRECTORY, heads, is_visible};
use crate::guard::room;

/// The beginning of the name of such a cell. No session's id begins with it.
const PREFIX: &str = "test-";

/// A cell of a test. The worktree leads home again when it is dropped.
#[derive(Debug)]
pub struct TestCell {
    cell: Cell,
    at: Checkout,
    temporary: PathBuf,
}

impl TestCell {
    /// Makes the cell of a worktree, and lets the worktree lead there.
    pub fn open(context: &Context<'_>, at: &Checkout) -> Result<Self> {
        let nonce: String = context
            .env
            .random::<6>()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let dir = context
            .store
            .require_dir(DIRECTORY)?
            .join(format!("{PREFIX}{nonce}"));
        let mut refs = context.repo.refs_as_they_are()?;
        refs.retain(|(name, _)| is_visible(name));
        refs.sort_by(|(one, _), (other, _)| one.cmp(other));
        let head = heads(context, &at.top)?;
        let opened = TestCell {
            cell: Cell::at(&dir),
            at: at.clone(),
            temporary: room::make_temporary(context)?,
        };
        let contents = Contents {
            head: &head,
            refs: &refs,
            hooks: None,
            branch: None,
        };
        context.repo.make_cell(&opened.cell, at, &contents)?;
        opened.cell.open(at)?;
        Ok(opened)
    }

    /// Returns its directory.
    pub fn dir(&self) -> &Path {
        self.cell.dir()
    }

    /// Returns its private directory for temporary files.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Returns where its room is described: beside the cell, out of reach of the test.
    pub fn room(&self) -> PathBuf {
        self.cell.dir().with_extension("room")
    }
}

impl Drop for TestCell {
    fn drop(&mut self) {
        // If this fails, the worktree is removed soon, and the cell by the next merge.
        let _ = self.cell.close(&self.at);
        let _ = fs::remove_file(self.room());
        let _ = fs::remove_dir_all(&self.temporary);
        let _ = fs::remove_dir_all(self.cell.dir());
    }
}

/// Removes the cells of tests whose process died. The caller is the only one that merges.
pub fn sweep(context: &Context<'_>) -> Result<()> {
    let entries = fs::read_dir(context.store.dir().join(DIRECTORY));
    let left: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(PREFIX.as_bytes())
        })
        .map(|entry| entry.path())
        .collect();
    for path in left {
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.context(|| format!("cannot remove '{}'", path.display()))?;
    }
    Ok(())
}
