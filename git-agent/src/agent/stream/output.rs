//! Gathers printed lines into events of bounded size: lines that arrive together become one event.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::agent::driver::Link;
use crate::agent::stream::split;
use crate::agent::stream::text::keep_tail;
use crate::error::Result;
use crate::model::event::Body;
use crate::model::event_words::OutputStream;

/// Maximum size of an event.
const LARGEST: usize = 16 * 1024;
/// Maximum number of bytes recorded of one line, as printed; an invalid byte is recorded with four characters.
const LINE: usize = 1024 * 1024;
/// How long a line may wait for others.
const WAIT: Duration = Duration::from_millis(10);
/// Maximum number of bytes recorded of one turn's output; after that, only its end is.
const HEAD: u64 = 4 * 1024 * 1024;
/// Maximum number of bytes recorded of the end.
const TAIL: usize = 64 * 1024;
/// Maximum number of bytes kept of the last output, to explain a failure.
const LAST: usize = 4 * 1024;

/// The stream of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl From<Stream> for OutputStream {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Stdout => OutputStream::Stdout,
            Stream::Stderr => OutputStream::Stderr,
        }
    }
}

/// Lines being gathered.
#[derive(Debug, Default)]
pub struct Printed {
    pending: Option<(Stream, Instant)>,
    text: String,
    recorded: u64,
    tail: VecDeque<(Stream, String)>,
    tail_size: usize,
    left_out: u64,
    last_stdout: String,
    last_stderr: String,
}

impl Printed {
    /// Handles a line of which `cut` bytes were left out.
    pub fn line(
        &mut self,
        stream: Stream,
        line: &[u8],
        cut: u64,
        link: &mut dyn Link,
    ) -> Result<()> {
        let (line, rest) = line.split_at(line.len().min(LINE));
        let mut cut = cut + rest.len() as u64;
        let mut text = readable(line);
        if cut > 0 {
            // The last word is truncated, and half a secret would not be recognised.
            let end = split::place(&text, text.len(), link);
            cut += (text.len() - end) as u64;
            text.truncate(end);
            text.push_str(&format!(" [{cut} more bytes in this line]"));
        }
        let last = match stream {
            Stream::Stdout => &mut self.last_stdout,
            Stream::Stderr => &mut self.last_stderr,
        };
        if !text.trim().is_empty() {
            last.push_str(&text[text.ceil_char_boundary(text.len().saturating_sub(LAST))..]);
            last.push('\n');
            keep_tail(last, LAST);
        }
        if self.recorded >= HEAD {
            self.keep_for_the_end(stream, text, link);
            return Ok(());
        }
        if self.pending.is_some_and(|(earlier, _)| earlier != stream)
            || self.text.len() + text.len() + 1 > LARGEST
        {
            self.flush(link)?;
        }
        self.recorded += text.len() as u64 + 1;
        if self.pending.is_some() {
            self.text.push('\n');
        }
        self.pending.get_or_insert((stream, Instant::now()));
        self.text.push_str(&text);
        let whole = std::mem::take(&mut self.text);
        let mut rest = whole.as_str();
        while rest.len() > LARGEST {
            let at = match split::place(rest, LARGEST, link) {
                0 => rest.floor_char_boundary(LARGEST),
                at => at,
            };
            self.text.push_str(&rest[..at]);
            rest = &rest[at..];
            self.flush(link)?;
            self.pending = Some((stream, Instant::now()));
        }
        self.text.push_str(rest);
        Ok(())
    }

    /// Returns when waiting lines must be recorded.
    pub fn due(&self) -> Option<Instant> {
        self.pending.map(|(_, since)| since + WAIT)
    }

    /// Records lines that have waited long enough.
    pub fn flush_due(&mut self, now: Instant, link: &mut dyn Link) -> Result<()> {
        match self.due() {
            Some(due) if due <= now => self.flush(link),
            _ => Ok(()),
        }
    }

    /// Records all waiting lines.
    pub fn flush(&mut self, link: &mut dyn Link) -> Result<()> {
        match self.pending.take() {
            None => Ok(()),
            Some((stream, _)) => link.event(output(stream, std::mem::take(&mut self.text))),
        }
    }

    /// Records the rest when the program ended or the turn is over.
    pub fn finish(&mut self, link: &mut dyn Link) -> Result<()> {
        self.flush(link)?;
        if self.left_out > 0 {
            link.event(Body::Notice {
                text: format!(
                    "{} bytes of output were not recorded; the end follows",
                    self.left_out
                ),
            })?;
        }
        for (stream, text) in std::mem::take(&mut self.tail) {
            link.event(output(stream, text))?;
        }
        (self.tail_size, self.left_out, self.recorded) = (0, 0, 0);
        Ok(())
    }

    /// Returns the last non-blank lines on standard output.
    pub fn last_stdout(&self) -> &str {
        self.last_stdout.trim_end()
    }

    /// Returns the last non-blank lines on standard error.
    pub fn last_stderr(&self) -> &str {
        self.last_stderr.trim_end()
    }

    fn keep_for_the_end(&mut self, stream: Stream, mut text: String, link: &dyn Link) {
        let length = text.len() as u64;
        if text.len() > LARGEST {
            let start = text.ceil_char_boundary(text.len() - LARGEST);
            let start = link.cut(&text, start);
            text.drain(..start);
        }
        self.left_out += length - text.len() as u64;
        self.tail_size += text.len();
        match self.tail.back_mut() {
            Some((earlier, lines)) if *earlier == stream && lines.len() + text.len() < LARGEST => {
                lines.push('\n');
                lines.push_str(&text);
            }
            _ => self.tail.push_back((stream, text)),
        }
        while self.tail_size > TAIL
            && let Some((_, oldest)) = self.tail.pop_front()
        {
            self.tail_size = self.tail_size.saturating_sub(oldest.len());
            self.left_out += oldest.len() as u64;
        }
    }
}

fn output(stream: Stream, text: String) -> Body {
    Body::Output {
        stream: stream.into(),
        text,
    }
}

/// Returns bytes as text; invalid UTF-8 is shown as `\xNN`.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            write!(text, "\\x{byte:02x}").ok();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::script::Script;

    fn outputs(link: &Script) -> Vec<(String, String)> {
        link.events
            .iter()
            .map(|body| match body {
                Body::Output { stream, text } => (stream.to_string(), text.clone()),
                Body::Notice { text } => ("notice".into(), text.clone()),
                other => panic!("unexpected {other:?}"),
            })
            .collect()
    }

    #[test]
    fn lines_that_arrive_together_are_one_event() {
        let mut link = Script::default();
        let mut printed = Printed::default();
        for (stream, line) in [
            (Stream::Stdout, &b"one"[..]),
            (Stream::Stdout, b"t\xffwo\x1b[31m\r"),
            (Stream::Stderr, b"oops"),
            (Stream::Stdout, b""),
        ] {
            printed.line(stream, line, 0, &mut link).expect("recorded");
        }
        printed.finish(&mut link).expect("recorded");
        assert_eq!(
            outputs(&link),
            [
                ("stdout".to_owned(), "one\nt\\xffwo\u{1b}[31m".to_owned()),
                ("stderr".to_owned(), "oops".to_owned()),
                ("stdout".to_owned(), String::new()),
            ]
        );
        assert_eq!(printed.last_stdout(), "one\nt\\xffwo\u{1b}[31m");
        assert_eq!(printed.last_stderr(), "oops");
    }

    #[test]
    fn a_long_line_is_split_and_what_was_cut_is_said() {
        let mut link = Script::default();
        let mut printed = Printed::default();
        let line = "ä".repeat(20_000);
        printed
            .line(Stream::Stdout, line.as_bytes(), 7, &mut link)
            .expect("recorded");
        printed.finish(&mut link).expect("recorded");
        let texts: Vec<String> = outputs(&link).into_iter().map(|(_, text)| text).collect();
        assert!(texts.iter().all(|text| text.len() <= LARGEST));
        assert_eq!(texts.concat(), line + " [7 more bytes in this line]");
    }

    #[test]
    fn a_secret_is_never_recorded_in_two_halves() {
        const KEY: &str = "Zq8vLw2pXr5tKd7mQx3v";
        for before in LARGEST - 600..LARGEST + 10 {
            let mut link = Script::knowing(KEY);
            let mut printed = Printed::default();
            let line = "a".repeat(before) + KEY + &"b".repeat(1000);
            printed
                .line(Stream::Stdout, line.as_bytes(), 0, &mut link)
                .expect("recorded");
            printed.finish(&mut link).expect("recorded");
            let texts: Vec<String> = outputs(&link).into_iter().map(|(_, text)| text).collect();
            assert!(texts.iter().any(|text| text.contains(KEY)), "{before}");
            assert_eq!(texts.concat(), line);
        }
    }

    #[test]
    fn a_flood_keeps_its_beginning_and_its_end() {
        let mut link = Script::default();
        let mut printed = Printed::default();
        let line = [b'y'; 1000];
        for _ in 0..20_000 {
            printed
                .line(Stream::Stdout, &line, 0, &mut link)
                .expect("recorded");
        }
        printed
            .line(Stream::Stdout, b"the end", 0, &mut link)
            .expect("recorded");
        printed.finish(&mut link).expect("recorded");
        let outputs = outputs(&link);
        let size: usize = outputs.iter().map(|(_, text)| text.len()).sum();
        assert!(size < 5 * 1024 * 1024, "{size}");
        assert!(outputs.iter().any(|(kind, _)| kind == "notice"));
        assert!(
            outputs
                .last()
                .is_some_and(|(_, text)| text.ends_with("the end"))
        );
    }

    #[test]
    fn of_a_line_that_is_no_text_only_the_beginning_is_recorded() {
        let mut link = Script::default();
        let mut printed = Printed::default();
        printed
            .line(Stream::Stdout, &vec![0x80; 4 * LINE], 5, &mut link)
            .expect("recorded");
        printed.finish(&mut link).expect("recorded");
        let outputs = outputs(&link);
        let size: usize = outputs.iter().map(|(_, text)| text.len()).sum();
        // A truncated word at the end is left out, too.
        assert!((4 * LINE - 1024..4 * LINE + 100).contains(&size), "{size}");
        let left = " more bytes in this line]";
        assert!(outputs.last().is_some_and(|(_, text)| text.ends_with(left)));
        assert!(outputs.iter().all(|(_, text)| text.len() <= LARGEST));
    }

    #[test]
    fn lines_wait_only_a_moment() {
        let mut link = Script::default();
        let mut printed = Printed::default();
        printed
            .line(Stream::Stdout, b"x", 0, &mut link)
            .expect("recorded");
        let due = printed.due().expect("something waits");
        printed.flush_due(due, &mut link).expect("recorded");
        assert_eq!(link.events.len(), 1);
        assert_eq!(printed.due(), None);
    }
}
