//! The repository from the view of one of its hooks: found through git's variables, with its own hooks directory, and
//! without opening anything else.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gix::config::Source;

use crate::env::Env;
use crate::git::Git;

/// The repository for which a hook runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// The git directory of the worktree.
    pub git_dir: PathBuf,
    /// The directory shared by all worktrees.
    pub common_dir: PathBuf,
}

/// The HEAD of a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A branch, by its full name.
    Branch(String),
    Detached,
    /// Unknown: the worktree is being created, or its refs are not in files.
    Unknown,
}

impl Surroundings {
    /// Finds the repository: git passes its location to a hook, or starts the hook at its top.
    pub fn of_hook(env: &Env) -> Self {
        let git_dir = match env.var_os("GIT_DIR").filter(|dir| !dir.is_empty()) {
            Some(dir) => env.absolute(dir),
            None => git_dir_at(&env.cwd),
        };
        let common_dir = match env.var_os("GIT_COMMON_DIR").filter(|dir| !dir.is_empty()) {
            Some(dir) => env.absolute(dir),
            None => match first_line(&git_dir.join("commondir")) {
                Some(path) => git_dir.join(path),
                None => git_dir.clone(),
            },
        };
        Surroundings {
            git_dir,
            common_dir,
        }
    }

    /// Returns the HEAD of the worktree, as far as its file shows it.
    pub fn head(&self) -> Head {
        let Some(line) = first_line(&self.git_dir.join("HEAD")) else {
            return Head::Unknown;
        };
        let line = line.to_string_lossy();
        match line.strip_prefix("ref:") {
            // git's placeholder for a worktree that is being created, or for another ref backend.
            Some(name) if name.trim() == "refs/heads/.invalid" => Head::Unknown,
            Some(name) => Head::Branch(name.trim().to_owned()),
            None if line.bytes().all(|byte| byte == b'0') => Head::Unknown,
            None => Head::Detached,
        }
    }

    /// Restores the reflog of a branch after its renaming was refused.
    ///
    /// git moves the reflog away before it runs the hook, and does not move it back on a refusal.
    pub fn bring_back_reflog(&self, branch: &str) {
        let logs = self.common_dir.join("logs");
        let (away, home) = (logs.join("refs/.tmp-renamed-log"), logs.join(branch));
        if away.is_file() && !home.exists() {
            // A branch without a reflog is intact, and a hook has no one to report to.
            let _ = std::fs::rename(away, home);
        }
    }

    /// Returns the directory of the repository's own hooks, without settings from outside it.
    ///
    /// `user_path` is the `core.hooksPath` of the user or the machine; the repository's own takes precedence.
    pub fn hooks_dir(
        &self,
        env: &Env,
        user_path: Option<&OsStr>,
        user_config: Option<&OsStr>,
    ) -> PathBuf {
        let path = match self.local_hooks_path() {
            Ok(local) => local.or_else(|| user_path.map(OsStr::to_owned).map(PathBuf::from)),
            Err(NeedsGit) => self.ask_git(user_config),
        };
        match path {
            Some(path) => env.absolute(with_home(env, &path)),
            None => self.common_dir.join("hooks"),
        }
    }

    /// Reads the setting from the repository's own files.
    fn local_hooks_path(&self) -> Result<Option<PathBuf>, NeedsGit> {
        let Some(shared) = load(&self.common_dir.join("config"))? else {
            return Ok(None);
        };
        let per_worktree = matches!(shared.boolean("extensions.worktreeConfig"), Ok(Some(true)));
        let own = if per_worktree {
            load(&self.git_dir.join("config.worktree"))?
        } else {
            None
        };
        let path = own
            .and_then(|own| own.string("core.hooksPath").map(|path| path.to_vec()))
            .or_else(|| shared.string("core.hooksPath").map(|path| path.to_vec()));
        Ok(path
            .filter(|path| !path.is_empty())
            .map(|path| PathBuf::from(OsStr::from_bytes(&path))))
    }

    /// Asks git without the settings of our own environment. Slow and rare: only for a repository whose file includes
    /// others.
    fn ask_git(&self, user_config: Option<&OsStr>) -> Option<PathBuf> {
        let git = Git::new(&self.git_dir, &self.common_dir, None)
            .with_hooks()
            .env_remove("GIT_CONFIG_PARAMETERS");
        let git = match user_config {
            Some(file) => git.env("GIT_CONFIG_GLOBAL", file),
            None => git.env_remove("GIT_CONFIG_GLOBAL"),
        };
        let answer = git
            .args(["config", "-z", "--type=path", "--get", "core.hooksPath"])
            .answer()
            .ok()?;
        let path = answer.stdout.strip_suffix(b"\0")?;
        (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)))
    }
}

/// Returns the names of the hooks that a repository's current configuration defines (git 2.54). An agent in a worktree
/// can change it at any time.
pub(super) fn configured(git_dir: &Path, common_dir: &Path) -> BTreeSet<OsString> {
    let home = gix::path::env::home_dir();
    let options = gix::config::file::init::Options {
        includes: gix::config::file::includes::Options::follow(
            gix::config::path::interpolate::Context {
                home_dir: home.as_deref(),
                ..Default::default()
            },
            gix::config::file::includes::conditional::Context {
                git_dir: Some(git_dir),
                branch_name: None,
            },
        ),
        ..Default::default()
    };
    let mut names = BTreeSet::new();
    for path in [common_dir.join("config"), git_dir.join("config.worktree")] {
        // git does not take hooks from an unreadable file.
        let Ok(mut file) = gix::config::File::from_path_no_includes(path, Source::Local) else {
            continue;
        };
        let _ = file.resolve_includes(options);
        for section in file.sections_by_name("hook").into_iter().flatten() {
            let name = section.header().subsection_name();
            names.extend(name.map(|name| OsStr::from_bytes(name).to_owned()));
        }
    }
    names
}

/// The file cannot be evaluated without git.
struct NeedsGit;

fn load(path: &Path) -> Result<Option<gix::config::File>, NeedsGit> {
    let Ok(bytes) = std::fs::read(path) else {
        return Ok(None);
    };
    let file = gix::config::File::from_bytes_no_includes(
        &bytes,
        gix::config::file::Metadata::api(),
        Default::default(),
    )
    .map_err(|_| NeedsGit)?;
    let includes = |name| {
        file.sections_by_name(name)
            .is_some_and(|mut found| found.next().is_some())
    };
    if includes("include") || includes("includeIf") {
        Err(NeedsGit)
    } else {
        Ok(Some(file))
    }
}

fn with_home(env: &Env, path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), env.var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(home).join(rest),
        _ => path.to_owned(),
    }
}

fn git_dir_at(top: &Path) -> PathBuf {
    let inside = top.join(".git");
    if inside.is_dir() {
        return inside;
    }
    let pointed = first_line(&inside).and_then(|line| {
        let path = line
            .as_os_str()
            .as_bytes()
            .strip_prefix(b"gitdir: ")?
            .to_vec();
        Some(top.join(OsStr::from_bytes(&path)))
    });
    pointed.unwrap_or_else(|| top.to_owned())
}

/// Returns a file's content without its final newline: a path may contain a newline.
fn first_line(path: &Path) -> Option<std::ffi::OsString> {
    let bytes = std::fs::read(path).ok()?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    (!line.is_empty()).then(|| OsStr::from_bytes(line).to_owned())
}
