//! Finds lock files of dead git processes: records the locks that git may take for us, and removes those without a
//! holder.
//!
//! A killed git leaves its lock files, and then every git refuses to work until the user removes them. So the names of
//! the locks are recorded before git takes them, and the record is removed once git has ended. A record of a dead
//! process names the locks that may be removed, unless a process holds them.
//!
//! A process may hold a lock file without having it open: git closes it while hooks and editors run. So a lock counts
//! as abandoned only if no process has it open and no git that is older than the lock runs in this repository.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use crate::error::{Context, Result};
use crate::fault;
use crate::file::Temporary;
use crate::git::refs::{lock_path, pause};
use crate::git::snapshot::capture::Checkout;
use crate::git::{Git, RefBackend, Repo};
use crate::process::files::Pinned;
use crate::process::identity::Stat;

/// The files that git locks in the git directory of a worktree.
const OF_A_CHECKOUT: [&str; 4] = ["HEAD", "ORIG_HEAD", "AUTO_MERGE", "index"];
/// Commands of git that take no lock and may run for days.
const HARMLESS: [&[u8]; 3] = [b"agent", b"cat-file", b"fsmonitor--daemon"];
/// Options of git itself that take a value.
const WITH_VALUE: [&[u8]; 5] = [b"-C", b"-c", b"--git-dir", b"--work-tree", b"--namespace"];
/// The precision of comparing the ages of a file and a process.
const SLACK: Duration = Duration::from_millis(100);

/// How often locks with a holder are checked again. With the delays that takes about half a second.
const ATTEMPTS: u32 = 8;

/// How long to wait for another git at the same index.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often git is retried although no lock is visible.
const AT_LEAST: u32 = 2;

/// A record of the locks that git may take for us, removed on drop. It stays if this process or its git dies.
#[derive(Debug)]
#[must_use]
pub struct LockRecord {
    path: PathBuf,
    /// The recorded locks.
    locks: Vec<PathBuf>,
    /// Locked for as long as this process lives.
    file: File,
}

impl LockRecord {
    pub fn durable(self) -> Result<Self> {
        let cannot = || format!("cannot write '{}'", self.path.display());
        self.file.sync_all().context(cannot)?;
        Ok(self)
    }
}

impl Drop for LockRecord {
    fn drop(&mut self) {
        // A remaining lock was left by a dead git: keep the record for the next command.
        let is_there = |lock: &PathBuf| fs::symlink_metadata(lock).is_ok();
        if !self.locks.iter().any(is_there) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Repo {
    /// Returns the locks that git takes to move refs.
    pub fn locks_of_refs<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<PathBuf> {
        let common = self.common_dir();
        match self.ref_backend() {
            RefBackend::Files => names
                .into_iter()
                .map(|name| lock_path(&common.join(name)))
                .chain(["packed-refs.lock", "packed-refs.new"].map(|name| common.join(name)))
                .collect(),
            RefBackend::Reftable => vec![common.join("reftable/tables.list.lock")],
        }
    }

    /// Returns the locks that git takes in the git directory of a worktree.
    pub fn locks_of_checkout(&self, at: &Checkout) -> Vec<PathBuf> {
        let own = OF_A_CHECKOUT.map(|name| lock_path(&at.admin_dir.join(name)));
        let table = at.admin_dir.join("reftable/tables.list.lock");
        own.into_iter().chain([table]).collect()
    }

    /// Records locks before git takes them. Skips existing ones, which belong to another process.
    pub fn record_locks(&self, paths: impl IntoIterator<Item = PathBuf>) -> Result<LockRecord> {
        let dir = self.lock_records();
        let cannot = || format!("cannot write below '{}'", dir.display());
        let free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
        let locks: Vec<PathBuf> = paths.into_iter().filter(free).collect();
        let mut names = Vec::new();
        for path in &locks {
            names.extend_from_slice(path.as_os_str().as_bytes());
            names.push(0);
        }
        fs::create_dir_all(&dir).context(cannot)?;
        let scratch = self.scratch_dir();
        fs::create_dir_all(&scratch).context(cannot)?;
        let mut record = Temporary::create(&scratch, "locks-", 0o600).context(cannot)?;
        record.file.lock().context(cannot)?;
        record.file.write_all(&names).context(cannot)?;
        let file = record.file.try_clone().context(cannot)?;
        let name = record.path().file_name().map(OsStr::to_owned);
        let path = dir.join(name.unwrap_or_default());
        record.persist(&path).context(cannot)?;
        Ok(LockRecord { path, locks, file })
    }

    /// Runs a git that writes the index of a worktree or moves its HEAD. Waits for another git that holds these locks
    /// briefly, and fails if it holds them for longer.
    pub fn run_at_index(
        &self,
        at: &Checkout,
        branch: Option<&str>,
        git: impl Fn() -> Git,
    ) -> Result<()> {
        let of_branch = branch.map_or(Vec::new(), |name| self.locks_of_refs([name]));
        let locks: Vec<PathBuf> = self
            .locks_of_checkout(at)
            .into_iter()
            .chain(of_branch)
            .collect();
        let until = Instant::now() + PATIENCE;
        for attempt in 0.. {
            let busy = || locks.iter().any(|lock| fs::symlink_metadata(lock).is_ok());
            let was_busy = busy();
            let record = self.record_locks(locks.clone())?;
            let result = git().run();
            drop(record);
            if attempt > 0 {
                self.clear_recorded_locks()?;
            }
            let Err(error) = result else {
                break;
            };
            // The lock may have been released since git met it.
            let may_pass = was_busy || busy() || attempt < AT_LEAST;
            if !may_pass || Instant::now() >= until {
                return Err(error);
            }
            std::thread::sleep(pause(attempt));
        }
        Ok(())
    }

    /// Returns the existing locks of our commands that died.
    pub fn recorded_locks(&self) -> Vec<PathBuf> {
        let records = self.dead_records();
        let mut locks: Vec<PathBuf> = records.into_iter().flat_map(|(_, locks)| locks).collect();
        locks.sort();
        locks.dedup();
        locks
    }

    /// Removes the locks of our commands that died, unless a process holds them. Returns the removed ones.
    pub fn clear_recorded_locks(&self) -> Result<Vec<PathBuf>> {
        let records = self.dead_records();
        if records.is_empty() || self.is_read_only() {
            return Ok(Vec::new());
        }
        let all: Vec<PathBuf> = records
            .iter()
            .flat_map(|(_, locks)| locks.clone())
            .collect();
        let removed = self.clear_locks(&all)?;
        for (record, locks) in records {
            if locks.iter().all(|lock| fs::symlink_metadata(lock).is_err()) {
                // Another process may have been faster.
                let _ = fs::remove_file(record);
            }
        }
        Ok(removed)
    }

    /// Removes the locks that killed git processes left in a linked worktree of ours and on its branch. Returns the
    /// removed ones.
    pub fn clear_worktree_locks(
        &self,
        at: &Checkout,
        branch: Option<&str>,
    ) -> Result<Vec<PathBuf>> {
        if at.admin_dir == self.common_dir() {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(&at.admin_dir).into_iter().flatten().flatten();
        let is_lock = |path: &PathBuf| path.extension().is_some_and(|end| end == "lock");
        let branch = branch.map(|branch| format!("refs/heads/{branch}.lock"));
        let locks: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(is_lock)
            .chain(branch.map(|lock| self.common_dir().join(lock)))
            .collect();
        self.clear_locks(&locks)
    }

    /// Removes the locks without a holder, and returns them.
    pub fn clear_locks(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let there: Vec<PathBuf> = paths.iter().filter(|path| path.exists()).cloned().collect();
        if there.is_empty() {
            return Ok(there);
        }
        let dir = self.lock_records();
        let cannot = || format!("cannot remove locks recorded in '{}'", dir.display());
        fs::create_dir_all(&dir).context(cannot)?;
        // One process at a time: a lock that another process has removed may have a new holder by now.
        let turn = File::open(&dir).context(cannot)?;
        turn.lock().context(cannot)?;
        let mut dead = self.unheld(&there);
        // A git that was just killed takes a moment to end, and a working one ends soon.
        for attempt in 0..ATTEMPTS {
            let is_dead = |path: &PathBuf| dead.iter().any(|lock| lock.path() == path);
            if there.iter().all(|path| is_dead(path) || !path.exists()) {
                break;
            }
            std::thread::sleep(pause(attempt));
            dead = self.unheld(&there);
        }
        fault::point("locks.judged").context(cannot)?;
        // A new lock of the same name belongs to the next git.
        let removed = dead.iter().filter(|lock| lock.remove().unwrap_or(false));
        Ok(removed.map(|lock| lock.path().to_owned()).collect())
    }

    /// Returns the locks without a holder: they are this user's, no process has them open, and no running git in this
    /// repository may have created them. Returns none if that is unknown.
    pub fn abandoned(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        let locks = self.unheld(paths);
        let there = locks.iter().filter(|lock| lock.is_there());
        there.map(|lock| lock.path().to_owned()).collect()
    }

    /// Returns the same as pinned files, which are removed only if they still exist: a lock that disappeared during the
    /// search had a holder.
    fn unheld(&self, paths: &[PathBuf]) -> Vec<Pinned> {
        let locks = paths.iter().filter_map(|path| Pinned::at(path));
        let mut suspects: Vec<Pinned> = locks.filter(Pinned::is_own).collect();
        let Ok(processes) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        for process in processes.flatten() {
            let name = process.file_name();
            let pid = name.to_str().and_then(|name| name.parse::<u32>().ok());
            let Some(stat) = pid.and_then(Stat::of).filter(|stat| !stat.is_dead()) else {
                continue;
            };
            if suspects.is_empty() {
                break;
            }
            let age = self.age_of_git(&process.path(), &stat);
            suspects.retain(|lock| {
                age.is_none_or(|age| age + SLACK < age_of(lock.meta()))
                    && !lock.is_open_in(&process.path())
            });
        }
        suspects
    }

    /// Returns the age of a git process in this repository that may hold locks; `None` for any other process.
    fn age_of_git(&self, process: &Path, stat: &Stat) -> Option<Duration> {
        let is_ours = stat.parent == std::process::id();
        if stat.name != "git" || is_ours || is_harmless(process) {
            return None;
        }
        // An unreadable process belongs to another user, or is about to end.
        let place = fs::read_link(process.join("cwd")).ok()?;
        if !self.is_at_home(&place) {
            return None;
        }
        let now = clock_gettime(ClockId::Boottime);
        let now = Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?);
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        let millis = u128::from(stat.start_time) * 1000 / u128::from(ticks);
        let began = Duration::from_millis(u64::try_from(millis).ok()?);
        Some(now.saturating_sub(began))
    }

    /// Returns whether a directory is in this repository or in one of its worktrees.
    fn is_at_home(&self, place: &Path) -> bool {
        let common = self.common_dir();
        if place.starts_with(common) {
            return true;
        }
        let found = place
            .ancestors()
            .map(|dir| dir.join(".git"))
            .find(|git| git.exists());
        let Some(git) = found else {
            // The files may be far from the git directory, as with 'core.worktree'.
            return self
                .main_work_tree()
                .is_some_and(|top| place.starts_with(top));
        };
        let linked = fs::read(&git).ok().and_then(|text| {
            let target = text.strip_prefix(b"gitdir: ")?.trim_ascii_end().to_vec();
            Some(PathBuf::from(OsStr::from_bytes(&target)))
        });
        let git = linked.unwrap_or(git);
        fs::canonicalize(&git).is_ok_and(|git| git.starts_with(common))
            || self
                .main_work_tree()
                .is_some_and(|top| place.starts_with(top))
    }

    fn lock_records(&self) -> PathBuf {
        self.common_dir().join("agents").join("locks").join("git")
    }

    /// Returns the records of dead processes, each with its existing locks.
    fn dead_records(&self) -> Vec<(PathBuf, Vec<PathBuf>)> {
        let entries = fs::read_dir(self.lock_records()).into_iter().flatten();
        let read = |path: PathBuf| -> io::Result<Option<(PathBuf, Vec<PathBuf>)>> {
            let record = File::open(&path)?;
            if record.try_lock_shared().is_err() {
                return Ok(None);
            }
            let names = fs::read(&path)?;
            let names = names
                .split(|byte| *byte == 0)
                .filter(|name| !name.is_empty());
            let locks = names.map(|name| PathBuf::from(OsStr::from_bytes(name)));
            let locks = locks.filter(|lock| fs::symlink_metadata(lock).is_ok());
            Ok(Some((path, locks.collect())))
        };
        entries
            .flatten()
            // A record that disappears meanwhile does not matter.
            .filter_map(|entry| read(entry.path()).ok().flatten())
            .collect()
    }
}

fn age_of(meta: &Metadata) -> Duration {
    let made = meta.modified().ok();
    made.and_then(|made| SystemTime::now().duration_since(made).ok())
        .unwrap_or_default()
}

/// Returns whether a git runs a command that takes no lock.
fn is_harmless(process: &Path) -> bool {
    let words = fs::read(process.join("cmdline")).unwrap_or_default();
    let mut words = words.split(|byte| *byte == 0).skip(1);
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word) {
            words.next();
        } else if !word.starts_with(b"-") {
            return HARMLESS.contains(&word);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn git(dir: &Path, words: &[&str]) {
        let ended = Command::new("git").args(words).current_dir(dir).status();
        assert!(ended.expect("git starts").success());
    }

    fn repo() -> (tempfile::TempDir, Repo) {
        let dir = tempfile::tempdir().expect("a directory");
        git(dir.path(), &["init", "--quiet", "--ref-format=files"]);
        let repo = crate::git::snapshot::tests::world::open(&dir.path().join(".git"));
        (dir, repo)
    }

    /// Starts a git that holds the lock of a ref without having it open.
    fn holder(dir: &Path) -> Child {
        let tree = Command::new("git")
            .args(["hash-object", "-t", "tree", "-w", "--stdin"])
            .stdin(Stdio::null())
            .current_dir(dir)
            .output()
            .expect("git starts");
        let tree = String::from_utf8(tree.stdout).expect("hex");
        let tree = tree.trim_end();
        let mut child = Command::new("git")
            .args(["update-ref", "--stdin"])
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("git starts");
        let script = format!("start\ncreate refs/tags/held {tree}\nprepare\n");
        let input = child.stdin.as_mut().expect("a pipe");
        input.write_all(script.as_bytes()).expect("written");
        input.flush().expect("written");
        let output = child.stdout.take().expect("a pipe");
        let answers: Vec<String> = BufReader::new(output)
            .lines()
            .take(2)
            .map(|line| line.expect("text"))
            .collect();
        assert_eq!(answers, ["start: ok", "prepare: ok"]);
        child
    }

    #[test]
    fn a_lock_is_held_for_as_long_as_its_git_lives() {
        let (dir, repo) = repo();
        let lock = repo.common_dir().join("refs/tags/held.lock");
        // Its parent is this process, so add one in between.
        let mut child = holder(dir.path());
        assert!(lock.exists());
        assert!(fs::read_dir(format!("/proc/{}/fd", child.id())).is_ok());
        let stat = Stat::of(child.id()).expect("it runs");
        let other = Stat { parent: 1, ..stat };
        let process = PathBuf::from(format!("/proc/{}", child.id()));
        assert!(repo.age_of_git(&process, &other).is_some());
        child.kill().expect("ours");
        child.wait().expect("ours");
        let lock = std::slice::from_ref(&lock);
        assert_eq!(repo.abandoned(lock), lock);
        let open = File::open(&lock[0]).expect("there");
        assert_eq!(repo.abandoned(lock), [] as [PathBuf; 0]);
        drop(open);
        assert_eq!(repo.clear_locks(lock).expect("works"), lock);
    }

    #[test]
    fn a_lock_that_was_taken_anew_while_the_last_ones_holder_was_looked_for_stays() {
        let (_dir, repo) = repo();
        let lock = repo.common_dir().join("refs/heads/busy.lock");
        fs::write(&lock, "").expect("writable");
        let judged = repo.unheld(std::slice::from_ref(&lock));
        assert_eq!(judged.len(), 1);
        // Its git ended by itself, and the next one took the name: some file systems reuse an inode number at once.
        fs::remove_file(&lock).expect("there");
        fs::write(&lock, "").expect("writable");
        assert!(!judged[0].remove().expect("can be looked at"));
        assert!(lock.exists(), "it is the next git's");
        // Examining a lock does not hold it.
        assert_eq!(repo.abandoned(std::slice::from_ref(&lock)).len(), 1);
        let looked = Pinned::at(&lock).expect("there");
        assert_eq!(repo.abandoned(std::slice::from_ref(&lock)).len(), 1);
        assert!(looked.remove().expect("ours") && !lock.exists());
    }

    #[test]
    fn only_what_was_not_there_is_recorded_and_only_the_dead_are_cleared() {
        let (_dir, repo) = repo();
        let (theirs, ours) = (
            repo.common_dir().join("refs/heads/theirs.lock"),
            repo.common_dir().join("refs/heads/ours.lock"),
        );
        fs::write(&theirs, "").expect("writable");
        let record = repo
            .record_locks([theirs.clone(), ours.clone()])
            .expect("recorded");
        fs::write(&ours, "").expect("writable");
        assert_eq!(
            repo.recorded_locks(),
            [] as [PathBuf; 0],
            "its writer lives"
        );
        // As if this process had died.
        record.file.unlock().expect("ours");
        let left = std::slice::from_ref(&ours);
        assert_eq!(repo.recorded_locks(), left);
        assert_eq!(repo.clear_recorded_locks().expect("works"), left);
        assert!(theirs.exists() && !ours.exists());
        assert_eq!(fs::read_dir(repo.lock_records()).expect("there").count(), 0);
        std::mem::forget(record);
    }
}
