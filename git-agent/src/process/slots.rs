//! At most N at a time, across processes, in order of priority and then of arrival, with nothing central to crash.
//!
//! A slot is a held lock file; a queued process holds a ticket, which is a lock file too, named so that tickets sort into
//! their order. Whoever has the first ticket takes the next free slot. All that changes the answer is a slot's or a
//! ticket's file being closed or removed, and inotify tells of both even when the holder was killed; so a queued process
//! sleeps in the kernel and any number of them costs no CPU. Blocking in flock instead would need one thread per slot, could not
//! be given up, and would know no priority.
//!
//! The kernel tells of a file closed by a dying process an instant before it gives up the lock. After news that did not
//! help, the queue therefore looks again a few times within a second, then sleeps on.

use std::fs::DirBuilder;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::lock::{Lock, is_held};
use super::wait::{Change, Poll, Watch, timespec};
use crate::env::Env;
use crate::error::{Context, Result};

/// How long the brief work of choosing a slot may take another process.
const TURNSTILE: Duration = Duration::from_secs(10);
/// When to look again after news that did not help; the last entry also serves where files cannot be watched.
const LOOK_AGAIN: [Duration; 5] = [
    Duration::from_millis(2),
    Duration::from_millis(8),
    Duration::from_millis(40),
    Duration::from_millis(200),
    Duration::from_millis(800),
];

/// A number of slots shared by all processes that name the same directory.
#[derive(Debug, Clone)]
pub struct Slots {
    directory: PathBuf,
    count: usize,
}

impl Slots {
    /// Returns the slots in a directory. The count may differ from that of processes which already hold some: theirs count.
    pub fn new(directory: impl Into<PathBuf>, count: usize) -> Self {
        Slots {
            directory: directory.into(),
            count: count.max(1),
        }
    }

    /// Takes a slot if one is free and nobody waits who goes first. Lower priority numbers go first.
    pub fn try_take(&self, env: &Env, priority: i32) -> Result<Option<Lock>> {
        self.make_directories()?;
        // Whoever waits with the same priority came earlier.
        let own = ticket_name(priority, u64::MAX, u32::MAX);
        if first_ticket(&self.queue())?.is_some_and(|first| first < own) {
            return Ok(None);
        }
        self.take(env)
    }

    /// Joins the queue. The returned value is polled for news, and asked for the slot then.
    pub fn wait(&self, env: &Env, priority: i32) -> Result<Queued> {
        self.make_directories()?;
        let queue = self.queue();
        let name = ticket_name(priority, boot_nanoseconds(), std::process::id());
        remove_unborn(&queue);
        // Hidden until it is held, or somebody would take it for a dead one's and remove it.
        let mut ticket = Lock::acquire(env, queue.join(format!(".{name}")), TURNSTILE)?;
        let news = News::new(&[&queue, &self.slots()])?;
        ticket.rename(queue.join(&name))?;
        Ok(Queued {
            slots: self.clone(),
            name,
            ticket: Some(ticket),
            news,
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

    fn take(&self, env: &Env) -> Result<Option<Lock>> {
        // Looked at first without the turnstile: the usual answer costs no lock.
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

    fn make_directories(&self) -> Result<()> {
        for path in [self.slots(), self.queue()] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .context(|| format!("cannot create '{}'", path.display()))?;
        }
        Ok(())
    }
}

/// A place in the queue for a slot, given up when dropped.
#[derive(Debug)]
pub struct Queued {
    slots: Slots,
    name: String,
    ticket: Option<Lock>,
    news: News,
}

impl Queued {
    /// Takes the slot if it is this one's turn. Call once at first, then whenever the descriptor is readable.
    pub fn try_take(&mut self, env: &Env) -> Result<Option<Lock>> {
        self.news.clear();
        let first = first_ticket(&self.slots.queue())?;
        let is_first = first.as_deref().is_none_or(|first| first == self.name);
        let slot = if is_first {
            self.slots.take(env)?
        } else {
            None
        };
        if slot.is_some() {
            self.leave();
        } else {
            self.news.look_again()?;
        }
        Ok(slot)
    }

    /// Waits for the slot, or until the moment has come.
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

    /// Returns how many go before this one.
    pub fn ahead(&self) -> Result<usize> {
        let mut ahead = 0;
        for path in entries(&self.slots.queue())? {
            let before = path.file_name().is_some_and(|name| name < &*self.name);
            ahead += usize::from(before && is_held(&path)?);
        }
        Ok(ahead)
    }

    fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // Whoever looks at the queue next removes it otherwise.
            let _ = ticket.remove();
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

/// Tells when the queue or the slots have changed, and shortly after.
#[derive(Debug)]
struct News {
    either: OwnedFd,
    timer: OwnedFd,
    watch: Option<Watch>,
    looked: usize,
}

impl News {
    fn new(directories: &[&Path]) -> Result<Self> {
        let cannot = || "cannot wait for a slot".to_owned();
        let either = epoll::create(epoll::CreateFlags::CLOEXEC).context(cannot)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).context(cannot)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&either, &timer, data, epoll::EventFlags::IN).context(cannot)?;
        // A user has few inotify instances, and editors eat them: without one the queue looks now and then.
        let watch = Watch::new().ok();
        if let Some(watch) = &watch {
            for directory in directories {
                watch.add(directory, Change::Settled)?;
            }
            epoll::add(&either, watch, data, epoll::EventFlags::IN).context(cannot)?;
        }
        Ok(News {
            either,
            timer,
            watch,
            looked: 0,
        })
    }

    /// Forgets the news so far: what comes after this is told again.
    fn clear(&mut self) {
        let heard = self
            .watch
            .as_ref()
            .is_some_and(|watch| !watch.take().is_empty());
        if heard {
            self.looked = 0;
        }
        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
    }

    /// Sets the timer for the next look, if one is due before further news.
    fn look_again(&mut self) -> Result<()> {
        let last = LOOK_AGAIN.len() - 1;
        let pause = match self.watch {
            Some(_) => LOOK_AGAIN.get(self.looked).copied().unwrap_or_default(),
            None => LOOK_AGAIN[self.looked.min(last)],
        };
        self.looked += 1;
        let timer = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            // Zero switches the timer off.
            it_value: timespec(pause),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)
            .map(drop)
            .context(|| "cannot wait for a slot".into())
    }
}

impl AsFd for News {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.as_fd()
    }
}

/// Returns a name that sorts by priority, then arrival.
fn ticket_name(priority: i32, arrival: u64, pid: u32) -> String {
    let priority = i64::from(priority) - i64::from(i32::MIN);
    format!("{priority:010}-{arrival:020}-{pid}")
}

/// Returns the first name that a living process holds, and removes those that dead ones left before it.
fn first_ticket(queue: &Path) -> Result<Option<String>> {
    let mut paths = entries(queue)?;
    paths.sort();
    for path in paths {
        if is_held(&path)? {
            return Ok(path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned()));
        }
        // Nobody takes up an existing ticket, so an unheld one stays so.
        let _ = std::fs::remove_file(&path);
    }
    Ok(None)
}

/// Removes hidden tickets whose makers died a while ago between making and showing them.
fn remove_unborn(queue: &Path) {
    for entry in std::fs::read_dir(queue).into_iter().flatten().flatten() {
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let age = entry.metadata().and_then(|metadata| metadata.modified());
        let old = age.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > TURNSTILE * 6));
        if hidden && old && is_held(&entry.path()).is_ok_and(|held| !held) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
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

/// Returns a clock that all processes of this boot share and nobody sets back.
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

    use super::super::tests::{env, rerun, until};
    use super::*;

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
        // A lower count respects what others hold, a higher one adds to it.
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
            // Nobody new passes those who wait, though one of lower number would.
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

    /// Is also the other process of `those_killed_make_room`.
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
            let holder = || super::super::lock::holder(&slots.slots().join("0")).expect("answers");
            // Whoever takes the lock writes its name a moment later: until then the file names the one just killed.
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
        // After joining it looks a few times within a second or so; then it must sleep.
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
