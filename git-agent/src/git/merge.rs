//! Merging in memory, by git's own engine.

use super::{ObjectId, Repo};
use crate::error::{Error, Result};

/// What a merge gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// The merged tree.
    Clean(ObjectId),
    /// The paths in conflict.
    Conflict(Vec<String>),
}

impl Repo {
    /// Merges two commits without touching any work tree.
    pub fn merge_commits(&self, ours: ObjectId, theirs: ObjectId) -> Result<Merged> {
        let answer = self
            .git_common()
            .durable()
            .args([
                "merge-tree",
                "--write-tree",
                "-z",
                "--name-only",
                "--no-messages",
            ])
            .args([ours.to_string(), theirs.to_string()])
            .answer()?;
        let text = String::from_utf8_lossy(&answer.stdout);
        let mut fields = text.split('\0').filter(|field| !field.is_empty());
        match answer.code {
            Some(0) => {
                let tree = fields.next().unwrap_or_default().trim();
                Ok(Merged::Clean(self.parse_id(tree)?))
            }
            Some(1) => Ok(Merged::Conflict(
                fields.skip(1).map(str::to_owned).collect(),
            )),
            _ => {
                let said = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
                let error = Error::fatal(format!("cannot merge {ours} and {theirs}: {said}"));
                Err(if said.contains("usage") {
                    error.hint("git 2.38 or newer is needed to merge")
                } else {
                    error
                })
            }
        }
    }

    /// Makes a commit with git, so that identity, signing and encoding are as the user configured them.
    pub fn commit_tree(
        &self,
        tree: ObjectId,
        parents: &[ObjectId],
        message: &str,
    ) -> Result<ObjectId> {
        let mut git = self
            .git_common()
            .durable()
            .args(["commit-tree", &tree.to_string()]);
        for parent in parents {
            git = git.arg("-p").arg(parent.to_string());
        }
        let answer = git.args(["-F", "-"]).input(message).run()?;
        self.parse_id(&answer.text())
    }
}
