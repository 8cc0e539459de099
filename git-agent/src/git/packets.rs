//! The packets that two gits speak in: short texts with their length before them, as far as listing refs needs them.
//!
//! The other side may be anybody: a packet is at most 64 KiB, and nothing is kept of those that were heard.

use std::io::{self, ErrorKind, Read};

use crate::error::Result;

/// Names of capabilities that are looked at, before somebody counts as talking nonsense.
const CAPABILITIES: usize = 200;
/// Somebody who says more than this is not listened to any longer.
pub(super) const ENDLESS: u64 = 512 << 20;

/// What became of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It was answered.
    All,
    /// Whoever asked wanted to hear no more.
    Enough,
    /// The answer is for git to make sense of.
    Nonsense,
}

/// Who is given the id and the name of each ref, and says whether there shall be more.
pub(super) type Hear<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool> + 'a;

/// Adds a packet to a question.
pub(super) fn put(question: &mut Vec<u8>, line: &str) {
    question.extend_from_slice(format!("{:04x}{line}", line.len() + 4).as_bytes());
}

/// What the other side says, packet by packet. Each is at most 64 KiB.
#[derive(Debug)]
pub(super) struct Answers<R> {
    reader: R,
    packet: Vec<u8>,
    /// How much more may come.
    left: u64,
}

/// What kind of packet came.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Flush,
    Other,
}

impl<R: Read> Answers<R> {
    /// Reads from somebody.
    pub(super) fn new(reader: R) -> Self {
        Answers {
            reader,
            packet: Vec::new(),
            left: ENDLESS,
        }
    }

    /// Returns the next byte: of what comes before packets.
    pub(super) fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.reader.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn next(&mut self) -> io::Result<Kind> {
        let mut length = [0; 4];
        self.reader.read_exact(&mut length)?;
        let digits = std::str::from_utf8(&length).ok();
        let digits = digits.filter(|all| all.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let length = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let length = length.ok_or(ErrorKind::InvalidData)?;
        let left = self.left.checked_sub(u64::from(length.max(4)));
        self.left = left.ok_or(ErrorKind::FileTooLarge)?;
        let length = usize::from(length);
        match length {
            0 => return Ok(Kind::Flush),
            1..4 => return Ok(Kind::Other),
            _ => {}
        }
        self.packet.resize(length - 4, 0);
        self.reader.read_exact(&mut self.packet)?;
        if self.packet.last() == Some(&b'\n') {
            self.packet.pop();
        }
        Ok(Kind::Data)
    }

    /// Returns what the other side can do, if it speaks the version that we do.
    pub(super) fn capabilities(&mut self) -> io::Result<Option<Vec<String>>> {
        if self.next()? != Kind::Data || self.packet != b"version 2" {
            return Ok(None);
        }
        let mut capabilities = Vec::new();
        while capabilities.len() < CAPABILITIES {
            match self.next()? {
                Kind::Data => {
                    capabilities.push(String::from_utf8_lossy(&self.packet).into_owned());
                }
                Kind::Flush => return Ok(Some(capabilities)),
                Kind::Other => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Reads refs until their end. What `hear` says comes back inside.
    pub(super) fn refs(mut self, hear: &mut Hear<'_>) -> io::Result<Result<Heard>> {
        loop {
            match self.next()? {
                Kind::Flush => break,
                Kind::Other => return Ok(Ok(Heard::Nonsense)),
                Kind::Data => {}
            }
            let mut words = self.packet.split(|byte| *byte == b' ');
            let (Some(id), Some(name)) = (words.next(), words.next()) else {
                return Ok(Ok(Heard::Nonsense));
            };
            // HEAD is no ref of its own.
            if !name.starts_with(b"refs/") {
                continue;
            }
            match hear(id, name) {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(Heard::Enough)),
                Err(error) => return Ok(Err(error)),
            }
        }
        // A helper has a last word, and ends by itself only if it can say it.
        let mut rest = [0; 64];
        for _ in 0..4 {
            if matches!(self.reader.read(&mut rest), Ok(0) | Err(_)) {
                break;
            }
        }
        Ok(Ok(Heard::All))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Answers<&[u8]> {
        Answers::new(text.as_bytes())
    }

    fn packets(lines: &[&str]) -> String {
        let mut text = Vec::new();
        for line in lines {
            put(&mut text, line);
        }
        String::from_utf8(text).expect("it is text") + "0000"
    }

    fn names(text: &str) -> (io::Result<Heard>, Vec<String>) {
        let mut names = Vec::new();
        let hear = &mut |_: &[u8], name: &[u8]| {
            names.push(String::from_utf8_lossy(name).into_owned());
            Ok(names.len() < 3)
        };
        let heard = told(text).refs(hear);
        (heard.map(|inner| inner.expect("nobody fails")), names)
    }

    #[test]
    fn refs_are_read_until_their_end() {
        let (heard, found) = names(&packets(&["1 HEAD", "1 refs/a\n", "2 refs/b peeled:3"]));
        assert_eq!(heard.expect("it is well formed"), Heard::All);
        assert_eq!(found, ["refs/a", "refs/b"]);
        let (heard, found) = names(&packets(&["1 refs/a", "2 refs/b", "3 refs/c", "4 refs/d"]));
        assert_eq!(heard.expect("it is well formed"), Heard::Enough);
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn nonsense_is_noticed() {
        let whole = packets(&["1 refs/a\n"]);
        for cut in 0..whole.len() {
            assert!(names(&whole[..cut]).0.is_err(), "cut after {cut}");
        }
        for bad in [
            "zzzz",
            "+001",
            "0001",
            "0003",
            "0008ERRx0000",
            "0004",
            "ffff1 a",
        ] {
            let heard = names(bad).0;
            assert!(!matches!(heard, Ok(Heard::All)), "{bad}: {heard:?}");
        }
    }

    #[test]
    fn an_answer_that_does_not_end_is_given_up() {
        for line in ["1 HEAD", "1 refs/a"] {
            let text = packets(&vec![line; 1000]);
            let heard = |left| {
                let mut answers = told(&text);
                answers.left = left;
                let all = &mut |_: &[u8], _: &[u8]| Ok(true);
                answers.refs(all).map(|inner| inner.expect("nobody fails"))
            };
            let length = u64::try_from(text.len()).expect("it is short");
            assert_eq!(heard(length).expect("it ends"), Heard::All, "{line}");
            let error = heard(length - 1).expect_err("it does not end");
            assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{line}");
        }
    }

    #[test]
    fn only_the_version_that_is_known_is_spoken() {
        let read = |lines: &[&str]| told(&packets(lines)).capabilities().expect("well formed");
        assert_eq!(
            read(&["version 2\n", "ls-refs=unborn\n"]).map(|all| all.len()),
            Some(1)
        );
        assert_eq!(read(&["version 1\n", "ls-refs\n"]), None);
        assert_eq!(read(&[]), None);
        let endless = vec!["version 2"; 2 * CAPABILITIES];
        assert_eq!(read(&endless), None);
    }
}
