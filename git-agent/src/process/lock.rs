//! Locks that a crash releases: a file locked with flock that names its holder.
//!
//! The kernel releases the lock when the holder ends in any way, so that a dead holder needs no guess and no clean-up.
//! Descriptors close on exec (std's default), so a child never keeps a lock.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::env::Env;
use crate::error::{Context, Error, Result};
use crate::process::identity::ProcessId;

/// A lock that this process holds until the value is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock if it is free. Creates missing directories, for the owner only.
    pub fn try_acquire(env: &Env, path: impl Into<PathBuf>) -> Result<Option<Lock>> {
        let path = path.into();
        if let Some(parent) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent)
                .context(|| format!("cannot create '{}'", parent.display()))?;
        }
        loop {
            let file = open(&path, true)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    if is_held_exclusively(&file, &path)? {
                        return Ok(None);
                    }
                    // A process that only looks releases it at once.
                    std::thread::yield_now();
                    continue;
                }
                Err(TryLockError::Error(error)) => return Err(cannot_lock(&path).because(error)),
            }
            // The last holder may have removed the file between our open and lock. Then our lock is worthless.
            if is_at(&file, &path) {
                let lock = Lock { file, path };
                lock.sign(&ProcessId::current(env)?)?;
                return Ok(Some(lock));
            }
        }
    }

    /// Takes the lock, waiting for a holder that works briefly. Polls at growing intervals, but at least every 10 ms: a
    /// waiter with longer intervals would starve beside others.
    ///
    /// This is for short work. For a long wait without polling, use [`crate::process::slots::Slots`].
    pub fn acquire(env: &Env, path: impl Into<PathBuf>, timeout: Duration) -> Result<Lock> {
        let path = path.into();
        let who = || match holder(&path) {
            Ok(Some(id)) if id.is_alive(env) => format!("process {}", id.pid),
            _ => "another process".to_owned(),
        };
        let mut wait = Wait::begin(timeout);
        loop {
            if let Some(lock) = Lock::try_acquire(env, &path)? {
                return Ok(lock);
            }
            if !wait.goes_on(&path, &who) {
                return Err(cannot_lock(&path).hint(format!("{} holds it", who())));
            }
        }
    }

    /// Takes the lock, however long another process holds it.
    pub fn acquire_patiently(env: &Env, path: impl Into<PathBuf>) -> Result<Lock> {
        Lock::acquire(env, path, Duration::MAX)
    }

    /// Removes the file and releases the lock. Other processes notice that their open file is no longer the lock.
    pub fn remove(self) -> Result<()> {
        std::fs::remove_file(&self.path)
            .context(|| format!("cannot remove '{}'", self.path.display()))
    }

    /// Renames the file, which stays locked.
    pub(super) fn rename(&mut self, to: PathBuf) -> Result<()> {
        std::fs::rename(&self.path, &to).context(|| format!("cannot create '{}'", to.display()))?;
        self.path = to;
        Ok(())
    }

    fn sign(&self, id: &ProcessId) -> Result<()> {
        let mut text = serde_json::to_string(id)
            .context(|| format!("cannot write '{}'", self.path.display()))?;
        text.push('\n');
        self.file
            .set_len(0)
            .and_then(|()| self.file.write_all_at(text.as_bytes(), 0))
            .context(|| format!("cannot write '{}'", self.path.display()))
    }
}

/// After this time the user is told about the wait.
const LONG: Duration = Duration::from_secs(2);

/// The function that tells the user.
static TELL: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that tells the user about a long wait. Without it, waits are silent.
pub fn tell_of_waits(tell: fn(&str)) {
    // Set once, at the start of the program.
    let _ = TELL.set(tell);
}

/// A wait for a lock.
struct Wait {
    started: Instant,
    timeout: Duration,
    pause: Duration,
    told: bool,
}

impl Wait {
    fn begin(timeout: Duration) -> Self {
        Wait {
            started: Instant::now(),
            timeout,
            pause: Duration::from_millis(1),
            told: false,
        }
    }

    /// Sleeps for a moment. Returns `false` if the time is over.
    fn goes_on(&mut self, path: &Path, who: &dyn Fn() -> String) -> bool {
        let waited = self.started.elapsed();
        let left = self.timeout.saturating_sub(waited);
        if left.is_zero() {
            return false;
        }
        if waited >= LONG && !std::mem::replace(&mut self.told, true) {
            let text = format!("waiting for '{}', which {} holds", path.display(), who());
            if let Some(tell) = TELL.get() {
                tell(&text);
            }
        }
        std::thread::sleep(self.pause.min(left));
        self.pause = (self.pause * 2).min(Duration::from_millis(10));
        true
    }
}

/// Locks a file without a holder's name in it, however long that takes.
pub fn lock_unsigned(file: &File, path: &Path) -> std::io::Result<()> {
    let mut wait = Wait::begin(Duration::MAX);
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => wait.goes_on(path, &|| "another process".to_owned()),
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => return Ok(()),
        };
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file would release the lock too, but watchers hear of the close before the kernel releases the
        // lock. If this fails, the close still releases it.
        let _ = self.file.unlock();
    }
}

/// Returns whether some process holds the lock. Does not create it, and never makes another process's attempt fail.
pub fn is_held(path: &Path) -> Result<bool> {
    match open(path, false) {
        Ok(file) => is_held_exclusively(&file, path),
        Err(error) if error.is_io(std::io::ErrorKind::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the holder of the lock: `None` if it is free, or if the holder has not written its name yet.
pub fn holder(path: &Path) -> Result<Option<ProcessId>> {
    if !is_held(path)? {
        return Ok(None);
    }
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Error::fatal(format!("cannot read '{}'", path.display())).because(error));
        }
    };
    Ok(serde_json::from_slice(&text).ok())
}

/// Tries a shared lock for an instant: it fails beside an exclusive one, and [`Lock::try_acquire`] tolerates it.
fn is_held_exclusively(file: &File, path: &Path) -> Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock();
            Ok(false)
        }
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(cannot_lock(path).because(error)),
    }
}

fn open(path: &Path, write: bool) -> Result<File> {
    let no_follow = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    OpenOptions::new()
        .read(true)
        .write(write)
        .create(write)
        .truncate(false)
        .mode(0o600)
        // A link or a FIFO is not a lock, and a FIFO would block.
        .custom_flags(no_follow)
        .open(path)
        .context(|| format!("cannot open '{}'", path.display()))
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

fn cannot_lock(path: &Path) -> Error {
    Error::fatal(format!("cannot lock '{}'", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::process::tests::{env, rerun, sh, until};

    #[test]
    fn one_holds_it_and_says_who() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("run/deep/x.lock");
        let env = env();
        assert!(!is_held(&path).expect("missing is free"));
        let lock = Lock::try_acquire(&env, &path)
            .expect("locks")
            .expect("free");
        assert!(is_held(&path).expect("answers"));
        assert_eq!(
            holder(&path).expect("answers"),
            Some(ProcessId::current(&env).expect("this process"))
        );
        assert!(Lock::try_acquire(&env, &path).expect("answers").is_none());
        let error = Lock::acquire(&env, &path, Duration::from_millis(20)).expect_err("held");
        assert!(error.hints()[0].contains("holds it"), "{error:?}");
        let mode = |path: &Path| {
            std::fs::metadata(path)
                .expect("exists")
                .permissions()
                .mode()
        };
        assert_eq!(mode(&path) & 0o777, 0o600);
        assert_eq!(mode(path.parent().expect("in a directory")) & 0o777, 0o700);
        drop(lock);
        assert!(!is_held(&path).expect("answers"));
        assert_eq!(holder(&path).expect("a stale name does not count"), None);
        let lock = Lock::acquire(&env, &path, Duration::from_secs(1)).expect("free");
        lock.remove().expect("removes");
        assert!(!path.exists());
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let link = dir.path().join("x.lock");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &link).expect("links");
        assert!(Lock::try_acquire(&env(), &link).is_err());
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn looking_never_makes_taking_fail() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.lock");
        let env = env();
        drop(Lock::try_acquire(&env, &path).expect("locks"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        is_held(&path).expect("answers");
                    }
                });
            }
            for round in 0..300 {
                let lock = Lock::try_acquire(&env, &path).expect("locks");
                if lock.is_none() {
                    done.store(true, Ordering::Relaxed);
                }
                assert!(lock.is_some(), "round {round}");
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_child_does_not_keep_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.lock");
        let lock = Lock::try_acquire(&env(), &path)
            .expect("locks")
            .expect("free");
        let mut child = sh("exec sleep 30").spawn().expect("sh starts");
        drop(lock);
        assert!(!is_held(&path).expect("answers"));
        child.kill().expect("ours");
        child.wait().expect("ours");
    }

    /// Also the other process of `a_killed_holder_holds_nothing`.
    #[test]
    fn holds_for_another_test() {
        if let Ok(path) = std::env::var("GIT_AGENT_TEST_HOLD") {
            let _lock = Lock::try_acquire(&env(), path)
                .expect("locks")
                .expect("free");
            std::thread::sleep(Duration::from_secs(20));
        }
    }

    #[test]
    fn a_killed_holder_holds_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.lock");
        let mut child = rerun("process::lock::tests::holds_for_another_test")
            .env("GIT_AGENT_TEST_HOLD", &path)
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("the test binary starts again");
        until("the other holds it", || {
            holder(&path)
                .expect("answers")
                .is_some_and(|id| id.pid == child.id())
        });
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert!(Lock::try_acquire(&env(), &path).expect("answers").is_some());
    }

    #[test]
    fn removal_while_others_open_it_leaves_one_holder() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.lock");
        let inside = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let env = env();
                    for _ in 0..50 {
                        let lock =
                            Lock::acquire(&env, &path, Duration::from_secs(8)).expect("in time");
                        assert!(!inside.swap(true, Ordering::SeqCst), "two hold it");
                        inside.store(false, Ordering::SeqCst);
                        lock.remove().expect("removes");
                    }
                });
            }
        });
    }
}
