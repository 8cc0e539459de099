//! Refs: listed and read by full name, changed only by compare-and-swap.
//!
//! On the files backend a single ref is changed here, because gix does not sync refs to disk, and a ref that is empty
//! after a power cut breaks the repository. Many refs at once, deletions, and everything on reftable go through git.

pub mod move_log;
pub(crate) mod packed;
pub mod reflog;
pub mod stale_locks;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::file::{Temporary, jitter, sync_dir};
use crate::git::{ObjectId, RefBackend, Repo};

/// How often a busy lock is retried. With the delays below that takes about two seconds.
pub(in crate::git) const ATTEMPTS: u32 = 24;
/// How often a new value is made for a ref that another process moved meanwhile.
const UPDATES: u32 = 8;
/// How often refs are read again after a concurrent packing, before git is asked.
const PACKING: u32 = 3;

/// A readable ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ref {
    /// Its full name.
    pub name: String,
    /// The object it points at.
    pub id: ObjectId,
}

/// The value of a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Object(ObjectId),
    /// The name of another ref.
    Symbolic(String),
}

/// The refs under a prefix.
#[derive(Debug, Default)]
pub struct RefList {
    /// The readable ones, sorted by name.
    pub refs: Vec<Ref>,
    /// The unreadable ones, with the reason.
    pub broken: Vec<(String, String)>,
}

/// The required old value of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It must not exist.
    Absent,
    /// It must point at this object.
    At(ObjectId),
}

#[derive(Debug, Clone)]
pub struct RefChange {
    /// Full name.
    pub name: String,
    /// The required old value.
    pub expected: Expected,
    /// The new value; `None` deletes the ref.
    pub new: Option<ObjectId>,
}

impl RefChange {
    /// Returns the change as a line of `git update-ref --stdin -z`.
    pub(super) fn script_line(&self, null: ObjectId) -> String {
        let old = match self.expected {
            Expected::Absent => null,
            Expected::At(id) => id,
        };
        match self.new {
            Some(new) => format!("update {}\0{new}\0{old}\0", self.name),
            None => format!("delete {}\0{old}\0", self.name),
        }
    }
}

/// The result of a compare-and-swap.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Swap {
    /// The ref has the new value, durably.
    Done,
    /// Another process was faster; nothing was changed.
    Stale,
}

/// Returns the identity of a `packed-refs` file.
fn packed_refs(common_dir: &Path) -> Option<(u64, u64, i64, i64)> {
    let meta = fs::metadata(common_dir.join("packed-refs")).ok()?;
    Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// Reads refs from their files, and repeats that after a concurrent packing: a ref that moves to `packed-refs` during
/// the read could be missed in both places. Returns `None` if packing never stops.
pub(in crate::git) fn unpacked_meanwhile<T>(
    common_dir: &Path,
    mut read: impl FnMut() -> Result<T>,
) -> Result<Option<T>> {
    for _ in 0..PACKING {
        let before = packed_refs(common_dir);
        let found = read()?;
        if packed_refs(common_dir) == before {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

impl Repo {
    /// Returns the refs under a prefix that ends in `/`.
    pub fn refs_under(&self, prefix: &str) -> Result<RefList> {
        if self.ref_backend() == RefBackend::Files
            && let Some(list) =
                unpacked_meanwhile(self.common_dir(), || self.refs_under_files(prefix))?
        {
            return Ok(list);
        }
        self.refs_under_from_git(prefix)
    }

    fn refs_under_files(&self, prefix: &str) -> Result<RefList> {
        let cannot = || format!("cannot list refs under '{prefix}'");
        let mut list = RefList::default();
        let platform = self.gix().references().context(cannot)?;
        for found in platform.prefixed(prefix).context(cannot)? {
            match found {
                Ok(found) => {
                    let name = found.name().as_bstr().to_string();
                    match found.try_id() {
                        Some(id) => list.refs.push(Ref {
                            name,
                            id: id.detach(),
                        }),
                        None => list.broken.push((name, "a symbolic ref".to_owned())),
                    }
                }
                Err(error) => list.broken.push((String::new(), error.to_string())),
            }
        }
        Ok(list)
    }

    fn refs_under_from_git(&self, prefix: &str) -> Result<RefList> {
        let answer = self
            .git_common()
            .args([
                "for-each-ref",
                "--format=%(objectname)%00%(symref)%00%(refname)",
                prefix,
            ])
            .run()?;
        let mut list = RefList::default();
        for line in answer
            .stdout
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let line = String::from_utf8_lossy(line);
            let mut fields = line.splitn(3, '\0');
            let (Some(id), Some(symref), Some(name)) =
                (fields.next(), fields.next(), fields.next())
            else {
                return Err(Error::fatal(
                    "cannot parse the output of 'git for-each-ref'",
                ));
            };
            if !symref.is_empty() {
                list.broken
                    .push((name.to_owned(), "a symbolic ref".to_owned()));
                continue;
            }
            list.refs.push(Ref {
                name: name.to_owned(),
                id: self.parse_id(id)?,
            });
        }
        Ok(list)
    }

    /// Returns every readable ref with its value; does not follow symbolic refs.
    pub fn refs_as_they_are(&self) -> Result<Vec<(String, Target)>> {
        if self.ref_backend() == RefBackend::Files
            && let Some(all) = unpacked_meanwhile(self.common_dir(), || self.all_files())?
        {
            return Ok(all);
        }
        self.all_from_git()
    }

    fn all_files(&self) -> Result<Vec<(String, Target)>> {
        let cannot = || "cannot list refs".to_owned();
        let platform = self.gix().references().context(cannot)?;
        let all = platform.all().context(cannot)?;
        // git skips broken refs too.
        Ok(all
            .flatten()
            .map(|found| {
                let target = match found.target().try_name() {
                    Some(name) => Target::Symbolic(name.as_bstr().to_string()),
                    None => Target::Object(found.target().id().to_owned()),
                };
                (found.name().as_bstr().to_string(), target)
            })
            .collect())
    }

    fn all_from_git(&self) -> Result<Vec<(String, Target)>> {
        let answer = self
            .git_common()
            .args([
                "for-each-ref",
                "--format=%(objectname)%00%(symref)%00%(refname)",
            ])
            .run()?;
        let mut all = Vec::new();
        for line in answer.stdout.split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let mut fields = line.splitn(3, '\0');
            let (Some(id), Some(symref), Some(name)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let target = match symref {
                "" => Target::Object(self.parse_id(id)?),
                target => Target::Symbolic(target.to_owned()),
            };
            all.push((name.to_owned(), target));
        }
        Ok(all)
    }

    /// Returns the object that a ref points at, by its full name; follows symbolic refs.
    pub fn find_ref(&self, name: &str) -> Result<Option<ObjectId>> {
        if self.ref_backend() == RefBackend::Files
            && let Some(found) = unpacked_meanwhile(self.common_dir(), || self.find_in_files(name))?
        {
            return Ok(found);
        }
        let answer = self
            .git_common()
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options", name])
            .answer()?;
        match answer.code {
            Some(0) => Ok(Some(self.parse_id(&answer.text())?)),
            _ => Ok(None),
        }
    }

    fn find_in_files(&self, name: &str) -> Result<Option<ObjectId>> {
        let cannot = || format!("cannot read ref '{name}'");
        let Some(mut found) = self.gix().try_find_reference(name).context(cannot)? else {
            return Ok(None);
        };
        if found.name().as_bstr() != name {
            return Ok(None);
        }
        Ok(Some(found.follow_to_object().context(cannot)?.detach()))
    }

    /// Changes one ref that only we write, durably, if it still has the expected value.
    ///
    /// The caller holds its own lock over all writers of this ref in this clone. A left-over `<ref>.lock` with an
    /// object id inside can therefore be removed at once: it is ours, and its process is dead. git itself locks such a
    /// ref only to pack or prune it, with an empty file; this waits for that.
    pub fn swap_ref(&self, change: &RefChange) -> Result<Swap> {
        self.require_writable()?;
        match (self.ref_backend(), change.new) {
            (RefBackend::Files, Some(new)) => {
                self.note_moves(std::slice::from_ref(change));
                self.swap_file(change, new)
            }
            _ => self.swap_refs(std::slice::from_ref(change)),
        }
    }

    /// Moves a ref that only we write to the commit that `next` makes from its current one, and starts over when
    /// another process was faster. The ref stays as it is where `next` returns `None`. Returns where the ref is then.
    ///
    /// The caller holds a lock as for [`Self::swap_ref`], so only a user with plain git, or a copy of this clone, can
    /// be faster: a few attempts are enough.
    pub fn update_ref(
        &self,
        name: &str,
        mut next: impl FnMut(Option<ObjectId>) -> Result<Option<ObjectId>>,
    ) -> Result<Option<ObjectId>> {
        for attempt in 0..UPDATES {
            let old = self.find_ref(name)?;
            let Some(new) = next(old)? else {
                return Ok(old);
            };
            let change = RefChange {
                name: name.to_owned(),
                expected: old.map_or(Expected::Absent, Expected::At),
                new: Some(new),
            };
            if self.swap_ref(&change)? == Swap::Done {
                return Ok(Some(new));
            }
            std::thread::sleep(pause(attempt));
        }
        Err(
            Error::fatal(format!("ref '{name}' moved {UPDATES} times in a row"))
                .hint("git agent doctor"),
        )
    }

    fn swap_file(&self, change: &RefChange, new: ObjectId) -> Result<Swap> {
        let cannot = || format!("cannot update ref '{}'", change.name);
        let scratch = self.scratch_dir();
        fs::create_dir_all(&scratch).context(cannot)?;
        let path = self.common_dir().join(&change.name);
        let lock = lock_path(&path);
        let mut content = Temporary::create(&scratch, "ref-", 0o644).context(cannot)?;
        content
            .file
            .write_all(format!("{new}\n").as_bytes())
            .context(cannot)?;
        content.file.sync_all().context(cannot)?;
        fault::point("ref.tmp.synced").context(cannot)?;
        for attempt in 0..ATTEMPTS {
            match take_lock(content.path(), &lock) {
                Ok(()) => {
                    let result = self.swap_locked(change, &path, &lock);
                    if !matches!(result, Ok(Swap::Done)) {
                        let _ = fs::remove_file(&lock);
                    }
                    return result;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let ours = fs::read(&lock).is_ok_and(|held| is_object_line(&held));
                    if ours {
                        fs::remove_file(&lock).context(cannot)?;
                    } else {
                        std::thread::sleep(pause(attempt));
                    }
                }
                Err(error) => return Err(Error::fatal(cannot()).because(error)),
            }
        }
        Err(Error::fatal(format!("ref '{}' is locked", change.name)).hint("git agent doctor --fix"))
    }

    fn swap_locked(&self, change: &RefChange, path: &Path, lock: &Path) -> Result<Swap> {
        let cannot = || format!("cannot update ref '{}'", change.name);
        fault::point("ref.locked").context(cannot)?;
        let current = self.find_ref(&change.name)?;
        let wanted = match change.expected {
            Expected::Absent => None,
            Expected::At(id) => Some(id),
        };
        if current != wanted {
            return Ok(Swap::Stale);
        }
        if path.is_dir() {
            // Only empty directories of deleted refs can be in the way: our names never nest.
            remove_empty_dirs(path).context(cannot)?;
        }
        fault::point("ref.checked").context(cannot)?;
        fs::rename(lock, path).context(cannot)?;
        fault::point("ref.renamed").context(cannot)?;
        sync_dir(path.parent().unwrap_or(path)).context(cannot)?;
        fault::point("ref.dir.synced").context(cannot)?;
        Ok(Swap::Done)
    }

    /// Changes several refs together through git: all or none.
    pub fn swap_refs(&self, changes: &[RefChange]) -> Result<Swap> {
        if changes.is_empty() {
            return Ok(Swap::Done);
        }
        self.require_writable()?;
        self.note_moves(changes);
        let null = self.null_id();
        // Without the final `commit` nothing happens: a crash half-way changes nothing.
        let mut script = b"start\0".to_vec();
        for change in changes {
            script.extend_from_slice(change.script_line(null).as_bytes());
        }
        script.extend_from_slice(b"prepare\0commit\0");
        let locks = self.locks_of_refs(changes.iter().map(|change| change.name.as_str()));
        let _record = self.record_locks(locks)?;
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            fault::point("refs.before").context(|| "cannot update refs".into())?;
            let answer = self
                .git_common()
                .durable()
                .args(["update-ref", "--stdin", "-z"])
                .input(script.clone())
                .run();
            fault::point("refs.after").context(|| "cannot update refs".into())?;
            match answer {
                Ok(_) => return Ok(Swap::Done),
                Err(error) => last = Some(error),
            }
            self.clear_recorded_locks()?;
            // Decided by the values, not by git's words: either a value changed, or a lock was busy.
            for change in changes {
                let current = self.find_ref(&change.name)?;
                let wanted = match change.expected {
                    Expected::Absent => None,
                    Expected::At(id) => Some(id),
                };
                if current != wanted {
                    return Ok(Swap::Stale);
                }
            }
            std::thread::sleep(pause(attempt));
        }
        Err(last
            .unwrap_or_else(|| Error::fatal("cannot update refs"))
            .hint("git agent doctor --fix"))
    }
}

impl Repo {
    /// Packs the refs below prefixes that end in `/` if more than `most` of them are loose: then one file holds them
    /// all. An older git or another backend leaves them unchanged.
    pub fn pack_refs_below(&self, prefixes: &[&str], most: usize) -> Result<()> {
        if self.ref_backend() != RefBackend::Files {
            return Ok(());
        }
        let mut git = self.git_common().durable().arg("pack-refs");
        let mut files = 0;
        for prefix in prefixes {
            files += count_files(&self.common_dir().join(prefix));
            git = git.arg(format!("--include={prefix}*"));
        }
        if files > most {
            git.run()?;
        }
        Ok(())
    }
}

/// Returns the number of readable files below a directory.
fn count_files(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let count = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => count_files(&entry.path()),
        Ok(_) => 1,
        Err(_) => 0,
    };
    entries.flatten().map(count).sum()
}

/// Returns the name of a ref's lock file.
pub(in crate::git) fn lock_path(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Takes a lock by linking a complete file to its name, so that our locks are never half written.
pub(in crate::git) fn take_lock(content: &Path, lock: &Path) -> io::Result<()> {
    loop {
        match fs::hard_link(content, lock) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(lock.parent().unwrap_or(lock))?;
            }
            Err(error)
                if error.kind() == io::ErrorKind::Unsupported
                    || error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) =>
            {
                // A file system without hard links.
                let mut file = fs::OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .open(lock)?;
                file.write_all(&fs::read(content)?)?;
                return file.sync_all();
            }
            other => return other,
        }
    }
}

fn is_object_line(bytes: &[u8]) -> bool {
    matches!(bytes.len(), 41 | 65)
        && bytes.ends_with(b"\n")
        && bytes[..bytes.len() - 1].iter().all(u8::is_ascii_hexdigit)
}

fn remove_empty_dirs(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_empty_dirs(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

/// Returns the delay before the next attempt: growing, with jitter, at most about 150 ms.
pub(in crate::git) fn pause(attempt: u32) -> Duration {
    let ceiling = (4u64 << attempt.min(5)).min(128);
    Duration::from_millis(ceiling / 2 + jitter() % ceiling)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Env, Terminals};
    use crate::git::object::Signature;

    #[test]
    fn refs_that_are_packed_while_they_are_read_are_read_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let packed = dir.path().join("packed-refs");
        let mut reads = 0;
        let found = unpacked_meanwhile(dir.path(), || {
            reads += 1;
            if reads == 1 {
                // The packed refs were read before this, the files after it: both are empty.
                fs::write(&packed, "one").context(|| "cannot pack".into())?;
                return Ok(0);
            }
            Ok(12)
        });
        assert_eq!(found.expect("can be read"), Some(12));
        assert_eq!(reads, 2);
        let restless = unpacked_meanwhile(dir.path(), || {
            let more = fs::read_to_string(&packed).unwrap_or_default() + "x";
            fs::write(&packed, more).context(|| "cannot pack".into())
        });
        assert_eq!(restless.expect("can be read"), None);
    }

    #[test]
    fn an_update_starts_over_on_the_value_of_a_faster_process() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = std::process::Command::new("git")
            .args(["init", "-q"])
            .arg(dir.path())
            .status();
        assert!(made.expect("git runs").success());
        let env = Env::new(dir.path().to_owned(), [], Terminals::default());
        let repo = Repo::discover(&env).expect("a repository");
        let commit = |parent: Option<ObjectId>, message: &str| {
            let mut batch = repo.batch();
            let tree = batch.tree([]);
            let who = Signature {
                name: "A".to_owned(),
                email: "a@example.com".to_owned(),
                seconds: 0,
            };
            let id = batch.commit(tree, parent.as_slice(), &who, message);
            repo.write_batch(&batch).expect("written");
            id
        };
        let name = "refs/agents/test";
        let interfere = |old: Option<ObjectId>| {
            let change = RefChange {
                name: name.to_owned(),
                expected: old.map_or(Expected::Absent, Expected::At),
                new: Some(commit(old, "faster")),
            };
            assert_eq!(repo.swap_ref(&change).expect("swapped"), Swap::Done);
        };
        let mut calls = Vec::new();
        let new = repo.update_ref(name, |old| {
            calls.push(old);
            if calls.len() == 1 {
                interfere(old);
            }
            Ok(Some(commit(old, "ours")))
        });
        let new = new.expect("updated");
        assert_eq!(calls, [None, Some(commit(None, "faster"))]);
        assert_eq!(new, Some(commit(calls[1], "ours")));
        assert_eq!(repo.find_ref(name).expect("readable"), new);
        // Nothing to do.
        let same = repo.update_ref(name, |_| Ok(None)).expect("left");
        assert_eq!(same, new);
        // A ref that moves every time.
        let error = repo.update_ref(name, |old| {
            interfere(old);
            Ok(Some(commit(old, "ours")))
        });
        let error = error.expect_err("given up");
        assert!(error.message().contains(name), "{}", error.message());
    }
}
