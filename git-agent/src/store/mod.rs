//! The store: sessions, transcripts, notes and snapshots as git objects and refs in the user's repository.
//!
//! The store has no database. Shared records have the names of [`refname`], one writer per ref; newer events are in the
//! spool. A read is always the union of this clone's refs and the validated copies of teammates' refs.

pub mod archive;
pub mod identity;
pub mod limits;
pub mod list;
pub mod local;
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
    /// Working directory, variables and clock.
    pub env: &'a Env,
    /// The repository of the records.
    pub repo: &'a Repo,
    dir: PathBuf,
}

impl<'a> Store<'a> {
    /// Returns the store of a repository. The first write creates its files.
    pub fn new(env: &'a Env, repo: &'a Repo) -> Self {
        Store {
            env,
            repo,
            dir: repo.private_dir("agents"),
        }
    }

    /// Returns the private directory for data outside git: spools, run files, locks, drafts.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns whether this user cannot read the private directory, so that current activity is invisible.
    pub fn is_closed(&self) -> bool {
        self.repo.is_read_only() && !self.dir.starts_with(self.repo.common_dir())
    }

    /// Returns a directory below the private one, created for the owner only.
    pub fn require_dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .context(|| format!("cannot create '{}'", path.display()))?;
        Ok(path)
    }

    /// Returns the directory of a session's spool.
    pub fn spool_dir(&self, sid: SessionId) -> PathBuf {
        self.dir.join("spool").join(sid.as_str())
    }

    /// Returns the path of the file about a session's running supervisor.
    pub fn run_file(&self, sid: SessionId) -> PathBuf {
        self.dir.join("run").join(format!("{sid}.json"))
    }
}
