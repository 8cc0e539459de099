//! The base of a teammate's session, computed by this clone. The writer of a record may name any commit as the base,
//! even one that hides half of the work.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::error::Result;
use crate::git::{ObjectId, Repo};
use crate::model::session::Session;

/// The branches of this clone, looked up once for many sessions.
pub struct Branches<'a> {
    repo: &'a Repo,
    tips: RefCell<HashMap<Option<String>, Vec<ObjectId>>>,
}

impl<'a> Branches<'a> {
    /// Returns the branches of a repository. None is looked up yet.
    pub fn of(repo: &'a Repo) -> Self {
        Branches {
            repo,
            tips: RefCell::default(),
        }
    }

    /// Returns the commit after which everything up to `tip` would be merged; `None` if it is unknown.
    pub fn base(&self, session: &Session, tip: ObjectId) -> Result<Option<ObjectId>> {
        let mut shared = None;
        for known in self.parent_tips(session)? {
            let found = self.repo.merge_base(known, tip)?;
            shared = match (shared, found) {
                // The newer one: a parent that is behind would make its own newest commits look like the session's.
                (Some(one), Some(other)) if self.repo.is_ancestor(other, one)? => Some(one),
                (one, other) => other.or(one),
            };
        }
        let landed = shared == Some(tip) && session.status.is_closed();
        if shared.is_some() && !landed {
            return Ok(shared);
        }
        let Some(recorded) = recorded(self.repo, session.base.as_deref()) else {
            return Ok(shared);
        };
        // Merged work is part of the parent: only the record still tells it apart.
        let counts = if landed {
            self.repo.is_ancestor(recorded, tip)?
        } else {
            self.is_published(session, recorded)?
        };
        Ok(if counts { Some(recorded) } else { shared })
    }

    /// Returns the tips of a session's parent: here, and at its upstream. If this clone does not know the parent, those
    /// of the main branch and of the current branch. Branches of other remotes do not count: the owner of a shared
    /// session may have pushed its code there.
    fn parent_tips(&self, session: &Session) -> Result<Vec<ObjectId>> {
        let parent = session.parent.as_deref();
        let parent = parent.filter(|name| self.repo.is_valid_branch(name));
        let tips = self.tips_of(parent)?;
        match (tips.is_empty(), parent) {
            (true, Some(_)) => self.tips_of(None),
            _ => Ok(tips),
        }
    }

    /// Returns the tips of a branch: here, and where this clone gets it from. Without one, those of the main branch and
    /// of the one that is checked out.
    pub fn tips_of(&self, parent: Option<&str>) -> Result<Vec<ObjectId>> {
        let key = parent.map(str::to_owned);
        if let Some(known) = self.tips.borrow().get(&key) {
            return Ok(known.clone());
        }
        let names = match parent {
            Some(parent) => self.names_of(parent),
            None => (self
                .remote()
                .map(|remote| format!("refs/remotes/{remote}/HEAD")))
            .into_iter()
            .collect(),
        };
        let mut tips = Vec::new();
        for name in names {
            // A name that leads nowhere is not a branch.
            tips.extend(self.repo.find_ref(&name).ok().flatten());
        }
        if parent.is_none() {
            tips.extend(self.repo.head()?.commit);
        }
        tips.sort_unstable();
        tips.dedup();
        self.tips.borrow_mut().insert(key, tips.clone());
        Ok(tips)
    }

    fn names_of(&self, branch: &str) -> Vec<String> {
        let mut names = vec![format!("refs/heads/{branch}")];
        let setting = |key| self.repo.config_string(&format!("branch.{branch}.{key}"));
        let upstream = setting("merge").and_then(|name| {
            let name = name.strip_prefix("refs/heads/")?.to_owned();
            Some((setting("remote")?, name))
        });
        let same = || Some((self.remote()?, branch.to_owned()));
        if let Some((remote, name)) = upstream.or_else(same) {
            names.push(match remote.as_str() {
                "." => format!("refs/heads/{name}"),
                _ => format!("refs/remotes/{remote}/{name}"),
            });
        }
        names
    }

    /// Returns the remote that git itself would take.
    fn remote(&self) -> Option<String> {
        let mut known = self.repo.remote_names();
        match known.len() {
            1 => known.pop(),
            _ => known.into_iter().find(|name| name == "origin"),
        }
    }

    /// Returns whether a commit is on a branch here, other than the session's own.
    fn is_published(&self, session: &Session, commit: ObjectId) -> Result<bool> {
        let own = session.branch.as_deref().unwrap_or_default();
        let is_own = |name: &String| match name.strip_prefix("refs/heads/") {
            Some(local) => local == own,
            None => name.ends_with(&format!("/{own}")),
        };
        let holders = self.repo.branches_with(commit)?;
        Ok(holders.iter().any(|name| own.is_empty() || !is_own(name)))
    }
}

/// Returns a commit named in a record, if it is here.
pub fn recorded(repo: &Repo, hex: Option<&str>) -> Option<ObjectId> {
    let id = repo.parse_id(hex?).ok()?;
    repo.tree_of(id).ok().map(|_| id)
}
