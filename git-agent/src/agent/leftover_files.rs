//! Hides the private files of agents in a worktree, which are neither reviewed nor committed.

use std::path::Path;

use crate::error::{Context as _, Result};

/// Prefixes of cache directories that agents make at the top of a worktree.
const CACHES: [&str; 1] = [".aider.tags.cache."];

/// Hides such directories from git with an ignore file inside them, so that the repository and the user's settings are
/// unchanged.
pub fn hide(worktree: &Path) -> Result<()> {
    for entry in std::fs::read_dir(worktree).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = CACHES
            .iter()
            .any(|cache| name.as_encoded_bytes().starts_with(cache.as_bytes()));
        // Do not follow links: only real directories count.
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let ignore = entry.path().join(".gitignore");
        if std::fs::symlink_metadata(&ignore).is_err() {
            std::fs::write(&ignore, "*\n")
                .context(|| format!("cannot write '{}'", ignore.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_hidden_and_nothing_else_is() {
        let top = tempfile::tempdir().expect("a directory");
        for dir in [".aider.tags.cache.v4", ".aider", "src"] {
            std::fs::create_dir(top.path().join(dir)).expect("made");
        }
        for _ in 0..2 {
            hide(top.path()).expect("hidden");
        }
        assert!(top.path().join(".aider.tags.cache.v4/.gitignore").is_file());
        assert!(!top.path().join(".aider/.gitignore").exists());
        assert!(!top.path().join("src/.gitignore").exists());
        hide(&top.path().join("gone")).expect("nothing to do");
    }
}
