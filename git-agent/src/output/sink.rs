//! The destinations of output: a standard stream, the pager, or memory in tests.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, LineWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};

use crate::error::{Context, Error, Result};
use crate::output::cannot_write;
use crate::output::terminal::pager::Pager;

/// Size of the buffer for long answers.
const BUFFER: usize = 64 * 1024;
/// Size of the first piece, about one screen, so that the user sees something soon; later pieces grow.
const FIRST: usize = 4 * 1024;

#[derive(Debug)]
pub(super) enum Sink {
    /// A terminal gets each line as it is written.
    Terminal(LineWriter<Stream>),
    /// A file or a program gets large pieces.
    Piped(Pieces<Stream>),
    /// stderr is not buffered.
    Direct(Stream),
    Pager(Pieces<Pager>),
    /// After the end, nothing is accepted.
    Closed,
    #[cfg(test)]
    Memory(Vec<u8>),
}

impl Sink {
    pub(super) fn stdout(is_terminal: bool) -> Result<Self> {
        let stream = Stream::of(rustix::stdio::stdout())?;
        Ok(if is_terminal {
            Sink::Terminal(LineWriter::new(stream))
        } else {
            Sink::Piped(Pieces::new(stream))
        })
    }

    pub(super) fn stderr() -> Result<Self> {
        Ok(Sink::Direct(Stream::of(rustix::stdio::stderr())?))
    }

    pub(super) fn pager(pager: Pager) -> Self {
        Sink::Pager(Pieces::new(pager))
    }

    #[cfg(test)]
    pub(super) fn memory() -> Self {
        Sink::Memory(Vec::new())
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> String {
        match self {
            Sink::Memory(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        }
    }

    /// Flushes the buffers and waits for the pager.
    pub(super) fn finish(&mut self) -> Result<()> {
        match std::mem::replace(self, Sink::Closed) {
            Sink::Pager(mut pieces) => {
                let flushed = pieces.flush();
                let (pager, _) = pieces.buffer.into_parts();
                let ended = pager.finish();
                match flushed {
                    // The user left the pager early; only a pager that never ran is an error.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ended,
                    Err(error) => Err(error).context(cannot_write),
                    Ok(()) => ended,
                }
            }
            mut other => other.flush().context(cannot_write),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Terminal(stream) => stream.write(bytes),
            Sink::Piped(stream) => stream.write(bytes),
            Sink::Direct(stream) => stream.write(bytes),
            Sink::Pager(pager) => pager.write(bytes),
            Sink::Closed => Err(mark_reader_gone(io::ErrorKind::BrokenPipe.into())),
            #[cfg(test)]
            Sink::Memory(kept) => kept.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Terminal(stream) => stream.flush(),
            Sink::Piped(stream) => stream.flush(),
            Sink::Pager(pager) => pager.flush(),
            Sink::Direct(_) | Sink::Closed => Ok(()),
            #[cfg(test)]
            Sink::Memory(_) => Ok(()),
        }
    }
}

/// A buffer that flushes the first piece soon, and then ever larger ones.
#[derive(Debug)]
pub(super) struct Pieces<W: Write> {
    buffer: BufWriter<W>,
    held: usize,
    limit: usize,
}

impl<W: Write> Pieces<W> {
    fn new(to: W) -> Self {
        Pieces {
            buffer: BufWriter::with_capacity(BUFFER, to),
            held: 0,
            limit: FIRST,
        }
    }
}

impl<W: Write> Write for Pieces<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.buffer.write(bytes)?;
        self.held += taken;
        if self.held >= self.limit {
            self.limit = (self.limit * 2).min(BUFFER);
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.held = 0;
        self.buffer.flush()
    }
}

/// The reader of the answer closed its end of the pipe.
///
/// A broken pipe alone does not prove that: a broken pipe to a dead child is a failure of the work and must not count
/// as success.
#[derive(Debug)]
struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader of the output has left")
    }
}

impl std::error::Error for ReaderGone {}

/// Marks a broken pipe as that of the answer.
pub(super) fn mark_reader_gone(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, ReaderGone),
        _ => error,
    }
}

/// Returns whether the reader of the answer has closed the pipe, which is not an error.
pub fn is_reader_gone(error: &Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = next {
        let inner = current
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        if inner.is_some_and(|inner| inner.is::<ReaderGone>()) {
            return true;
        }
        next = current.source();
    }
    false
}

/// A standard stream without the standard library's buffer.
#[derive(Debug)]
pub(super) struct Stream(File);

impl Stream {
    fn of(fd: BorrowedFd<'_>) -> Result<Self> {
        let owned = fd.try_clone_to_owned().context(cannot_write)?;
        Ok(Stream(owned.into()))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                // Some parents set the shared stream to non-blocking mode; wait for it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut wanted = [PollFd::new(&self.0, PollFlags::OUT)];
                    match poll(&mut wanted, None) {
                        Ok(_) | Err(rustix::io::Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                result => return result.map_err(mark_reader_gone),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_long_answer_goes_soon() {
        #[derive(Default)]
        struct Sizes(Vec<usize>);
        impl Write for Sizes {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.push(bytes.len());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut pieces = Pieces::new(Sizes::default());
        let line = [b'x'; 64];
        for _ in 0..4096 {
            pieces.write_all(&line).expect("memory takes all");
        }
        pieces.flush().expect("memory takes all");
        let sizes = &pieces.buffer.get_ref().0;
        assert_eq!(
            sizes[..6],
            [4, 8, 16, 32, 64, 64].map(|kib| kib << 10),
            "{sizes:?}"
        );
        assert_eq!(sizes.iter().sum::<usize>(), 4096 * line.len());
    }

    #[test]
    fn only_the_answers_reader_may_leave() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let of_answer = Err::<(), _>(mark_reader_gone(broken())).context(cannot_write);
        let wrapped = of_answer.context(|| "cannot list".into());
        assert!(is_reader_gone(&wrapped.expect_err("it failed")));
        let of_child = Err::<(), _>(broken()).context(|| "cannot write to git".into());
        assert!(!is_reader_gone(&of_child.expect_err("it failed")));
        let other = mark_reader_gone(io::ErrorKind::StorageFull.into());
        assert_eq!(other.kind(), io::ErrorKind::StorageFull);
    }
}
