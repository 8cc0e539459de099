//! Counts changed files and lines between commits, and between a commit and a worktree with its uncommitted and
//! untracked files. For listings: stores nothing, and does not write the user's index.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::git::diff::line_count::{count_lines, is_binary};
use crate::git::diff::size_limit::MOST_FILES;
use crate::git::snapshot::capture::Checkout;
use crate::git::{Git, ObjectId, Repo};

/// How many bytes of untracked files are counted by lines; further files count without lines.
pub(in crate::git) const UNTRACKED_BYTES: u64 = 64 << 20;

/// The size of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Files that differ.
    pub files: u64,
    /// Lines added.
    pub added: u64,
    /// Lines deleted.
    pub deleted: u64,
    /// Files that differ from the last commit: staged, unstaged or untracked.
    pub uncommitted: u64,
}

impl Changes {
    /// Returns the sum of both.
    pub(in crate::git) fn and(self, other: Changes) -> Changes {
        Changes {
            files: self.files + other.files,
            added: self.added + other.added,
            deleted: self.deleted + other.deleted,
            uncommitted: self.uncommitted + other.uncommitted,
        }
    }
}

/// The uncommitted files of a worktree.
#[derive(Debug, Default)]
struct Loose {
    tracked: u64,
    untracked: Vec<Vec<u8>>,
}

impl Repo {
    /// Returns the changes of a worktree since a commit, committed or not, including untracked files.
    pub fn changes_in(
        &self,
        at: &Checkout,
        base: ObjectId,
        head: Option<ObjectId>,
    ) -> Result<Changes> {
        let loose = self.loose(at)?;
        let mut changes = if loose.tracked > 0 {
            self.changes_of_files(at, base)?
        } else {
            match head.filter(|head| *head != base) {
                Some(head) => self.changes_between(&[(base, head)])?[0].ok_or_else(uncounted)?,
                None => Changes::default(),
            }
        };
        let mut room = UNTRACKED_BYTES;
        for path in &loose.untracked {
            changes.files += 1;
            changes.added += lines_of(&at.top.join(OsStr::from_bytes(path)), &mut room);
        }
        changes.uncommitted = loose.tracked + loose.untracked.len() as u64;
        Ok(changes)
    }

    /// Returns how the tracked files of a worktree differ from a commit or tree.
    pub(in crate::git) fn changes_of_files(
        &self,
        at: &Checkout,
        base: ObjectId,
    ) -> Result<Changes> {
        let answer = self
            .git_in(at)
            .without_big_files()
            // The worktree's own attributes could hide its changes.
            .env("GIT_ATTR_SOURCE", base.to_string())
            .args(["diff", "--numstat", "-z", "--no-renames", "--no-ext-diff"])
            .args(["--no-textconv", "--ignore-submodules=dirty"])
            .arg(base.to_string())
            .arg("--")
            .run()?;
        count(&answer.stdout)
    }

    /// Returns the names of the files that differ between two trees.
    pub fn names_between(&self, one: ObjectId, other: ObjectId) -> Result<Vec<String>> {
        let answer = self
            .git_common()
            .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames"])
            .args([one.to_string(), other.to_string()])
            .run()?;
        let names = answer.stdout.split(|byte| *byte == 0);
        let names = names.filter(|name| !name.is_empty());
        Ok(names
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect())
    }

    /// Returns the changes between the commits of each pair, with one call of git for all; `None` for a pair with too
    /// many to count.
    pub fn changes_between(&self, pairs: &[(ObjectId, ObjectId)]) -> Result<Vec<Option<Changes>>> {
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let mut trees = Vec::with_capacity(pairs.len());
        for (one, other) in pairs {
            trees.push((self.tree_of(*one)?, self.tree_of(*other)?));
        }
        self.pairs_of(&trees)?
            .iter()
            .map(|records| records.as_deref().map(count).transpose())
            .collect()
    }

    /// Returns the records of `--numstat -z` for each pair of trees, with one call of git for all; `None` for a pair
    /// that would take too long.
    pub(in crate::git) fn pairs_of(
        &self,
        pairs: &[(ObjectId, ObjectId)],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut few = Vec::with_capacity(pairs.len());
        for (one, other) in pairs {
            few.push(self.differing_files(*one, *other, MOST_FILES)? <= MOST_FILES);
        }
        let fit = pairs.iter().zip(&few).filter(|(_, few)| **few);
        let fit: Vec<(ObjectId, ObjectId)> = fit.map(|(pair, _)| *pair).collect();
        let mut counted = if fit.is_empty() {
            Vec::new()
        } else {
            records_of(self.git_common().without_big_files(), &fit)?
        }
        .into_iter();
        Ok(few
            .into_iter()
            .map(|few| if few { counted.next() } else { None })
            .collect())
    }

    fn loose(&self, at: &Checkout) -> Result<Loose> {
        let answer = self
            .git_in(at)
            .args(["status", "--porcelain=v1", "-z", "--no-renames"])
            .args(["--untracked-files=all", "--ignore-submodules=dirty"])
            .run()?;
        let mut loose = Loose::default();
        for entry in answer.stdout.split(|byte| *byte == 0) {
            match entry.get(..3) {
                // A nested repository, which does not belong to the work.
                Some(b"?? ") if entry.ends_with(b"/") => {}
                Some(b"?? ") => loose.untracked.push(entry[3..].to_vec()),
                Some(_) => loose.tracked += 1,
                None => {}
            }
        }
        Ok(loose)
    }
}

/// Returns the error for changes that are too many to count.
pub(in crate::git) fn uncounted() -> Error {
    Error::fatal(format!("more than {MOST_FILES} files differ"))
}

fn records_of(git: Git, pairs: &[(ObjectId, ObjectId)]) -> Result<Vec<Vec<u8>>> {
    let mut input = String::new();
    for (one, other) in pairs {
        input.push_str(&format!("{one} {other}\n"));
    }
    let answer = git
        .args(["diff-tree", "--stdin", "-r", "--numstat", "-z"])
        .args(["--no-renames", "--no-ext-diff", "--no-textconv"])
        .input(input.clone())
        .run()?;
    // git repeats each pair before its records. No record can look like a pair, because records start with counts.
    let mut all = Vec::with_capacity(pairs.len());
    let mut rest = answer.stdout.as_slice();
    for line in input.lines() {
        rest = rest
            .strip_prefix(line.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"\n"))
            .ok_or_else(|| Error::fatal("cannot parse the output of 'git diff-tree'"))?;
        let end = end_of_records(rest);
        all.push(rest[..end].to_vec());
        rest = &rest[end..];
    }
    Ok(all)
}

/// Returns the end of the records of one pair: the next pair, or the end of the text.
fn end_of_records(text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        let record = &text[at..];
        let digits = record
            .iter()
            .take_while(|byte| byte.is_ascii_digit() || **byte == b'-')
            .count();
        // A record begins with a count and a tab, a pair with an object id and a blank.
        if record.get(digits) != Some(&b'\t') {
            return at;
        }
        match record.iter().position(|byte| *byte == 0) {
            Some(end) => at += end + 1,
            None => return text.len(),
        }
    }
    at
}

/// Adds up the records of `--numstat -z`.
pub(in crate::git) fn count(records: &[u8]) -> Result<Changes> {
    count_except(records, &BTreeSet::new())
}

/// Adds up the same records, except those of some paths.
pub(in crate::git) fn count_except(records: &[u8], without: &BTreeSet<Vec<u8>>) -> Result<Changes> {
    let mut changes = Changes::default();
    for record in records
        .split(|byte| *byte == 0)
        .filter(|record| !record.is_empty())
    {
        let mut fields = record.splitn(3, |byte| *byte == b'\t');
        let mut number = || -> Result<u64> {
            let text = fields
                .next()
                .and_then(|text| std::str::from_utf8(text).ok());
            match text {
                // Binary files have no lines.
                Some("-") => Ok(0),
                Some(text) => text
                    .parse()
                    .map_err(|_| Error::fatal("cannot parse the output of 'git diff'")),
                None => Err(Error::fatal("cannot parse the output of 'git diff'")),
            }
        };
        let (added, deleted) = (number()?, number()?);
        if fields.next().is_some_and(|path| without.contains(path)) {
            continue;
        }
        changes.added += added;
        changes.deleted += deleted;
        changes.files += 1;
    }
    Ok(changes)
}

/// Returns the number of lines of an untracked file, as git would count them once it is added; 0 if unknown.
pub(in crate::git) fn lines_of(path: &Path, room: &mut u64) -> u64 {
    let Ok(meta) = std::fs::symlink_metadata(path) else {
        return 0;
    };
    if meta.is_symlink() {
        return 1;
    }
    if !meta.is_file() || meta.len() > *room {
        return 0;
    }
    // The file may have been replaced: never follow a link, and never wait for a pipe.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path);
    let mut bytes = Vec::new();
    let read = opened.and_then(|file| file.take(*room).read_to_end(&mut bytes));
    if read.is_err() {
        return 0;
    }
    *room -= bytes.len() as u64;
    if is_binary(&bytes) {
        0
    } else {
        count_lines(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_several_pairs_are_told_apart() {
        let text = b"1\t2\ta\0-\t-\tb\tc\n\0deadbeef cafe\n3\t0\td\0";
        let end = end_of_records(text);
        assert_eq!(&text[end..end + 8], b"deadbeef");
        let changes = count(&text[..end]).expect("valid");
        assert_eq!((changes.files, changes.added, changes.deleted), (2, 1, 2));
        assert_eq!(end_of_records(b""), 0);
        assert!(count(b"x\ty\tz\0").is_err());
    }

    #[test]
    fn lines_are_counted_as_git_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let lines = |bytes: &[u8]| {
            let path = dir.path().join("f");
            std::fs::write(&path, bytes).expect("a file");
            lines_of(&path, &mut 1000)
        };
        assert_eq!(lines(b""), 0);
        assert_eq!(lines(b"a"), 1);
        assert_eq!(lines(b"a\nb\n"), 2);
        assert_eq!(lines(b"a\0b\n"), 0);
        assert_eq!(lines(&[b'\n'; 2000]), 0, "too large to count");
        assert_eq!(lines_of(dir.path(), &mut 1000), 0);
        assert_eq!(lines_of(&dir.path().join("none"), &mut 1000), 0);
    }
}
