//! Waits while no turn runs: for messages, signals, a time, or a condition of the caller.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use crate::error::Result;
use crate::process::wait::Poll;
use crate::session::supervisor::inbox::Message;
use crate::session::supervisor::turn::{Live, Ready};

impl Live<'_> {
    /// Waits for a message or a signal, at most until `until`. Returns whether something came.
    pub fn idle(&mut self, until: Option<Instant>) -> Result<bool> {
        self.take_messages()?;
        if self.ending.is_some() || self.inbox.has_prompt()? {
            return Ok(true);
        }
        self.rest(None, until)?;
        self.take_messages()?;
        Ok(self.ending.is_some() || self.inbox.has_prompt()?)
    }

    /// Returns whether a command needs the session without its supervisor.
    pub fn is_unwanted(&self) -> Result<bool> {
        let mut unwanted = false;
        for (id, message) in self.inbox.list()? {
            if message == Message::Leave {
                self.inbox.remove(id)?;
                unwanted = true;
            }
        }
        Ok(unwanted)
    }

    /// Waits for something of the caller's. `false` when the session shall end instead.
    pub fn wait_also(&mut self, also: &impl AsFd) -> Result<bool> {
        loop {
            self.take_messages()?;
            if self.ending.is_some() {
                return Ok(false);
            }
            if self.rest(Some(also.as_fd()), None)? {
                return Ok(true);
            }
        }
    }

    /// Waits until a moment. `false` when the session shall end instead.
    pub fn pause(&mut self, until: Instant) -> Result<bool> {
        loop {
            self.take_messages()?;
            if self.ending.is_some() {
                return Ok(false);
            }
            if Instant::now() >= until {
                return Ok(true);
            }
            self.rest(None, Some(until))?;
        }
    }

    /// Sleeps until anything comes or is due, and takes in signals and what of the messages may not wait. Returns whether
    /// it was `also`.
    fn rest(&mut self, also: Option<BorrowedFd<'_>>, until: Option<Instant>) -> Result<bool> {
        let deadline = [until, self.flush_at()].into_iter().flatten().min();
        let mut poll = Poll::new();
        if let Some(also) = &also {
            poll.read(None, also);
        }
        poll.read(Some(Ready::Inbox), &self.bell);
        poll.read(Some(Ready::Signal), &self.signals);
        let ready = poll.rest(deadline)?;
        if ready.contains(&Some(Ready::Signal)) {
            self.take_signals();
        }
        if ready.contains(&Some(Ready::Inbox)) {
            self.bell.silence();
            self.take_messages()?;
        }
        self.writer.flush_if_due()?;
        Ok(ready.contains(&None))
    }
}
