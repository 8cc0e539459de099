//! Finds names that git refuses to check out, such as `.git`, `git~1` and their equivalents on other file systems. A
//! snapshot may contain them, so that nothing is lost, but a commit with one could not be checked out or cloned.
//!
//! Only new names are checked: existing ones are the user's own decision.

use gix::bstr::{BStr, ByteSlice as _};
use gix::objs::tree::EntryKind;
use gix::validate::path::component::{Mode, Options};

use crate::error::{Context, Error, Result};
use crate::git::diff::paths::{Comparer, DEPTH, Entry};
use crate::git::{ObjectId, Repo};

/// How many bytes of trees are cached while many commits are checked.
const MEMORY: usize = 4 << 20;

impl Repo {
    /// Returns a path of a tree that git refuses to check out and that none of the other trees has.
    pub fn refused_path(&self, known: &[ObjectId], tree: ObjectId) -> Result<Option<String>> {
        Search::new(Comparer::new(self, 0)).run(known, tree)
    }

    /// Returns a path that git refuses to check out and that a commit of `tip`, but not of `hidden`, adds.
    pub fn refused_path_between(&self, hidden: ObjectId, tip: ObjectId) -> Result<Option<String>> {
        let search = Search::new(Comparer::new(self, MEMORY));
        for (id, _) in self.ids_between(hidden, tip)? {
            let cannot = || format!("cannot read commit {id}");
            let commit = self.gix().find_commit(id).context(cannot)?;
            let parents: Vec<ObjectId> = commit.parent_ids().map(|id| id.detach()).collect();
            // Parents that a shallow clone lacks cannot be compared.
            let parents = parents
                .iter()
                .filter_map(|parent| self.tree_of(*parent).ok());
            let parents: Vec<ObjectId> = parents.collect();
            let tree = commit.tree_id().context(cannot)?.detach();
            if let Some(path) = search.run(&parents, tree)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Fails if a tree has a path that git refuses to check out and that none of its parents has.
    pub fn refuse_bad_paths(&self, parents: &[ObjectId], tree: ObjectId) -> Result<()> {
        let known = parents.iter().map(|parent| self.tree_of(*parent));
        let known: Vec<ObjectId> = known.collect::<Result<_>>()?;
        match self.refused_path(&known, tree)? {
            Some(path) => Err(refused(&path)),
            None => Ok(()),
        }
    }
}

/// Returns the error for a path that git refuses to check out.
pub fn refused(path: &str) -> Error {
    Error::fatal(format!(
        "'{path}' cannot be committed: git refuses to check out such a name"
    ))
    .hint("rename or remove it")
}

struct Search {
    comparer: Comparer,
}

impl Search {
    fn new(comparer: Comparer) -> Self {
        Search { comparer }
    }

    fn run(&self, known: &[ObjectId], tree: ObjectId) -> Result<Option<String>> {
        let found = self.below(known, tree, 0)?;
        Ok(found.map(|path| path.to_str_lossy().into_owned()))
    }

    fn below(&self, known: &[ObjectId], tree: ObjectId, depth: usize) -> Result<Option<Vec<u8>>> {
        if known.contains(&tree) {
            return Ok(None);
        }
        if depth > DEPTH {
            return Err(Error::fatal("a tree is too deep to check"));
        }
        let known: Vec<Vec<Entry>> = known
            .iter()
            .map(|id| self.comparer.entries(Some(*id)))
            .collect::<Result<_>>()?;
        for entry in self.comparer.entries(Some(tree))? {
            let mut same = Vec::new();
            for entries in &known {
                let found = entries.binary_search_by(|known| known.name.cmp(&entry.name));
                same.extend(found.ok().map(|at| &entries[at]));
            }
            if same.is_empty() && is_refused(&entry.name, entry.kind) || entry.id.is_null() {
                return Ok(Some(entry.name));
            }
            if entry.kind != EntryKind::Tree {
                continue;
            }
            let dirs = same.iter().filter(|known| known.kind == EntryKind::Tree);
            let dirs: Vec<ObjectId> = dirs.map(|known| known.id).collect();
            if let Some(path) = self.below(&dirs, entry.id, depth + 1)? {
                return Ok(Some([&entry.name, &b"/"[..], &path].concat()));
            }
        }
        Ok(None)
    }
}

/// Returns whether git refuses to check out a name, here or on another system, by its own rules for all systems.
fn is_refused(name: &[u8], kind: EntryKind) -> bool {
    let options = Options {
        protect_windows: false,
        protect_hfs: true,
        protect_ntfs: true,
    };
    let mode = (kind == EntryKind::Link).then_some(Mode::Symlink);
    let is_bad =
        |part: &[u8], mode| gix::validate::path::component(BStr::new(part), mode, options).is_err();
    // On other systems a backslash separates directories; there only git's own directory matters.
    let mut parts = name.split(|byte| *byte == b'\\');
    let is_plain = |part: &[u8]| matches!(part, b"" | b"." | b"..");
    is_bad(name, mode) || parts.any(|part| !is_plain(part) && is_bad(part, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_any_file_system_takes_for_gits_directory_is_refused() {
        for name in [
            ".git",
            ".GIT",
            "git~1",
            "GIT~1",
            ".git ",
            ".git.",
            ".git. .",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            ".g\u{200c}it",
            "a\\.git\\x",
            "..",
            ".",
            "a/b",
            "",
        ] {
            assert!(is_refused(name.as_bytes(), EntryKind::Blob), "{name:?}");
        }
        for name in [
            ".gitignore",
            ".gitmodules",
            ".git2",
            "git",
            "git~2",
            "a\\b",
            "aux",
            "a:b",
            "a ",
            "...",
            "\u{200c}git",
            "\\",
            "a\\..\\b",
        ] {
            assert!(!is_refused(name.as_bytes(), EntryKind::Blob), "{name:?}");
        }
        assert!(is_refused(b".gitmodules", EntryKind::Link));
        assert!(is_refused(b"gitmod~1", EntryKind::Link));
        assert!(!is_refused(b".gitignore", EntryKind::Link));
    }
}
