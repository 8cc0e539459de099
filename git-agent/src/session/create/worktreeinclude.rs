//! Copies untracked files into a new worktree: those that `.worktreeinclude` of the main worktree names.

use std::path::Path;

use crate::context::{Context, secrets};
use crate::error::Result;
use crate::git::snapshot::capture::Checkout;
use crate::git::worktree::include::{self, Large, LeftOut, Reason};

/// Copies the named files, and returns notices for the user. An error here is reported and does not stop the session.
pub fn copy(context: &Context<'_>, to: &Checkout) -> Vec<String> {
    let Some(main) = context.repo.main_work_tree() else {
        return Vec::new();
    };
    match copy_from(context, &main, to) {
        Ok(notices) => notices,
        Err(error) => vec![format!(
            "the files named in '{}' were not copied: {}",
            include::FILE_NAME,
            error.message()
        )],
    }
}

fn copy_from(context: &Context<'_>, main: &Path, to: &Checkout) -> Result<Vec<String>> {
    let Some(patterns) = include::read_patterns(main)? else {
        return Ok(Vec::new());
    };
    let theirs = context.repo.common_dir().join("index");
    let ours = to.admin_dir.join("index");
    let included = include::include(
        context.repo,
        &patterns,
        (main, &theirs),
        (&to.top, &ours),
        Large::default(),
    )?;
    secrets::remember(context.repo, &included.env_files)?;
    Ok(included.left_out.iter().filter_map(tell).collect())
}

/// Describes a file that was not copied, unless it exists anyway.
fn tell(left: &LeftOut) -> Option<String> {
    let why = match &left.reason {
        Reason::Exists | Reason::Tracked => return None,
        Reason::Repository => "it is another repository".to_owned(),
        Reason::Special => "it is not a regular file".to_owned(),
        Reason::Large { files, bytes } => format!(
            "it is large ({files} files, {} MiB) and the file system cannot share it",
            bytes >> 20
        ),
        Reason::Unsearched => "it contains too many files".to_owned(),
        Reason::Unreadable => "it cannot be read".to_owned(),
    };
    Some(format!("'{}' was not copied: {why}", left.path))
}
