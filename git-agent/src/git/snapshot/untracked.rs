//! Finds the files of a worktree that are neither tracked nor ignored.
//!
//! If the index has every name on disk, there are none, whatever is ignored, and reading the directories is enough. For
//! any other name git is asked, which alone decides about ignored files, nested repositories and case. This saves one git
//! process for each look at a worktree, part of the figures of
//! [`worktree_counts`](crate::git::diff::worktree_counts).

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use gix::index::entry::Mode;
use gix::index::{Entry, State};
use rustix::fs::{AtFlags, Dir, FileType, OFlags};

use crate::error::{Context, Error, Result};
use crate::git::snapshot::beneath::{Content, Disk, is_safe};
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::scan::{LeftOut, Reason};
use crate::git::{Git, Repo};

/// The untracked part of a worktree.
#[derive(Debug, Default)]
pub(in crate::git) struct Untracked {
    /// Files and links, from the top, in git's form.
    pub(in crate::git) files: BTreeSet<Vec<u8>>,
    /// Nested repositories, whose files git does not list.
    pub(in crate::git) repositories: Vec<Vec<u8>>,
    /// git's messages about unreadable directories.
    pub(in crate::git) complaint: Vec<u8>,
}

/// A search for untracked files that can run in any thread.
#[derive(Debug)]
pub(in crate::git) struct Search<'a> {
    git: Git,
    top: &'a Path,
    index: &'a State,
}

impl Repo {
    /// Prepares a search for the untracked files of a worktree with this index.
    pub(in crate::git) fn search_untracked<'a>(
        &self,
        at: &'a Checkout,
        index: &'a State,
    ) -> Search<'a> {
        Search {
            git: self
                .git_in(at)
                .args(["ls-files", "-z", "--others", "--exclude-standard"]),
            top: &at.top,
            index,
        }
    }
}

impl Repo {
    /// Returns the ignored files of a worktree, from the top, in git's form. A directory with only ignored files is one
    /// entry, with a slash at its end.
    pub fn ignored_in(&self, at: &Checkout) -> Result<Vec<Vec<u8>>> {
        let answer = self
            .git_in(at)
            .args(["ls-files", "-z", "--others", "--ignored", "--directory"])
            .arg("--exclude-standard")
            .run()?;
        let paths = answer.stdout.split(|byte| *byte == 0);
        Ok(paths
            .filter(|path| is_safe(path.strip_suffix(b"/").unwrap_or(path)))
            .map(<[u8]>::to_vec)
            .collect())
    }
}

impl Repo {
    /// Returns the files whose names git never records, so that no snapshot holds them: `.git` in any case below the
    /// top, and `.gitmodules` as a link. Does not search ignored directories.
    pub fn git_names_in(&self, at: &Checkout) -> Result<Vec<LeftOut>> {
        let cannot = || format!("cannot read '{}'", at.top.display());
        let ignored: BTreeSet<Vec<u8>> = self.ignored_in(at)?.into_iter().collect();
        let mut disk = Disk::open(&at.top).context(cannot)?;
        let mut found = Vec::new();
        let mut dirs = vec![Vec::new()];
        while let Some(dir) = dirs.pop() {
            for (name, is_dir) in disk.list(&dir).context(cannot)? {
                let top = dir.is_empty();
                let path = if top {
                    name.clone()
                } else {
                    [&dir, &b"/"[..], &name].concat()
                };
                let is_link = !is_dir
                    && name.eq_ignore_ascii_case(b".gitmodules")
                    && matches!(disk.read(&path), Ok(Some(Content::Link(_))));
                if top && name == b".git" {
                    continue;
                }
                if name.eq_ignore_ascii_case(b".git") || is_link {
                    let reason = Reason::GitName;
                    found.push(LeftOut { path, reason });
                } else if is_dir && !ignored.contains(&[&path, &b"/"[..]].concat()) {
                    dirs.push(path);
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }
}

impl Search<'_> {
    pub(in crate::git) fn run(self) -> Result<Untracked> {
        // git reports unreadable files better.
        if is_all_tracked(self.top, self.index).unwrap_or(false) {
            return Ok(Untracked::default());
        }
        let answer = self.git.answer()?;
        if answer.code != Some(0) {
            return Err(Error::fatal(format!(
                "cannot list untracked files: {}",
                String::from_utf8_lossy(&answer.stderr).trim()
            )));
        }
        let mut found = Untracked {
            complaint: answer.stderr.trim_ascii().to_vec(),
            ..Untracked::default()
        };
        for path in answer.stdout.split(|byte| *byte == 0) {
            match path.strip_suffix(b"/") {
                Some(repository) => found.repositories.push(repository.to_vec()),
                None if is_safe(path) => {
                    found.files.insert(path.to_vec());
                }
                None => {}
            }
        }
        Ok(found)
    }
}

/// Returns whether the index has every name below a top, with the same kind.
fn is_all_tracked(top: &Path, index: &State) -> io::Result<bool> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let top = rustix::fs::open(top, flags, rustix::fs::Mode::empty())?;
    let mut walk = Walk {
        index,
        path: Vec::new(),
    };
    walk.is_tracked(top.as_fd(), index.entries())
}

struct Walk<'a> {
    index: &'a State,
    /// The current directory, with a slash at its end unless it is the top.
    path: Vec<u8>,
}

impl Walk<'_> {
    /// Checks one directory; `entries` are all its entries in the index.
    fn is_tracked(&mut self, dir: BorrowedFd<'_>, entries: &[Entry]) -> io::Result<bool> {
        let above = self.path.len();
        for found in Dir::read_from(dir)? {
            let found = found?;
            let name = found.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // Below the top it marks a nested repository.
            if name.to_bytes() == b".git" && above == 0 {
                continue;
            }
            let is_dir = match found.file_type() {
                FileType::Directory => true,
                FileType::Unknown => {
                    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
                }
                _ => false,
            };
            self.path.truncate(above);
            self.path.extend_from_slice(name.to_bytes());
            let known = if is_dir {
                self.is_tracked_dir(dir, name, entries)?
            } else {
                self.exactly(entries).is_some()
            };
            if !known {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks the directory at the current path.
    fn is_tracked_dir(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        entries: &[Entry],
    ) -> io::Result<bool> {
        if let Some(entry) = self.exactly(entries) {
            // git never enters a submodule; a file that became a directory has files of its own.
            return Ok(entry.mode == Mode::COMMIT);
        }
        self.path.push(b'/');
        let below = self.below(entries);
        // A directory without tracked files may be ignored; one that the index holds as a whole should not exist.
        if below.is_empty() || below[0].mode == Mode::DIR {
            return Ok(false);
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let inside = rustix::fs::openat(dir, name, flags, rustix::fs::Mode::empty())?;
        self.is_tracked(inside.as_fd(), below)
    }

    /// Returns the entry at the current path.
    fn exactly<'e>(&self, entries: &'e [Entry]) -> Option<&'e Entry> {
        let at = self.first_not_before(entries);
        entries
            .get(at)
            .filter(|entry| **entry.path(self.index) == *self.path)
    }

    /// Returns the entries that begin with the current path.
    fn below<'e>(&self, entries: &'e [Entry]) -> &'e [Entry] {
        let rest = &entries[self.first_not_before(entries)..];
        let count = rest.partition_point(|entry| entry.path(self.index).starts_with(&self.path));
        &rest[..count]
    }

    fn first_not_before(&self, entries: &[Entry]) -> usize {
        entries.partition_point(|entry| **entry.path(self.index) < *self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::git::snapshot::tests::world::{World, link, run, write};

    type Script = fn(&Path);

    /// Changes to a clean worktree, and whether they require git.
    const SCRIPTS: [(&str, bool, Script); 16] = [
        ("clean", false, |_| {}),
        ("changed", false, |top| write(top, "a", "other\n")),
        ("gone", false, |top| {
            fs::remove_dir_all(top.join("dir")).expect("gone")
        }),
        ("staged", false, |top| {
            write(top, "dir/new", "1\n");
            run(top, &["add", "dir/new"]);
        }),
        ("announced", false, |top| {
            write(top, "later", "1\n");
            run(top, &["add", "-N", "later"]);
        }),
        ("linked", false, |top| {
            fs::remove_file(top.join("a")).expect("gone");
            link(top, "a", "dir/b");
        }),
        ("hidden", false, |top| {
            run(top, &["update-index", "--skip-worktree", "a"]);
        }),
        ("untracked", true, |top| write(top, "dir/sub/new", "1\n")),
        ("between", true, |top| write(top, "dir-x", "1\n")),
        ("ignored", true, |top| write(top, "dir/x.log", "1\n")),
        ("dir-ignored", true, |top| write(top, "out/x", "1\n")),
        ("empty-dir", true, |top| {
            fs::create_dir(top.join("empty")).expect("a directory")
        }),
        ("file-to-dir", true, |top| {
            fs::remove_file(top.join("a")).expect("gone");
            write(top, "a/inside", "1\n");
        }),
        ("dir-to-link", true, |top| {
            fs::remove_dir_all(top.join("dir")).expect("gone");
            link(top, "dir", "a");
        }),
        ("other-case", true, |top| {
            fs::rename(top.join("a"), top.join("A")).expect("renamed")
        }),
        ("repository", true, |top| {
            run(top, &["init", "-q", "nested"]);
            write(top, "nested/x", "1\n");
        }),
    ];

    #[test]
    fn git_lists_the_same() {
        let world = World::new();
        for path in ["a", "dir/b", "dir/sub/c", "dir.txt", "dir0", "z"] {
            world.write(path, "1\n2\n3\n");
        }
        world.write(".gitignore", "*.log\nout/\n");
        world.commit_all("base");
        for (name, asks, script) in SCRIPTS {
            let at = world.worktree(name, &[]);
            script(&at.top);
            let index = world.repo.read_index(&at.admin_dir.join("index"));
            let index = index.expect("an index");
            let found = world.repo.search_untracked(&at, &index).run();
            let found = found.expect("looked at");
            let mut shown: Vec<Vec<u8>> = found.files.iter().cloned().collect();
            shown.extend(
                found
                    .repositories
                    .iter()
                    .map(|path| [path, &b"/"[..]].concat()),
            );
            let listed = run(
                &at.top,
                &["ls-files", "-z", "--others", "--exclude-standard"],
            );
            let mut listed: Vec<Vec<u8>> = listed
                .split_terminator('\0')
                .map(|path| path.as_bytes().to_vec())
                .collect();
            listed.sort();
            shown.sort();
            assert_eq!(shown, listed, "{name}");
            let all = is_all_tracked(&at.top, &index).expect("looked at");
            assert_eq!(!all, asks, "{name}");
        }
    }

    #[test]
    fn submodules_are_not_looked_into() {
        let world = World::new();
        world.write("a", "1\n");
        world.commit_all("base");
        let other = World::new();
        other.write("inside", "1\n");
        other.commit_all("base");
        let at = world.worktree("work", &[]);
        let source = other.main().top;
        let source = source.to_str().expect("a plain path");
        let allow = "protocol.file.allow=always";
        run(
            &at.top,
            &["-c", allow, "submodule", "add", "-q", source, "sub"],
        );
        write(&at.top, "sub/loose", "1\n");
        let index = world.repo.read_index(&at.admin_dir.join("index"));
        let index = index.expect("an index");
        assert!(is_all_tracked(&at.top, &index).expect("looked at"));
        let found = world.repo.search_untracked(&at, &index).run();
        assert!(found.expect("looked at").files.is_empty());
    }
}
