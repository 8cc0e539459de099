//! Reads reflogs, and restores entries that they lost.
//!
//! git runs no hook when it removes entries from a reflog, so they can only be restored from an earlier copy. Entries
//! that were added meanwhile stay on top.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};
use crate::file::{Temporary, sync_dir};
use crate::git::object::damage::files_below;
use crate::git::refs::{ATTEMPTS, lock_path, pause, take_lock};
use crate::git::{ObjectId, RefBackend, Repo};

/// The ref whose value is the newest entry of its reflog.
pub const STASH: &str = "refs/stash";
/// The header of a ref's log in the text form of [`Reflogs`].
const HEADER: &[u8] = b"reflog ";
/// The content of our locks, by which one of a killed process is recognised.
const LOCKED: &[u8] = b"git-agent puts a reflog back\n";
/// How often entries are restored again after a concurrent change of the log.
const ROUNDS: usize = 4;

#[derive(Debug, Clone)]
pub struct ReflogEntry {
    /// The value before, in hexadecimal.
    old: Vec<u8>,
    /// The value after, the author, the time and the message, as git writes them.
    rest: Vec<u8>,
}

/// git rewrites the old value when it removes the previous entry, so that value does not count.
impl PartialEq for ReflogEntry {
    fn eq(&self, other: &Self) -> bool {
        self.rest == other.rest
    }
}

impl ReflogEntry {
    /// Parses a line in git's format, without its end.
    fn parse(line: &[u8]) -> Option<Self> {
        let space = line.iter().position(|byte| *byte == b' ')?;
        let entry = ReflogEntry {
            old: line[..space].to_vec(),
            rest: line[space + 1..].to_vec(),
        };
        entry.id().map(|_| entry)
    }

    /// Returns the new value of the ref.
    pub fn id(&self) -> Option<ObjectId> {
        let end = self.rest.iter().position(|byte| *byte == b' ')?;
        ObjectId::from_hex(&self.rest[..end]).ok()
    }

    pub fn message(&self) -> String {
        let tab = self.rest.iter().position(|byte| *byte == b'\t');
        let text = tab.map_or(&b""[..], |tab| &self.rest[tab + 1..]);
        String::from_utf8_lossy(text).into_owned()
    }

    /// Returns the time of the entry, in seconds since 1970.
    pub fn seconds(&self) -> Option<i64> {
        self.who()?.2.split(' ').next()?.parse().ok()
    }

    /// Returns the name, the address and the time of the entry.
    fn who(&self) -> Option<(String, String, String)> {
        let head = self.rest.split(|byte| *byte == b'\t').next()?;
        let head = String::from_utf8_lossy(head);
        let (who, time) = head.split_once(' ')?.1.rsplit_once("> ")?;
        let (name, email) = who.split_once('<')?;
        Some((
            name.trim_end().to_owned(),
            email.to_owned(),
            time.to_owned(),
        ))
    }
}

/// The reflogs of a repository by ref name, each from its oldest entry on.
#[derive(Debug, Clone, Default)]
pub struct Reflogs(BTreeMap<String, Vec<ReflogEntry>>);

impl Reflogs {
    /// Returns the logs with their ref names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[ReflogEntry])> {
        self.0
            .iter()
            .map(|(name, entries)| (name.as_str(), entries.as_slice()))
    }

    /// Returns whether all logs are empty.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(Vec::is_empty)
    }

    /// Returns the log of one ref.
    pub fn of(&self, name: &str) -> &[ReflogEntry] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns every value in any log.
    pub fn ids(&self) -> BTreeSet<ObjectId> {
        self.0
            .values()
            .flatten()
            .filter_map(ReflogEntry::id)
            .collect()
    }

    /// Keeps only the logs of refs with wanted names.
    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| wanted(name));
    }

    /// Returns the logs as a text for [`Reflogs::parse`].
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (name, entries) in &self.0 {
            text.extend([HEADER, name.as_bytes(), b"\n"].concat());
            text.extend(lines(entries));
        }
        text
    }

    /// Parses the text form. Skips lines that are neither a header nor an entry.
    pub fn parse(text: &[u8]) -> Self {
        let mut logs = Reflogs::default();
        let mut name = None;
        for line in text.split(|byte| *byte == b'\n') {
            if let Some(found) = line.strip_prefix(HEADER) {
                name = Some(String::from_utf8_lossy(found).into_owned());
            } else if let (Some(name), Some(entry)) = (&name, ReflogEntry::parse(line)) {
                logs.0.entry(name.clone()).or_default().push(entry);
            }
        }
        logs
    }
}

fn lines(entries: &[ReflogEntry]) -> Vec<u8> {
    let line = |entry: &ReflogEntry| [&entry.old, &b" "[..], &entry.rest, b"\n"].concat();
    entries.iter().flat_map(line).collect()
}

fn entries(log: &[u8]) -> Vec<ReflogEntry> {
    log.split(|byte| *byte == b'\n')
        .filter_map(ReflogEntry::parse)
        .collect()
}

/// Returns the entries of `before` that are missing in `now`.
pub fn missing(before: &[ReflogEntry], now: &[ReflogEntry]) -> Vec<ReflogEntry> {
    let mut left: HashMap<&[u8], usize> = HashMap::new();
    for entry in now {
        *left.entry(&entry.rest).or_default() += 1;
    }
    let is_missing = |entry: &&ReflogEntry| match left.get_mut(entry.rest.as_slice()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    before.iter().filter(is_missing).cloned().collect()
}

/// Returns all entries of `before`, with later ones on top.
fn joined(before: &[ReflogEntry], now: &[ReflogEntry]) -> Vec<ReflogEntry> {
    let mut all = before.to_vec();
    for mut entry in missing(now, before) {
        if let Some(last) = all.last().and_then(ReflogEntry::id) {
            entry.old = last.to_string().into_bytes();
        }
        all.push(entry);
    }
    all
}

/// The result of restoring entries.
#[derive(Debug)]
#[must_use]
pub enum PutBack {
    /// No entry was missing, or the ref itself was deleted.
    Nothing,
    /// These entries were restored.
    Done(Vec<ReflogEntry>),
    /// These entries are missing, and this backend cannot write them without moving the ref.
    Unable(Vec<ReflogEntry>),
}

impl Repo {
    /// Returns the reflogs of the main worktree's HEAD and of every ref that all worktrees share.
    pub fn reflogs(&self) -> Result<Reflogs> {
        match self.ref_backend() {
            RefBackend::Files => self.reflog_files(),
            RefBackend::Reftable => self.reflogs_from_git(),
        }
    }

    fn reflog_files(&self) -> Result<Reflogs> {
        let dir = self.common_dir().join("logs");
        let mut logs = Reflogs::default();
        for path in std::iter::once(dir.join("HEAD")).chain(files_below(&dir.join("refs"))) {
            let name = path.strip_prefix(&dir).ok().and_then(Path::to_str);
            let Some(name) = name else { continue };
            // git cannot rewrite a log for an agent that the same user cannot read.
            let log = read(&path).unwrap_or_default();
            if !log.is_empty() {
                logs.0.insert(name.to_owned(), entries(&log));
            }
        }
        Ok(logs)
    }

    fn reflogs_from_git(&self) -> Result<Reflogs> {
        let answer = self
            .git_common()
            .args(["log", "--walk-reflogs", "--all", "--date=raw"])
            .args(["--no-show-signature", "--no-color"])
            .arg("--format=%gD%x00%H%x00%gn%x00%ge%x00%gs")
            .run()?;
        let mut logs = Reflogs::default();
        for line in answer.stdout.split(|byte| *byte == b'\n') {
            let fields: Vec<&[u8]> = line.splitn(5, |byte| *byte == 0).collect();
            let [place, id, name, email, message] = fields[..] else {
                continue;
            };
            let place = String::from_utf8_lossy(place);
            let Some((log, time)) = place.strip_suffix('}').and_then(|p| p.rsplit_once("@{"))
            else {
                continue;
            };
            if log != "HEAD" && !log.starts_with("refs/") {
                continue;
            }
            let mut rest = [id, b" ", name, b" <", email, b"> ", time.as_bytes()].concat();
            if !message.is_empty() {
                rest.push(b'\t');
                rest.extend_from_slice(message);
            }
            let entries = logs.0.entry(log.to_owned()).or_default();
            entries.push(ReflogEntry {
                old: self.null_id().to_string().into_bytes(),
                rest,
            });
        }
        for entries in logs.0.values_mut() {
            // git lists the newest first, and without old values.
            entries.reverse();
            for at in 1..entries.len() {
                if let Some(before) = entries[at - 1].id() {
                    entries[at].old = before.to_string().into_bytes();
                }
            }
        }
        Ok(logs)
    }

    /// Returns the commits that no branch, tag or remote-tracking branch reaches. Other refs do not count: some may be
    /// deleted at any time, and git would read the refs of every session.
    pub fn unreached(&self, commits: &BTreeSet<ObjectId>) -> Result<Vec<ObjectId>> {
        let input: String = commits.iter().map(|id| format!("{id}\n")).collect();
        let answer = self
            .git_common()
            .args(["rev-list", "--ignore-missing", "--stdin", "--not"])
            .args(["--branches", "--tags", "--remotes"])
            .input(input)
            .answer()?;
        if answer.code != Some(0) {
            // A damaged ref makes git fail: then each of them counts.
            let exists = |id: &ObjectId| matches!(self.object_header(*id), Ok(Some(_)));
            return Ok(commits.iter().copied().filter(exists).collect());
        }
        let listed = String::from_utf8_lossy(&answer.stdout).into_owned();
        let listed = listed.lines().filter_map(|line| line.parse().ok());
        Ok(listed.filter(|id| commits.contains(id)).collect())
    }

    /// Restores the entries that a reflog had before and lost.
    pub fn put_reflog_back(&self, name: &str, before: &[ReflogEntry]) -> Result<PutBack> {
        self.require_writable()?;
        let can_be_gone = name == STASH || name == "HEAD";
        if !can_be_gone && self.find_ref(name)?.is_none() {
            return Ok(PutBack::Nothing);
        }
        match self.ref_backend() {
            RefBackend::Files => self.put_file_back(name, before),
            RefBackend::Reftable if name == STASH => self.stash_again(before),
            RefBackend::Reftable => {
                let lost = missing(before, self.reflogs()?.of(name));
                Ok(if lost.is_empty() {
                    PutBack::Nothing
                } else {
                    PutBack::Unable(lost)
                })
            }
        }
    }

    fn put_file_back(&self, name: &str, before: &[ReflogEntry]) -> Result<PutBack> {
        let cannot = || format!("cannot restore the reflog of '{name}'");
        let (path, log) = (
            self.common_dir().join(name),
            self.common_dir().join("logs").join(name),
        );
        let lock = self.lock_ref(&path).context(cannot)?;
        let now = entries(&read(&log)?);
        let lost = missing(before, &now);
        if lost.is_empty() {
            return Ok(PutBack::Nothing);
        }
        let all = joined(before, &now);
        let scratch = self.scratch_dir();
        let file = |text: &[u8]| -> io::Result<Temporary> {
            let mut file = Temporary::create(&scratch, "reflog-", 0o644)?;
            file.file.write_all(text)?;
            file.file.sync_all()?;
            Ok(file)
        };
        let parent = log.parent().unwrap_or(&log);
        fs::create_dir_all(parent).context(cannot)?;
        let fresh = file(&lines(&all)).context(cannot)?;
        fresh.persist(&log).context(cannot)?;
        sync_dir(parent).context(cannot)?;
        if name == STASH
            && let Some(newest) = all.last().and_then(ReflogEntry::id)
        {
            let value = file(format!("{newest}\n").as_bytes()).context(cannot)?;
            value.persist(&lock.0).context(cannot)?;
            fs::rename(&lock.0, &path).context(cannot)?;
        }
        Ok(PutBack::Done(lost))
    }

    /// Takes git's own lock of a ref. Takes over one that a killed process of ours left.
    fn lock_ref(&self, path: &Path) -> io::Result<RefLock> {
        let scratch = self.scratch_dir();
        fs::create_dir_all(&scratch)?;
        let mut content = Temporary::create(&scratch, "ref-", 0o644)?;
        content.file.write_all(LOCKED)?;
        let lock = lock_path(path);
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            match take_lock(content.path(), &lock) {
                Ok(()) => return Ok(RefLock(lock)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
                Err(error) => return Err(error),
            }
            std::thread::sleep(pause(attempt));
        }
        // Such a lock is held only briefly, so after all this time its holder is dead.
        if fs::read(&lock).is_ok_and(|held| held == LOCKED) {
            fs::remove_file(&lock)?;
            take_lock(content.path(), &lock)?;
            return Ok(RefLock(lock));
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
    }

    /// Rebuilds the list of stashes entry by entry: without files, only git can write reflogs.
    fn stash_again(&self, before: &[ReflogEntry]) -> Result<PutBack> {
        let mut back = Vec::new();
        for _ in 0..ROUNDS {
            let now = self.reflogs()?;
            let lost = missing(before, now.of(STASH));
            if lost.is_empty() {
                return Ok(if back.is_empty() {
                    PutBack::Nothing
                } else {
                    PutBack::Done(back)
                });
            }
            if back.is_empty() {
                back = lost;
            }
            self.rewrite_stash(&joined(before, now.of(STASH)))?;
        }
        Err(Error::fatal(
            "the stash changed during the restore, {ROUNDS} times in a row",
        ))
    }

    /// A concurrent change of the stash ends this early; the caller then reads it again.
    fn rewrite_stash(&self, entries: &[ReflogEntry]) -> Result<()> {
        let mut value = self.find_ref(STASH)?;
        if let Some(id) = value.take() {
            let git = self.git_common().durable();
            let words = ["update-ref", "-d", STASH, &id.to_string()];
            if git.args(words).answer()?.code != Some(0) {
                return Ok(());
            }
        }
        for entry in entries {
            let (Some(id), Some((name, email, time))) = (entry.id(), entry.who()) else {
                continue;
            };
            let mut git = self
                .git_common()
                .durable()
                .env("GIT_COMMITTER_NAME", name)
                .env("GIT_COMMITTER_EMAIL", email)
                .env("GIT_COMMITTER_DATE", format!("@{time}"))
                .args(["update-ref", "--create-reflog"]);
            let message = entry.message();
            if !message.is_empty() {
                git = git.args(["-m", &message]);
            }
            let old = value.unwrap_or(self.null_id()).to_string();
            let words = [STASH, &id.to_string(), &old];
            if git.args(words).answer()?.code != Some(0) {
                return Ok(());
            }
            value = Some(id);
        }
        Ok(())
    }
}

/// git's lock of a ref, released on drop.
struct RefLock(PathBuf);

impl Drop for RefLock {
    fn drop(&mut self) {
        // A lock that became the ref no longer has this name.
        let _ = fs::remove_file(&self.0);
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    match fs::read(path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(Vec::new())
        }
        other => other.context(|| format!("cannot read '{}'", path.display())),
    }
}
