//! The terminal for programs that paint all of it themselves: standard output without buffers, and standard error kept from
//! writing over the picture.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::{Context, Result};

fn cannot() -> String {
    "cannot use the terminal".into()
}

/// Returns standard output as a file of its own.
pub fn writer() -> Result<File> {
    let copy = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3).context(cannot)?;
    Ok(File::from(copy))
}

/// Standard error while something else owns the terminal: its text can be read instead.
#[derive(Debug)]
pub struct Stderr {
    own: OwnedFd,
    reader: File,
    writer: OwnedFd,
}

impl Stderr {
    /// Keeps standard error, which goes to the terminal until [`Stderr::divert`].
    pub fn keep() -> Result<Self> {
        let own = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3).context(cannot)?;
        let (reader, writer) =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).context(cannot)?;
        Ok(Stderr {
            own,
            reader: File::from(reader),
            writer,
        })
    }

    /// Sends standard error to the reader.
    pub fn divert(&self) -> Result<()> {
        rustix::stdio::dup2_stderr(&self.writer).context(cannot)
    }

    /// Sends standard error to the terminal again.
    pub fn restore(&self) {
        // Without it, messages stay unseen; nothing else is lost.
        let _ = rustix::stdio::dup2_stderr(&self.own);
    }

    /// Returns the text that was written.
    pub fn take(&mut self) -> String {
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = self.reader.read(&mut piece) {
            text.extend_from_slice(&piece[..count]);
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl AsFd for Stderr {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
