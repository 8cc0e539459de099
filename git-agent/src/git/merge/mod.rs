//! Merging in memory, by git's own engine, and commits as the user would make them.

pub mod batch;
pub mod conflict_lines;
pub mod move_branch;
pub mod rollback;

use std::thread::JoinHandle;

use crate::error::{Context, Error, Result};
use crate::git::command::{Answer, USAGE};
use crate::git::{ObjectId, Repo};

/// What a merge gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// The merged tree.
    Clean(ObjectId),
    /// The paths in conflict.
    Conflict(Vec<String>),
}

/// Who wrote a commit, and when, as git writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Name.
    pub name: String,
    /// Email address.
    pub email: String,
    /// Seconds since 1970 and the time zone, as git keeps them.
    pub date: String,
}

/// A commit to be made.
#[derive(Debug, Clone)]
pub struct NewCommit<'a> {
    /// Its tree.
    pub tree: ObjectId,
    /// Its parents.
    pub parents: &'a [ObjectId],
    /// Its message.
    pub message: &'a str,
    /// Who wrote it; the user otherwise.
    pub author: Option<&'a Author>,
    /// Whether it is signed if the user signs commits.
    pub sign: bool,
}

/// A commit of a range, with all that it takes to make it again elsewhere.
#[derive(Debug, Clone)]
pub struct Picked {
    /// The commit.
    pub id: ObjectId,
    /// Its parents.
    pub parents: Vec<ObjectId>,
    /// Who wrote it.
    pub author: Author,
    /// Its message.
    pub message: String,
}

impl Repo {
    /// Merges two commits without touching any work tree, as `git merge` on the first would.
    pub fn merge_commits(&self, ours: ObjectId, theirs: ObjectId) -> Result<Merged> {
        self.merge_tree(None, ours, theirs)
    }

    /// Merges two commits as if `base` were their common ancestor: what replaying a commit on another is.
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
            // git merge reads attributes from the files of the branch merged into; here nothing is checked out.
            .env("GIT_ATTR_SOURCE", ours.to_string())
            .args([
                "merge-tree",
                "--write-tree",
                "-z",
                "--name-only",
                "--no-messages",
            ]);
        if let Some(algorithm) = self.config_string("diff.algorithm") {
            // git merge heeds it, merge-tree alone does not.
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
                // So git ends when it does not know an option.
                Err(match answer.code == Some(USAGE) {
                    true => error.hint("git 2.38 or newer is needed to merge"),
                    false => error,
                })
            }
        }
    }

    /// Makes a commit with git, so that identity and encoding are as the user configured them.
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

    /// Makes a commit with git, as the user's own `git commit` would: identity, encoding and signature. Fails if it would
    /// bring a path that nobody can check out.
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

    /// Returns whether the user merges signed commits only.
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

    /// Returns how many of the commits it brings the message of a merge names.
    pub fn merge_log(&self) -> Result<usize> {
        /// As git has it for plain `true`.
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

    /// Returns where the change from one tree to another adds marks of a conflict, as `path:line`.
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

    /// Returns the stable patch ids of commits that are no merges.
    pub fn patch_ids(&self, commits: &[ObjectId]) -> Result<Vec<(ObjectId, String)>> {
        self.begin_patch_ids(commits).found()
    }

    /// Begins to look for the stable patch ids of commits that are no merges, while something else is done.
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
                        .context(|| "git gave a patch id for no commit".into())?;
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

/// Patch ids that are being looked for.
#[derive(Debug)]
pub struct PatchIds {
    search: Option<JoinHandle<Result<Patches>>>,
}

/// Commits, each with its patch id.
type Patches = Vec<(ObjectId, String)>;

impl PatchIds {
    /// Waits for them and returns each with its commit.
    pub fn found(self) -> Result<Patches> {
        match self.search.map(JoinHandle::join) {
            None => Ok(Vec::new()),
            Some(Ok(found)) => found,
            Some(Err(_)) => Err(Error::fatal("cannot look for patch ids")),
        }
    }
}
