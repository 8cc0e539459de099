//! One descriptor to wait on while other processes hold a slot: readable when it is worth looking again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::error::{Context, Result};
use crate::process::identity::Handle;
use crate::process::wait::timespec;

/// One descriptor for a deadline, the ends of processes, and other descriptors.
#[derive(Debug)]
pub struct News {
    either: OwnedFd,
    timer: OwnedFd,
    processes: Vec<Handle>,
}

impl News {
    /// Returns a value that waits for nothing yet.
    pub fn new() -> Result<Self> {
        let cannot = || "cannot wait for others".to_owned();
        let either = epoll::create(epoll::CreateFlags::CLOEXEC).context(cannot)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).context(cannot)?;
        let news = News {
            either,
            timer,
            processes: Vec::new(),
        };
        news.also(&news.timer)?;
        Ok(news)
    }

    /// Also waits until this descriptor is readable. Closing it removes it.
    pub fn also(&self, descriptor: &impl AsFd) -> Result<()> {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&self.either, descriptor, data, epoll::EventFlags::IN)
            .context(|| "cannot wait for others".into())
    }

    /// Also waits until one of these processes has ended, instead of those given before. The kernel reports this after
    /// it has released their locks.
    pub fn until_ended(&mut self, processes: Vec<Handle>) -> Result<()> {
        self.processes = processes;
        self.processes.iter().try_for_each(|one| self.also(one))
    }

    /// Waits at most for this time from now; `None` switches the timer off.
    pub fn within(&self, pause: Option<Duration>) -> Result<()> {
        let timer = Itimerspec {
            it_interval: timespec(Duration::ZERO),
            // Zero switches the timer off.
            it_value: timespec(pause.unwrap_or_default()),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)
            .map(drop)
            .context(|| "cannot wait for others".into())
    }
}

impl AsFd for News {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.as_fd()
    }
}
