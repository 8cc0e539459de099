//! The values that every use case needs: surroundings, repository, records and settings.

pub mod inherited_variables;
pub mod secrets;

use crate::config::Config;
use crate::env::Env;
use crate::error::Result;
use crate::git::Repo;
use crate::redact::Redactor;
use crate::store::Store;

/// The surroundings of a use case.
#[derive(Debug)]
pub struct Context<'a> {
    /// Working directory, variables and clock.
    pub env: &'a Env,
    /// The repository that the command works on.
    pub repo: &'a Repo,
    /// The records under `refs/agents/`.
    pub store: Store<'a>,
    /// The `agent.*` settings.
    pub config: Config<'a>,
}

impl<'a> Context<'a> {
    /// Opens the records and settings of a repository.
    pub fn new(env: &'a Env, repo: &'a Repo) -> Result<Self> {
        Ok(Context {
            env,
            repo,
            store: Store::new(env, repo),
            config: Config::load(repo),
        })
    }

    /// Returns a value of git's own configuration.
    pub fn git_config(&self, key: &str) -> Option<String> {
        self.repo.config_string(key)
    }

    /// Returns the name that people know the repository by: that of its directory.
    pub fn repository_name(&self) -> String {
        let common = self.repo.common_dir();
        let dir = match common.file_name() {
            Some(name) if name == ".git" => common.parent(),
            _ => Some(common),
        };
        let name = dir.and_then(std::path::Path::file_name).unwrap_or_default();
        let name = name.to_string_lossy();
        name.strip_suffix(".git").unwrap_or(&name).to_owned()
    }

    /// Returns a redactor that knows every secret an agent of this repository may have received.
    pub fn redactor(&self) -> Redactor {
        Redactor::new(crate::context::secrets::known(self))
    }
}
