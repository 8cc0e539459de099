//! A semaphore across processes: at most N at a time, by priority and then by arrival, without a central process.
//!
//! A slot is a locked file. A queued process holds a ticket, which is a locked file too, with a name that sorts by
//! priority and arrival. The holder of the first ticket takes the next free slot.
//!
//! Each process waits only for the one before it. The first one watches the slots with inotify, which reports a release
//! even if the holder was killed. Every other one waits for its predecessor, which rings a doorbell when it leaves the
//! queue; if the predecessor is killed, the kernel reports that. So any number of processes can queue: only the first
//! one uses an inotify instance, of which a user has few, and a change wakes one process, not all.
//!
//! When a dying process closes a file, the kernel reports this an instant before it releases the lock. After an event
//! without a free slot, the queue therefore polls a few times within a second, then sleeps again.

pub mod doorbell;
pub mod news;

use std::fs::DirBuilder;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::env::Env;
use crate::error::{Context, Result};
use crate::process::lock::{Lock, holder, is_held};
use crate::process::slots::doorbell::Doorbell;
use crate::process::slots::news::News;
use crate::process::wait::{Change, Poll, Watch};

/// How long another process may take to choose a slot.
const TURNSTILE: Duration = Duration::from_secs(10);
/// The delays of polls after an event without a free slot.
const LOOK_AGAIN: [Duration; 5] = [
    Duration::from_millis(2),
    Duration::from_millis(8),
    Duration::from_millis(40),
    Duration::from_millis(200),
    Duration::from_millis(800),
];
/// The poll interval of the first in the queue where the slots cannot be watched. It is only one process, and a slot
/// stays empty meanwhile.
const LOOK: Duration = Duration::from_millis(100);
/// The poll interval of the others where their predecessor cannot wake them.
const LOOK_BEHIND: Duration = Duration::from_secs(1);

/// A number of slots shared by all processes that name the same directory.
#[derive(Debug, Clone)]
pub struct Slots {
    directory: PathBuf,
    count: usize,
}

impl Slots {
    /// Returns the slots in a directory. Slots held by processes with a different count still count.
    pub fn new(directory: impl Into<PathBuf>, count: usize) -> Self {
        Slots {
            directory: directory.into(),
            count: count.max(1),
        }
    }

    /// Takes a slot if one is free and no waiting process goes first. Lower priority numbers go first.
    pub fn try_take(&self, env: &Env, priority: i32) -> Result<Option<Lock>> {
        self.make_directories()?;
        // A waiting process with the same priority came earlier.
        let own = ticket_name(priority, u64::MAX, u32::MAX);
        match self.before(&own)? {
            Some(_) => Ok(None),
            None => self.take(env),
        }
    }

    /// Joins the queue. Poll the returned value, and ask it for the slot when it is readable.
    pub fn wait(&self, env: &Env, priority: i32) -> Result<Queued> {
        self.make_directories()?;
        let queue = self.queue();
        let name = ticket_name(priority, boot_nanoseconds(), std::process::id());
        self.remove_unborn();
        // Hidden until it is locked: another process would remove an unlocked ticket as a dead one.
        let mut ticket = Lock::acquire(env, queue.join(format!(".{name}")), TURNSTILE)?;
        let bell = Doorbell::listen(&self.bell(&name))?;
        let news = News::new()?;
        news.also(&bell)?;
        ticket.rename(queue.join(&name))?;
        Ok(Queued {
            slots: self.clone(),
            name,
            ticket: Some(ticket),
            bell,
            news,
            watch: None,
            looked: 0,
        })
    }

    /// Returns how many slots are held now.
    pub fn held(&self) -> Result<usize> {
        let mut held = 0;
        for path in entries(&self.slots())? {
            held += usize::from(is_held(&path)?);
        }
        Ok(held)
    }

    /// Returns how many processes wait now.
    pub fn waiting(&self) -> Result<usize> {
        let mut waiting = 0;
        for path in entries(&self.queue())? {
            waiting += usize::from(is_held(&path)?);
        }
        Ok(waiting)
    }

    /// Returns the ids of the waiting processes, first to last.
    pub fn pids_in_queue(&self) -> Result<Vec<u32>> {
        let mut pids = Vec::new();
        for name in self.tickets()? {
            let pid = name.rsplit('-').next().and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid.filter(|_| is_held(&self.queue().join(&name)).unwrap_or(false)) {
                pids.push(pid);
            }
        }
        Ok(pids)
    }

    fn take(&self, env: &Env) -> Result<Option<Lock>> {
        // A first look without the turnstile: the usual answer then needs no lock.
        if self.held()? >= self.count {
            return Ok(None);
        }
        let _turnstile = Lock::acquire(env, self.directory.join("turnstile"), TURNSTILE)?;
        if self.held()? >= self.count {
            return Ok(None);
        }
        // Behind the turnstile slots can only become free, so the first free one of an unbounded row is ours.
        for number in 0.. {
            let path = self.slots().join(number.to_string());
            if !is_held(&path)?
                && let Some(lock) = Lock::try_acquire(env, path)?
            {
                return Ok(Some(lock));
            }
        }
        Ok(None)
    }

    fn slots(&self) -> PathBuf {
        self.directory.join("slots")
    }

    fn queue(&self) -> PathBuf {
        self.directory.join("queue")
    }

    fn bell(&self, ticket: &str) -> PathBuf {
        self.directory.join("bells").join(ticket)
    }

    /// Returns the names of the tickets, first to last, including those of dead processes.
    fn tickets(&self) -> Result<Vec<String>> {
        let paths = entries(&self.queue())?;
        let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        let mut names: Vec<String> = paths.iter().filter_map(name).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns whether a living process holds a ticket; removes a dead one's ticket.
    fn is_waiting(&self, ticket: &str) -> Result<bool> {
        let path = self.queue().join(ticket);
        if is_held(&path)? {
            return Ok(true);
        }
        // No process reuses an existing ticket, so an unlocked one stays unlocked.
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_file(self.bell(ticket));
        Ok(false)
    }

    /// Removes old hidden tickets whose creators died before they showed them.
    fn remove_unborn(&self) {
        let queue = std::fs::read_dir(self.queue());
        for entry in queue.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(ticket) = name.to_str().and_then(|name| name.strip_prefix('.')) else {
                continue;
            };
            let age = entry.metadata().and_then(|metadata| metadata.modified());
            let old = age.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > TURNSTILE * 6));
            if old && is_held(&entry.path()).is_ok_and(|held| !held) {
                let _ = std::fs::remove_file(entry.path());
                let _ = std::fs::remove_file(self.bell(ticket));
            }
        }
    }

    /// Returns the last ticket before another that a living process holds.
    fn before(&self, ticket: &str) -> Result<Option<String>> {
        for name in self.tickets()?.into_iter().rev() {
            if *name < *ticket && self.is_waiting(&name)? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Wakes the first process after a ticket that was removed.
    fn call_next(&self, ticket: &str) -> Result<()> {
        for name in self.tickets()? {
            if *name > *ticket && self.is_waiting(&name)? {
                doorbell::ring(&self.bell(&name));
                break;
            }
        }
        Ok(())
    }

    fn make_directories(&self) -> Result<()> {
        for path in [self.slots(), self.queue(), self.directory.join("bells")] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .context(|| format!("cannot create '{}'", path.display()))?;
        }
        Ok(())
    }
}

/// A place in the queue for a slot, given up on drop.
#[derive(Debug)]
pub struct Queued {
    slots: Slots,
    name: String,
    ticket: Option<Lock>,
    bell: Doorbell,
    news: News,
    /// Watches the slots while this process is first in the queue.
    watch: Option<Watch>,
    /// How often it polled since the last event.
    looked: usize,
}

impl Queued {
    /// Takes the slot if it is this process's turn. Call it once at first, then whenever the descriptor is readable.
    pub fn try_take(&mut self, env: &Env) -> Result<Option<Lock>> {
        self.clear();
        let slot = match self.slots.before(&self.name)? {
            Some(before) => self.stay_behind(env, &before)?,
            None => self.try_take_first(env)?,
        };
        if slot.is_some() {
            self.leave();
        }
        Ok(slot)
    }

    fn try_take_first(&mut self, env: &Env) -> Result<Option<Lock>> {
        self.news.until_ended(Vec::new())?;
        let watch = match &self.watch {
            Some(watch) => watch,
            None => {
                let mut watch = Watch::new()?;
                watch.add(&self.slots.slots(), Change::Settled)?;
                self.news.also(&watch)?;
                self.watch.insert(watch)
            }
        };
        let is_told = watch.is_told();
        // The watch starts before this look, so that a later release is reported.
        let slot = self.slots.take(env)?;
        let pause = LOOK_AGAIN.get(self.looked).copied();
        self.looked += 1;
        self.news.within(if is_told { pause } else { Some(LOOK) })?;
        Ok(slot)
    }

    /// Waits for the predecessor to leave the queue.
    fn stay_behind(&mut self, env: &Env, before: &str) -> Result<Option<Lock>> {
        self.watch = None;
        self.looked = 0;
        let ticket = self.slots.queue().join(before);
        let process = match holder(&ticket)? {
            Some(id) => id.open(env)?,
            None => None,
        };
        let is_told = process.is_some() && self.bell.can_be_rung();
        self.news.until_ended(process.into_iter().collect())?;
        self.news.within((!is_told).then_some(LOOK_BEHIND))?;
        // The predecessor may have left, and rung, before we held on to it.
        if is_held(&ticket)? {
            Ok(None)
        } else {
            self.news.within(Some(LOOK_AGAIN[0])).map(|()| None)
        }
    }

    /// Waits for the slot until the deadline.
    pub fn take(&mut self, env: &Env, deadline: Option<Instant>) -> Result<Option<Lock>> {
        loop {
            if let Some(slot) = self.try_take(env)? {
                return Ok(Some(slot));
            }
            let mut poll = Poll::new();
            poll.read((), &self.news);
            if poll.rest(deadline)?.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Returns how many processes are ahead in the queue.
    pub fn ahead(&self) -> Result<usize> {
        let mut ahead = 0;
        for name in self.slots.tickets()? {
            ahead += usize::from(name < self.name && self.slots.is_waiting(&name)?);
        }
        Ok(ahead)
    }

    /// Clears the events so far; later ones are reported again.
    fn clear(&mut self) {
        let watched = self.watch.as_ref();
        let told = watched.is_some_and(|watch| !watch.take().is_empty());
        if self.bell.silence() || told {
            self.looked = 0;
        }
    }

    fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // If this fails, the next process that reads the queue removes it.
            let _ = ticket.remove();
            // If this fails, the next process learns of it when this one ends.
            let _ = self.slots.call_next(&self.name);
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.leave();
    }
}

impl AsFd for Queued {
    /// Returns a descriptor that is readable when it is worth asking again.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

/// Returns a name that sorts by priority, then arrival.
fn ticket_name(priority: i32, arrival: u64, pid: u32) -> String {
    let priority = i64::from(priority) - i64::from(i32::MIN);
    format!("{priority:010}-{arrival:020}-{pid}")
}

/// Returns the visible files of a directory; none if it is missing.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read '{}'", directory.display());
    let listing = match std::fs::read_dir(directory) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).context(cannot),
    };
    let mut paths = Vec::new();
    for entry in listing {
        let entry = entry.context(cannot)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// Returns a clock that all processes of this boot share and that cannot be set back.
fn boot_nanoseconds() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * 1_000_000_000 + nanoseconds
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::process::tests::{env, rerun, until};

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(8))
    }

    #[test]
    fn no_more_than_the_count_are_taken() {
        let dir = tempfile::tempdir().expect("a directory");
        let (env, slots) = (env(), Slots::new(dir.path().join("slots"), 2));
        let one = slots.try_take(&env, 0).expect("answers").expect("free");
        let _two = slots.try_take(&env, 0).expect("answers").expect("free");
        assert!(slots.try_take(&env, 0).expect("answers").is_none());
        assert_eq!(slots.held().expect("answers"), 2);
        // A lower count respects the slots of others, a higher one adds to them.
        let fewer = Slots::new(dir.path().join("slots"), 1);
        let more = Slots::new(dir.path().join("slots"), 3);
        let _three = more.try_take(&env, 0).expect("answers").expect("free");
        drop(one);
        assert!(fewer.try_take(&env, 0).expect("answers").is_none());
        assert!(slots.try_take(&env, 0).expect("answers").is_none());
        assert!(more.try_take(&env, 0).expect("answers").is_some());
    }

    #[test]
    fn the_queue_goes_by_priority_then_arrival() {
        let dir = tempfile::tempdir().expect("a directory");
        let slots = Slots::new(dir.path(), 1);
        let held = slots.try_take(&env(), 0).expect("answers").expect("free");
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (index, priority) in [5, 0, 0, -3, 5].into_iter().enumerate() {
                let (order, slots) = (&order, &slots);
                scope.spawn(move || {
                    let env = env();
                    let mut queued = slots.wait(&env, priority).expect("queues");
                    let slot = queued.take(&env, soon()).expect("waits").expect("in time");
                    order.lock().expect("no panic").push(index);
                    drop(slot);
                });
                until("queued", || slots.waiting().expect("answers") == index + 1);
            }
            // No newcomer overtakes the waiting processes, even with a lower number.
            drop(held);
        });
        assert_eq!(*order.lock().expect("no panic"), [3, 1, 2, 0, 4]);
        assert_eq!(slots.waiting().expect("answers"), 0);
        assert_eq!(slots.held().expect("answers"), 0);
    }

    #[test]
    fn a_newcomer_does_not_jump_the_queue() {
        let dir = tempfile::tempdir().expect("a directory");
        let (env, slots) = (env(), Slots::new(dir.path(), 1));
        let held = slots.try_take(&env, 0).expect("answers").expect("free");
        let mut queued = slots.wait(&env, 3).expect("queues");
        assert!(queued.try_take(&env).expect("answers").is_none());
        assert_eq!(queued.ahead().expect("answers"), 0);
        drop(held);
        assert!(slots.try_take(&env, 3).expect("answers").is_none());
        let urgent = slots
            .try_take(&env, 2)
            .expect("answers")
            .expect("goes first");
        assert!(queued.try_take(&env).expect("answers").is_none());
        drop(urgent);
        assert!(queued.take(&env, soon()).expect("waits").is_some());
    }

    #[test]
    fn giving_up_lets_the_next_one_go() {
        let dir = tempfile::tempdir().expect("a directory");
        let (env, slots) = (env(), Slots::new(dir.path(), 1));
        let held = slots.try_take(&env, 0).expect("answers").expect("free");
        let first = slots.wait(&env, 0).expect("queues");
        let mut second = slots.wait(&env, 0).expect("queues");
        assert_eq!(second.ahead().expect("answers"), 1);
        drop(held);
        assert!(second.try_take(&env).expect("answers").is_none());
        drop(first);
        assert!(second.take(&env, soon()).expect("waits").is_some());
        assert!(
            entries(&slots.queue()).expect("readable").is_empty(),
            "no ticket is left"
        );
    }

    #[test]
    fn never_more_than_two_of_ten_run() {
        let dir = tempfile::tempdir().expect("a directory");
        let slots = Slots::new(dir.path(), 2);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    let env = env();
                    let mut queued = slots.wait(&env, 0).expect("queues");
                    let slot = queued.take(&env, soon()).expect("waits").expect("in time");
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(10));
                    running.fetch_sub(1, Ordering::SeqCst);
                    drop(slot);
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }

    /// Also the other process of `those_killed_make_room`.
    #[test]
    fn holds_or_waits_for_another_test() {
        let Ok(directory) = std::env::var("GIT_AGENT_TEST_SLOTS") else {
            return;
        };
        let (env, slots) = (env(), Slots::new(directory, 1));
        let mut queued = slots.wait(&env, 0).expect("queues");
        let slot = queued.take(&env, None).expect("waits");
        std::thread::sleep(Duration::from_secs(20));
        drop(slot);
    }

    #[test]
    fn one_killed_after_another_hands_on_the_slot() {
        let dir = tempfile::tempdir().expect("a directory");
        let slots = Slots::new(dir.path(), 1);
        let mut others: Vec<_> = (0..8)
            .map(|_| {
                rerun("process::slots::tests::holds_or_waits_for_another_test")
                    .env("GIT_AGENT_TEST_SLOTS", dir.path())
                    .stdout(Stdio::null())
                    .spawn()
                    .expect("the test binary starts again")
            })
            .collect();
        until("one holds, the others wait", || {
            slots.held().expect("answers") == 1 && slots.waiting().expect("answers") == 7
        });
        while !others.is_empty() {
            let holder =
                || crate::process::lock::holder(&slots.slots().join("0")).expect("answers");
            // The new holder writes its name after it takes the lock; until then the file names the killed one.
            let mut index = None;
            until("one of ours holds it", || {
                let pid = holder().map(|holder| holder.pid);
                index = others.iter().position(|other| Some(other.id()) == pid);
                index.is_some()
            });
            let mut child = others.swap_remove(index.expect("just found"));
            child.kill().expect("ours");
            child.wait().expect("ours");
            assert!(slots.held().expect("answers") <= 1);
        }
        assert_eq!(slots.waiting().expect("answers"), 0);
    }

    #[test]
    fn those_killed_make_room() {
        let dir = tempfile::tempdir().expect("a directory");
        let (env, slots) = (env(), Slots::new(dir.path(), 1));
        let other = || {
            rerun("process::slots::tests::holds_or_waits_for_another_test")
                .env("GIT_AGENT_TEST_SLOTS", dir.path())
                .stdout(Stdio::null())
                .spawn()
                .expect("the test binary starts again")
        };
        let mut holder = other();
        until("held", || slots.held().expect("answers") == 1);
        let mut waiter = other();
        until("queued", || slots.waiting().expect("answers") == 1);
        let status = format!("/proc/{}/status", waiter.id());
        let task = format!("/proc/{}/task", waiter.id());
        let switches = || {
            let mut text = std::fs::read_to_string(&status).expect("alive");
            for thread in std::fs::read_dir(&task).expect("alive") {
                let path = thread.expect("alive").path().join("status");
                text.push_str(&std::fs::read_to_string(path).expect("alive"));
            }
            text.lines()
                .filter(|line| line.contains("ctxt_switches"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        // After joining it polls for about a second; then it must sleep.
        until("a queued process sleeps", || {
            let before = switches();
            std::thread::sleep(Duration::from_millis(400));
            switches() == before && before.len() > 2
        });
        let mut third = slots.wait(&env, 0).expect("queues");
        for child in [&mut waiter, &mut holder] {
            child.kill().expect("ours");
        }
        let started = Instant::now();
        assert!(third.take(&env, soon()).expect("waits").is_some());
        assert!(started.elapsed() < Duration::from_secs(2));
        for child in [&mut waiter, &mut holder] {
            child.wait().expect("ours");
        }
    }
}
