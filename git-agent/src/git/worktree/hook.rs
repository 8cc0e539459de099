//! Runs the repository's own hooks for a new worktree, as `git worktree add` would.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::env::GIT_LOCATION_VARIABLES;
use crate::error::{Context, Result};
use crate::git::{Git, ObjectId, Repo};

/// The result of the repository's `post-checkout` hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The output, unescaped.
    pub output: Vec<u8>,
}

/// Returns whether git might run a hook for this event.
pub(super) fn exists(repo: &Repo, name: &str) -> bool {
    match directory(repo, None) {
        // The path is relative to the current worktree.
        None => true,
        Some(directory) => is_configured(repo) || is_executable(&directory.join(name)),
    }
}

/// Runs the `post-checkout` hook in a new worktree, without variables that point elsewhere.
pub(super) fn post_checkout(repo: &Repo, top: &Path, start: ObjectId) -> Result<Option<Hook>> {
    let words = [repo.null_id().to_string(), start.to_string(), "1".into()];
    if is_configured(repo) {
        // Hooks from the configuration, which only git can run.
        let answer = Git::outside()
            .current_dir(top)
            .env_remove("GIT_OPTIONAL_LOCKS")
            .args(["hook", "run", "--ignore-missing", "post-checkout", "--"])
            .args(words)
            .answer()?;
        let mut output = answer.stdout;
        output.extend_from_slice(&answer.stderr);
        return Ok(Some(Hook {
            code: answer.code,
            output,
        }));
    }
    let Some(program) = directory(repo, Some(top))
        .map(|directory| directory.join("post-checkout"))
        .filter(|program| is_executable(program))
    else {
        return Ok(None);
    };
    let mut command = Command::new(&program);
    for name in GIT_LOCATION_VARIABLES {
        command.env_remove(name);
    }
    let output = command
        .args(words)
        .current_dir(top)
        .stdin(Stdio::null())
        .output()
        .context(|| format!("cannot run the hook '{}'", program.display()))?;
    let mut said = output.stdout;
    said.extend_from_slice(&output.stderr);
    Ok(Some(Hook {
        code: output.status.code(),
        output: said,
    }))
}

/// Returns the directory of hooks; `None` if it depends on a worktree that is not given.
fn directory(repo: &Repo, top: Option<&Path>) -> Option<PathBuf> {
    match repo.gix().config_snapshot().trusted_path("core.hooksPath") {
        Ok(Some(path)) if path.is_absolute() => Some(path),
        Ok(Some(path)) => top.map(|top| top.join(path)),
        Ok(None) => Some(repo.common_dir().join("hooks")),
        Err(_) => None,
    }
}

fn is_configured(repo: &Repo) -> bool {
    !repo.config_subsections("hook").is_empty()
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
