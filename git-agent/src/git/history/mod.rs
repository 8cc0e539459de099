//! Commits and branches: HEAD, revisions, and the relation of two histories.

pub(crate) mod ancestry;
pub mod blame;

use std::collections::BTreeSet;

use crate::error::{Context, Error, Result};
use crate::git::command::NO_REPLACE;
use crate::git::refs::unpacked_meanwhile;
use crate::git::{ObjectId, RefBackend, Repo};

/// How many commits have their trees cached.
const TREES_KNOWN: usize = 4096;

/// The branch and commit of HEAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The short name of the branch; `None` if HEAD is detached.
    pub branch: Option<String>,
    /// The commit; `None` if the branch has none yet.
    pub commit: Option<ObjectId>,
}

/// Returns whether git accepts a name as a branch name.
pub fn is_branch_name(name: &str) -> bool {
    let full = format!("refs/heads/{name}");
    !name.starts_with('-')
        && name != "HEAD"
        && gix::validate::reference::name(full.as_str().into()).is_ok()
}

impl Repo {
    /// Returns the branch and commit of HEAD.
    pub fn head(&self) -> Result<Head> {
        if self.ref_backend() == RefBackend::Files
            && let Some(head) = unpacked_meanwhile(self.common_dir(), || self.head_in_files())?
        {
            return Ok(head);
        }
        let name = self
            .git()
            .args(["symbolic-ref", "--quiet", "--short", "HEAD"])
            .answer()?;
        let branch = (name.code == Some(0)).then(|| name.text());
        let commit = self
            .git()
            .args(["rev-parse", "--verify", "--quiet", "HEAD"])
            .answer()?;
        let commit = (commit.code == Some(0))
            .then(|| self.parse_id(&commit.text()))
            .transpose()?;
        Ok(Head { branch, commit })
    }

    fn head_in_files(&self) -> Result<Head> {
        let cannot = || "cannot read HEAD".to_owned();
        let mut head = self.gix().head().context(cannot)?;
        let branch = head.referent_name().map(|name| name.shorten().to_string());
        let commit = head.try_peel_to_id().context(cannot)?.map(|id| id.detach());
        Ok(Head { branch, commit })
    }

    /// Returns the commit of a revision, resolved by git.
    pub fn resolve_commit(&self, revision: &str) -> Result<ObjectId> {
        let answer = self
            .git()
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{revision}^{{commit}}"))
            .answer()?;
        match answer.code {
            Some(0) => self.parse_id(&answer.text()),
            _ => Err(Error::fatal(format!("'{revision}' is not a commit"))),
        }
    }

    /// Returns the tip of a branch by its short name.
    pub fn branch_tip(&self, name: &str) -> Result<Option<ObjectId>> {
        self.find_ref(&format!("refs/heads/{name}"))
    }

    /// Returns whether git accepts a name as a branch name.
    pub fn is_valid_branch(&self, name: &str) -> bool {
        is_branch_name(name)
    }

    /// Returns the best common ancestor of two commits.
    pub fn merge_base(&self, one: ObjectId, other: ObjectId) -> Result<Option<ObjectId>> {
        // Asking for all of them separates unrelated histories, which have none, from a failure.
        let bases = self
            .gix()
            .merge_bases_many(one, &[other])
            .context(|| format!("cannot relate {one} to {other}"))?;
        Ok(bases.first().map(|id| id.detach()))
    }

    /// Returns the full names of the local and remote-tracking branches that contain a commit.
    pub fn branches_with(&self, commit: ObjectId) -> Result<Vec<String>> {
        let answer = self
            .git_common()
            .args(["for-each-ref", "--format=%(refname)"])
            .arg(format!("--contains={commit}"))
            .args(["refs/heads/", "refs/remotes/"])
            .run()?;
        let names = String::from_utf8_lossy(&answer.stdout);
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// Returns how many commits each of two has that the other lacks.
    pub fn ahead_behind(&self, ours: ObjectId, theirs: ObjectId) -> Result<(u64, u64)> {
        if ours == theirs {
            return Ok((0, 0));
        }
        Ok((
            self.count_only(ours, theirs)?,
            self.count_only(theirs, ours)?,
        ))
    }

    fn count_only(&self, tip: ObjectId, hidden: ObjectId) -> Result<u64> {
        let walk = self
            .gix()
            .rev_walk([tip])
            .with_hidden([hidden])
            .all()
            .context(|| format!("cannot walk the history of {tip}"))?;
        let mut count = 0;
        for commit in walk {
            commit.context(|| format!("cannot walk the history of {tip}"))?;
            count += 1;
        }
        Ok(count)
    }

    /// Returns the objects that are reachable from these commits but not from the published ones, with a path for each.
    /// Ignores `git replace`, because a push does too.
    pub fn unpublished_objects(
        &self,
        tips: &[ObjectId],
        published: &[ObjectId],
    ) -> Result<Vec<(ObjectId, String)>> {
        let published: BTreeSet<&ObjectId> = published.iter().collect();
        let mut wanted: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
        wanted.extend(published.iter().map(|id| format!("^{id}\n")));
        let answer = self
            .git_common()
            .env(NO_REPLACE, "1")
            .config("core.quotePath", "false")
            .args(["rev-list", "--objects", "--stdin"])
            .input(wanted)
            .run()?;
        let text = String::from_utf8_lossy(&answer.stdout);
        text.lines()
            .map(|line| {
                let (id, path) = line.split_once(' ').unwrap_or((line, ""));
                Ok((self.parse_id(id)?, path.to_owned()))
            })
            .collect()
    }

    /// Returns these commits, and the first published commits of their history.
    pub fn first_reached(
        &self,
        tips: &[ObjectId],
        published: &[ObjectId],
    ) -> Result<BTreeSet<ObjectId>> {
        let text = self.beyond(tips, published, "--boundary")?;
        let met = text.lines().filter_map(|line| line.strip_prefix('-'));
        let met = met.map(|id| self.parse_id(id));
        tips.iter().copied().map(Ok).chain(met).collect()
    }

    /// Returns whether a commit is reachable from any of some commits.
    pub fn reaches_any(&self, from: &[ObjectId], commit: ObjectId) -> Result<bool> {
        Ok(self.beyond(&[commit], from, "--max-count=1")?.is_empty())
    }

    /// Counts the commits that are reachable from one but not from the others.
    pub fn count_beyond(&self, commit: ObjectId, others: &[ObjectId]) -> Result<u64> {
        let text = self.beyond(&[commit], others, "--count")?;
        text.trim()
            .parse()
            .context(|| "cannot count commits".into())
    }

    /// Lists the commits that are reachable from some but not from the published ones, as [`Repo::unpublished_objects`]
    /// does.
    fn beyond(&self, tips: &[ObjectId], published: &[ObjectId], how: &str) -> Result<String> {
        let mut wanted: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
        wanted.extend(published.iter().map(|id| format!("^{id}\n")));
        let git = self.git_common().env(NO_REPLACE, "1");
        let answer = git.args(["rev-list", how, "--stdin"]).input(wanted).run()?;
        Ok(answer.text())
    }

    /// Returns the tree of a commit.
    pub fn tree_of(&self, commit: ObjectId) -> Result<ObjectId> {
        if let Some(known) = self.trees.borrow().get(&commit) {
            return Ok(*known);
        }
        let tree = self.read_commit(commit)?.tree;
        let mut trees = self.trees.borrow_mut();
        if trees.len() >= TREES_KNOWN {
            trees.clear();
        }
        trees.insert(commit, tree);
        Ok(tree)
    }
}
