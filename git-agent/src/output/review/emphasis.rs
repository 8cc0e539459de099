//! Prepares the lines of git's diff for a terminal: neutralises escapes in files, and emphasises changes within a line.
//!
//! A file can contain the same escapes that git colours its diff with. So git uses colours chosen at random for this
//! process: they are replaced by the user's colours, and any other escape comes from a file and is shown as text.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use crate::git::Git;
use crate::output::terminal::sanitize;
use crate::output::terminal::style::Color;

/// The colours of git's diff and their defaults.
const COLORS: [(&str, &str); 22] = [
    ("context", ""),
    ("meta", "bold"),
    ("frag", "cyan"),
    ("func", ""),
    ("old", "red"),
    ("new", "green"),
    ("commit", "yellow"),
    ("whitespace", "normal red"),
    ("oldMoved", "bold magenta"),
    ("oldMovedAlternative", "bold blue"),
    ("oldMovedDimmed", "dim"),
    ("oldMovedAlternativeDimmed", "dim italic"),
    ("newMoved", "bold cyan"),
    ("newMovedAlternative", "bold yellow"),
    ("newMovedDimmed", "dim"),
    ("newMovedAlternativeDimmed", "dim italic"),
    ("contextDimmed", "dim"),
    ("oldDimmed", "dim red"),
    ("newDimmed", "dim green"),
    ("contextBold", "bold"),
    ("oldBold", "bold red"),
    ("newBold", "bold green"),
];

/// Less than this share of a line must be common for a change within it to be worth showing.
const COMMON_SHARE: usize = 4;

/// Ends every colour.
const RESET: &[u8] = b"\x1b[m";

/// The random part, which a file cannot contain.
static DRAWN: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Returns the colours, foreground and background, that git uses for a slot in this process.
fn drawn(slot: &str) -> [u8; 6] {
    let [red, green, blue, red_below, green_below, blue_below, ..] =
        DRAWN.hash_one(slot).to_le_bytes();
    [red, green, blue, red_below, green_below, blue_below]
}

/// Lets git colour a diff so that [`Escapes`] can tell its escapes from those of files.
pub fn marked(git: Git) -> Git {
    COLORS.iter().fold(git, |git, (slot, _)| {
        let [a, b, c, d, e, f] = drawn(slot);
        let value = format!("#{a:02x}{b:02x}{c:02x} #{d:02x}{e:02x}{f:02x}");
        git.config(&format!("color.diff.{slot}"), value)
    })
}

/// An escape of git's in this process, and the one that is shown instead.
#[derive(Debug)]
struct Mark {
    escape: Vec<u8>,
    shown: Vec<u8>,
}

/// The escapes that git uses; none, where it uses no colours.
#[derive(Debug, Default)]
pub struct Escapes(Vec<Mark>);

impl Escapes {
    /// Returns the escapes of a [`marked`] diff, and those shown instead with this configuration.
    pub fn of(config: &dyn Fn(&str) -> Option<String>) -> Self {
        let color = |words: String| words.parse::<Color>().ok();
        let configured = |slot: &str| config(&format!("color.diff.{slot}")).and_then(color);
        let mark = |(slot, usual): &(&str, &str)| {
            let older = || configured("plain").filter(|_| *slot == "context");
            let shown = configured(slot)
                .or_else(older)
                .or_else(|| usual.parse().ok());
            let [a, b, c, d, e, f] = drawn(slot);
            Mark {
                escape: format!("\x1b[38;2;{a};{b};{c};48;2;{d};{e};{f}m").into_bytes(),
                shown: shown.map_or_else(Vec::new, |color| color.escape().as_bytes().to_vec()),
            }
        };
        Escapes(COLORS.iter().map(mark).collect())
    }

    /// Returns the length of the escape of git's that its output goes on with, and the one that is shown instead.
    fn at<'t>(&'t self, text: &'t [u8]) -> Option<(usize, &'t [u8])> {
        let marks = |text: &[u8]| self.0.iter().find(|mark| text.starts_with(&mark.escape));
        if let Some(mark) = marks(text) {
            return Some((mark.escape.len(), &mark.shown));
        }
        // All text has a colour, so git ends one only before the next or at the end of the line.
        let after = text.strip_prefix(RESET).filter(|_| !self.0.is_empty())?;
        let ends = matches!(after, b"" | b"\n" | b"\r\n" | b"\r") || marks(after).is_some();
        ends.then_some((RESET.len(), RESET))
    }

    /// Returns the length of an escape in a line that is shown.
    fn shown_at(&self, text: &[u8]) -> Option<usize> {
        let shown = self.0.iter().map(|mark| mark.shown.as_slice());
        let mut known = std::iter::once(RESET).chain(shown.filter(|escape| !escape.is_empty()));
        let found = known.find(|escape| text.starts_with(escape));
        found.filter(|_| !self.0.is_empty()).map(<[u8]>::len)
    }

    /// Returns a line of git's output without git's escapes and without its end.
    pub fn strip(&self, line: &[u8]) -> Vec<u8> {
        without(line, &|rest| self.at(rest).map(|(length, _)| length))
    }

    /// Returns the same of a line that is shown.
    pub fn strip_shown(&self, line: &[u8]) -> Vec<u8> {
        without(line, &|rest| self.shown_at(rest))
    }

    /// Returns a line of git's output in the user's colours. Files are left as they are.
    pub fn colored(&self, line: &[u8]) -> Vec<u8> {
        self.replaced(line, &|out, text| out.extend_from_slice(text))
    }

    /// Returns a line of git's output that may go to a terminal, in the user's colours.
    pub fn clean(&self, line: &[u8]) -> Vec<u8> {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n');
        if line.iter().all(is_plain) {
            return line.to_vec();
        }
        self.replaced(line, &put)
    }

    fn replaced(&self, line: &[u8], put: &dyn Fn(&mut Vec<u8>, &[u8])) -> Vec<u8> {
        let mut out = Vec::with_capacity(line.len() + 16);
        let mut start = 0;
        let mut at = 0;
        while at < line.len() {
            match (line[at] == 0x1b).then(|| self.at(&line[at..])).flatten() {
                Some((length, shown)) => {
                    put(&mut out, &line[start..at]);
                    out.extend_from_slice(shown);
                    at += length;
                    start = at;
                }
                None => at += 1,
            }
        }
        put(&mut out, &line[start..]);
        out
    }
}

/// Returns a line without its end and without the escapes that are found in it.
fn without(line: &[u8], escape: &dyn Fn(&[u8]) -> Option<usize>) -> Vec<u8> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    if !line.contains(&0x1b) {
        return line.to_vec();
    }
    let mut text = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((first, after)) = rest.split_first() {
        match (*first == 0x1b).then(|| escape(rest)).flatten() {
            Some(length) => rest = &rest[length..],
            None => {
                text.push(*first);
                rest = after;
            }
        }
    }
    text
}

/// Adds foreign text, escaped. A carriage return at the end of a line is shown as git and its pagers show it.
fn put(out: &mut Vec<u8>, text: &[u8]) {
    let (body, end): (&[u8], &[u8]) = match text.strip_suffix(b"\n") {
        Some(body) => (body, b"\n"),
        None => (text, b""),
    };
    let (body, mark): (&[u8], &[u8]) = match body.strip_suffix(b"\r") {
        Some(body) => (body, b"^M"),
        None => (body, b""),
    };
    out.extend_from_slice(sanitize::block(body).to_text().as_bytes());
    out.extend_from_slice(mark);
    out.extend_from_slice(end);
}

/// Returns where two lines differ: the first byte, and for each the byte after the last; nothing when they have too little
/// in common, or everything.
pub fn differing(one: &[u8], other: &[u8]) -> Option<(usize, usize, usize)> {
    let is_inside = |byte: &u8| (0x80..0xc0).contains(byte);
    let mut before = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    // Never in the middle of a character.
    while before > 0
        && (one.get(before).is_some_and(is_inside) || other.get(before).is_some_and(is_inside))
    {
        before -= 1;
    }
    let (rest_one, rest_other) = (&one[before..], &other[before..]);
    let mut after = rest_one
        .iter()
        .rev()
        .zip(rest_other.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    while after > 0 && one.get(one.len() - after).is_some_and(is_inside) {
        after -= 1;
    }
    let blank = |text: &[u8]| text.iter().all(u8::is_ascii_whitespace);
    let common = before + after;
    let enough = common * COMMON_SHARE >= one.len().max(other.len());
    let telling = !blank(&one[..before]) || !blank(&one[one.len() - after..]);
    let differs = one.len() > common || other.len() > common;
    (enough && telling && differs).then_some((before, one.len() - after, other.len() - after))
}

impl Escapes {
    /// Returns a coloured line with a part of its text in reverse. `from` and `to` count the bytes of the text.
    pub fn reversed(&self, line: &[u8], from: usize, to: usize) -> Vec<u8> {
        if from >= to {
            return line.to_vec();
        }
        let mut out = Vec::with_capacity(line.len() + 16);
        let (mut at, mut seen) = (0, 0);
        let mut inside = false;
        while at < line.len() {
            if line[at] == 0x1b
                && let Some(length) = self.shown_at(&line[at..])
            {
                out.extend_from_slice(&line[at..at + length]);
                // git's escapes switch everything off.
                if inside {
                    out.extend_from_slice(b"\x1b[7m");
                }
                at += length;
                continue;
            }
            if seen == from && !inside {
                out.extend_from_slice(b"\x1b[7m");
                inside = true;
            }
            if seen == to && inside {
                out.extend_from_slice(b"\x1b[27m");
                inside = false;
            }
            out.push(line[at]);
            at += 1;
            seen += 1;
        }
        if inside {
            out.extend_from_slice(b"\x1b[27m");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> Escapes {
        Escapes::of(&|_| None)
    }

    /// Returns a line as git prints it, with the slots of its colours in braces.
    fn printed(line: &str) -> Vec<u8> {
        let escapes = usual();
        let slots = COLORS.iter().zip(&escapes.0);
        let text = slots.fold(line.to_owned(), |text, ((slot, _), mark)| {
            let escape = String::from_utf8_lossy(&mark.escape);
            text.replace(&format!("{{{slot}}}"), &escape)
        });
        text.into_bytes()
    }

    #[test]
    fn only_gits_own_escapes_pass() {
        let escapes = usual();
        let line = printed("{new}+\x1b[m{new}foo\x1b[2J\x1b]0;x\x07\x1b[8mbar\x1b[m\n");
        let clean = String::from_utf8(escapes.clean(&line)).expect("text");
        assert_eq!(
            clean,
            "\x1b[32m+\x1b[m\x1b[32mfoo\\x1b[2J\\x1b]0;x\\x07\\x1b[8mbar\x1b[m\n"
        );
        // Also not those that git would use.
        let line = printed("{context} a\x1b[m\x1b[31m-red\x1b[m\x1b[m\n");
        assert_eq!(
            String::from_utf8(escapes.clean(&line)).expect("text"),
            " a\\x1b[m\\x1b[31m-red\\x1b[m\x1b[m\n"
        );
        assert_eq!(escapes.strip(&line), b" a\x1b[m\x1b[31m-red\x1b[m");
        assert_eq!(escapes.strip(&printed("{old}-old\x1b[m\n")), b"-old");
        assert_eq!(escapes.strip_shown(b"\x1b[31m-old\x1b[m\n"), b"-old");
        let none = Escapes::default();
        assert_eq!(none.clean(b"+a \x1b[31mred\n"), b"+a \\x1b[31mred\n");
        assert_eq!(none.strip(b"+a \x1b[31mred\n"), b"+a \x1b[31mred");
        assert_eq!(escapes.clean(b"+crlf\r\n"), b"+crlf^M\n");
        let configured = Escapes::of(&|key| (key == "color.diff.old").then(|| "blink blue".into()));
        let shown = configured.clean(&printed("{old}-x\x1b[m"));
        assert_eq!(shown, b"\x1b[5;34m-x\x1b[m");
    }

    #[test]
    fn what_differs_within_a_line_is_found() {
        assert_eq!(differing(b"let a = 1;", b"let a = 22;"), Some((8, 9, 10)));
        assert_eq!(differing(b"let a = 1;", b"let a = 1;"), None);
        assert_eq!(differing(b"completely", b"other"), None);
        assert_eq!(
            differing("naïve x".as_bytes(), "naîve x".as_bytes()),
            Some((2, 4, 4))
        );
        let escapes = usual();
        let shown = escapes.reversed(b"\x1b[31m-let a = 1;\x1b[m\n", 9, 10);
        assert_eq!(shown, b"\x1b[31m-let a = \x1b[7m1\x1b[27m;\x1b[m\n");
    }
}
