//! The store: sessions, transcripts, notes and snapshots as git objects and refs inside the user's repository.
//!
//! There is no database. Shared records live under the names of [`refname`], one writer a ref; what is not yet in git is
//! in the spool. A read is always the union of this clone's refs and the validated copies of teammates' refs.

pub mod archive;
pub mod identity;
pub mod limits;
pub mod list;
pub mod log;
pub mod notes;
pub mod refname;
pub mod snapshot;
pub mod sync;
#[cfg(test)]
mod tests;
pub mod trash;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::error::{Context, Result};
use crate::git::Repo;
use crate::model::session::SessionId;

/// The records of one repository.
#[derive(Debug, Clone)]
pub struct Store<'a> {
    /// The surroundings.
    pub env: &'a Env,
    /// The repository.
    pub repo: &'a Repo,
    dir: PathBuf,
}

impl<'a> Store<'a> {
    /// Returns the store of a repository. Nothing is created before the first write.
    pub fn new(env: &'a Env, repo: &'a Repo) -> Self {
        Store {
            env,
            repo,
            dir: repo.private_dir("agents"),
        }
    }

    /// Returns the private directory for what is not in git: spools, run files, locks, drafts.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns whether the private directory is closed to this user: what happens right now cannot be seen then.
    pub fn is_closed(&self) -> bool {
        self.repo.is_read_only() && !self.dir.starts_with(self.repo.common_dir())
    }

    /// Returns a directory below the private one, made if need be, for the owner's eyes only.
    pub fn require_dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .context(|| format!("cannot create '{}'", path.display()))?;
        Ok(path)
    }

    /// Returns where a session's spool is.
    pub fn spool_dir(&self, sid: SessionId) -> PathBuf {
        self.dir.join("spool").join(sid.as_str())
    }

    /// Returns where the file about a session's running supervisor is.
    pub fn run_file(&self, sid: SessionId) -> PathBuf {
        self.dir.join("run").join(format!("{sid}.json"))
    }
}
