//! Bringing what a new worktree needs and git does not track: what `.worktreeinclude` of the main worktree names.

use std::path::Path;

use crate::context::{Context, secrets};
use crate::error::Result;
use crate::git::snapshot::capture::Checkout;
use crate::git::worktree::include::{self, Large, LeftOut, Reason};

/// Copies what is named, and returns what a person should know. Trouble here is told and stops no session.
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

/// Returns words for what was left out, unless it is there anyway.
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
