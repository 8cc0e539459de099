//! What a remote has already, as it says itself: code that is in its branches, or in what was shared before, need not be
//! searched again.
//!
//! What is remembered of its branches may be old. A host that was cleaned has had them rewritten or deleted since, and what
//! was taken out of them would be published once more. So the remote is asked as soon as there is code to be searched. A
//! branch that has moved on to a commit that is not here may hold the one that is remembered or not: if it matters, it is
//! fetched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::git::remote::list_refs::Interest;
use crate::git::remote::transfer::Audience;
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::share::fetch::Copies;
use crate::store::limits;
use crate::store::refname::RefName;

/// Where branches are.
const BRANCHES: &str = "refs/heads/";
/// So many refs are listened to: those of sessions, and as many branches.
const MOST: usize = 2 * limits::REMOTE_REFS;

/// What a remote has.
#[derive(Debug)]
pub(super) struct Published {
    /// Whom to ask.
    remote: Option<String>,
    /// What counts where nobody answers.
    remembered: Vec<ObjectId>,
    /// The branches that are remembered, by their names there.
    branches: BTreeMap<String, ObjectId>,
    heard: Mutex<Option<Heard>>,
}

/// What a remote said.
#[derive(Debug)]
struct Heard {
    /// What it has, and is here.
    certain: BTreeSet<ObjectId>,
    /// What its branches were, and what they are now, which is not here.
    moved: Vec<(ObjectId, ObjectId)>,
}

impl Published {
    /// Returns what is known, and asks nobody.
    pub fn known(remembered: Vec<ObjectId>) -> Self {
        Published {
            remote: None,
            remembered,
            branches: BTreeMap::new(),
            heard: Mutex::new(None),
        }
    }

    /// Returns what a remote has of which these copies are here. Nothing is remembered of one that is `new`.
    pub fn at(repo: &Repo, remote: &str, copies: &Copies, new: bool) -> Result<Self> {
        let mut published = Published::known(Vec::new());
        if !new {
            let branches = repo.branches_of(remote)?.into_iter();
            let named = branches.map(|(name, id)| (format!("{BRANCHES}{name}"), id));
            published.branches = named.collect();
            // One that does not say what it has still has the code of what was pushed before: without it all of the
            // history would be searched again every time.
            let copied = copies.values();
            let remembered = published.branches.values().chain(copied);
            published.remembered = remembered.copied().collect();
        }
        // What is somewhere else than where it goes says nothing.
        let asks = repo.pushes_where_it_fetches(remote);
        published.remote = asks.then(|| remote.to_owned());
        Ok(published)
    }

    /// Returns commits that are there, as far as it matters to this code.
    pub fn for_code(&self, repo: &Repo, code: &[ObjectId]) -> Vec<ObjectId> {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = heard.get_or_insert_with(|| self.ask(repo));
        if let Some(remote) = &self.remote {
            // One branch that should hold it does for most; the others only when that one was rewritten.
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
            // A push to one that cannot be listed most likely fails, too.
            Some(Err(_)) | None => Heard {
                certain: self.remembered.iter().copied().collect(),
                moved: Vec::new(),
            },
        }
    }

    fn listen(&self, repo: &Repo, remote: &str) -> Result<Heard> {
        let interest = |name: &str| match name.starts_with(BRANCHES) {
            true => Interest::Wanted,
            false if RefName::parse(name).is_some() => Interest::Wanted,
            false => Interest::None,
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
    /// Gets what branches have moved on to that held some of the history of this code when they were last seen: for each
    /// part of it one of them, or `every` one. What cannot be had is not there.
    fn catch_up(&mut self, repo: &Repo, remote: &str, code: &[ObjectId], every: bool) {
        let wanted = match self.moved.is_empty() {
            true => return,
            false => self.wanted(repo, code, every).unwrap_or_default(),
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
