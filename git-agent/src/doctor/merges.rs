//! Reports interrupted merges. Their journal is on disk, and the user decides how to go on.

use std::fs;

use crate::doctor::{Severity, Visit};
use crate::error::Result;
use crate::merge::landing::journal::Journal;
use crate::process::lock;

pub(super) fn unfinished(visit: &mut Visit<'_, '_>) -> Result<()> {
    let top = visit.context.store.dir();
    let path = top.join("merge").join("now.json");
    let Ok(bytes) = fs::read(&path) else {
        return Ok(());
    };
    if lock::is_held(&top.join("locks").join("merge"))? {
        return Ok(());
    }
    // Check again: the merge may have ended meanwhile.
    if fs::symlink_metadata(&path).is_err() {
        return Ok(());
    }
    let into = match serde_json::from_slice::<Journal>(&bytes) {
        Ok(journal) if !journal.asked.into.is_empty() => {
            format!(" into '{}'", journal.asked.into)
        }
        _ => String::new(),
    };
    visit.found(
        "merges",
        Severity::Warning,
        path.display(),
        format!(
            "a merge{into} was interrupted: finish it with 'git agent merge --continue', or roll it back with 'git agent merge --abort'"
        ),
    );
    Ok(())
}
