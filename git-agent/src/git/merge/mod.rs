//! Merges in memory with git's own engine, and creates commits as the user would.

pub mod batch;
pub mod conflict_lines;
pub mod move_branch;
pub mod rollback;

use std::thread::JoinHandle;

use crate::error::{Context, Error, Result};
use crate::git::command::{Answer, USAGE};
use crate::git::{ObjectId, Repo};

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// The merged tree.
    Clean(ObjectId),
    /// The paths in conflict.
    Conflict(Vec<String>),
}

/// The author and date of a commit, as git writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    pub name: String,
    /// The email address.
    pub email: String,
    /// Seconds since 1970 and the time zone, as git keeps them.
    pub date: String,
}

/// A commit to be created.
#[derive(Debug, Clone)]
pub struct NewCommit<'a> {
    pub tree: ObjectId,
    /// The parents, in order.
    pub parents: &'a [ObjectId],
    pub message: &'a str,
    /// The author; `None` for the user.
    pub author: Option<&'a Author>,
    /// Whether to sign it if the user signs commits.
    pub sign: bool,
}

/// A commit of a range, with everything needed to create it again elsewhere.
#[derive(Debug, Clone)]
pub struct Picked {
    /// The id of the original.
    pub id: ObjectId,
    /// The parents, in order.
    pub parents: Vec<ObjectId>,
    /// The author and date.
    pub author: Author,
    pub message: String,
}

impl Repo {
    /// Merges two commits without a worktree, as `git merge` on the first would.
    pub fn merge_commits(&self, ours: ObjectId, theirs: ObjectId) -> Result<Merged> {
        self.merge_tree(None, ours, theirs)
    }

    /// Merges two commits as if `base` were their common ancestor, which is how a commit is replayed on another.
    pub fn merge_with_base(
        &self,
        base: ObjectId,
        ours: ObjectId,
        theirs: ObjectId,
    ) -> Result<Merged> {
        self.merge_tree(Some(base), ours, theirs)
    }

    fn merge_tree(
        &self,
        base: Option<ObjectId>,
        ours: ObjectId,
        theirs: ObjectId,
    ) -> Result<Merged> {
        let mut git = self
            .git_main()
            .durable()
            // git merge reads attributes from the files of the target branch; here nothing is checked out.
            .env("GIT_ATTR_SOURCE", ours.to_string())
            .args([
                "merge-tree",
                "--write-tree",
                "-z",
                "--name-only",
                "--no-messages",
            ]);
        if let Some(algorithm) = self.config_string("diff.algorithm") {
            // git merge follows this setting, merge-tree alone does not.
            git = git.arg(format!("-Xdiff-algorithm={algorithm}"));
        }
        if let Some(base) = base {
            git = git.arg(format!("--merge-base={base}"));
        }
        let answer = git.args([ours.to_string(), theirs.to_string()]).answer()?;
        self.read_merge(&answer, ours, theirs)
    }

    fn read_merge(&self, answer: &Answer, ours: ObjectId, theirs: ObjectId) -> Result<Merged> {
        let text = String::from_utf8_lossy(&answer.stdout);
        let mut fields = text.split('\0').filter(|field| !field.is_empty());
        match answer.code {
            Some(0) => {
                let tree = fields.next().unwrap_or_default().trim();
                Ok(Merged::Clean(self.parse_id(tree)?))
            }
            Some(1) => {
                let mut paths: Vec<String> = fields.skip(1).map(str::to_owned).collect();
                paths.dedup();
                Ok(Merged::Conflict(paths))
            }
            _ => {
                let said = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
                let error = Error::fatal(format!("cannot merge {ours} and {theirs}: {said}"));
                // git's exit code for an unknown option.
                Err(if answer.code == Some(USAGE) {
                    error.hint("git 2.38 or newer is needed to merge")
                } else {
                    error
                })
            }
        }
    }

    /// Creates a commit with git, with the user's configured identity and encoding.
    pub fn commit_tree(
        &self,
        tree: ObjectId,
        parents: &[ObjectId],
        message: &str,
    ) -> Result<ObjectId> {
        self.make_commit(&NewCommit {
            tree,
            parents,
            message,
            author: None,
            sign: false,
        })
    }

    /// Creates a commit as the user's own `git commit` would: identity, encoding and signature. Fails if the commit
    /// would add a path that cannot be checked out.
    pub fn make_commit(&self, new: &NewCommit<'_>) -> Result<ObjectId> {
        self.refuse_bad_paths(new.parents, new.tree)?;
        let mut git = self
            .git_main()
            .durable()
            .args(["commit-tree", &new.tree.to_string()]);
        for parent in new.parents {
            git = git.arg("-p").arg(parent.to_string());
        }
        if new.sign && self.signs_commits()? {
            git = git.arg("-S");
        }
        if let Some(author) = new.author {
            git = git
                .env("GIT_AUTHOR_NAME", &author.name)
                .env("GIT_AUTHOR_EMAIL", &author.email)
                .env("GIT_AUTHOR_DATE", &author.date);
        }
        let answer = git.args(["-F", "-"]).input(new.message).run()?;
        self.parse_id(&answer.text())
    }

    /// Returns whether the user signs every commit.
    pub fn signs_commits(&self) -> Result<bool> {
        Ok(self.config_bool("commit.gpgSign")?.unwrap_or(false))
    }

    /// Returns whether the user requires signatures for merges.
    pub fn verifies_merges(&self) -> Result<bool> {
        Ok(self.config_bool("merge.verifySignatures")?.unwrap_or(false))
    }

    /// Returns whether git finds a good signature on a commit.
    pub fn has_good_signature(&self, commit: ObjectId) -> Result<bool> {
        let answer = self
            .git_main()
            .args(["verify-commit", &commit.to_string()])
            .answer()?;
        Ok(answer.code == Some(0))
    }

    /// Returns how many of its commits a merge message lists.
    pub fn merge_log(&self) -> Result<usize> {
        /// git's default for plain `true`.
        const USUAL: usize = 20;
        let key = "merge.log";
        match self.config_string(key).as_deref() {
            None => Ok(0),
            Some(text) if text.parse::<i64>().is_ok() => {
                let number = self.config_number(key)?.unwrap_or(0);
                Ok(usize::try_from(number).unwrap_or(USUAL))
            }
            Some(_) => Ok(match self.config_bool(key)? {
                Some(true) => USUAL,
                _ => 0,
            }),
        }
    }

    /// Returns the ids of the commits of `tip` that `hidden` lacks, newest first, and whether each is a merge.
    pub fn ids_between(&self, hidden: ObjectId, tip: ObjectId) -> Result<Vec<(ObjectId, bool)>> {
        let cannot = || format!("cannot walk the history of {tip}");
        let walk = self
            .gix()
            .rev_walk([tip])
            .with_hidden([hidden])
            .all()
            .context(cannot)?;
        let mut found = Vec::new();
        for commit in walk {
            let commit = commit.context(cannot)?;
            found.push((commit.id, commit.parent_ids.len() > 1));
        }
        Ok(found)
    }

    /// Returns the commits of `tip` that `hidden` lacks, oldest first.
    pub fn commits_between(&self, hidden: ObjectId, tip: ObjectId) -> Result<Vec<Picked>> {
        const FIELDS: usize = 6;
        let answer = self
            .git_common()
            .args(["log", "-z", "--no-show-signature", "--no-color"])
            .args(["--reverse", "--topo-order", "--date=raw"])
            .arg("--format=%H%x00%P%x00%an%x00%ae%x00%ad%x00%B")
            .arg(tip.to_string())
            .arg(format!("^{hidden}"))
            .run()?;
        let text = String::from_utf8_lossy(&answer.stdout);
        let fields: Vec<&str> = text.split('\0').collect();
        let mut picked = Vec::new();
        for record in fields.chunks_exact(FIELDS) {
            let parents = record[1].split_whitespace();
            picked.push(Picked {
                id: self.parse_id(record[0])?,
                parents: parents
                    .map(|hex| self.parse_id(hex))
                    .collect::<Result<_>>()?,
                author: Author {
                    name: record[2].to_owned(),
                    email: record[3].to_owned(),
                    date: record[4].to_owned(),
                },
                message: record[5].to_owned(),
            });
        }
        Ok(picked)
    }

    /// Returns the places where the change between two trees adds conflict markers, as `path:line`.
    pub fn markers_added(&self, before: ObjectId, after: ObjectId) -> Result<Vec<String>> {
        let answer = self
            .git_common()
            .config("core.whitespace", "-trailing-space,-space-before-tab")
            .config("core.quotePath", "false")
            .env("GIT_ATTR_SOURCE", after.to_string())
            .args(["diff-tree", "-r", "--check", "--no-renames"])
            .args([before.to_string(), after.to_string()])
            .answer()?;
        let text = String::from_utf8_lossy(&answer.stdout);
        let places = text
            .lines()
            .filter_map(|line| line.strip_suffix(": leftover conflict marker"));
        Ok(places.map(str::to_owned).collect())
    }

    /// Returns the stable patch ids of commits that are not merges.
    pub fn patch_ids(&self, commits: &[ObjectId]) -> Result<Vec<(ObjectId, String)>> {
        self.begin_patch_ids(commits).found()
    }

    /// Starts to compute the stable patch ids of commits that are not merges, in the background.
    pub fn begin_patch_ids(&self, commits: &[ObjectId]) -> PatchIds {
        if commits.is_empty() {
            return PatchIds { search: None };
        }
        let mut names = String::new();
        for commit in commits {
            names.push_str(&format!("{commit}\n"));
        }
        let patches = self
            .git_common()
            .args(["diff-tree", "--stdin", "-p", "--root"])
            .args(["--no-ext-diff", "--no-textconv"])
            .input(names);
        let ids = self.git_common().args(["patch-id", "--stable"]);
        let search = std::thread::spawn(move || {
            let patches = patches.run()?;
            let answer = ids.input(patches.stdout).run()?;
            let mut found = Vec::new();
            for line in answer.text().lines() {
                if let Some((patch, commit)) = line.split_once(' ') {
                    let commit = ObjectId::from_hex(commit.as_bytes())
                        .context(|| "cannot parse the output of 'git patch-id'".into())?;
                    found.push((commit, patch.to_owned()));
                }
            }
            Ok(found)
        });
        PatchIds {
            search: Some(search),
        }
    }
}

/// Patch ids that are being computed.
#[derive(Debug)]
pub struct PatchIds {
    search: Option<JoinHandle<Result<Patches>>>,
}

/// Commits, each with its patch id.
type Patches = Vec<(ObjectId, String)>;

impl PatchIds {
    /// Waits for the result, and returns each patch id with its commit.
    pub fn found(self) -> Result<Patches> {
        match self.search.map(JoinHandle::join) {
            None => Ok(Vec::new()),
            Some(Ok(found)) => found,
            Some(Err(_)) => Err(Error::fatal("cannot compute patch ids")),
        }
    }
}
