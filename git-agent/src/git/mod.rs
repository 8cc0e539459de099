//! The only room that starts `git` or uses a git library. It knows no product terms.
//!
//! gix reads objects and [`object`] writes them durably. gix reads refs on the files backend, and the `git` program on
//! reftable. git itself does everything that needs its decisions: merging, packing, pushing.

pub mod cell;
pub mod command;
pub mod config;
pub mod diff;
pub mod history;
pub mod hooks;
pub mod merge;
pub mod notes;
pub mod object;
mod phrases;
pub mod refs;
pub mod remote;
pub mod snapshot;
pub mod version;
pub mod worktree;

use crate::git::object::overlay;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::env::Env;
use crate::error::{Context, Error, Result, shell_path};
pub use command::Git;
pub use gix::ObjectId;
pub use gix::objs::Kind as ObjectKind;
pub use object::sha256;

/// How many new packs may appear while a repository is open.
const PACKS: usize = 512;

/// The ref storage of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefBackend {
    /// Loose files and `packed-refs`: gix reads them and we write them.
    Files,
    /// The `git` program does everything.
    Reftable,
}

/// An open repository.
#[derive(Debug, Clone)]
pub struct Repo {
    gix: gix::Repository,
    git_dir: PathBuf,
    common_dir: PathBuf,
    work_tree: Option<PathBuf>,
    backend: RefBackend,
    /// A cache of the trees of commits: the same few are requested again and again, and a commit never changes.
    trees: RefCell<HashMap<ObjectId, ObjectId>>,
    /// The object directory to use if the repository is not writable.
    aside: Option<Arc<overlay::Aside>>,
}

impl Repo {
    /// Finds the repository of the current directory as git does: `GIT_DIR` first, then upwards.
    pub fn discover(env: &Env) -> Result<Self> {
        let options = open_options(env);
        let trust = gix::sec::trust::Mapping {
            full: options.clone(),
            reduced: options.bail_if_untrusted(true),
        };
        let upwards = gix::discover::upwards::Options {
            match_ceiling_dir_or_error: false,
            ..Default::default()
        };
        let found = gix::ThreadSafeRepository::discover_with_environment_overrides_opts(
            &env.cwd, upwards, trust,
        )
        .map_err(|error| not_a_repository(env, error))?;
        Repo::from_gix(env, found.to_thread_local())
    }

    /// Opens the repository with exactly this git directory.
    pub fn open(env: &Env, git_dir: &Path) -> Result<Self> {
        let found = open_options(env)
            .open_path_as_is(true)
            .open(git_dir)
            .context(|| format!("cannot open repository '{}'", git_dir.display()))?;
        Repo::from_gix(env, found.to_thread_local())
    }

    fn from_gix(env: &Env, mut gix: gix::Repository) -> Result<Self> {
        // A listing reads each object once, so that a cache would only cost memory.
        gix.object_cache_size(None);
        let absolute = |path: &Path| -> Result<PathBuf> {
            let joined = env.cwd.join(path);
            std::fs::canonicalize(&joined)
                .context(|| format!("cannot resolve '{}'", joined.display()))
        };
        let git_dir = absolute(gix.git_dir())?;
        let common_dir = absolute(gix.common_dir())?;
        let work_tree = gix.workdir().map(absolute).transpose()?;
        let backend = match gix.config_snapshot().string("extensions.refStorage") {
            None => RefBackend::Files,
            Some(name) if name == "files" => RefBackend::Files,
            Some(name) if name == "reftable" => RefBackend::Reftable,
            Some(name) => {
                return Err(Error::fatal(format!("unknown ref storage format '{name}'")));
            }
        };
        let aside = overlay::Aside::needed(env, &common_dir).map(Arc::new);
        if let Some(aside) = &aside {
            look_aside(&mut gix, aside)?;
        }
        Ok(Repo {
            gix,
            git_dir,
            common_dir,
            work_tree,
            backend,
            trees: RefCell::default(),
            aside,
        })
    }

    /// Returns the same repository with the original objects instead of those from `git replace`.
    pub fn unreplaced(&self) -> Self {
        let mut same = self.clone();
        same.gix.objects.ignore_replacements = true;
        same.trees.borrow_mut().clear();
        same
    }

    /// Returns this worktree's own git directory.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Returns the directory shared by all worktrees.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// Returns the top of the worktree, if there is one.
    pub fn work_tree(&self) -> Option<&Path> {
        self.work_tree.as_deref()
    }

    /// Returns the top of the main worktree, even from a linked one. Returns `None` in a bare repository, and if it is
    /// unknown: the git directory may be far from the files, and only the files point to it.
    pub fn main_work_tree(&self) -> Option<PathBuf> {
        if !self.is_linked_worktree() {
            return self.work_tree.clone();
        }
        let main = self.gix.main_repo().ok()?;
        let top = std::fs::canonicalize(main.workdir()?).ok()?;
        let is_told = main.config_snapshot().string("core.worktree").is_some();
        let is_beside = self.common_dir == top.join(".git");
        (is_told || is_beside).then_some(top)
    }

    /// Returns the top of the worktree, or fails.
    pub fn require_work_tree(&self) -> Result<&Path> {
        self.work_tree()
            .ok_or_else(|| Error::fatal("this operation must be run in a work tree"))
    }

    /// Returns whether this is a linked worktree rather than the main one.
    pub fn is_linked_worktree(&self) -> bool {
        self.git_dir != self.common_dir
    }

    /// Returns the ref storage.
    pub fn ref_backend(&self) -> RefBackend {
        self.backend
    }

    /// Returns the repository's hash function.
    pub fn hash_kind(&self) -> gix::hash::Kind {
        self.gix.object_hash()
    }

    /// Returns the id of all zeros, which stands for no object.
    pub fn null_id(&self) -> ObjectId {
        self.hash_kind().null()
    }

    /// Returns the id of the empty tree.
    pub fn empty_tree_id(&self) -> ObjectId {
        ObjectId::empty_tree(self.hash_kind())
    }

    /// Parses a full object id of this repository's hash function.
    pub fn parse_id(&self, hex: &str) -> Result<ObjectId> {
        match ObjectId::from_hex(hex.as_bytes()) {
            Ok(id) if id.kind() == self.hash_kind() => Ok(id),
            _ => Err(Error::fatal("not an object id of this repository")),
        }
    }

    /// Returns a directory for temporary files on the repository's own file system.
    pub fn scratch_dir(&self) -> PathBuf {
        match &self.aside {
            Some(aside) => aside.agents().join("tmp"),
            None => self.common_dir.join("agents").join("tmp"),
        }
    }

    /// Returns whether this repository cannot be written.
    pub fn is_read_only(&self) -> bool {
        self.aside.is_some()
    }

    /// Returns a directory for private files below the common one, or a temporary one if this user cannot access that.
    pub fn private_dir(&self, name: &str) -> PathBuf {
        let dir = self.common_dir.join(name);
        let is_closed =
            || overlay::is_closed(&dir, rustix::fs::Access::EXEC_OK) && dir_is_there(&dir);
        match &self.aside {
            Some(aside) if is_closed() => aside.agents(),
            _ => dir,
        }
    }

    /// Returns the directory for new objects.
    pub(in crate::git) fn objects_dir(&self) -> PathBuf {
        match &self.aside {
            Some(aside) => aside.objects(),
            None => self.common_dir.join("objects"),
        }
    }

    /// Fails if the repository cannot be written.
    pub(in crate::git) fn require_writable(&self) -> Result<()> {
        match &self.aside {
            None => Ok(()),
            Some(_) => Err(Error::fatal(format!(
                "cannot write in '{}': it belongs to another user or is read-only",
                self.common_dir.display()
            ))),
        }
    }

    /// Returns the gix repository, for this room only.
    pub(in crate::git) fn gix(&self) -> &gix::Repository {
        &self.gix
    }
}

fn dir_is_there(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir).is_ok()
}

/// Lets gix find the temporary objects together with those of the repository.
fn look_aside(gix: &mut gix::Repository, aside: &overlay::Aside) -> Result<()> {
    let replacements: Vec<_> = gix.objects.store_ref().replacements().collect();
    let options = gix::odb::store::init::Options::default();
    let found = gix::odb::at_opts(aside.objects(), gix.object_hash(), replacements, options)
        .context(|| "cannot open the objects of this repository".into())?;
    gix.objects = gix::odb::memory::Proxy::from(found);
    Ok(())
}

fn open_options(env: &Env) -> gix::open::Options {
    let overrides = env
        .var_os("GIT_CONFIG_PARAMETERS")
        .map(|value| config::parse_parameters(value.as_encoded_bytes()))
        .unwrap_or_default();
    // One fetch may bring many packs, and gix finds only as many new ones as it reserved slots for.
    let slots = gix::odb::store::init::Slots::AsNeededByDiskState {
        multiplier: 1.1,
        minimum: PACKS,
    };
    gix::open::Options::default()
        .cli_overrides(overrides)
        .object_store_slots(slots)
}

fn not_a_repository(env: &Env, error: gix::Error) -> Error {
    use gix::error::Class;
    // An unreadable directory has an I/O error as its cause; an untrusted owner has none.
    let distrusted = error
        .classify()
        .any(|found| found.class() == Class::PermissionDenied && found.io_kind().is_none());
    if distrusted {
        let found = gix::discover::upwards(&env.cwd).ok();
        let dirs = found.map(|(path, _)| path.into_repository_and_work_tree_directories());
        let top = dirs.map(|(git_dir, top)| env.cwd.join(top.unwrap_or(git_dir)));
        let top = top.as_deref().unwrap_or(&env.cwd);
        return Error::fatal(format!(
            "repository at '{}' belongs to another user",
            top.display()
        ))
        .hint(format!(
            "git config --global --add safe.directory {}",
            shell_path(top)
        ));
    }
    if error.classify().is_not_found() {
        return Error::fatal("not a git repository (or any of the parent directories)")
            .hint("cd into a repository first, or make one here: git init");
    }
    Error::fatal("cannot open the repository").because(error)
}
