//! Waits for descriptors, signals, files and deadlines in one place, without waking up in between.
//!
//! A loop builds a [`Poll`] from its descriptors, gives it the next deadline, and sleeps in the
//! kernel. Without a timer the wait has no timeout, so an idle process never wakes up.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::error::{Context, Error, Result};

/// A set of descriptors to wait for, each with the caller's own name for it.
#[derive(Debug)]
pub struct Poll<'fd, T> {
    tokens: Vec<T>,
    descriptors: Vec<PollFd<'fd>>,
}

impl<T> Default for Poll<'_, T> {
    fn default() -> Self {
        Poll {
            tokens: Vec::new(),
            descriptors: Vec::new(),
        }
    }
}

impl<'fd, T: Clone> Poll<'fd, T> {
    /// Returns an empty set.
    pub fn new() -> Self {
        Poll::default()
    }

    /// Also waits until this is readable, has ended or has failed.
    pub fn read(&mut self, token: T, descriptor: &'fd impl AsFd) {
        self.add(token, descriptor.as_fd(), PollFlags::IN);
    }

    /// Also waits until this is writable, or has no reader left.
    pub fn write(&mut self, token: T, descriptor: &'fd impl AsFd) {
        self.add(token, descriptor.as_fd(), PollFlags::OUT);
    }

    fn add(&mut self, token: T, descriptor: BorrowedFd<'fd>, events: PollFlags) {
        self.tokens.push(token);
        self.descriptors
            .push(PollFd::from_borrowed_fd(descriptor, events));
    }

    /// Sleeps until a descriptor is ready or the deadline passes. Returns the ready ones; none means the deadline
    /// passed.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Result<Vec<T>> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let timeout = left.map(timespec);
            match poll(&mut self.descriptors, timeout.as_ref()) {
                Ok(0) => return Ok(Vec::new()),
                Ok(_) => {
                    return Ok(self
                        .tokens
                        .iter()
                        .zip(&self.descriptors)
                        .filter(|(_, descriptor)| !descriptor.revents().is_empty())
                        .map(|(token, _)| token.clone())
                        .collect());
                }
                // If the signal is handled, its handler has written to its pipe by now.
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::fatal("cannot wait for events").because(error)),
            }
        }
    }
}

/// A wait of this length counts as a long one.
const LULL: Duration = Duration::from_secs(2);

impl<T: Clone> Poll<'_, T> {
    /// Sleeps as [`Poll::wait`] does, for processes that wait for hours, many at once: after a short time it frees
    /// memory that can be reloaded, and sleeps on.
    pub fn rest(&mut self, deadline: Option<Instant>) -> Result<Vec<T>> {
        let lull = Instant::now() + LULL;
        if deadline.is_none_or(|deadline| deadline > lull) {
            let ready = self.wait(Some(lull))?;
            if !ready.is_empty() {
                return Ok(ready);
            }
            crate::process::resident::give_back();
        }
        self.wait(deadline)
    }
}

/// Returns a duration in the kernel's type.
pub(super) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Signals that arrive on a descriptor instead of ending the process.
#[derive(Debug)]
pub struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
}

impl Signals {
    /// Takes over these signals (numbers of `signal_hook::consts`) until the value is dropped.
    pub fn new(signals: &[i32]) -> Result<Self> {
        let (read, write) = UnixStream::pair().context(|| "cannot listen for signals".into())?;
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, signals)
            .context(|| "cannot listen for signals".into())?;
        Ok(Signals { delivery })
    }

    /// Takes the signals that have arrived, each at most once.
    pub fn take(&mut self) -> Vec<i32> {
        self.delivery.pending().collect()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}

/// A bell that another thread can ring to end a wait.
#[derive(Debug, Clone)]
pub struct Bell {
    descriptor: Arc<OwnedFd>,
}

impl Bell {
    /// Returns a silent bell.
    pub fn new() -> Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .context(|| "cannot make an event descriptor".into())?;
        Ok(Bell {
            descriptor: Arc::new(descriptor),
        })
    }

    /// Rings: every wait on it ends until [`Bell::silence`] is called.
    pub fn ring(&self) {
        // A full counter is a ringing bell, so a failure does not matter.
        let _ = rustix::io::write(&*self.descriptor, &1u64.to_ne_bytes());
    }

    /// Stops the ringing. Returns whether it rang.
    pub fn silence(&self) -> bool {
        rustix::io::read(&*self.descriptor, &mut [0u8; 8]).is_ok()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// How often a [`Watch`] or a doorbell reports a possible change where the kernel does not.
const LOOK: Duration = Duration::from_secs(1);

/// Returns a timer that is readable once a second, for waits that must poll.
pub(super) fn every_second() -> Result<OwnedFd> {
    let cannot = || "cannot make a timer".to_owned();
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags).context(cannot)?;
    let every = Itimerspec {
        it_interval: timespec(LOOK),
        it_value: timespec(LOOK),
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &every).context(cannot)?;
    Ok(timer)
}

/// Reports changes of directories or files. A user has few inotify instances, and editors need them: without a free
/// one, it reports a possible change once a second.
#[derive(Debug)]
pub struct Watch {
    descriptor: OwnedFd,
    is_told: bool,
}

/// The changes that a [`Watch`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A name was added, removed or replaced, or a file was closed after writing.
    Settled,
    /// As [`Change::Settled`], and every write.
    Written,
}

impl Watch {
    /// Returns a watch without paths.
    pub fn new() -> Result<Self> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        match inotify::init(flags) {
            Ok(descriptor) => Ok(Watch {
                descriptor,
                is_told: true,
            }),
            Err(_) => Watch::by_looking(),
        }
    }

    fn by_looking() -> Result<Self> {
        Ok(Watch {
            descriptor: every_second()?,
            is_told: false,
        })
    }

    /// Returns whether the kernel reports changes; otherwise a timer does.
    pub(super) fn is_told(&self) -> bool {
        self.is_told
    }

    /// Also watches a directory (its entries) or a file.
    pub fn add(&mut self, path: &Path, change: Change) -> Result<()> {
        use inotify::WatchFlags as Flags;
        if !self.is_told {
            return Ok(());
        }
        let mut flags = Flags::CREATE
            | Flags::DELETE
            | Flags::MOVED_FROM
            | Flags::MOVED_TO
            | Flags::CLOSE_WRITE
            | Flags::DELETE_SELF
            | Flags::MOVE_SELF;
        if change == Change::Written {
            flags |= Flags::MODIFY;
        }
        match inotify::add_watch(&self.descriptor, path, flags) {
            // The user's watches are used up.
            Err(Errno::NOSPC | Errno::NOMEM) => {
                *self = Watch::by_looking()?;
                Ok(())
            }
            added => added
                .map(drop)
                .context(|| format!("cannot watch '{}'", path.display())),
        }
    }

    /// Takes the names of changed files; an empty name stands for the watched path itself, or for an unspecific change.
    pub fn take(&self) -> Vec<OsString> {
        if !self.is_told {
            let due = rustix::io::read(&self.descriptor, &mut [0u8; 8]).is_ok();
            return due.then(OsString::new).into_iter().collect();
        }
        let mut names: Vec<OsString> = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.descriptor, &mut buffer);
        while let Ok(event) = reader.next() {
            let name = event.file_name().map_or(&b""[..], |name| name.to_bytes());
            let name = OsStr::from_bytes(name).to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use signal_hook::consts::SIGUSR2;

    use super::*;
    use crate::process::tests::until;

    #[test]
    fn what_is_ready_is_told_by_name() {
        let (mut near, far) = UnixStream::pair().expect("a pair");
        let bell = Bell::new().expect("a bell");
        let mut poll = Poll::new();
        poll.read("far", &far);
        poll.read("bell", &bell);
        let soon = Instant::now() + Duration::from_millis(10);
        assert!(poll.wait(Some(soon)).expect("waits").is_empty());
        near.write_all(b"x").expect("writes");
        assert_eq!(poll.wait(None).expect("waits"), ["far"]);
        bell.clone().ring();
        assert_eq!(poll.wait(None).expect("waits"), ["far", "bell"]);
        assert!(bell.silence());
        assert!(!bell.silence());
        assert_eq!(poll.wait(None).expect("waits"), ["far"]);
    }

    #[test]
    fn a_signal_is_something_to_read() {
        let mut signals = Signals::new(&[SIGUSR2]).expect("listens");
        assert!(signals.take().is_empty());
        signal_hook::low_level::raise(SIGUSR2).expect("raises");
        let mut poll = Poll::new();
        poll.read((), &signals);
        let soon = Instant::now() + Duration::from_secs(5);
        assert_eq!(poll.wait(Some(soon)).expect("waits").len(), 1);
        assert_eq!(signals.take(), [SIGUSR2]);
        assert!(signals.take().is_empty());
    }

    #[test]
    fn changes_in_a_directory_are_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut watch = Watch::new().expect("inotify");
        watch.add(dir.path(), Change::Settled).expect("watches");
        assert!(watch.take().is_empty());
        std::fs::write(dir.path().join("new"), "x").expect("writes");
        assert_eq!(watch.take(), ["new"]);
        assert!(watch.take().is_empty());
        watch.add(dir.path(), Change::Written).expect("watches");
        assert!(
            watch
                .add(&dir.path().join("none"), Change::Settled)
                .is_err()
        );
    }

    #[test]
    fn without_inotify_something_may_have_changed_every_second() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut watch = Watch::by_looking().expect("a timer");
        watch.add(dir.path(), Change::Settled).expect("watches");
        assert!(watch.take().is_empty());
        let mut poll = Poll::new();
        poll.read((), &watch);
        assert_eq!(poll.wait(None).expect("waits").len(), 1);
        assert_eq!(watch.take(), [OsString::new()]);
        assert!(watch.take().is_empty());
    }

    #[test]
    fn an_idle_wait_never_wakes_up() {
        let bell = Bell::new().expect("a bell");
        let heard = bell.clone();
        let (send, receive) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get())
                .expect("the test listens");
            let mut poll = Poll::new();
            poll.read((), &heard);
            poll.wait(None).expect("waits").len()
        });
        let thread = receive.recv().expect("the thread's number");
        let path = format!("/proc/self/task/{thread}/status");
        let switches = || {
            let text = std::fs::read_to_string(&path).expect("a living thread");
            text.lines()
                .filter(|line| line.contains("ctxt_switches"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let stat = format!("/proc/self/task/{thread}/stat");
        until("the thread sleeps", || {
            std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") S "))
        });
        let before = switches();
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(switches(), before);
        bell.ring();
        assert_eq!(waiter.join().expect("no panic"), 1);
    }
}
