//! Copies untracked files that a new worktree needs, as named by `.worktreeinclude`.
//!
//! The file has `.gitignore` syntax. Only untracked files are copied, ignored or not; existing files are not
//! overwritten; symlinks stay symlinks; nested repositories are skipped. Blocks are shared where the file system
//! supports it.

pub(crate) mod copy;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gix::bstr::{BStr, BString, ByteSlice};
use gix::glob::pattern::Case;

use crate::error::{Context, Result};
use crate::git::Repo;
use crate::git::worktree::include::copy::{Copier, CopyOutcome};

/// The name of the file with the patterns, at the top of the main worktree.
pub const FILE_NAME: &str = ".worktreeinclude";

/// A larger directory or file is copied only by sharing blocks, unless the user asks for more.
const LARGE_BYTES: u64 = 64 << 20;
/// The same for the number of files in a directory.
const LARGE_FILES: usize = 2_000;
/// How many entries of one untracked directory are searched for matches.
const SEARCHED: usize = 20_000;

/// The treatment of large directories on a file system that cannot share blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Large {
    /// Skip them, and report that.
    #[default]
    OnlyShared,
    /// Copy them byte for byte.
    Always,
}

/// The reason why a named file is not in the new worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A file already exists there or is in the way.
    Exists,
    /// It is tracked, so git has checked it out.
    Tracked,
    /// It is a nested repository or worktree.
    Repository,
    /// It is not a file, a directory or a symlink.
    Special,
    /// It is large and its blocks cannot be shared.
    Large {
        /// The number of files in it.
        files: usize,
        /// Their total size.
        bytes: u64,
    },
    /// It contains too many files to search.
    Unsearched,
    Unreadable,
}

/// A file that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The path from the top.
    pub path: BString,
    pub reason: Reason,
}

/// The result of copying.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Included {
    /// The number of files and symlinks created.
    pub files: usize,
    /// Their total size.
    pub bytes: u64,
    /// The number of them that share blocks with the original.
    pub shared: usize,
    /// The named files that assign variables, copied or already there.
    pub env_files: Vec<BString>,
    /// The named files that were not copied, in order.
    pub left_out: Vec<LeftOut>,
}

/// Copies the files that match `patterns` from one worktree to another.
///
/// `from_index` and `to_index` are the index files of both: files tracked in either are not copied.
pub fn include(
    repo: &Repo,
    patterns: &[u8],
    from: (&Path, &Path),
    to: (&Path, &Path),
    large: Large,
) -> Result<Included> {
    let mut search = gix::ignore::Search::default();
    search
        .add_patterns_buffer(
            patterns,
            FILE_NAME,
            None,
            gix::ignore::search::Ignore::default(),
        )
        .context(|| format!("cannot read the patterns of '{FILE_NAME}'"))?;
    let case = if repo.config_bool("core.ignorecase")?.unwrap_or(false) {
        Case::Fold
    } else {
        Case::Sensitive
    };
    let copier =
        Copier::new(from.0, to.0).context(|| format!("cannot open '{}'", to.0.display()))?;
    let mut walk = Walk {
        search,
        case,
        from: from.0.to_owned(),
        theirs: read_index(repo, from.1)?,
        ours: read_index(repo, to.1)?,
        large,
        copier,
        done: Included::default(),
    };
    walk.directory(BStr::new(""), None)?;
    Ok(walk.done)
}

/// Reads the patterns at the top of a worktree; returns `None` if there are none.
pub fn read_patterns(top: &Path) -> Result<Option<Vec<u8>>> {
    let path = top.join(FILE_NAME);
    match fs::read(&path) {
        Ok(patterns) => Ok(Some(patterns)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(|| format!("cannot read '{}'", path.display())),
    }
}

/// Returns whether a file's name indicates assignments of variables: `.env`, `.env.local`, `.envrc`, `app.env`.
fn is_env_file(path: &BStr) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(b".env") || name.ends_with(b".env")
}

fn read_index(repo: &Repo, path: &Path) -> Result<gix::index::State> {
    gix::index::File::at_or_default(path, repo.hash_kind(), true, Default::default())
        .map(Into::into)
        .context(|| format!("cannot read the index '{}'", path.display()))
}

struct Walk {
    search: gix::ignore::Search,
    case: Case,
    from: PathBuf,
    theirs: gix::index::State,
    ours: gix::index::State,
    large: Large,
    copier: Copier,
    done: Included,
}

/// The files below a named directory.
#[derive(Default)]
struct Bundle {
    directories: Vec<BString>,
    files: Vec<BString>,
    bytes: u64,
}

impl Walk {
    /// Searches a directory for named files. `budget` is set below an untracked one.
    fn directory(&mut self, directory: &BStr, mut budget: Option<&mut usize>) -> Result<()> {
        for (path, kind) in self.entries(directory) {
            if let Some(left) = budget.as_deref_mut() {
                if *left == 0 {
                    return Ok(());
                }
                *left -= 1;
            }
            let Ok(kind) = kind else {
                self.leave_out(path.as_ref(), Reason::Unreadable);
                continue;
            };
            let named = self.is_named(path.as_ref(), kind.is_dir());
            if kind.is_dir() {
                if self.is_repository(path.as_ref()) {
                    if named {
                        self.leave_out(path.as_ref(), Reason::Repository);
                    }
                } else if named {
                    self.take_directory(path)?;
                } else if self.holds_tracked(path.as_ref()) || budget.is_some() {
                    self.directory(path.as_ref(), budget.as_deref_mut())?;
                } else {
                    let mut fresh = SEARCHED;
                    self.directory(path.as_ref(), Some(&mut fresh))?;
                    if fresh == 0 {
                        self.leave_out(path.as_ref(), Reason::Unsearched);
                    }
                }
            } else if named && !self.is_tracked(path.as_ref()) {
                let bytes =
                    fs::symlink_metadata(self.original(path.as_ref())).map_or(0, |meta| meta.len());
                self.take(
                    Bundle {
                        directories: Vec::new(),
                        files: vec![path.clone()],
                        bytes,
                    },
                    &path,
                )?;
            }
        }
        Ok(())
    }

    fn take_directory(&mut self, path: BString) -> Result<()> {
        let mut bundle = Bundle::default();
        self.collect(path.clone(), &mut bundle);
        self.take(bundle, &path)
    }

    /// Collects all untracked files below a named directory.
    fn collect(&mut self, directory: BString, bundle: &mut Bundle) {
        bundle.directories.push(directory.clone());
        for (path, kind) in self.entries(directory.as_ref()) {
            match kind {
                Err(_) => self.leave_out(path.as_ref(), Reason::Unreadable),
                Ok(kind) if kind.is_dir() && self.is_repository(path.as_ref()) => {
                    self.leave_out(path.as_ref(), Reason::Repository);
                }
                Ok(kind) if kind.is_dir() => self.collect(path, bundle),
                Ok(_) if self.is_tracked(path.as_ref()) => {}
                Ok(_) => {
                    bundle.bytes += fs::symlink_metadata(self.original(path.as_ref()))
                        .map_or(0, |meta| meta.len());
                    bundle.files.push(path);
                }
            }
        }
    }

    fn take(&mut self, bundle: Bundle, named: &BString) -> Result<()> {
        let is_large = bundle.bytes > LARGE_BYTES || bundle.files.len() > LARGE_FILES;
        let must_share = is_large && self.large == Large::OnlyShared;
        if must_share && !self.copier.can_share() {
            self.leave_out(
                named.as_ref(),
                Reason::Large {
                    files: bundle.files.len(),
                    bytes: bundle.bytes,
                },
            );
            return Ok(());
        }
        for directory in &bundle.directories {
            // A failure shows in the files that cannot be written there.
            let _ = self.copier.directory(directory.as_ref());
        }
        for path in &bundle.files {
            if is_env_file(path.as_ref()) {
                self.done.env_files.push(path.clone());
            }
            match self.copier.copy(path.as_ref(), must_share) {
                Ok(CopyOutcome::Copied { bytes, shared }) => {
                    self.done.files += 1;
                    self.done.bytes += bytes;
                    self.done.shared += usize::from(shared);
                }
                Ok(CopyOutcome::LeftOut(reason)) => self.leave_out(path.as_ref(), reason),
                Err(error) => {
                    return Err(error).context(|| format!("cannot copy '{path}'"));
                }
            }
        }
        Ok(())
    }

    /// Returns a directory's entries in a stable order, without `.git`.
    fn entries(&mut self, directory: &BStr) -> Vec<(BString, io::Result<fs::FileType>)> {
        let Ok(entries) = fs::read_dir(self.original(directory)) else {
            self.leave_out(directory, Reason::Unreadable);
            return Vec::new();
        };
        let mut all: Vec<_> = entries
            .flatten()
            .filter(|entry| entry.file_name() != ".git")
            .map(|entry| {
                let mut path = BString::from(directory.to_vec());
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(entry.file_name().as_bytes());
                (path, entry.file_type())
            })
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    fn is_named(&self, path: &BStr, is_directory: bool) -> bool {
        let basename = path.rfind_byte(b'/').map(|slash| slash + 1);
        self.search
            .patterns
            .iter()
            .rev()
            .find_map(|list| {
                gix::ignore::search::pattern_matching_relative_path(
                    list,
                    path,
                    basename,
                    Some(is_directory),
                    self.case,
                )
            })
            .is_some_and(|found| !found.pattern.is_negative())
    }

    fn is_tracked(&mut self, path: &BStr) -> bool {
        if self.theirs.entry_by_path(path).is_some() {
            return true;
        }
        if self.ours.entry_by_path(path).is_some() {
            self.leave_out(path, Reason::Tracked);
            return true;
        }
        false
    }

    fn holds_tracked(&self, directory: &BStr) -> bool {
        let prefix = [directory.as_bytes(), b"/"].concat();
        let entries = self.theirs.entries();
        let at = entries.partition_point(|entry| entry.path(&self.theirs) < prefix.as_bstr());
        entries
            .get(at)
            .is_some_and(|entry| entry.path(&self.theirs).starts_with(&prefix))
    }

    fn is_repository(&self, path: &BStr) -> bool {
        fs::symlink_metadata(self.original(path).join(".git")).is_ok()
    }

    fn original(&self, path: &BStr) -> PathBuf {
        self.from.join(OsStr::from_bytes(path))
    }

    fn leave_out(&mut self, path: &BStr, reason: Reason) {
        self.done.left_out.push(LeftOut {
            path: path.to_owned(),
            reason,
        });
    }
}
