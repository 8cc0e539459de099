//! Finds lock files left behind. Removes one of ours if the process that made it is certainly dead; only reports
//! others.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::doctor::{Severity, Visit};
use crate::error::{Context as _, Error, Result};
use crate::process::files::{Pinned, is_abandoned, is_open};
use crate::store::refname;

/// No process holds the lock of a ref this long.
const AGE: Duration = Duration::from_secs(10);

pub(super) fn stale(visit: &mut Visit<'_, '_>) -> Result<()> {
    let repo = visit.context.repo;
    let recorded = repo.recorded_locks();
    for path in &recorded {
        of_the_dead(visit, path);
    }
    for (path, name) in repo.lock_files() {
        if recorded.contains(&path) || !is_old(&path) {
            continue;
        }
        let shown = path.display().to_string();
        let ours = name.as_deref().is_some_and(refname::is_ours) || repo.is_own_lock(&path);
        if !ours {
            let what = match is_open(&path) {
                Some(false) => "a lock of another program; no process has it open",
                _ => "a lock of another program",
            };
            visit.found("locks", Severity::Warning, shown, what);
            continue;
        }
        if !is_abandoned(&path) {
            visit.found(
                "locks",
                Severity::Warning,
                shown,
                "a lock of ours that a process may still hold",
            );
            continue;
        }
        visit.repair(
            ("locks", Severity::Error),
            shown,
            "a lock of ours from a dead process",
            "remove it",
            |_| {
                // Check again: it may be a new lock by now.
                let lock = Pinned::at(&path).filter(|lock| is_old(&path) && lock.is_abandoned());
                let removed = lock.map_or(Ok(false), |lock| lock.remove());
                if removed.context(|| "cannot remove it".into())? {
                    Ok(())
                } else {
                    Err(Error::fatal("a process holds it again"))
                }
            },
        );
    }
    Ok(())
}

/// Checks a lock that git took for a command of ours which died.
fn of_the_dead(visit: &mut Visit<'_, '_>, path: &Path) {
    let repo = visit.context.repo;
    let shown = path.display();
    if repo.abandoned(&[path.to_owned()]).is_empty() {
        let what = "a lock of git from a dead command, which a process may still hold";
        return visit.found("locks", Severity::Warning, shown, what);
    }
    visit.repair(
        ("locks", Severity::Error),
        shown,
        "a lock of git from a dead command",
        "remove it",
        |_| match repo.clear_recorded_locks() {
            Ok(_) if path.exists() => Err(Error::fatal("a process holds it again")),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        },
    );
}

fn is_old(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .and_then(|meta| meta.modified())
        .ok()
        .and_then(|then| SystemTime::now().duration_since(then).ok())
        .is_some_and(|age| age > AGE)
}
