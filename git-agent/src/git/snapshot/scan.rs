//! Finds the differences between a worktree and its index, with one `lstat` per entry.
//!
//! The rule is git's: an entry is unchanged if its recorded stat data equals the file's and is old enough to be
//! certain. Where git's rule leaves room, the stricter reading is taken: an unnecessary comparison only costs time. A
//! snapshot of 5,000 files takes 0.73 × the time of `git stash create` (`bench-snapshot`).

use gix::bstr::ByteSlice;
use gix::index::entry::{Flags, Mode, Stage};
use rustix::fs::{FileType, Stat};

use crate::cores;
use crate::error::{Context, Error, Result};
use crate::git::diff::Delta;
use crate::git::snapshot::beneath::{Disk, is_safe};
use crate::git::snapshot::capture::{Checkout, is_sparse};
use crate::git::{ObjectId, Repo};

/// Files that changed this shortly before the index was written are compared, because file system clocks are coarse.
const YOUNG_NANOS: i128 = 20_000_000;

/// This many entries justify another thread.
const ENTRIES_OF_A_CORE: usize = 1000;

/// The treatment of entries marked `--assume-unchanged` or `--skip-worktree`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// The file counts, if there is one, so that nothing is lost.
    Look,
    /// The entry counts, as in git.
    LookAway,
}

/// The reason why a file is not part of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A nested repository that is not a submodule; its files stay in place.
    Repository,
    /// A checked-out submodule: its commit is recorded, its uncommitted changes are not.
    Submodule,
    /// Neither a file, a link nor a directory.
    Special,
    /// Not readable.
    Unreadable,
    /// An untracked file larger than `agent.maxSnapshot`.
    Large,
    /// A name that git reserves and never records.
    GitName,
}

/// A file of the worktree that is not in its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The path from the top, in git's form.
    pub path: Vec<u8>,
    pub reason: Reason,
}

impl LeftOut {
    /// Returns whether it is left out for its size alone.
    pub fn is_too_large(&self) -> bool {
        self.reason == Reason::Large
    }
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match self.reason {
            Reason::Repository => "a nested repository",
            Reason::Submodule => "a submodule",
            Reason::Special => "not a file, a link or a directory",
            Reason::Unreadable => "unreadable",
            Reason::Large => "larger than agent.maxSnapshot",
            Reason::GitName => "git does not record this name",
        };
        write!(f, "'{}' ({why})", String::from_utf8_lossy(&self.path))
    }
}

/// The difference between an index and the files.
#[derive(Debug, Default)]
pub(in crate::git) struct Scan {
    /// Paths of the index whose file exists and may differ, sorted.
    pub(in crate::git) changed: Vec<Vec<u8>>,
    /// Submodules that are checked out, sorted.
    pub(in crate::git) submodules: Vec<Vec<u8>>,
    /// Paths of the index whose file is missing, sorted.
    pub(in crate::git) deleted: Vec<Vec<u8>>,
    /// Files that cannot be recorded.
    pub(in crate::git) left_out: Vec<LeftOut>,
}

/// The options of a scan.
#[derive(Debug, Clone, Copy)]
pub(in crate::git) struct Manner {
    /// The treatment of marked entries.
    pub(in crate::git) hidden: Hidden,
    /// Whether files outside the cone are supposed to be missing.
    pub(in crate::git) sparse: bool,
}

impl Manner {
    /// Returns the options for a worktree.
    pub(in crate::git) fn of(at: &Checkout, hidden: Hidden) -> Self {
        Manner {
            hidden,
            sparse: is_sparse(at),
        }
    }
}

/// The rules for comparing stat data.
#[derive(Debug, Clone, Copy)]
pub(in crate::git) struct Rules {
    manner: Manner,
    trust_ctime: bool,
    minimal: bool,
    empty_blob: ObjectId,
    /// The time at which the index was written, in nanoseconds since 1970.
    index_written: i128,
}

impl Repo {
    /// Compares an index with the files below a top.
    pub(in crate::git) fn scan(
        &self,
        index: &gix::index::File,
        disk: &Disk,
        manner: Manner,
    ) -> Result<Scan> {
        let rules = self.rules(index, manner)?;
        let parts = cores::parts(
            index.entries(),
            ENTRIES_OF_A_CORE,
            || disk.again(),
            |disk, entries| {
                let mut disk = disk.context(|| "cannot read the files".to_owned())?;
                scan_part(index, entries, &mut disk, rules)
            },
        );
        let mut scan = Scan::default();
        for part in parts {
            let part = part?;
            scan.changed.extend(part.changed);
            scan.submodules.extend(part.submodules);
            scan.deleted.extend(part.deleted);
            scan.left_out.extend(part.left_out);
        }
        // The sides of a conflict may have gone to two parts.
        scan.changed.dedup();
        scan.submodules.dedup();
        scan.deleted.dedup();
        scan.left_out.dedup();
        Ok(scan)
    }

    /// Returns how many of the first files of a diff have exactly the content of its new side in a worktree. Returns 0
    /// if submodules are checked out, because those are reported first.
    pub fn first_unchanged(&self, at: &Checkout, deltas: &[Delta]) -> Result<usize> {
        let index = self.read_index(&at.admin_dir.join("index"))?;
        let rules = self.rules(&index, Manner::of(at, Hidden::Look))?;
        if index
            .entries()
            .iter()
            .any(|entry| entry.mode == Mode::COMMIT)
        {
            return Ok(0);
        }
        let mut disk =
            Disk::open(&at.top).context(|| format!("cannot open '{}'", at.top.display()))?;
        for (count, delta) in deltas.iter().enumerate() {
            let entry = index.entry_by_path_and_stage(delta.path.as_bstr(), Stage::Unconflicted);
            let as_compared = entry.filter(|entry| {
                matches!(delta.status, 'M' | 'A')
                    && Some(entry.id) == delta.new_id
                    && entry.mode.bits() == delta.new_mode
                    && !entry.flags.contains(Flags::INTENT_TO_ADD)
                    && is_safe(&delta.path)
            });
            let Some(entry) = as_compared else {
                return Ok(count);
            };
            match disk.stat(&delta.path) {
                Ok(Some(stat)) if is_unchanged(entry, &stat, rules) => {}
                _ => return Ok(count),
            }
        }
        Ok(deltas.len())
    }

    pub(in crate::git) fn rules(&self, index: &gix::index::File, manner: Manner) -> Result<Rules> {
        let written = index.timestamp();
        Ok(Rules {
            manner,
            trust_ctime: self.config_bool("core.trustctime")?.unwrap_or(true),
            minimal: self.config_string("core.checkStat").as_deref() == Some("minimal"),
            empty_blob: ObjectId::empty_blob(self.hash_kind()),
            index_written: i128::from(written.unix_seconds()) * 1_000_000_000
                + i128::from(written.nanoseconds()),
        })
    }
}

/// Compares a part of an index with the files.
fn scan_part(
    index: &gix::index::File,
    entries: &[gix::index::Entry],
    disk: &mut Disk,
    rules: Rules,
) -> Result<Scan> {
    let manner = rules.manner;
    let mut scan = Scan::default();
    let mut last_unmerged: &[u8] = &[];
    for entry in entries {
        let path: &[u8] = entry.path(index);
        let bare = path.strip_suffix(b"/").unwrap_or(path);
        if !is_safe(bare) {
            return Err(Error::fatal(format!(
                "the index has an entry with the invalid path '{}'",
                String::from_utf8_lossy(path).escape_debug()
            )));
        }
        if entry.mode == Mode::DIR {
            continue;
        }
        let looked_away = entry
            .flags
            .intersects(Flags::ASSUME_VALID | Flags::SKIP_WORKTREE);
        if looked_away && manner.hidden == Hidden::LookAway {
            continue;
        }
        let unmerged = entry.stage() != Stage::Unconflicted;
        if unmerged && path == last_unmerged {
            continue;
        }
        let stat = disk
            .stat(path)
            .context(|| format!("cannot read '{}'", String::from_utf8_lossy(path)))?;
        let Some(stat) = stat else {
            if unmerged {
                last_unmerged = path;
            }
            // Outside a sparse checkout's cone and missing, as the index expects.
            if !(manner.sparse && entry.flags.contains(Flags::SKIP_WORKTREE)) {
                scan.deleted.push(path.to_vec());
            }
            continue;
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if unmerged {
            last_unmerged = path;
        }
        match kind {
            FileType::Directory if entry.mode == Mode::COMMIT => {
                let mut dot_git = path.to_vec();
                dot_git.extend_from_slice(b"/.git");
                let checked_out = disk
                    .stat(&dot_git)
                    .context(|| "cannot read a submodule".to_owned())?;
                if checked_out.is_some() {
                    scan.submodules.push(path.to_vec());
                    scan.left_out.push(LeftOut {
                        path: path.to_vec(),
                        reason: Reason::Submodule,
                    });
                }
            }
            // A directory is in its place, and its files count separately.
            FileType::Directory => scan.deleted.push(path.to_vec()),
            FileType::RegularFile | FileType::Symlink => {
                let known = !unmerged
                    && !entry.flags.contains(Flags::INTENT_TO_ADD)
                    && is_unchanged(entry, &stat, rules);
                if !known {
                    scan.changed.push(path.to_vec());
                }
            }
            _ => {
                scan.deleted.push(path.to_vec());
                scan.left_out.push(LeftOut {
                    path: path.to_vec(),
                    reason: Reason::Special,
                });
            }
        }
    }
    Ok(scan)
}

/// Returns whether a file is unchanged according to its index entry, by git's rule.
pub(in crate::git) fn is_unchanged(entry: &gix::index::Entry, stat: &Stat, rules: Rules) -> bool {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let executable = stat.st_mode & 0o100 != 0;
    let right_kind = match entry.mode {
        Mode::FILE => kind == FileType::RegularFile && !executable,
        Mode::FILE_EXECUTABLE => kind == FileType::RegularFile && executable,
        Mode::SYMLINK => kind == FileType::Symlink,
        _ => false,
    };
    let known = &entry.stat;
    // git clears the recorded size of an entry that it is not certain about.
    let unsure = known.size == 0 && entry.id != rules.empty_blob;
    // The index keeps the low 32 bits of all values.
    let low = |value: i64| value as u32;
    let (mtime, ctime) = (
        (low(stat.st_mtime), stat.st_mtime_nsec as u32),
        (low(stat.st_ctime), stat.st_ctime_nsec as u32),
    );
    let same_time = |known: gix::index::entry::stat::Time, now: (u32, u32)| {
        known.secs == now.0 && (known.nsecs == now.1 || known.nsecs == 0 || rules.minimal)
    };
    if !right_kind
        || unsure
        || known.size != low(stat.st_size)
        || !same_time(known.mtime, mtime)
        || (rules.trust_ctime && !rules.minimal && !same_time(known.ctime, ctime))
    {
        return false;
    }
    if !rules.minimal
        && (known.ino != stat.st_ino as u32 || known.uid != stat.st_uid || known.gid != stat.st_gid)
    {
        return false;
    }
    // Without nanoseconds, a file of the index's own second is too young.
    let (at, margin) = if known.mtime.nsecs == 0 || rules.minimal {
        (i128::from(known.mtime.secs) * 1_000_000_000, 1_000_000_000)
    } else {
        let nanos = i128::from(known.mtime.nsecs);
        (
            i128::from(known.mtime.secs) * 1_000_000_000 + nanos,
            YOUNG_NANOS,
        )
    };
    at + margin < rules.index_written
}
