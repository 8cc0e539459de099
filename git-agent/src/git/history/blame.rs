//! Finds the commit that a line comes from, and commits with the same change.

use std::path::Path;

use crate::error::{Error, Result};
use crate::git::{ObjectId, Repo};

/// A line and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blamed {
    /// The commit; `None` if the line is not committed.
    pub commit: Option<ObjectId>,
    /// The path in that commit, relative to the top.
    pub path: Vec<u8>,
    /// The line, without its newline.
    pub text: String,
}

impl Repo {
    /// Returns the origin of a line of a file, in the worktree or in a commit.
    pub fn blame_line(&self, path: &Path, line: u64, at: Option<ObjectId>) -> Result<Blamed> {
        let shown = path.display();
        let mut git = self
            .git()
            .args(["blame", "--porcelain", "-L"])
            .arg(format!("{line},{line}"));
        if let Some(commit) = at {
            git = git.arg(commit.to_string());
        }
        let answer = git.arg("--").arg(path).answer()?;
        if answer.code != Some(0) {
            let said = String::from_utf8_lossy(&answer.stderr);
            let said = said.trim().trim_start_matches("fatal: ").to_owned();
            return Err(Error::fatal(format!(
                "cannot blame line {line} of '{shown}': {said}"
            )));
        }
        parse(self, &answer.stdout)
            .ok_or_else(|| Error::fatal("cannot parse the output of 'git blame'"))
    }

    /// Returns the difference between a merge commit and git's automatic merge, including conflict markers.
    pub fn resolution_diff(&self, merge: ObjectId) -> Result<Vec<u8>> {
        let answer = self
            .git_common()
            .args(["show", "--remerge-diff", "--format=", "--no-color"])
            .args(["--no-ext-diff", "--no-textconv"])
            .arg(merge.to_string())
            .run()?;
        Ok(answer.stdout)
    }

    /// Returns the patch id of all differences between two commits, as one change.
    pub fn patch_id_between(&self, from: ObjectId, to: ObjectId) -> Result<Option<String>> {
        let patch = self
            .git_common()
            .args(["diff-tree", "-p", "--no-ext-diff", "--no-textconv"])
            .args([from.to_string(), to.to_string()])
            .run()?;
        let answer = self
            .git_common()
            .args(["patch-id", "--stable"])
            .input(patch.stdout)
            .run()?;
        let text = answer.text();
        Ok(text.split_whitespace().next().map(str::to_owned))
    }
}

fn parse(repo: &Repo, answer: &[u8]) -> Option<Blamed> {
    let mut lines = answer.split(|byte| *byte == b'\n');
    let id = lines.next()?.split(|byte| *byte == b' ').next()?;
    let id = repo.parse_id(std::str::from_utf8(id).ok()?).ok()?;
    let mut path = Vec::new();
    for line in lines {
        if let Some(name) = line.strip_prefix(b"filename ") {
            path = name.to_vec();
        }
        if let Some(text) = line.strip_prefix(b"\t") {
            return Some(Blamed {
                commit: (!id.is_null()).then_some(id),
                path,
                text: String::from_utf8_lossy(text).into_owned(),
            });
        }
    }
    None
}
