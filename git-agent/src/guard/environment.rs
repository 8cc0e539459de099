//! Sets the variables that put an agent's git under guard, and removes them again.
//!
//! The hooks are set in two ways. `GIT_CONFIG_PARAMETERS` overrides the repository's own `core.hooksPath`, but git does
//! not pass it to the receiving end of a push, so a generated `GIT_CONFIG_GLOBAL` names the hooks as well. Both apply
//! only to the session's repository; other repositories of the agent (test fixtures, clones) are not guarded.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::env::{Env, GIT_LOCATION_VARIABLES};
use crate::error::{Context, Result};
use crate::file::{self, Durability};
use crate::git::Repo;
use crate::git::config::{
    conditions_for, parameter, quote_subsection, quote_value, without_parameters,
};
use crate::guard::hooks::{self, Hooks};
use crate::guard::policy::Own;
use crate::guard::{
    COMMON_VARIABLE, DIR_VARIABLE, GLOBAL_VARIABLE, HOOKS_VARIABLE, LOG_VARIABLE, OWN_VARIABLE,
    command_log,
};

const PARAMETERS: &str = "GIT_CONFIG_PARAMETERS";
const GLOBAL: &str = "GIT_CONFIG_GLOBAL";

/// Environment variables by name.
pub type Variables = BTreeMap<OsString, OsString>;

/// The guard of one session.
#[derive(Debug, Clone)]
pub struct Guard {
    own: Own,
    git_dir: PathBuf,
    common_dir: PathBuf,
    hooks: Hooks,
    user_hooks: Option<PathBuf>,
    directory: PathBuf,
}

/// The inputs of a guard.
#[derive(Debug)]
pub struct Options<'a> {
    /// This program, which the hooks link to.
    pub program: &'a Path,
    /// The refs that the session may move.
    pub own: Own,
    /// The git directory of the session's worktree.
    pub git_dir: &'a Path,
    /// The session's directory for the generated configuration and the log.
    pub directory: &'a Path,
}

impl Guard {
    /// Installs the hooks and makes the guard of one session, for commands with these variables.
    pub fn prepare(repo: &Repo, variables: &Variables, options: Options<'_>) -> Result<Self> {
        let (user_hooks, theirs) = hooks_paths(repo, variables, options.git_dir)?;
        let hooks = hooks::install(repo.common_dir(), options.program, &theirs)?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(options.directory)
            .context(|| format!("cannot create '{}'", options.directory.display()))?;
        Ok(Guard {
            user_hooks,
            own: options.own,
            git_dir: options.git_dir.to_owned(),
            common_dir: repo.common_dir().to_owned(),
            hooks,
            directory: options.directory.to_owned(),
        })
    }

    /// Returns the log of refused changes; [`crate::guard::log::read`] reads it.
    pub fn log(&self) -> PathBuf {
        log(&self.directory)
    }

    /// Returns the refs that the session may move.
    pub fn own(&self) -> &Own {
        &self.own
    }

    /// Returns the generated replacement of the user's configuration.
    ///
    /// It belongs to the session: `git config --global` of an agent writes here, not to the user's file.
    pub fn global_config(&self) -> PathBuf {
        self.directory.join("gitconfig")
    }

    /// Puts these variables under guard. Removes another guard first.
    pub fn enter(&self, variables: &mut Variables) -> Result<()> {
        leave(variables);
        let path = self.global_config();
        file::replace(&path, self.global_text(variables), Durability::Volatile)?;
        self.set(variables);
        Ok(())
    }

    /// Sets the variables.
    fn set(&self, variables: &mut Variables) {
        for name in GIT_LOCATION_VARIABLES {
            variables.remove(OsStr::new(name));
        }
        let mut parameters = variables
            .remove(OsStr::new(PARAMETERS))
            .map(OsString::into_vec)
            .unwrap_or_default();
        for setting in self.settings() {
            if !parameters.is_empty() {
                parameters.push(b' ');
            }
            parameters.extend(setting);
        }
        let mut set = |name: &str, value: OsString| variables.insert(name.into(), value);
        set(PARAMETERS, OsString::from_vec(parameters));
        set(OWN_VARIABLE, self.own.to_string().into());
        set(DIR_VARIABLE, self.git_dir.clone().into());
        set(COMMON_VARIABLE, self.common_dir.clone().into());
        set(LOG_VARIABLE, self.log().into());
        if let Some(path) = &self.user_hooks {
            set(HOOKS_VARIABLE, path.clone().into());
        }
        if let Some(before) = set(GLOBAL, self.global_config().into()) {
            set(GLOBAL_VARIABLE, before);
        }
        if !variables.contains_key(OsStr::new(command_log::VARIABLE)) {
            let trace = trace(&self.directory).into();
            variables.insert(command_log::VARIABLE.into(), trace);
            for (name, value) in command_log::SETTINGS {
                variables.insert(name.into(), value.into());
            }
        }
    }

    /// Returns the settings that enable the hooks, in the format of `GIT_CONFIG_PARAMETERS`.
    fn settings(&self) -> impl Iterator<Item = Vec<u8>> {
        keys(&self.common_dir).map(|key| parameter(&key, self.hooks.config.as_os_str().as_bytes()))
    }

    /// Returns the generated configuration: the user's, then the hooks.
    fn global_text(&self, variables: &Variables) -> Vec<u8> {
        let mut text = Vec::new();
        let mut include = |section: &[u8], path: &Path| {
            text.extend(section);
            text.extend(b"\n\tpath = ");
            text.extend(quote_value(path.as_os_str().as_bytes()));
            text.push(b'\n');
        };
        for path in user_configs(variables) {
            include(b"[include]", &path);
        }
        for condition in conditions_for(&self.common_dir) {
            let section = [b"[includeIf ", &*quote_subsection(&condition), b"]"].concat();
            include(&section, &self.hooks.config);
        }
        text
    }
}

/// Returns where hooks note refused moves, in the session's directory; [`crate::guard::log::read`] reads it.
pub fn log(directory: &Path) -> PathBuf {
    directory.join("refused")
}

/// Returns the trace file of an agent's git in the session's directory.
pub fn trace(directory: &Path) -> PathBuf {
    directory.join("commands")
}

/// Removes the guard from variables: restores them as they were before [`Guard::enter`], except git's location.
pub fn leave(variables: &mut Variables) {
    if !variables.contains_key(OsStr::new(OWN_VARIABLE)) {
        return;
    }
    let mut take = |name: &str| variables.remove(OsStr::new(name));
    for name in [OWN_VARIABLE, DIR_VARIABLE, HOOKS_VARIABLE] {
        take(name);
    }
    let log = take(LOG_VARIABLE).map(PathBuf::from);
    let own_trace = log.as_deref().and_then(Path::parent).map(trace);
    if let Some(traced) = take(command_log::VARIABLE) {
        if own_trace.is_some_and(|own| own.as_os_str() == traced) {
            command_log::SETTINGS
                .map(|(name, _)| take(name))
                .into_iter()
                .for_each(drop)
        } else {
            drop(variables.insert(command_log::VARIABLE.into(), traced))
        }
    }
    let mut take = |name: &str| variables.remove(OsStr::new(name));
    let common = take(COMMON_VARIABLE);
    let before = take(GLOBAL_VARIABLE);
    take(GLOBAL);
    let parameters = take(PARAMETERS);
    if let Some(before) = before {
        variables.insert(GLOBAL.into(), before);
    }
    let (Some(parameters), Some(common)) = (parameters, common) else {
        return;
    };
    // Recognise ours by their keys; parameters that git appended after them (from `-c`) stay.
    let ours: Vec<Vec<u8>> = keys(Path::new(&common)).collect();
    let rest = without_parameters(parameters.as_bytes(), &ours);
    if !rest.is_empty() {
        variables.insert(PARAMETERS.into(), OsString::from_vec(rest));
    }
}

/// Returns the keys of the settings that enable the hooks.
fn keys(common_dir: &Path) -> impl Iterator<Item = Vec<u8>> + use<> {
    conditions_for(common_dir)
        .into_iter()
        .map(|condition| [b"includeif.", condition.as_slice(), b".path"].concat())
}

/// Keeps git from asking: no editor, no pager, no password prompt.
pub fn ask_nobody(variables: &mut Variables) {
    for (name, value) in [
        ("GIT_EDITOR", "true"),
        ("GIT_SEQUENCE_EDITOR", "true"),
        ("GIT_MERGE_AUTOEDIT", "no"),
        ("GIT_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
    ] {
        variables.insert(name.into(), value.into());
    }
}

/// Returns the files that git reads as the user's configuration, in order.
fn user_configs(variables: &Variables) -> Vec<PathBuf> {
    let var = |name: &str| {
        variables
            .get(OsStr::new(name))
            .filter(|value| !value.is_empty())
    };
    let home = var("HOME").map(PathBuf::from);
    let files = match variables.get(OsStr::new(GLOBAL)) {
        // An empty value means that there should be no file.
        Some(path) if path.is_empty() => Vec::new(),
        Some(path) => vec![PathBuf::from(path)],
        None => {
            let xdg = var("XDG_CONFIG_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(home.as_ref()?.join(".config")));
            [
                xdg.map(|dir| dir.join("git").join("config")),
                home.map(|dir| dir.join(".gitconfig")),
            ]
            .into_iter()
            .flatten()
            .collect()
        }
    };
    // git ignores an unreadable file of the user, but not an unreadable included one.
    let readable = |path: &PathBuf| match rustix::fs::access(path, rustix::fs::Access::READ_OK) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => true,
        Err(_) => false,
    };
    files
        .into_iter()
        .filter(|path| path.is_absolute() && readable(path))
        .collect()
}

/// Returns the directory of the hooks that run in a worktree without a guard.
pub(super) fn repository_hooks(repo: &Repo, env: &Env, git_dir: &Path) -> Result<PathBuf> {
    let variables = env.vars_os();
    let variables: Variables = variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Ok(hooks_paths(repo, &variables, git_dir)?.1)
}

/// Returns `core.hooksPath` as the user or the machine sets it for this repository, and where the hooks are that run in
/// the worktree of `git_dir` now. The repository's own setting is read again when a hook runs, because it may change
/// during the session.
fn hooks_paths(
    repo: &Repo,
    variables: &Variables,
    git_dir: &Path,
) -> Result<(Option<PathBuf>, PathBuf)> {
    let mut before = variables.clone();
    leave(&mut before);
    let mut git = repo.git_common().with_hooks();
    for name in [PARAMETERS, GLOBAL] {
        git = match before.get(OsStr::new(name)) {
            Some(value) => git.env(name, value),
            None => git.env_remove(name),
        };
    }
    let answer = git
        .args(["config", "-z", "--show-scope", "--type=path", "--get-all"])
        .arg("core.hooksPath")
        .answer()?;
    let fields: Vec<&[u8]> = answer.stdout.split(|byte| *byte == 0).collect();
    let ours = repo.common_dir().join("agents").join("hooks");
    let last = |scopes: &[&[u8]]| {
        fields
            .chunks_exact(2)
            .filter(|pair| scopes.contains(&pair[0]))
            .map(|pair| PathBuf::from(OsStr::from_bytes(pair[1])))
            .rfind(|path| !path.as_os_str().is_empty())
            .filter(|path| !path.starts_with(&ours))
    };
    let user = last(&[b"system", b"global", b"command"]);
    let theirs = match last(&[b"local"]).or_else(|| user.clone()) {
        // Relative to the top of the worktree, whose file `.git` is named here.
        Some(path) => fs::read(git_dir.join("gitdir"))
            .ok()
            .map(|link| PathBuf::from(OsStr::from_bytes(link.trim_ascii_end())))
            .and_then(|link| Some(git_dir.join(link).parent()?.join(&path)))
            .unwrap_or(path),
        None => repo.common_dir().join("hooks"),
    };
    Ok((user, theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(directory: &Path) -> Guard {
        Guard {
            own: Own::branch("agent/fix"),
            git_dir: "/r/.git/worktrees/w".into(),
            common_dir: "/it' s [a] repo/.git".into(),
            hooks: Hooks {
                dir: "/it' s [a] repo/.git/agents/hooks/1".into(),
                config: "/it' s [a] repo/.git/agents/hooks/1/config".into(),
            },
            user_hooks: Some("/hooks".into()),
            directory: directory.to_owned(),
        }
    }

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
            .collect()
    }

    #[test]
    fn entering_and_leaving_changes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        for before in [
            variables(&[("PATH", "/bin")]),
            variables(&[
                ("GIT_CONFIG_GLOBAL", "/home/me/my config"),
                ("GIT_CONFIG_PARAMETERS", "'a.b'='c d' 'e.f=g'"),
                ("GIT_CONFIG_COUNT", "1"),
            ]),
        ] {
            let mut inside = before.clone();
            guard(dir.path()).enter(&mut inside).expect("entered");
            assert_eq!(inside[OsStr::new(OWN_VARIABLE)], "refs/heads/agent/fix");
            let once = inside.clone();
            guard(dir.path()).enter(&mut inside).expect("entered again");
            assert_eq!(inside, once, "guards do not pile up");
            if let Some(parameters) = inside.get_mut(OsStr::new(PARAMETERS)) {
                parameters.push(" 'x.y'='z'");
            }
            leave(&mut inside);
            let mut expected = before.clone();
            let parameters = expected.entry(PARAMETERS.into()).or_default();
            if !parameters.is_empty() {
                parameters.push(" ");
            }
            parameters.push("'x.y'='z'");
            assert_eq!(inside, expected);
        }
    }

    #[test]
    fn the_location_of_a_repository_does_not_come_along() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut inside = variables(&[("GIT_DIR", "/x"), ("GIT_INDEX_FILE", "/y")]);
        guard(dir.path()).enter(&mut inside).expect("entered");
        assert!(!inside.contains_key(OsStr::new("GIT_DIR")));
        assert!(!inside.contains_key(OsStr::new("GIT_INDEX_FILE")));
    }

    #[test]
    fn the_user_s_files_are_those_git_reads() {
        let list = |pairs: &[(&str, &str)]| -> Vec<String> {
            user_configs(&variables(pairs))
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        assert_eq!(
            list(&[("HOME", "/no/home")]),
            ["/no/home/.config/git/config", "/no/home/.gitconfig"]
        );
        assert_eq!(
            list(&[("HOME", "/no/home"), ("XDG_CONFIG_HOME", "/no/xdg")]),
            ["/no/xdg/git/config", "/no/home/.gitconfig"]
        );
        assert_eq!(
            list(&[("HOME", "/no/home"), ("GIT_CONFIG_GLOBAL", "/no/file")]),
            ["/no/file"]
        );
        assert!(list(&[("HOME", "/no/home"), ("GIT_CONFIG_GLOBAL", "")]).is_empty());
        assert!(list(&[]).is_empty());
    }
}
