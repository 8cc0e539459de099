//! Which commit a line comes from, and which commits make the same change.

use std::path::Path;

use crate::error::{Error, Result};
use crate::git::{ObjectId, Repo};

/// A line and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blamed {
    /// The commit; `None` when the line is not committed.
    pub commit: Option<ObjectId>,
    /// The file in that commit, from the top.
    pub path: Vec<u8>,
    /// The line, without its newline.
    pub text: String,
}

impl Repo {
    /// Returns where a line of a file comes from: in the working tree, or as it is in a commit.
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
                "cannot tell where line {line} of '{shown}' comes from: {said}"
            )));
        }
        parse(self, &answer.stdout)
            .ok_or_else(|| Error::fatal("cannot understand the answer of 'git blame'"))
    }

    /// Returns what a merge commit changed of what git by itself would have made of it, conflict markers included.
    pub fn resolution_diff(&self, merge: ObjectId) -> Result<Vec<u8>> {
        let answer = self
            .git_common()
            .args(["show", "--remerge-diff", "--format=", "--no-color"])
            .args(["--no-ext-diff", "--no-textconv"])
            .arg(merge.to_string())
            .run()?;
        Ok(answer.stdout)
    }

    /// Returns the patch id of all that differs between two commits, as one change.
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
