//! The location of a session: its worktree's path and its branch, from the settings and its name.

use std::path::{Path, PathBuf};

use crate::config::settings;
use crate::context::Context;
use crate::error::{Error, Result, shell_word};

/// Returns the directory that holds the worktrees of sessions.
pub fn worktree_dir(context: &Context<'_>) -> Result<PathBuf> {
    let repo = context.repo;
    let anchor = repo
        .main_work_tree()
        .unwrap_or_else(|| repo.common_dir().to_owned());
    let name = repository_name(&anchor);
    let pattern = context.config.require(&settings::WORKTREE_DIR)?;
    let pattern = pattern.replace("{repo}", &name);
    let path = match pattern.strip_prefix("~/") {
        Some(rest) => match context.env.var_os("HOME") {
            Some(home) => Path::new(home).join(rest),
            None => {
                return Err(Error::fatal(
                    "'agent.worktreeDir' begins with '~', but HOME is not set",
                ));
            }
        },
        None => anchor.join(&pattern),
    };
    Ok(normalize(&path))
}

/// Returns the path of the worktree of a session with this name.
pub fn worktree_path(context: &Context<'_>, name: &str) -> Result<String> {
    let path = worktree_dir(context)?.join(name).into_os_string();
    path.into_string().map_err(|path| {
        let shown = path.to_string_lossy().into_owned();
        Error::fatal(format!("worktree path '{shown}' is not UTF-8"))
            .hint("git config agent.worktreeDir <a path in UTF-8>")
    })
}

/// Returns a repository's name: its directory's, without `.git`. Bytes that are not UTF-8 cannot be kept in a record.
fn repository_name(anchor: &Path) -> String {
    let name = anchor
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    match name.strip_suffix(".git") {
        Some(stem) if !stem.is_empty() => stem.to_owned(),
        _ => name,
    }
}

/// Resolves `.` and `..` by the words alone: the path need not exist yet.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                normal.pop();
            }
            std::path::Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Returns the branch of a session: the role's prefix or the configured one, then its name.
pub fn branch(context: &Context<'_>, role: Option<&str>, name: &str) -> Result<String> {
    let of_role = role.map(|role| format!("agent-role.{role}.branchPrefix"));
    let default = settings::BRANCH_PREFIX.key.default;
    let keys = of_role.into_iter().chain([settings::BRANCH_PREFIX.name()]);
    let mut set = keys.filter_map(|key| Some((context.config.string(&key)?, key)));
    let (prefix, key) = match set.next() {
        Some((prefix, key)) => (prefix, Some(key)),
        None => (default.to_owned(), None),
    };
    let branch = match prefix.trim_end_matches('/') {
        "" => name.to_owned(),
        prefix => format!("{prefix}/{name}"),
    };
    if context.repo.is_valid_branch(&branch) {
        return Ok(branch);
    }
    let error = Error::fatal(format!("'{branch}' is not a valid branch name"));
    Err(match key {
        Some(key) => error.hint(format!(
            "git config {} {}",
            shell_word(key),
            shell_word(default)
        )),
        None => error,
    })
}

/// Returns the folder of a session's worktree: its name, after the prefix of its role.
pub fn folder(context: &Context<'_>, role: Option<&str>, name: &str) -> String {
    let prefix = role.and_then(|role| {
        let key = format!("agent-role.{role}.worktreePrefix");
        context.config.string(&key)
    });
    match prefix
        .as_deref()
        .map(|prefix| prefix.trim_matches(['/', '-']))
    {
        None | Some("") => name.to_owned(),
        Some(prefix) => format!("{}-{name}", prefix.replace('/', "-")),
    }
}

/// Returns a branch name that a plan gives, or the first of `name-2`, `name-3`, … that is free.
pub fn free_branch(context: &Context<'_>, branch: &str) -> Result<String> {
    if !context.repo.is_valid_branch(branch) {
        return Err(Error::fatal(format!(
            "'{branch}' is not a valid branch name"
        )));
    }
    let taken = |name: &str| !matches!(context.repo.branch_tip(name), Ok(None));
    Ok(crate::model::name::make_unique(branch, taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_by_their_words() {
        assert_eq!(normalize(Path::new("/a/b/../c/./d")), Path::new("/a/c/d"));
        assert_eq!(normalize(Path::new("/a/../../b")), Path::new("/b"));
        assert_eq!(repository_name(Path::new("/x/app.git")), "app");
        assert_eq!(repository_name(Path::new("/x/.git")), ".git");
    }
}
