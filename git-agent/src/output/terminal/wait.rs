//! Waiting while something is shown: for a change, for keys, for signals, and for a reader who has seen enough.

use std::os::fd::AsFd;
use std::time::Instant;

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};

use crate::error::{Error, Kind, Result};
use crate::output::closed_pipe;
use crate::output::terminal::screen::Screen;
use crate::process::wait::{Poll, Signals};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Change,
    Signal,
    Key,
    ReaderGone,
}

/// What a wait ended for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Something that is shown has changed.
    Change,
    /// The reader has seen enough.
    Leave,
    /// The moment has come, or the screen must be painted again.
    Paint,
}

/// The signals that a program which shows something has to heed.
pub struct Waiter {
    signals: Signals,
}

impl Waiter {
    /// Begins to heed signals.
    pub fn new() -> Result<Self> {
        let signals = Signals::new(&[SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT])?;
        Ok(Waiter { signals })
    }

    /// Sleeps until `changes` can be read, the moment has come, or the terminal says something. An error means that the
    /// program was told to end.
    pub fn wait(
        &mut self,
        changes: &impl AsFd,
        screen: Option<&mut Screen<'_>>,
        deadline: Option<Instant>,
    ) -> Result<Wake> {
        let (keyboard, pipe) = (screen.as_deref().and_then(Screen::keyboard), closed_pipe());
        let mut poll = Poll::new();
        poll.read(Ready::Change, changes);
        poll.read(Ready::Signal, &self.signals);
        if let Some(keyboard) = &keyboard {
            poll.read(Ready::Key, keyboard);
        }
        if let Some(pipe) = &pipe {
            poll.read(Ready::ReaderGone, pipe);
        }
        let ready = poll.wait(deadline)?;
        if ready.contains(&Ready::ReaderGone) {
            return Ok(Wake::Leave);
        }
        if ready.contains(&Ready::Key) {
            let keys = screen.as_deref().and_then(Screen::keys);
            // Without a keyboard the reader could never end it.
            if keys.is_none_or(|keys| keys.iter().any(|key| matches!(key, b'q' | b'Q'))) {
                return Ok(Wake::Leave);
            }
        }
        if ready.contains(&Ready::Signal) && self.is_interrupted(screen)? {
            return Ok(Wake::Leave);
        }
        Ok(if ready.contains(&Ready::Change) {
            Wake::Change
        } else {
            Wake::Paint
        })
    }

    /// Takes in the signals that came. Returns whether the reader interrupted.
    fn is_interrupted(&mut self, mut screen: Option<&mut Screen<'_>>) -> Result<bool> {
        for signal in self.signals.take() {
            match signal {
                SIGINT => return Ok(true),
                SIGTERM | SIGHUP => return Err(Error::new(Kind::Signal(signal), "")),
                SIGCONT => {
                    if let Some(screen) = screen.as_deref_mut() {
                        screen.take()?;
                    }
                }
                _ => {}
            }
        }
        Ok(false)
    }
}
