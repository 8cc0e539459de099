//! Joins two diverged versions of one notes ref, so that both sides create the identical commit.
//!
//! A ref has one writer, but a clone can be copied and machines can share a writer. The result does not depend on who
//! joins, when, or in which order: parents are sorted by id, the tree is rebuilt from the union of all lines, identity
//! and message are fixed, and the date is the later of the two.

use crate::error::{Context, Result};
use crate::fault;
use crate::git::object::{Batch, Signature};
use crate::git::{ObjectId, Repo};
use crate::store::notes::tree::NotesTree;

const MESSAGE: &str = "Notes joined by git-agent\n";
const NAME: &str = "git-agent";
const EMAIL: &str = "merge@git-agent.invalid";

/// Returns the commit with the notes of both, and the objects it needs. If one version contains the other, returns that
/// one.
pub(super) fn union(repo: &Repo, one: ObjectId, other: ObjectId) -> Result<(ObjectId, Batch)> {
    if repo.is_ancestor(one, other)? {
        return Ok((other, repo.batch()));
    }
    if repo.is_ancestor(other, one)? {
        return Ok((one, repo.batch()));
    }
    let mut parents = [one, other];
    parents.sort_unstable();
    let mut notes = NotesTree::empty(repo);
    let mut seconds = i64::MIN;
    for parent in parents {
        let commit = repo.read_commit(parent)?;
        seconds = seconds.max(commit.time);
        notes.union(commit.tree)?;
    }
    fault::point("notes.union.built").context(|| "cannot join notes".into())?;
    let (tree, mut batch) = notes.build()?;
    let signature = Signature {
        name: NAME.to_owned(),
        email: EMAIL.to_owned(),
        seconds,
    };
    let commit = batch.commit(tree, &parents, &signature, MESSAGE);
    Ok((commit, batch))
}
