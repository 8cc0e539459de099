//! Checks our private directory: its permissions, and files in it that are left over or unknown.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::doctor::{Severity, Visit, lost_file};
use crate::error::{Context as _, Result};
use crate::file;
use crate::guard::hooks;
use crate::process::detach;
use crate::session::supervisor::launch;

/// The names in our directory.
const KNOWN: [&str; 35] = [
    "attach",
    "cache",
    "cells",
    "cooldown",
    "doors",
    "drafts",
    "env-files",
    "git-version",
    "forgotten",
    "guard",
    "hooks",
    "ignored",
    "inbox",
    "kept-cells",
    "key",
    "local",
    "locks",
    "lost",
    "merge",
    "moves",
    "moves.before",
    "own-before",
    "ports",
    "recent",
    "resolve",
    "run",
    "scratch",
    "secret-objects",
    "slots",
    "spool",
    "tmp",
    "trust",
    "turns",
    "worktrees",
    "writer",
];
/// A temporary file gets its final name sooner than this.
const ON_ITS_WAY: Duration = Duration::from_secs(60 * 60);

pub(super) fn permissions(visit: &mut Visit<'_, '_>) -> Result<()> {
    let top = visit.context.store.dir().to_owned();
    let mut dirs = vec![top.clone()];
    if let Ok(entries) = fs::read_dir(&top) {
        dirs.extend(
            entries
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .filter(|entry| KNOWN.iter().any(|known| entry.file_name() == *known))
                .map(|entry| entry.path()),
        );
    }
    for dir in dirs {
        let Ok(meta) = fs::symlink_metadata(&dir) else {
            continue;
        };
        if !meta.is_dir() {
            visit.found(
                "directories",
                Severity::Error,
                dir.display(),
                "not a directory",
            );
            continue;
        }
        // Only the top directory must be closed; it protects those below.
        let open = dir == top && meta.mode() & 0o077 != 0;
        let shut = meta.mode() & 0o700 != 0o700;
        if open || shut {
            visit.repair(
                ("directories", Severity::Warning),
                dir.display(),
                format!(
                    "its mode is {:04o}: it must be open to its owner only",
                    meta.mode() & 0o7777
                ),
                "set its mode to 0700",
                |_| {
                    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))
                        .context(|| "cannot change its mode".into())
                },
            );
        }
    }
    Ok(())
}

pub(super) fn writer(visit: &mut Visit<'_, '_>) -> Result<()> {
    let path = visit.context.store.dir().join("writer");
    if let Err(error) = visit.context.store.writer() {
        visit.repair(
            ("writer", Severity::Error),
            path.display(),
            error.message(),
            "keep it in agents/lost, and make a new one",
            |context| {
                fs::rename(&path, lost_file(context, "writer")?)
                    .context(|| "cannot move it away".into())?;
                context.store.require_writer().map(|_| ())
            },
        );
    }
    Ok(())
}

pub(super) fn key(visit: &mut Visit<'_, '_>) -> Result<()> {
    let path = visit.context.store.dir().join("key");
    if let Err(error) = visit.context.store.check_key() {
        visit.repair(
            ("key", Severity::Error),
            path.display(),
            error.message(),
            "keep it in agents/lost; then all records in this clone's refs count as its own",
            |context| {
                fs::rename(&path, lost_file(context, "key")?)
                    .context(|| "cannot move it away".into())
            },
        );
    }
    Ok(())
}

pub(super) fn leftovers(visit: &mut Visit<'_, '_>) -> Result<()> {
    let top = visit.context.store.dir().to_owned();
    let dead = visit.context.repo.dead_scratch();
    for path in &dead {
        visit.repair(
            ("files", Severity::Warning),
            path.display(),
            "left over by a dead process",
            "remove it",
            |context| context.repo.remove_dead_scratch(path),
        );
    }
    for entry in fs::read_dir(top.join("tmp"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        let age = fs::symlink_metadata(&path)
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|then| SystemTime::now().duration_since(then).ok());
        if age.is_some_and(|age| age > ON_ITS_WAY) && !dead.contains(&path) {
            visit.repair(
                ("files", Severity::Warning),
                path.display(),
                "left over by a dead process",
                "remove it",
                |context| context.repo.remove_dead_scratch(&path),
            );
        }
    }
    let unfinished = unfinished(&top);
    for path in &unfinished {
        visit.repair(
            ("files", Severity::Warning),
            path.display(),
            "left over by a dead process",
            "remove it",
            |_| fs::remove_file(path).context(|| "cannot remove it".into()),
        );
    }
    if let Ok(entries) = fs::read_dir(&top) {
        for entry in entries.flatten() {
            if unfinished.contains(&entry.path()) {
                continue;
            }
            if !KNOWN.iter().any(|known| entry.file_name() == *known) {
                visit.found(
                    "files",
                    Severity::Note,
                    entry.path().display(),
                    "not made by this git-agent",
                );
            }
        }
    }
    Ok(())
}

/// Returns the files of ours whose writers died before they got their names.
fn unfinished(top: &Path) -> Vec<PathBuf> {
    let mut found = file::left_by_the_dead(top);
    let mut dirs = below(top);
    // These hold files of agents.
    dirs.retain(|dir| !dir.ends_with("scratch") && !dir.ends_with("worktrees"));
    for dir in dirs {
        found.extend(file::left_by_the_dead(&dir));
        for session in below(&dir) {
            found.extend(file::left_by_the_dead(&session));
        }
    }
    found
}

fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| entry.path()).collect()
}

pub(super) fn old_hooks(visit: &mut Visit<'_, '_>) -> Result<()> {
    let base = visit.context.store.dir().join("hooks");
    let current = hooks::place(visit.context.repo.common_dir(), &detach::own_program());
    let Ok(entries) = fs::read_dir(&base) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let dir = entry.path();
        if Some(&dir) == current.as_ref() || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // A running session may still use them.
        if !launch::supervisors(&visit.context.store).is_empty() {
            visit.found(
                "hooks",
                Severity::Note,
                dir.display(),
                "hooks of another version of git-agent",
            );
            continue;
        }
        visit.repair(
            ("hooks", Severity::Note),
            dir.display(),
            "hooks of another version of git-agent; no session is running",
            "remove them",
            |_| fs::remove_dir_all(&dir).context(|| "cannot remove them".into()),
        );
    }
    Ok(())
}
