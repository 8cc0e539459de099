//! Which files processes have open: how a file whose maker died is told from one in use.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns whether whoever made a file is gone for certain: it is this user's own, and no process has it open.
pub fn is_abandoned(path: &Path) -> bool {
    let mine = fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.uid() == rustix::process::geteuid().as_raw());
    mine && is_open(path) == Some(false)
}

/// Returns whether a process that this user may look at has a file open; `None` where that cannot be told.
pub fn is_open(path: &Path) -> Option<bool> {
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
