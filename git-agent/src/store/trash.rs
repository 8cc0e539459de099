//! Keeps rewritten or deleted refs for a while, so that they can be restored.

use crate::env::Millis;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::refs::{Expected, RefChange, Swap};
use crate::store::{Store, refname};

/// How long a lost value is kept.
pub const KEEP_DAYS: u64 = 30;

/// Returns the time before which lost values are dropped.
fn horizon(now: Millis) -> Millis {
    Millis(now.0.saturating_sub(KEEP_DAYS * 24 * 60 * 60 * 1000))
}

/// A kept value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The name of its ref.
    pub name: String,
    /// The object that it points at.
    pub id: ObjectId,
    /// The time of the loss, in seconds since 1970.
    pub since: i64,
}

impl Store<'_> {
    /// Keeps a ref's value before it is rewritten or deleted, and returns the name of the copy.
    pub fn keep_lost(&self, old_name: &str, id: ObjectId) -> Result<String> {
        let name = self.lost_name(old_name);
        let change = RefChange {
            name: name.clone(),
            expected: Expected::Absent,
            new: Some(id),
        };
        match self.repo.swap_ref(&change)? {
            Swap::Done => Ok(name),
            Swap::Stale => Err(Error::fatal(format!("ref '{name}' already exists"))),
        }
    }

    /// Returns a new name for a kept value.
    pub(crate) fn lost_name(&self, old_name: &str) -> String {
        let nonce: String = self
            .env
            .random::<6>()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        refname::lost(self.env.now().seconds(), &nonce, old_name)
    }

    /// Returns all kept values, oldest first.
    pub fn lost(&self) -> Result<Vec<Lost>> {
        let mut lost: Vec<Lost> = self
            .repo
            .refs_under(refname::LOST)?
            .refs
            .into_iter()
            .filter_map(|found| {
                Some(Lost {
                    since: refname::lost_since(&found.name)?,
                    name: found.name,
                    id: found.id,
                })
            })
            .collect();
        lost.sort_by(|a, b| (a.since, &a.name).cmp(&(b.since, &b.name)));
        Ok(lost)
    }

    /// Drops the values that were kept long enough, and returns their number.
    pub fn expire_lost(&self) -> Result<usize> {
        let horizon = horizon(self.env.now()).seconds();
        let changes: Vec<RefChange> = self
            .lost()?
            .into_iter()
            .filter(|lost| lost.since < horizon)
            .map(|lost| RefChange {
                name: lost.name,
                expected: Expected::At(lost.id),
                new: None,
            })
            .collect();
        match self.repo.swap_refs(&changes)? {
            Swap::Done => Ok(changes.len()),
            // Another process is cleaning up.
            Swap::Stale => Ok(0),
        }
    }
}
