//! How much many working trees have changed, counted together: what differs from the index is found here, git lists what
//! is untracked, and one more call of git counts the lines that all of them have committed.
//!
//! Where conversions, conflicts, submodules or large files come in, git is asked in full.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use gix::bstr::ByteSlice;
use gix::index::entry::{Flags, Stage};

use super::capture::{Checkout, LARGE_FILE, MANY_FILES, Seen, read_item};
use super::changes::{Changes, UNTRACKED_BYTES, count, lines_of, pairs_of};
use super::index::{build_trees, staged_items};
use super::scan::Hidden;
use super::{ObjectId, Repo};
use crate::error::{Context, Error, Result};

/// A working tree, and since when its changes are counted.
#[derive(Debug, Clone)]
pub struct Since {
    /// The working tree.
    pub at: Checkout,
    /// The commit it is compared with.
    pub base: ObjectId,
    /// The commit checked out.
    pub head: Option<ObjectId>,
}

/// What is known of a working tree before the lines of commits are counted.
#[derive(Debug, Default)]
struct Partial {
    /// What is known already.
    plus: Changes,
    /// Trees that are still to be compared.
    committed: Option<(ObjectId, ObjectId)>,
}

impl Repo {
    /// Returns how much each of some working trees has changed, committed or not, untracked files included.
    pub fn changes_in_all(&self, wanted: &[Since]) -> Vec<Result<Changes>> {
        let looked = self.look_at_all(wanted);
        match self.counted(&looked) {
            Ok(counted) => looked
                .into_iter()
                .zip(counted)
                .map(|(partial, counted)| partial.map(|partial| partial.plus.and(counted)))
                .collect(),
            // Together it did not work: each for itself says which one it is.
            Err(_) => wanted
                .iter()
                .map(|since| self.changes_in(&since.at, since.base, since.head))
                .collect(),
        }
    }

    /// Looks at working trees on all cores: most of the time goes to the file system.
    fn look_at_all(&self, wanted: &[Since]) -> Vec<Result<Partial>> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let share = wanted.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let running: Vec<_> = wanted
                .chunks(share)
                .map(|part| {
                    let repo = self.clone();
                    let look = move || part.iter().map(|since| repo.partial(since)).collect();
                    scope.spawn::<_, Vec<Result<Partial>>>(look)
                })
                .collect();
            running
                .into_iter()
                .flat_map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        })
    }

    /// Counts the lines that all of them have committed in one call of git.
    fn counted(&self, looked: &[Result<Partial>]) -> Result<Vec<Changes>> {
        let pair =
            |partial: &Result<Partial>| partial.as_ref().ok().and_then(|known| known.committed);
        let pairs: Vec<(ObjectId, ObjectId)> = looked.iter().filter_map(pair).collect();
        let mut counts = match pairs.is_empty() {
            true => Vec::new(),
            false => pairs_of(self.git_common(), &pairs)?,
        }
        .into_iter();
        looked
            .iter()
            .map(|partial| match pair(partial) {
                None => Ok(Changes::default()),
                Some(_) => count(&counts.next().ok_or_else(|| {
                    Error::fatal("cannot understand the answer of 'git diff-tree'")
                })?),
            })
            .collect()
    }

    fn partial(&self, since: &Since) -> Result<Partial> {
        let Since { at, base, head } = since;
        let found = match head {
            // Whatever is in the way here, git says better.
            Some(head) => self.partial_here(at, *base, *head).ok().flatten(),
            None => None,
        };
        match found {
            Some(partial) => Ok(partial),
            None => Ok(Partial {
                plus: self.changes_in(at, *base, *head)?,
                ..Partial::default()
            }),
        }
    }

    /// Returns what can be told without git's rules for odd cases; `None` where they come in.
    fn partial_here(
        &self,
        at: &Checkout,
        base: ObjectId,
        head: ObjectId,
    ) -> Result<Option<Partial>> {
        let mut seen = self.look(at, Hidden::LookAway)?;
        let (base, committed) = (self.tree_of(base)?, self.tree_of(head)?);
        if seen.head != Some(head) || !seen.is_plain(self, committed) {
            return Ok(None);
        }
        let changed: BTreeSet<Vec<u8>> = seen.scan.changed.iter().cloned().collect();
        if changed.len() > MANY_FILES
            || (!changed.is_empty()
                && self.may_convert(at, &seen.index, &mut seen.disk, &changed)?)
        {
            return Ok(None);
        }
        let lister = self
            .git_in(at)
            .args(["ls-files", "-z", "--others", "--exclude-standard"])
            .spawn(Stdio::null(), Stdio::piped(), Stdio::null())?;
        let loose = match seen.loose(self, changed) {
            Some(0) => Ok(Some(Partial {
                committed: (base != committed).then_some((base, committed)),
                ..Partial::default()
            })),
            Some(uncommitted) => self.changes_of_files(at, base).map(|changes| {
                let plus = Changes {
                    uncommitted,
                    ..changes
                };
                Some(Partial {
                    plus,
                    committed: None,
                })
            }),
            None => Ok(None),
        };
        let listed = lister
            .wait_with_output()
            .context(|| "cannot list untracked files".into())?;
        let Some(mut partial) = loose?.filter(|_| listed.status.success()) else {
            return Ok(None);
        };
        let mut room = UNTRACKED_BYTES;
        for path in listed.stdout.split(|byte| *byte == 0) {
            if !path.is_empty() {
                partial.plus.files += 1;
                partial.plus.uncommitted += 1;
                partial.plus.added += lines_of(&at.top.join(OsStr::from_bytes(path)), &mut room);
            }
        }
        Ok(Some(partial))
    }
}

impl Seen {
    /// Returns how many files are not as they are staged; `None` where one cannot be read here.
    fn loose(&mut self, repo: &Repo, changed: BTreeSet<Vec<u8>>) -> Option<u64> {
        let mut loose = self.scan.deleted.len() as u64;
        for path in changed {
            let stat = self.disk.stat(&path).ok().flatten()?;
            if u64::try_from(stat.st_size).map_or(true, |size| size > LARGE_FILE) {
                return None;
            }
            // Only its id is wanted: what the batch holds is never written.
            let item = read_item(&mut self.disk, &path, &mut repo.batch());
            let item = item.ok().flatten()?;
            let staged = self.index.entry_by_path(path.as_bstr());
            let same = staged.is_some_and(|entry| entry.mode == item.mode && entry.id == item.id);
            loose += u64::from(!same);
        }
        Some(loose)
    }

    /// Returns whether exactly a commit's files are staged, and nothing is there that a tree cannot hold.
    fn is_plain(&self, repo: &Repo, committed: ObjectId) -> bool {
        let odd = self.index.entries().iter().any(|entry| {
            entry.stage() != Stage::Unconflicted || entry.flags.contains(Flags::INTENT_TO_ADD)
        });
        if odd || !self.scan.submodules.is_empty() {
            return false;
        }
        // What git wrote down when it last made a tree of the index saves making one.
        let known = self.index.tree().filter(|tree| tree.num_entries.is_some());
        let staged = match known {
            Some(tree) => Some(tree.id),
            None => build_trees(&mut repo.batch(), &staged_items(&self.index)),
        };
        staged == Some(committed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot_world::{World, link, run, set_mode, write};
    use super::*;

    type Script = fn(&std::path::Path);

    /// Makes a working tree in each of many states, and says what is to be counted in it.
    fn scenes(world: &World) -> Vec<Since> {
        let scripts: [(&str, Script); 14] = [
            ("clean", |_| {}),
            ("appended", |top| write(top, "a", "1\n2\n3\n4\n")),
            ("rewritten", |top| write(top, "dir/b", "x\ny\nx\n")),
            ("gone", |top| {
                std::fs::remove_file(top.join("a")).expect("gone")
            }),
            ("untracked", |top| write(top, "new/file", "1\n2")),
            ("executable", |top| set_mode(&top.join("a"), 0o755)),
            ("linked", |top| {
                std::fs::remove_file(top.join("a")).expect("gone");
                link(top, "a", "dir/b");
            }),
            ("binary", |top| write(top, "a", "1\0\n2\n")),
            ("touched", |top| write(top, "a", "1\n2\n3\n")),
            ("staged", |top| {
                write(top, "a", "staged\n");
                run(top, &["add", "a"]);
                write(top, "a", "then loose\nmore\n");
            }),
            ("announced", |top| {
                write(top, "later", "1\n");
                run(top, &["add", "-N", "later"]);
            }),
            ("replaced", |top| {
                std::fs::remove_file(top.join("a")).expect("gone");
                std::fs::create_dir(top.join("a")).expect("a directory");
                write(top, "a/inside", "1\n");
            }),
            ("attributes", |top| {
                write(top, ".gitattributes", "a -diff\n");
                write(top, "a", "other\n");
            }),
            ("committed", |top| {
                write(top, "a", "committed\n");
                write(top, "c", "new\n");
                run(top, &["add", "."]);
                run(top, &["commit", "-qm", "work"]);
                write(top, "a", "committed\nand not\n");
                std::fs::remove_file(top.join("c")).expect("gone");
            }),
        ];
        let base = world.git(&["rev-parse", "HEAD"]);
        let base = world.repo.parse_id(base.trim()).expect("an id");
        scripts
            .iter()
            .map(|(name, script)| {
                let at = world.worktree(name, &[]);
                script(&at.top);
                let head = world.repo.head_of(&at).expect("a head");
                Since { at, base, head }
            })
            .collect()
    }

    #[test]
    fn together_they_count_as_each_alone() {
        let world = World::new();
        world.write("a", "1\n2\n3\n");
        world.write("dir/b", "x\ny\nz\n");
        world.commit_all("base");
        let scenes = scenes(&world);
        let together = world.repo.changes_in_all(&scenes);
        assert_eq!(together.len(), scenes.len());
        for (since, found) in scenes.iter().zip(together) {
            let alone = world
                .repo
                .changes_in(&since.at, since.base, since.head)
                .expect("counted");
            assert_eq!(found.expect("counted"), alone, "{}", since.at.top.display());
        }
        let fast = |name: &str| {
            let since = scenes.iter().find(|since| since.at.top.ends_with(name));
            let since = since.expect("a scene");
            let head = since.head.expect("a commit");
            let found = world.repo.partial_here(&since.at, since.base, head);
            found.expect("looked at").is_some()
        };
        for name in [
            "clean",
            "appended",
            "gone",
            "untracked",
            "linked",
            "committed",
        ] {
            assert!(fast(name), "{name} needs no more of git");
        }
        for name in ["staged", "announced", "attributes"] {
            assert!(!fast(name), "{name} is for git");
        }
    }
}
