//! What of a working tree differs from its index, found with one `lstat` an entry.
//!
//! The rule is git's: an entry whose recorded stat data equals the file's, and that is not too young to be sure, is
//! unchanged. Where git's rule leaves room, the stricter reading is taken: a file looked at twice costs time only.

use gix::bstr::ByteSlice;
use gix::index::entry::{Flags, Mode, Stage};
use rustix::fs::{FileType, Stat};

use crate::cores;
use crate::error::{Context, Error, Result};
use crate::git::diff::Delta;
use crate::git::snapshot::beneath::{Disk, is_safe};
use crate::git::snapshot::capture::{Checkout, is_sparse};
use crate::git::{ObjectId, Repo};

/// Files younger than this before the index was written are looked into: clocks of file systems tick coarsely.
const YOUNG_NANOS: i128 = 20_000_000;

/// So many entries are worth another thread.
const ENTRIES_OF_A_CORE: usize = 1000;

/// What is done about entries that the user told git to look away from (`--assume-unchanged`, `--skip-worktree`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// The file counts, if there is one: nothing may be lost.
    Look,
    /// The entry counts, as it does for git.
    LookAway,
}

/// Why something is not part of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A repository of its own inside the working tree, not known as a submodule; its files stay where they are.
    Repository,
    /// A checked-out submodule: its commit is recorded, its uncommitted changes are not.
    Submodule,
    /// Neither a file nor a link nor a directory.
    Special,
    /// Nobody let us read it.
    Unreadable,
    /// An untracked file that is larger than `agent.maxSnapshot` allows.
    Large,
    /// git takes its name for one of its own and keeps nothing of it.
    GitName,
}

/// Something that is in the working tree and not in its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Where, from the top, in git's form.
    pub path: Vec<u8>,
    /// Why.
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
            Reason::Repository => "a repository of its own",
            Reason::Submodule => "a submodule",
            Reason::Special => "neither a file nor a link nor a directory",
            Reason::Unreadable => "it cannot be read",
            Reason::Large => "it is larger than agent.maxSnapshot",
            Reason::GitName => "git keeps nothing of that name",
        };
        write!(f, "'{}' ({why})", String::from_utf8_lossy(&self.path))
    }
}

/// The difference between an index and the files.
#[derive(Debug, Default)]
pub(in crate::git) struct Scan {
    /// Paths of the index whose file is there and may differ, sorted.
    pub(in crate::git) changed: Vec<Vec<u8>>,
    /// Submodules that are checked out, sorted.
    pub(in crate::git) submodules: Vec<Vec<u8>>,
    /// Paths of the index whose file is gone, sorted.
    pub(in crate::git) deleted: Vec<Vec<u8>>,
    /// What cannot be recorded.
    pub(in crate::git) left_out: Vec<LeftOut>,
}

/// How a working tree is looked at.
#[derive(Debug, Clone, Copy)]
pub(in crate::git) struct Manner {
    /// What to do about entries that git was told to look away from.
    pub(in crate::git) hidden: Hidden,
    /// Whether files outside a cone are meant to be missing.
    pub(in crate::git) sparse: bool,
}

impl Manner {
    /// Returns how a working tree is looked at.
    pub(in crate::git) fn of(at: &Checkout, hidden: Hidden) -> Self {
        Manner {
            hidden,
            sparse: is_sparse(at),
        }
    }
}

/// How stat data is compared.
#[derive(Debug, Clone, Copy)]
pub(in crate::git) struct Rules {
    manner: Manner,
    trust_ctime: bool,
    minimal: bool,
    empty_blob: ObjectId,
    /// When the index was written, in nanoseconds since 1970.
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
                let mut disk = disk.context(|| "cannot look at the files".to_owned())?;
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
        // The sides of a conflict may have come to two parts.
        scan.changed.dedup();
        scan.submodules.dedup();
        scan.deleted.dedup();
        scan.left_out.dedup();
        Ok(scan)
    }

    /// Returns how many of the first files of a diff lie in a working tree exactly as its later side has them, whatever else
    /// is there. Where submodules are checked out, none counts: what is to be said about those comes first.
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
                "the index has an entry with the impossible path '{}'",
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
            .context(|| format!("cannot look at '{}'", String::from_utf8_lossy(path)))?;
        let Some(stat) = stat else {
            if unmerged {
                last_unmerged = path;
            }
            // Outside a sparse checkout's cone, and nothing there: as the index has it.
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
                    .context(|| "cannot look at a submodule".to_owned())?;
                if checked_out.is_some() {
                    scan.submodules.push(path.to_vec());
                    scan.left_out.push(LeftOut {
                        path: path.to_vec(),
                        reason: Reason::Submodule,
                    });
                }
            }
            // Its place is taken by a directory, whose files count by themselves.
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

/// Returns whether a file is as an entry of an index says, by git's rule.
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
    // git empties the recorded size of an entry that it is not sure about.
    let unsure = known.size == 0 && entry.id != rules.empty_blob;
    // The index keeps the low 32 bits of everything.
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
    // Without nanoseconds anything in the index's own second is too young.
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
