//! Ignored files of a worktree, which snapshots do not contain: small files are kept when the worktree is removed, and
//! restored with it; whole directories are usually build output, and are only named.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::git::snapshot::capture::Checkout;
use crate::model::session::SessionId;

/// Where they are kept, below our own directory, by session.
pub const PLACE: &str = "ignored";
/// A larger file is probably not a setting that the user wrote.
const LARGE: u64 = 1 << 20;
/// More files than this are probably build output.
const MANY: usize = 256;
/// How many are named in a sentence.
const NAMED: usize = 4;

/// The ignored files of a worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ignored {
    /// Files that are kept and come back with the worktree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Deleted without a copy: directories, with a slash at their end, large files and special files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    #[serde(skip)]
    files: Vec<PathBuf>,
}

impl Ignored {
    /// Finds the ignored files of a worktree.
    pub fn find(context: &Context<'_>, at: &Checkout) -> Result<Self> {
        let mut found = Ignored::default();
        for path in context.repo.ignored_in(at)? {
            let shown = String::from_utf8_lossy(&path).into_owned();
            let file = PathBuf::from(OsStr::from_bytes(&path));
            let small = fs::symlink_metadata(at.top.join(&file))
                .is_ok_and(|meta| meta.is_file() && meta.len() <= LARGE);
            if small && found.files.len() < MANY {
                found.kept.push(shown);
                found.files.push(file);
            } else {
                found.gone.push(shown);
            }
        }
        Ok(found)
    }

    /// Leaves out the files that a worktree has again, from `.worktreeinclude` for example.
    pub fn forget_present(&mut self, at: &Checkout) {
        for names in [&mut self.kept, &mut self.gone] {
            names.retain(|name| fs::symlink_metadata(at.top.join(name)).is_err());
        }
        self.files.clear();
    }

    /// Returns whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.gone.is_empty()
    }

    /// Returns the files that are not the same in the main worktree: those that were written here.
    pub fn own(&self, context: &Context<'_>, at: &Checkout) -> Vec<String> {
        let main = context.repo.main_work_tree();
        let is_copy = |file: &Path| {
            let theirs = main.as_ref().and_then(|top| fs::read(top.join(file)).ok());
            theirs.is_some() && theirs == fs::read(at.top.join(file)).ok()
        };
        let pairs = self.files.iter().zip(&self.kept);
        pairs
            .filter(|(file, _)| !is_copy(file))
            .map(|(_, shown)| shown.clone())
            .collect()
    }

    /// Copies the small files to where they come back from.
    pub fn keep(&self, context: &Context<'_>, sid: SessionId, at: &Checkout) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let place = context.store.require_dir(&format!("{PLACE}/{sid}"))?;
        for file in &self.files {
            let (from, to) = (at.top.join(file), place.join(file));
            let cannot = || format!("cannot keep '{}'", file.display());
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).context(cannot)?;
            }
            // One that may not be written would not let itself be replaced.
            let _ = fs::remove_file(&to);
            match fs::copy(&from, &to) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => copied.map(|_| ()).context(cannot)?,
            }
        }
        Ok(())
    }
}

/// Names a few of many.
pub fn name_some(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    match names.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Copies the ignored files of a session back into its worktree, and returns the copies that are not needed any more once
/// that is complete. A file in the way stays, and so does the copy.
pub fn bring_back(context: &Context<'_>, sid: SessionId, top: &Path) -> Result<Vec<PathBuf>> {
    let place = context.store.dir().join(PLACE).join(sid.as_str());
    let mut brought = Vec::new();
    for from in crate::git::object::damage::files_below(&place) {
        let Ok(file) = from.strip_prefix(&place) else {
            continue;
        };
        if !is_free(top, file) {
            continue;
        }
        let to = top.join(file);
        let cannot = || format!("cannot restore '{}'", to.display());
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).context(cannot)?;
        }
        fs::copy(&from, &to).context(cannot)?;
        brought.push(from);
    }
    Ok(brought)
}

/// Lets go of copies that were brought back.
pub fn let_go(context: &Context<'_>, sid: SessionId, brought: &[PathBuf]) {
    for copy in brought {
        let _ = fs::remove_file(copy);
    }
    remove_empty(&context.store.dir().join(PLACE).join(sid.as_str()));
}

/// Deletes the kept files of a session.
pub fn forget(context: &Context<'_>, sid: SessionId) {
    let _ = fs::remove_dir_all(context.store.dir().join(PLACE).join(sid.as_str()));
}

/// Returns whether a file can be written without going through a link or over anything.
fn is_free(top: &Path, file: &Path) -> bool {
    let mut path = top.to_owned();
    let parts: Vec<Component<'_>> = file.components().collect();
    for (number, part) in parts.iter().enumerate() {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Err(_) => return true,
            Ok(meta) if meta.is_dir() && number + 1 < parts.len() => {}
            Ok(_) => return false,
        }
    }
    false
}

/// Removes directories without files.
fn remove_empty(dir: &Path) {
    if let Ok(entries) = fs::read_dir(dir) {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove_empty(&entry.path());
            }
        }
        // Fails where something is left, which is the point.
        let _ = fs::remove_dir(dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_overwritten_or_written_through_a_link() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path();
        fs::create_dir(top.join("real")).expect("ours");
        fs::write(top.join("there"), "x").expect("ours");
        std::os::unix::fs::symlink("/tmp", top.join("link")).expect("ours");
        for (file, free) in [
            ("new", true),
            ("real/new", true),
            ("none/new", true),
            ("there", false),
            ("real", false),
            ("there/new", false),
            ("link", false),
            ("link/new", false),
        ] {
            assert_eq!(is_free(top, Path::new(file)), free, "{file}");
        }
    }

    #[test]
    fn many_names_are_shortened() {
        let names: Vec<String> = ["a", "b", "c", "d", "e"].map(String::from).to_vec();
        assert_eq!(name_some(&names), "a, b, c, d and 1 more");
        assert_eq!(name_some(&names[..2]), "a, b");
    }
}
