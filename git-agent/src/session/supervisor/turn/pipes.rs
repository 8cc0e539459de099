//! The pipes of a running agent: input waits until the agent reads it, and output comes as lines.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::agent::driver::{Input, words_end};
use crate::error::{Context, Result};
use crate::model::session::Exit;
use crate::process::lines::{Bounds, Fill, Lines, Piece, Reader, Stream};
use crate::process::spawn::Spawned;
use crate::redact::Redactor;

/// How long output is waited for after the process that wrote it has ended.
const DRAIN: Duration = Duration::from_millis(300);
/// How long a program that is not spoken with may say nothing before the beginning of a line is passed on: it may be a
/// question.
const QUIET: Duration = Duration::from_millis(100);

/// Beginnings of lines up to this size are passed on.
const QUESTION: usize = 16 << 10;
const BOTH: [Stream; 2] = [Stream::Out, Stream::Err];

/// A running agent.
#[derive(Debug)]
pub struct Running {
    /// The process and its ends of the pipes.
    pub spawned: Spawned,
    /// Its standard output, until it closes it.
    pub stdout: Option<Reader<OwnedFd>>,
    /// Its standard error, until it closes it.
    pub stderr: Option<Reader<OwnedFd>>,
    lines: Lines,
    /// When it last printed something that is not a whole line.
    paused: Option<Instant>,
    /// Input that it has not read yet.
    pub outgoing: VecDeque<u8>,
    /// Whether its input is closed after that.
    pub close_after: bool,
    /// Whether it is spoken with.
    pub dialogue: bool,
}

impl Running {
    /// Takes hold of a process. What one in a dialogue says is a protocol: of that no line may be missing.
    pub fn new(spawned: Spawned, dialogue: bool) -> Result<Self> {
        let cannot = || "cannot open the agent's pipes".to_owned();
        let stdout = spawned
            .stdout
            .as_fd()
            .try_clone_to_owned()
            .context(cannot)?;
        let stderr = spawned
            .stderr
            .as_fd()
            .try_clone_to_owned()
            .context(cannot)?;
        if let Some(stdin) = &spawned.stdin {
            rustix::fs::fcntl_getfl(stdin)
                .and_then(|flags| {
                    rustix::fs::fcntl_setfl(stdin, flags | rustix::fs::OFlags::NONBLOCK)
                })
                .context(cannot)?;
        }
        Ok(Running {
            spawned,
            stdout: Some(Reader::new(stdout, Stream::Out)?),
            stderr: Some(Reader::new(stderr, Stream::Err)?),
            lines: Lines::new(Bounds {
                line: 4 << 20,
                head: Bounds::default().head.filter(|_| !dialogue),
                ..Bounds::default()
            }),
            paused: None,
            outgoing: VecDeque::new(),
            close_after: false,
            dialogue,
        })
    }

    /// Writes as much as the agent takes now. An agent that has closed its input is not an error: it will end, or not.
    pub fn pump(&mut self) -> Result<()> {
        while let Some(stdin) = self
            .spawned
            .stdin
            .as_ref()
            .filter(|_| !self.outgoing.is_empty())
        {
            let (front, _) = self.outgoing.as_slices();
            match rustix::io::write(stdin, front) {
                Ok(count) => {
                    self.outgoing.drain(..count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => {
                    self.outgoing.clear();
                    self.spawned.stdin = None;
                }
            }
        }
        if self.close_after {
            self.spawned.stdin = None;
        }
        Ok(())
    }

    /// Reads the available output of both streams.
    pub fn read(&mut self, out: bool, err: bool, queue: &mut VecDeque<Input>) -> Result<()> {
        let mut emit = |piece| queue.push_back(as_input(piece));
        for (side, ready) in [(&mut self.stdout, out), (&mut self.stderr, err)] {
            if let Some(reader) = side.as_mut().filter(|_| ready)
                && reader.fill(&mut self.lines, &mut emit)? == Fill::Ended
            {
                *side = None;
            }
        }
        let begun = !self.dialogue && BOTH.into_iter().any(|side| self.begun(side).is_some());
        self.paused = begun.then(Instant::now);
        Ok(())
    }

    /// Returns when the beginnings of lines are passed on.
    pub fn due(&self) -> Option<Instant> {
        self.paused.map(|since| since + QUIET)
    }

    /// Passes on the beginnings of lines that have waited long enough for the rest, but no half of a secret that has
    /// blanks.
    pub fn flush_due(&mut self, now: Instant, redactor: &Redactor, queue: &mut VecDeque<Input>) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        self.paused = None;
        for side in BOTH {
            let begun = self.begun(side);
            let unfinished = self.lines.unfinished_bytes(side);
            let end = begun.map_or(0, |end| redactor.cut_bytes(unfinished, end));
            if end > 0 {
                let mut emit = |piece| queue.push_back(as_input(piece));
                self.lines.hand_on(side, end, &mut emit);
            }
        }
    }

    /// Returns how much of a line that is not whole yet may be passed on.
    fn begun(&self, side: Stream) -> Option<usize> {
        let bytes = self.lines.unfinished_bytes(side);
        // A longer line is not a question, and would be searched again and again.
        (bytes.len() < QUESTION).then(|| words_end(bytes)).flatten()
    }

    /// Takes the rest of the output, and the status.
    pub fn finish(&mut self, queue: &mut VecDeque<Input>) -> Result<Exit> {
        let until = Instant::now() + DRAIN;
        let mut emit = |piece| queue.push_back(as_input(piece));
        for side in [&mut self.stdout, &mut self.stderr] {
            if let Some(mut reader) = side.take() {
                reader.drain(&mut self.lines, until, &mut emit)?;
            }
        }
        self.lines.finish(&mut emit);
        let status = self
            .spawned
            .child
            .wait()
            .context(|| "cannot tell how the agent ended".into())?;
        use std::os::unix::process::ExitStatusExt;
        Ok(Exit {
            code: status.code(),
            signal: status.signal(),
            reason: String::new(),
        })
    }
}

fn as_input(piece: Piece) -> Input {
    match piece {
        Piece::Line(line) => match line.stream {
            Stream::Out => Input::Stdout {
                line: line.bytes,
                cut: line.cut,
            },
            Stream::Err => Input::Stderr {
                line: line.bytes,
                cut: line.cut,
            },
        },
        Piece::Gap { lines, bytes } => {
            let words = format!("[{lines} lines, {bytes} bytes of output were not kept]");
            Input::Stderr {
                line: words.into_bytes(),
                cut: 0,
            }
        }
    }
}
