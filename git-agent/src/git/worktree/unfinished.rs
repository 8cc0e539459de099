//! The operation that git is in the middle of in a working tree: a merge, a rebase and the like.

use std::fs;

use crate::git::snapshot::capture::Checkout;

/// Files and directories by which git remembers an operation, and the operation's name. A rebase and a sequence of commits
/// leave those of single picks as well, so they come first.
const UNFINISHED: [(&str, &str); 7] = [
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "sequence of commits"),
    ("BISECT_LOG", "bisect"),
];

/// Returns the operation in progress in a working tree, if there is one. Its state is only in the git directory of that
/// tree: no snapshot holds it.
pub fn unfinished(at: &Checkout) -> Option<&'static str> {
    UNFINISHED
        .iter()
        // On reftable some of these are refs, but git keeps all of them as files.
        .find(|(name, _)| fs::symlink_metadata(at.admin_dir.join(name)).is_ok())
        .map(|(_, what)| *what)
}
