//! Builds the merged result in memory: merges one session after the other onto the target with git's own merge engine.

use std::collections::BTreeMap;

use crate::error::{Context as _, Result};
use crate::fault;
use crate::git::merge::{Merged, NewCommit};
use crate::git::{ObjectId, Repo};
use crate::merge::candidates::Candidate;
use crate::model::merge::message::{self, Squashed, TaskText};
use crate::model::merge::{Attempt, Style, Why};

/// One merged session in a chain.
#[derive(Debug, Clone)]
pub struct Link {
    /// Index of the candidate.
    pub index: usize,
    /// The commit on the session's branch that holds all of its work.
    pub work: ObjectId,
    /// The commit it was merged into.
    pub onto: ObjectId,
    /// The tip of the target after this session.
    pub commit: ObjectId,
    /// The commits that were made for it on the target.
    pub made: Vec<ObjectId>,
}

/// The target with sessions merged into it, one after the other.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The tip of the target before the first session.
    pub base: ObjectId,
    /// The merged sessions.
    pub links: Vec<Link>,
    /// The candidates that could not be merged.
    pub left: Vec<(usize, Why)>,
}

impl Chain {
    /// Returns the tip after the first `count` sessions.
    pub fn tip_of(&self, count: usize) -> ObjectId {
        match count.checked_sub(1).and_then(|at| self.links.get(at)) {
            Some(link) => link.commit,
            None => self.base,
        }
    }

    /// Returns the tip after all sessions.
    pub fn tip(&self) -> ObjectId {
        self.tip_of(self.links.len())
    }
}

/// Builds chains of the same candidates, and reuses the commits made for earlier ones.
#[derive(Debug)]
pub struct Builder<'a> {
    repo: &'a Repo,
    candidates: &'a [Candidate],
    style: Style,
    text: TaskText,
    works: BTreeMap<usize, ObjectId>,
}

impl<'a> Builder<'a> {
    /// Returns a builder without any commits.
    pub fn new(repo: &'a Repo, candidates: &'a [Candidate], style: Style, text: TaskText) -> Self {
        Builder {
            repo,
            candidates,
            style,
            text,
            works: BTreeMap::new(),
        }
    }

    /// Reuses the commits that were made for a chain of the same candidates.
    pub fn knowing(mut self, chain: &Chain) -> Self {
        let works = chain.links.iter().map(|link| (link.index, link.work));
        self.works.extend(works);
        self
    }

    /// Merges candidates into `base` in this order. A candidate that does not merge is left out, and the others are
    /// merged.
    pub fn build(&mut self, base: ObjectId, order: &[usize]) -> Result<Chain> {
        let mut chain = Chain {
            base,
            links: Vec::new(),
            left: Vec::new(),
        };
        for index in order {
            match self.link(*index, chain.tip())? {
                Attempt::Made(link) => chain.links.push(link),
                Attempt::Refused(why) => chain.left.push((*index, why)),
            }
            fault::point("merge.linked").context(|| "cannot merge".into())?;
        }
        Ok(chain)
    }

    /// Returns a candidate's work as one commit: its tip, or a new commit of the approved files on top of it.
    pub fn work(&mut self, index: usize) -> Result<ObjectId> {
        if let Some(made) = self.works.get(&index) {
            return Ok(*made);
        }
        let candidate = &self.candidates[index];
        let work = &candidate.work;
        let commit = if work.is_committed() {
            work.tip
        } else {
            self.repo.make_commit(&NewCommit {
                tree: work.tree,
                parents: &[work.tip],
                message: &message::of_work(&candidate.session, self.text),
                author: None,
                sign: true,
            })?
        };
        fault::point("merge.work.committed").context(|| "cannot merge".into())?;
        self.works.insert(index, commit);
        Ok(commit)
    }

    fn link(&mut self, index: usize, onto: ObjectId) -> Result<Attempt<Link>> {
        if let Some(path) = self.bad_path(index, onto)? {
            return Ok(Attempt::Refused(Why::BadPath(path)));
        }
        let work = self.work(index)?;
        let link = |commit, made| {
            Ok(Attempt::Made(Link {
                index,
                work,
                onto,
                commit,
                made,
            }))
        };
        if self.repo.is_ancestor(work, onto)? {
            return Ok(Attempt::Refused(Why::Nothing));
        }
        // Like git, verify signatures only for merges: a rebase creates new commits of the user.
        if self.style != Style::Rebase
            && self.repo.verifies_merges()?
            && !self.repo.has_good_signature(work)?
        {
            return Ok(Attempt::Refused(Why::Unsigned));
        }
        match self.style {
            Style::FfOnly if !self.repo.is_ancestor(onto, work)? => {
                Ok(Attempt::Refused(Why::NotFastForward))
            }
            Style::FfOnly => link(work, Vec::new()),
            Style::Rebase if self.repo.is_ancestor(onto, work)? => link(work, Vec::new()),
            Style::Rebase => match self.replay(index, onto, work)? {
                Attempt::Made(made) => link(made.last().copied().unwrap_or(onto), made),
                Attempt::Refused(why) => Ok(Attempt::Refused(why)),
            },
            Style::NoFf | Style::Squash => {
                let tree = match self.repo.merge_commits(onto, work)? {
                    Merged::Clean(tree) => tree,
                    Merged::Conflict(paths) => return Ok(Attempt::Refused(Why::Conflict(paths))),
                };
                if self.style == Style::Squash && tree == self.repo.tree_of(onto)? {
                    return Ok(Attempt::Refused(Why::Nothing));
                }
                let message = self.message(index, onto, work)?;
                let commit = self.commit(tree, onto, work, &message)?;
                link(commit, vec![commit])
            }
        }
    }

    /// Returns a path of the candidate that git refuses to check out, if there is one.
    fn bad_path(&self, index: usize, onto: ObjectId) -> Result<Option<String>> {
        let work = &self.candidates[index].work;
        // A squash brings in only the last tree, so earlier ones need no check.
        if self.style == Style::Squash {
            let known = self.repo.tree_of(onto)?;
            return self.repo.refused_path(&[known], work.tree);
        }
        match self.repo.refused_path_between(onto, work.tip)? {
            Some(path) => Ok(Some(path)),
            None => self.repo.refused_path(&[work.committed], work.tree),
        }
    }

    /// Makes the commit of a link again, with another message or on another parent.
    pub fn commit(
        &self,
        tree: ObjectId,
        onto: ObjectId,
        work: ObjectId,
        message: &str,
    ) -> Result<ObjectId> {
        let parents = match self.style {
            Style::Squash => vec![onto],
            _ => vec![onto, work],
        };
        self.repo.make_commit(&NewCommit {
            tree,
            parents: &parents,
            message,
            author: None,
            sign: true,
        })
    }

    /// Returns the message of the commit that merges a candidate.
    pub fn message(&self, index: usize, onto: ObjectId, work: ObjectId) -> Result<String> {
        let session = &self.candidates[index].session;
        let logged = self.repo.merge_log()?;
        if self.style != Style::Squash && logged == 0 {
            return Ok(message::of_merge(session, self.text));
        }
        let squashed: Vec<Squashed> = self
            .repo
            .commits_between(onto, work)?
            .into_iter()
            .filter(|picked| picked.parents.len() < 2)
            .map(|picked| Squashed {
                author: format!("{} <{}>", picked.author.name, picked.author.email),
                message: picked.message,
            })
            .collect();
        if self.style != Style::Squash {
            return Ok(message::of_logged_merge(
                session, self.text, &squashed, logged,
            ));
        }
        let (name, email) = self.repo.committer()?;
        Ok(message::of_squash(
            session,
            self.text,
            &squashed,
            &format!("{name} <{email}>"),
        ))
    }

    /// Replays the commits of a branch on another commit as `git rebase` does: without merges, and without changes that
    /// are there already.
    fn replay(
        &self,
        index: usize,
        onto: ObjectId,
        work: ObjectId,
    ) -> Result<Attempt<Vec<ObjectId>>> {
        let session = &self.candidates[index].session;
        let mut made = Vec::new();
        let mut tip = onto;
        for picked in self.repo.commits_between(onto, work)? {
            let [parent] = picked.parents.as_slice() else {
                continue;
            };
            let tree = match self.repo.merge_with_base(*parent, tip, picked.id)? {
                Merged::Clean(tree) => tree,
                Merged::Conflict(paths) => return Ok(Attempt::Refused(Why::Conflict(paths))),
            };
            if tree == self.repo.tree_of(tip)? {
                continue;
            }
            tip = self.repo.make_commit(&NewCommit {
                tree,
                parents: &[tip],
                message: &message::with_trailer(&picked.message, session),
                author: Some(&picked.author),
                sign: true,
            })?;
            made.push(tip);
            fault::point("merge.replayed").context(|| "cannot rebase".into())?;
        }
        if made.is_empty() {
            Ok(Attempt::Refused(Why::Nothing))
        } else {
            Ok(Attempt::Made(made))
        }
    }
}
