//! Building the merged result in memory: one session after the other on top of the target, each by git's own engine.

use std::collections::BTreeMap;

use crate::error::{Context as _, Result};
use crate::fault;
use crate::git::merge::{Merged, NewCommit};
use crate::git::{ObjectId, Repo};
use crate::merge::candidates::Candidate;
use crate::model::merge::message::{self, Squashed, TaskText};
use crate::model::merge::{Style, Why};

/// One session's part of the result.
#[derive(Debug, Clone)]
pub struct Link {
    /// Which candidate.
    pub index: usize,
    /// All of its work as one commit of its branch.
    pub work: ObjectId,
    /// What it was merged into.
    pub onto: ObjectId,
    /// The target's tip once it is in.
    pub commit: ObjectId,
    /// The commits that were made for it on the target.
    pub made: Vec<ObjectId>,
}

/// The target with sessions merged into it, one after the other.
#[derive(Debug, Clone)]
pub struct Chain {
    /// Where it begins.
    pub base: ObjectId,
    /// The sessions that are in it.
    pub links: Vec<Link>,
    /// Those that could not be merged.
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

    /// Returns the tip of all of it.
    pub fn tip(&self) -> ObjectId {
        self.tip_of(self.links.len())
    }
}

/// Builds chains of the same candidates.
#[derive(Debug)]
pub struct Builder<'a> {
    repo: &'a Repo,
    candidates: &'a [Candidate],
    style: Style,
    text: TaskText,
    works: BTreeMap<usize, ObjectId>,
}

impl<'a> Builder<'a> {
    /// Returns a builder.
    pub fn new(repo: &'a Repo, candidates: &'a [Candidate], style: Style, text: TaskText) -> Self {
        Builder {
            repo,
            candidates,
            style,
            text,
            works: BTreeMap::new(),
        }
    }

    /// Takes over the commits that were made for a chain of the same candidates.
    pub fn knowing(mut self, chain: &Chain) -> Self {
        let works = chain.links.iter().map(|link| (link.index, link.work));
        self.works.extend(works);
        self
    }

    /// Merges candidates into `base` in this order. What does not merge is left out, and the rest goes on.
    pub fn build(&mut self, base: ObjectId, order: &[usize]) -> Result<Chain> {
        let mut chain = Chain {
            base,
            links: Vec::new(),
            left: Vec::new(),
        };
        for index in order {
            match self.link(*index, chain.tip())? {
                Ok(link) => chain.links.push(link),
                Err(why) => chain.left.push((*index, why)),
            }
            fault::point("merge.linked").context(|| "cannot merge".into())?;
        }
        Ok(chain)
    }

    /// Returns all of a candidate's work as one commit: its tip, or a commit of what was approved on top of it.
    pub fn work(&mut self, index: usize) -> Result<ObjectId> {
        if let Some(made) = self.works.get(&index) {
            return Ok(*made);
        }
        let candidate = &self.candidates[index];
        let work = &candidate.work;
        let commit = match work.is_committed() {
            true => work.tip,
            false => self.repo.make_commit(&NewCommit {
                tree: work.tree,
                parents: &[work.tip],
                message: &message::of_work(&candidate.session, self.text),
                author: None,
                sign: true,
            })?,
        };
        fault::point("merge.work.committed").context(|| "cannot merge".into())?;
        self.works.insert(index, commit);
        Ok(commit)
    }

    fn link(&mut self, index: usize, onto: ObjectId) -> Result<Result<Link, Why>> {
        if let Some(path) = self.bad_path(index, onto)? {
            return Ok(Err(Why::BadPath(path)));
        }
        let work = self.work(index)?;
        let link = |commit, made| {
            Ok(Ok(Link {
                index,
                work,
                onto,
                commit,
                made,
            }))
        };
        if self.repo.is_ancestor(work, onto)? {
            return Ok(Err(Why::Nothing));
        }
        // As in git, a rebase makes commits of the user's own, and does not ask.
        if self.style != Style::Rebase
            && self.repo.verifies_merges()?
            && !self.repo.has_good_signature(work)?
        {
            return Ok(Err(Why::Unsigned));
        }
        match self.style {
            Style::FfOnly if !self.repo.is_ancestor(onto, work)? => Ok(Err(Why::NotFastForward)),
            Style::FfOnly => link(work, Vec::new()),
            Style::Rebase if self.repo.is_ancestor(onto, work)? => link(work, Vec::new()),
            Style::Rebase => match self.replay(index, onto, work)? {
                Ok(made) => link(made.last().copied().unwrap_or(onto), made),
                Err(why) => Ok(Err(why)),
            },
            Style::NoFf | Style::Squash => {
                let tree = match self.repo.merge_commits(onto, work)? {
                    Merged::Clean(tree) => tree,
                    Merged::Conflict(paths) => return Ok(Err(Why::Conflict(paths))),
                };
                if self.style == Style::Squash && tree == self.repo.tree_of(onto)? {
                    return Ok(Err(Why::Nothing));
                }
                let message = self.message(index, onto, work)?;
                let commit = self.commit(tree, onto, work, &message)?;
                link(commit, vec![commit])
            }
        }
    }

    /// Returns a path that a candidate would bring and that git refuses to check out.
    fn bad_path(&self, index: usize, onto: ObjectId) -> Result<Option<String>> {
        let work = &self.candidates[index].work;
        // Of squashed commits only the last state lands.
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

    /// Returns the message of the commit that brings a candidate in.
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

    /// Makes the commits of a branch again on top of another commit, as `git rebase` would: merges are left out, and so is
    /// what is there already.
    fn replay(
        &self,
        index: usize,
        onto: ObjectId,
        work: ObjectId,
    ) -> Result<Result<Vec<ObjectId>, Why>> {
        let session = &self.candidates[index].session;
        let mut made = Vec::new();
        let mut tip = onto;
        for picked in self.repo.commits_between(onto, work)? {
            let [parent] = picked.parents.as_slice() else {
                continue;
            };
            let tree = match self.repo.merge_with_base(*parent, tip, picked.id)? {
                Merged::Clean(tree) => tree,
                Merged::Conflict(paths) => return Ok(Err(Why::Conflict(paths))),
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
        match made.is_empty() {
            true => Ok(Err(Why::Nothing)),
            false => Ok(Ok(made)),
        }
    }
}
