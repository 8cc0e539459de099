//! Lock files left behind. One of ours goes when its maker is provably dead; others are only named.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{Severity, Visit};
use crate::error::{Context as _, Error, Result};
use crate::store::refname;

/// Nothing holds a ref's lock as long as this.
const AGE: Duration = Duration::from_secs(10);

pub(super) fn stale(visit: &mut Visit<'_, '_>) -> Result<()> {
    for (path, name) in visit.context.repo.lock_files() {
        if !is_old(&path) {
            continue;
        }
        let shown = path.display().to_string();
        let repo = visit.context.repo;
        let ours = name.as_deref().is_some_and(refname::is_ours) || repo.is_own_lock(&path);
        if !ours {
            let what = match is_open(&path) {
                Some(false) => "a lock that is not ours; no process has it open",
                _ => "a lock that is not ours",
            };
            visit.found("locks", Severity::Warning, shown, what);
            continue;
        }
        if !is_dead(&path) {
            visit.found(
                "locks",
                Severity::Warning,
                shown,
                "a lock that a process may still hold",
            );
            continue;
        }
        visit.repair(
            ("locks", Severity::Error),
            shown,
            "a lock of ours whose process is dead",
            "remove it",
            |_| {
                // Looked at again: it may be another one by now.
                if !is_old(&path) || !is_dead(&path) {
                    return Err(Error::fatal("it is held again"));
                }
                fs::remove_file(&path).context(|| "cannot remove it".into())
            },
        );
    }
    Ok(())
}

fn is_old(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .and_then(|meta| meta.modified())
        .ok()
        .and_then(|then| SystemTime::now().duration_since(then).ok())
        .is_some_and(|age| age > AGE)
}

/// Returns whether whoever made a lock is gone for certain: it is this user's own, and no process has it open.
fn is_dead(path: &Path) -> bool {
    let mine = fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.uid() == rustix::process::geteuid().as_raw());
    mine && is_open(path) == Some(false)
}

/// Returns whether a process that this user may look at has a file open; `None` where that cannot be told.
fn is_open(path: &Path) -> Option<bool> {
    let file = fs::symlink_metadata(path).ok()?;
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        for descriptor in descriptors.flatten() {
            // By identity, not by name: a lock of ours is a second name of a file made elsewhere.
            if let Ok(open) = fs::metadata(descriptor.path())
                && (open.dev(), open.ino()) == (file.dev(), file.ino())
            {
                return Some(true);
            }
        }
    }
    Some(false)
}
