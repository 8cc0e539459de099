//! Merges that did not end: what they were doing is on disk, and a person decides how it goes on.

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
    // Looked at again: the one that held it may have ended well meanwhile.
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
            "a merge{into} was interrupted: 'git agent merge --continue' ends it, 'git agent merge --abort' takes it back"
        ),
    );
    Ok(())
}
