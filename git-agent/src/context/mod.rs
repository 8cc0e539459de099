//! What every use case needs: the surroundings, the repository, its records and its settings.

pub mod inherited_variables;
pub mod secrets;

use crate::config::Config;
use crate::env::Env;
use crate::error::Result;
use crate::git::Repo;
use crate::redact::Redactor;
use crate::store::Store;

/// What a use case cannot run without.
#[derive(Debug)]
pub struct Context<'a> {
    /// The surroundings.
    pub env: &'a Env,
    /// The repository.
    pub repo: &'a Repo,
    /// Its records.
    pub store: Store<'a>,
    /// Its settings.
    pub config: Config<'a>,
}

impl<'a> Context<'a> {
    /// Gathers what belongs to a repository.
    pub fn new(env: &'a Env, repo: &'a Repo) -> Result<Self> {
        Ok(Context {
            env,
            repo,
            store: Store::new(env, repo),
            config: Config::load(repo),
        })
    }

    /// Returns a redactor that knows every secret an agent of this repository may have been given.
    pub fn redactor(&self) -> Redactor {
        Redactor::new(crate::context::secrets::known(self))
    }
}
