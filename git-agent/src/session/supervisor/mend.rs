//! Repairs of a worktree before a turn: its link to the repository, and the locks of a git process that was killed.

use std::path::Path;

use crate::error::{Error, Result};
use crate::git::worktree;
use crate::model::event::Body;
use crate::session::supervisor::Supervisor;
use crate::session::worktree::work;

impl Supervisor<'_, '_> {
    /// Lets a worktree lead to this repository again after the repository was moved: an agent in one that leads nowhere
    /// would work without git, and nothing that it does could be told.
    pub(crate) fn mend_link(&mut self, path: &Path) -> Result<()> {
        if !worktree::leads_nowhere(path) {
            return Ok(());
        }
        let repaired = worktree::repair(self.context.repo, path);
        if worktree::leads_nowhere(path) {
            let message = format!(
                "the '.git' file of worktree '{}' does not lead to a repository",
                path.display()
            );
            let error = Error::fatal(message).hint("git worktree repair");
            return Err(match repaired {
                Ok(()) => error,
                Err(cause) => error.hint(cause.with_causes()),
            });
        }
        let text = "the repository was moved: the worktree was repaired".to_owned();
        self.live.writer.append(Body::Notice { text })?;
        Ok(())
    }

    /// Removes the locks that a killed git left in the session's worktree: the agent's own git would refuse to work.
    pub(crate) fn clear_locks(&mut self) -> Result<()> {
        let removed = work::clear_locks(self.context, self.session())?;
        if removed.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = removed
            .iter()
            .map(|lock| lock.display().to_string())
            .collect();
        let text = format!(
            "removed the locks of a git process that was killed: {}",
            names.join(", ")
        );
        self.live.writer.append(Body::Notice { text })?;
        Ok(())
    }
}
