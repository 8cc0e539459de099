//! Splits a child's output into bounded lines, so that memory stays small and the program never blocks.
//!
//! There are two bounds. A line keeps its first bytes, and the number of bytes cut. The whole output keeps its head as
//! it comes and, after that, a rolling tail that is emitted at the end, with the size of the gap in between. Lines are
//! bytes: the caller decides whether they are text.

use std::collections::VecDeque;
use std::io::BufRead;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::error::{Context, Error, Result};

/// The size of one read: that of a full pipe.
const CHUNK: usize = 64 << 10;
/// The size of a read while there is little output.
const SMALL: usize = 4 << 10;
/// How many reads one call makes, so that other streams get their turn.
const READS: usize = 16;
/// The cost of a line in the tail besides its bytes.
const OVERHEAD: usize = 64;

/// An output stream of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// How much output is kept.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The bytes kept of one line.
    pub line: usize,
    /// The bytes emitted as they come; `None` for all.
    pub head: Option<u64>,
    /// The bytes kept after the head, from the end.
    pub tail: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            line: 256 << 10,
            head: Some(8 << 20),
            tail: 1 << 20,
        }
    }
}

/// One line of output, without its line feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub stream: Stream,
    /// The kept bytes.
    pub bytes: Vec<u8>,
    /// The number of bytes cut.
    pub cut: u64,
    /// Whether a line feed ended it; otherwise the output ended first.
    pub complete: bool,
}

/// A line, or a gap in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A line of output.
    Line(Line),
    /// Output between the head and the tail that was dropped.
    Gap {
        lines: u64,
        /// The number of bytes, including line feeds.
        bytes: u64,
    },
}

/// Splits the two streams of one child into lines within bounds.
#[derive(Debug)]
pub struct Lines {
    bounds: Bounds,
    out: Unfinished,
    err: Unfinished,
    passed: u64,
    tail: VecDeque<Line>,
    tail_size: usize,
    gap_lines: u64,
    gap_bytes: u64,
}

#[derive(Debug, Default)]
struct Unfinished {
    bytes: Vec<u8>,
    cut: u64,
    /// Whether the start of the line was already emitted.
    begun: bool,
}

impl Lines {
    /// Returns an empty splitter.
    pub fn new(bounds: Bounds) -> Self {
        Lines {
            bounds,
            out: Unfinished::default(),
            err: Unfinished::default(),
            passed: 0,
            tail: VecDeque::new(),
            tail_size: 0,
            gap_lines: 0,
            gap_bytes: 0,
        }
    }

    /// Takes a chunk of a stream and emits the complete lines.
    pub fn push(&mut self, stream: Stream, chunk: &[u8], emit: &mut dyn FnMut(Piece)) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let before = rest;
            // Reading a slice cannot fail.
            let length = rest.skip_until(b'\n').unwrap_or(before.len());
            let complete = before[..length].ends_with(b"\n");
            let part = &before[..length - usize::from(complete)];
            let limit = self.bounds.line;
            let unfinished = self.unfinished(stream);
            let room = limit.saturating_sub(unfinished.bytes.len()).min(part.len());
            unfinished.bytes.extend_from_slice(&part[..room]);
            unfinished.cut += (part.len() - room) as u64;
            if complete {
                self.end_line(stream, true, emit);
            }
        }
    }

    /// Returns the bytes of a stream since its last line feed, which may be a question that waits for an answer.
    /// Returns nothing if the start of the line was already emitted: output that slow is not a question.
    pub fn unfinished_bytes(&self, stream: Stream) -> &[u8] {
        let unfinished = match stream {
            Stream::Out => &self.out,
            Stream::Err => &self.err,
        };
        if unfinished.begun {
            &[]
        } else {
            &unfinished.bytes
        }
    }

    /// Emits the first bytes of a line before the rest has arrived.
    pub fn hand_on(&mut self, stream: Stream, length: usize, emit: &mut dyn FnMut(Piece)) {
        let unfinished = self.unfinished(stream);
        let rest = unfinished.bytes.split_off(length);
        self.end_line(stream, false, emit);
        *self.unfinished(stream) = Unfinished {
            bytes: rest,
            cut: 0,
            begun: true,
        };
    }

    /// Emits the remainder when the output has ended: unfinished lines, then the gap and the tail.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Piece)) {
        for stream in [Stream::Out, Stream::Err] {
            let unfinished = self.unfinished(stream);
            if !unfinished.bytes.is_empty() || unfinished.cut > 0 {
                self.end_line(stream, false, emit);
            }
        }
        if self.gap_lines > 0 {
            emit(Piece::Gap {
                lines: std::mem::take(&mut self.gap_lines),
                bytes: std::mem::take(&mut self.gap_bytes),
            });
        }
        self.tail_size = 0;
        for line in std::mem::take(&mut self.tail) {
            emit(Piece::Line(line));
        }
        self.passed = 0;
    }

    fn unfinished(&mut self, stream: Stream) -> &mut Unfinished {
        match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        }
    }

    fn end_line(&mut self, stream: Stream, complete: bool, emit: &mut dyn FnMut(Piece)) {
        let Unfinished { bytes, cut, begun } = std::mem::take(self.unfinished(stream));
        if begun && bytes.is_empty() && cut == 0 {
            return;
        }
        let line = Line {
            stream,
            bytes,
            cut,
            complete,
        };
        let in_head = self.bounds.head.is_none_or(|head| self.passed < head);
        if in_head {
            // Cut bytes count too, so that a few endless lines use up the head.
            self.passed += size(&line);
            emit(Piece::Line(line));
        } else {
            self.keep_in_tail(line);
        }
    }

    fn keep_in_tail(&mut self, mut line: Line) {
        line.bytes.shrink_to_fit();
        self.tail_size += line.bytes.len() + OVERHEAD;
        self.tail.push_back(line);
        while self.tail_size > self.bounds.tail
            && let Some(oldest) = self.tail.pop_front()
        {
            self.tail_size -= oldest.bytes.len() + OVERHEAD;
            self.gap_lines += 1;
            self.gap_bytes += size(&oldest);
        }
    }
}

/// Returns how many bytes the child wrote for this line.
fn size(line: &Line) -> u64 {
    line.bytes.len() as u64 + line.cut + u64::from(line.complete)
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// More may be available at once.
    More,
    /// Nothing more is available now.
    Empty,
    /// The stream has ended.
    Ended,
}

/// Reads one end of a child's pipe without ever blocking.
#[derive(Debug)]
pub struct Reader<F> {
    pipe: F,
    stream: Stream,
    buffer: Vec<u8>,
}

impl<F: AsFd> Reader<F> {
    /// Makes our end of a pipe non-blocking. The child's end does not change.
    pub fn new(pipe: F, stream: Stream) -> Result<Self> {
        fcntl_getfl(&pipe)
            .and_then(|flags| fcntl_setfl(&pipe, flags | OFlags::NONBLOCK))
            .context(|| "cannot prepare to read a program's output".into())?;
        Ok(Reader {
            pipe,
            stream,
            buffer: Vec::new(),
        })
    }

    /// Reads the available output, but not so much that other streams starve.
    pub fn fill(&mut self, lines: &mut Lines, emit: &mut dyn FnMut(Piece)) -> Result<Fill> {
        let mut small = [0; SMALL];
        for _ in 0..READS {
            // Most reads return a line or two, for which a large buffer would cost more than the read.
            let buffer = if self.buffer.is_empty() {
                &mut small[..]
            } else {
                &mut self.buffer[..]
            };
            match rustix::io::read(&self.pipe, &mut *buffer) {
                Ok(0) => return Ok(self.rest(Fill::Ended)),
                Ok(count) => {
                    lines.push(self.stream, &buffer[..count], emit);
                    if count == SMALL && self.buffer.is_empty() {
                        self.buffer.resize(CHUNK, 0);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(self.rest(Fill::Empty)),
                Err(error) => {
                    return Err(Error::fatal("cannot read a program's output").because(error));
                }
            }
        }
        Ok(Fill::More)
    }

    /// Reads the remainder after the program has ended. Does not wait for its descendants that keep the pipe open, and
    /// stops at the given time if they continue to write.
    pub fn drain(
        &mut self,
        lines: &mut Lines,
        until: Instant,
        emit: &mut dyn FnMut(Piece),
    ) -> Result<Fill> {
        loop {
            let fill = self.fill(lines, emit)?;
            if fill != Fill::More || Instant::now() >= until {
                return Ok(fill);
            }
        }
    }

    /// Frees the buffer, so that an idle reader costs nothing.
    fn rest(&mut self, fill: Fill) -> Fill {
        self.buffer = Vec::new();
        fill
    }
}

impl<F: AsFd> AsFd for Reader<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::Duration;

    use super::*;
    use crate::process::tests::{alone, sh};
    use crate::process::wait::Poll;

    fn lines(bounds: Bounds, chunks: &[(Stream, &[u8])]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut lines = Lines::new(bounds);
        for (stream, chunk) in chunks {
            lines.push(*stream, chunk, &mut |piece| pieces.push(piece));
        }
        lines.finish(&mut |piece| pieces.push(piece));
        pieces
    }

    fn line(stream: Stream, bytes: &[u8], cut: u64, complete: bool) -> Piece {
        Piece::Line(Line {
            stream,
            bytes: bytes.to_vec(),
            cut,
            complete,
        })
    }

    #[test]
    fn streams_are_cut_apart_from_each_other() {
        use Stream::{Err, Out};
        let pieces = lines(
            Bounds::default(),
            &[
                (Out, b"a"),
                (Err, b"x\xff\n\ny"),
                (Out, b"b\r\nc"),
                (Out, b""),
            ],
        );
        assert_eq!(
            pieces,
            [
                line(Err, b"x\xff", 0, true),
                line(Err, b"", 0, true),
                line(Out, b"ab\r", 0, true),
                line(Out, b"c", 0, false),
                line(Err, b"y", 0, false),
            ]
        );
    }

    #[test]
    fn a_line_whose_beginning_was_handed_on_gives_only_the_rest() {
        let mut pieces = Vec::new();
        let mut lines = Lines::new(Bounds::default());
        let mut emit = |piece| pieces.push(piece);
        lines.push(Stream::Out, b"Continue? ", &mut emit);
        lines.hand_on(Stream::Out, 10, &mut emit);
        lines.push(Stream::Out, b"\nName: a", &mut emit);
        lines.hand_on(Stream::Out, 6, &mut emit);
        assert!(lines.unfinished_bytes(Stream::Out).is_empty());
        lines.push(Stream::Out, b"nn\n\n", &mut emit);
        lines.finish(&mut emit);
        assert_eq!(
            pieces,
            [
                line(Stream::Out, b"Continue? ", 0, false),
                line(Stream::Out, b"Name: ", 0, false),
                line(Stream::Out, b"ann", 0, true),
                line(Stream::Out, b"", 0, true),
            ]
        );
    }

    #[test]
    fn a_long_line_says_what_it_lost() {
        let bounds = Bounds {
            line: 4,
            ..Bounds::default()
        };
        let pieces = lines(
            bounds,
            &[
                (Stream::Out, b"abc"),
                (Stream::Out, b"defg"),
                (Stream::Out, b"h\nij\n"),
            ],
        );
        assert_eq!(
            pieces,
            [
                line(Stream::Out, b"abcd", 4, true),
                line(Stream::Out, b"ij", 0, true)
            ]
        );
    }

    #[test]
    fn head_and_tail_are_kept_with_the_gap_between() {
        let bounds = Bounds {
            line: 100,
            head: Some(6),
            tail: 2 * (3 + OVERHEAD),
        };
        let pieces = lines(bounds, &[(Stream::Out, b"l01\nl02\nl03\nl04\nl05\nl06\n")]);
        assert_eq!(
            pieces,
            [
                line(Stream::Out, b"l01", 0, true),
                line(Stream::Out, b"l02", 0, true),
                Piece::Gap { lines: 2, bytes: 8 },
                line(Stream::Out, b"l05", 0, true),
                line(Stream::Out, b"l06", 0, true),
            ]
        );
    }

    #[test]
    fn no_byte_is_uncounted() {
        let text = b"one\n\ntwo two two two\nthree\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n".repeat(50);
        for head in [0, 7, 200] {
            let bounds = Bounds {
                line: 5,
                head: Some(head),
                tail: 300,
            };
            let mut counted = 0;
            for piece in lines(bounds, &[(Stream::Out, &text), (Stream::Err, b"tail")]) {
                counted += match piece {
                    Piece::Line(line) => size(&line),
                    Piece::Gap { bytes, .. } => bytes,
                };
            }
            assert_eq!(counted, text.len() as u64 + 4);
        }
    }

    #[test]
    fn fifty_megabytes_in_one_line_need_little_memory() {
        alone(
            "process::lines::tests::fifty_megabytes_in_one_line_need_little_memory",
            || {
                let peak = || {
                    let text = std::fs::read_to_string("/proc/self/status").expect("readable");
                    let line = text.lines().find(|line| line.starts_with("VmHWM:"));
                    let number = line.and_then(|line| line.split_ascii_whitespace().nth(1));
                    number
                        .and_then(|text| text.parse::<u64>().ok())
                        .expect("a number")
                };
                let mut child = sh("head -c 50000000 /dev/zero | tr '\\0' x; echo; \
                                    head -c 1000000 /dev/zero | tr '\\0' '\\n'; echo end >&2")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("sh starts");
                let before = peak();
                let out = child.stdout.take().expect("piped");
                let err = child.stderr.take().expect("piped");
                let mut out = Reader::new(out, Stream::Out).expect("reads");
                let mut err = Reader::new(err, Stream::Err).expect("reads");
                let mut lines = Lines::new(Bounds::default());
                let (mut longest, mut count, mut gap) = (0, 0u64, 0);
                let mut emit = |piece: Piece| match piece {
                    Piece::Line(line) => {
                        count += 1;
                        longest = longest.max(line.cut + line.bytes.len() as u64);
                    }
                    Piece::Gap { lines, .. } => gap = lines,
                };
                let mut open = [true, true];
                while open[0] || open[1] {
                    let mut poll = Poll::new();
                    if open[0] {
                        poll.read(0, &out);
                    }
                    if open[1] {
                        poll.read(1, &err);
                    }
                    for token in poll.wait(None).expect("waits") {
                        let fill = match token {
                            0 => out.fill(&mut lines, &mut emit),
                            _ => err.fill(&mut lines, &mut emit),
                        };
                        open[token] = fill.expect("reads") != Fill::Ended;
                    }
                }
                lines.finish(&mut emit);
                child.wait().expect("ours");
                assert_eq!(longest, 50_000_000);
                assert_eq!(count + gap, 1_000_002);
                let grown = peak() - before;
                assert!(grown < 16 << 10, "{grown} KiB");
            },
        );
    }

    #[test]
    fn a_descendant_that_keeps_the_pipe_does_not_hold_us_up() {
        let mut child = sh("sleep 1 & echo $!; exec sleep 0")
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        child.wait().expect("ours");
        let out = child.stdout.take().expect("piped");
        let mut reader = Reader::new(out, Stream::Out).expect("reads");
        let mut lines = Lines::new(Bounds::default());
        let mut pieces = Vec::new();
        let until = Instant::now() + Duration::from_secs(1);
        let fill = reader.drain(&mut lines, until, &mut |piece| pieces.push(piece));
        assert_eq!(fill.expect("reads"), Fill::Empty);
        assert_eq!(pieces.len(), 1);
    }
}
