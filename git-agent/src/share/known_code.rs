//! Knows the code that a remote already has, in its branches or in earlier pushes, so that it is not searched for
//! secrets again.
//!
//! Remote-tracking branches may be outdated: if secrets were removed from a host by rewriting its branches, relying on
//! them would publish the secrets again. So the remote is asked as soon as there is code to search. If a branch there
//! has moved to a commit that is unknown here, it is fetched, but only if the answer matters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::git::remote::list_refs::Interest;
use crate::git::remote::transfer::Audience;
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::share::fetch::Copies;
use crate::store::limits;
use crate::store::refname::RefName;

/// Prefix of branches.
const BRANCHES: &str = "refs/heads/";
/// Maximum number of refs that are read: those of sessions, and as many branches.
const MOST: usize = 2 * limits::REMOTE_REFS;

/// The commits that a remote has.
#[derive(Debug)]
pub(super) struct Published {
    /// The remote to ask, if any.
    remote: Option<String>,
    /// The commits that count if the remote does not answer.
    remembered: Vec<ObjectId>,
    /// The remote-tracking branches, by their names at the remote.
    branches: BTreeMap<String, ObjectId>,
    heard: Mutex<Option<Heard>>,
}

/// The answer of a remote.
#[derive(Debug)]
struct Heard {
    /// Commits that it has and that are here.
    certain: BTreeSet<ObjectId>,
    /// The remembered and the current tip of each branch whose current tip is not here.
    moved: Vec<(ObjectId, ObjectId)>,
}

impl Published {
    /// Returns the known commits, without a remote to ask.
    pub fn known(remembered: Vec<ObjectId>) -> Self {
        Published {
            remote: None,
            remembered,
            branches: BTreeMap::new(),
            heard: Mutex::new(None),
        }
    }

    /// Returns the commits of a remote with these copies here. A `new` remote has no remembered commits.
    pub fn at(repo: &Repo, remote: &str, copies: &Copies, new: bool) -> Result<Self> {
        let mut published = Published::known(Vec::new());
        if !new {
            let branches = repo.branches_of(remote)?.into_iter();
            let named = branches.map(|(name, id)| (format!("{BRANCHES}{name}"), id));
            published.branches = named.collect();
            // If the remote does not answer, the code of earlier pushes still counts; otherwise the whole history would
            // be searched again every time.
            let copied = copies.values();
            let remembered = published.branches.values().chain(copied);
            published.remembered = remembered.copied().collect();
        }
        // If pushes go to another address, the fetch address proves nothing.
        let asks = repo.pushes_where_it_fetches(remote);
        published.remote = asks.then(|| remote.to_owned());
        Ok(published)
    }

    /// Returns the commits at the remote that matter for this code.
    pub fn for_code(&self, repo: &Repo, code: &[ObjectId]) -> Vec<ObjectId> {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = heard.get_or_insert_with(|| self.ask(repo));
        if let Some(remote) = &self.remote {
            // One branch is usually enough; fetch the others only if that one was rewritten.
            for every in [false, true] {
                heard.catch_up(repo, remote, code, every);
            }
        }
        heard.certain.iter().copied().collect()
    }

    fn ask(&self, repo: &Repo) -> Heard {
        let answer = self
            .remote
            .as_deref()
            .map(|remote| self.listen(repo, remote));
        match answer {
            Some(Ok(heard)) => heard,
            // If listing fails, a push will most likely fail too.
            Some(Err(_)) | None => Heard {
                certain: self.remembered.iter().copied().collect(),
                moved: Vec::new(),
            },
        }
    }

    fn listen(&self, repo: &Repo, remote: &str) -> Result<Heard> {
        let interest = |name: &str| {
            if name.starts_with(BRANCHES) || RefName::parse(name).is_some() {
                Interest::Wanted
            } else {
                Interest::None
            }
        };
        let there = repo.ask_remote(remote)?.finish(&interest, MOST)?;
        let mut heard = Heard {
            certain: BTreeSet::new(),
            moved: Vec::new(),
        };
        for found in there.refs {
            if let Some((ObjectKind::Commit, _)) = repo.object_header(found.id)? {
                heard.certain.insert(found.id);
            } else if let Some(before) = self.branches.get(&found.name) {
                heard.moved.push((*before, found.id));
            }
        }
        Ok(heard)
    }
}

impl Heard {
    /// Fetches the new tips of branches that contained a part of this code's history: one branch for each part, or
    /// `every` one. A tip that cannot be fetched is ignored.
    fn catch_up(&mut self, repo: &Repo, remote: &str, code: &[ObjectId], every: bool) {
        let wanted = if self.moved.is_empty() {
            return;
        } else {
            self.wanted(repo, code, every).unwrap_or_default()
        };
        if wanted.is_empty() {
            return;
        }
        self.moved.retain(|(_, now)| !wanted.contains(now));
        let ids: Vec<ObjectId> = wanted.iter().copied().collect();
        if repo
            .fetch_objects(remote, &ids, &mut Audience::Silent)
            .is_ok()
        {
            self.certain.extend(wanted);
        }
    }

    fn wanted(&self, repo: &Repo, code: &[ObjectId], every: bool) -> Result<BTreeSet<ObjectId>> {
        let certain: Vec<ObjectId> = self.certain.iter().copied().collect();
        let before = self.moved.iter().map(|(before, _)| *before);
        let all: Vec<ObjectId> = before.chain(certain.iter().copied()).collect();
        let mut wanted = BTreeSet::new();
        for met in repo.first_reached(code, &all)? {
            if repo.reaches_any(&certain, met)? {
                continue;
            }
            let is_tip = |(before, _): &&(ObjectId, ObjectId)| *before == met;
            let tips = self.moved.iter().filter(is_tip);
            let held = |(before, _): &&(ObjectId, ObjectId)| {
                *before != met && repo.is_ancestor(met, *before).unwrap_or(false)
            };
            let holders = tips.chain(self.moved.iter().filter(held));
            let most = if every { usize::MAX } else { 1 };
            wanted.extend(holders.take(most).map(|(_, now)| *now));
        }
        Ok(wanted)
    }
}
