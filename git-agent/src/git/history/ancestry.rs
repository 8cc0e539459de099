//! Ancestry of commits, answered without starting git.

use crate::error::{Context, Result};
use crate::git::{ObjectId, Repo};

impl Repo {
    /// Returns whether a commit is reachable from another; a commit is reachable from itself.
    pub fn is_ancestor(&self, older: ObjectId, newer: ObjectId) -> Result<bool> {
        if older == newer {
            return Ok(true);
        }
        let base = self
            .gix()
            .merge_base(older, newer)
            .context(|| format!("cannot tell whether {older} is an ancestor of {newer}"))?;
        Ok(base.is_some_and(|base| base.detach() == older))
    }
}
