//! Lines of git's diff made fit for a terminal: what a file holds cannot steer it, and what changed within a line stands out.
//!
//! git colours its diff by escapes of its own. Those it may use are known from its configuration; any other escape comes
//! from a file and is shown as text.

use git_agent::output::sanitize;
use git_agent::output::style::Color;

/// The colours of git's diff and what they are unless somebody configured them.
const COLORS: [(&str, &str); 23] = [
    ("context", ""),
    ("plain", ""),
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

/// The escapes that git uses; none, where it uses no colours.
#[derive(Debug, Default)]
pub struct Escapes(Vec<Vec<u8>>);

impl Escapes {
    /// Returns what git uses with this configuration.
    pub fn of(config: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut escapes = vec![RESET.to_vec()];
        for (slot, usual) in COLORS {
            let configured = config(&format!("color.diff.{slot}"));
            for words in configured.as_deref().into_iter().chain([usual]) {
                if let Ok(color) = words.parse::<Color>() {
                    let escape = color.escape().as_bytes().to_vec();
                    if !escape.is_empty() && !escapes.contains(&escape) {
                        escapes.push(escape);
                    }
                }
            }
        }
        Escapes(escapes)
    }

    /// Returns the length of the escape of git's that a text begins with.
    fn at(&self, text: &[u8]) -> Option<usize> {
        self.0
            .iter()
            .find(|escape| text.starts_with(escape))
            .map(Vec::len)
    }

    /// Returns a line without git's escapes and without its end.
    pub fn strip(&self, line: &[u8]) -> Vec<u8> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if !line.contains(&0x1b) {
            return line.to_vec();
        }
        let mut text = Vec::with_capacity(line.len());
        let mut rest = line;
        while let Some((first, after)) = rest.split_first() {
            match (*first == 0x1b).then(|| self.at(rest)).flatten() {
                Some(length) => rest = &rest[length..],
                None => {
                    text.push(*first);
                    rest = after;
                }
            }
        }
        text
    }

    /// Returns a line that may go to a terminal. A colour ends with it, whoever began it.
    pub fn clean(&self, line: &[u8]) -> Vec<u8> {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n');
        if line.iter().all(is_plain) {
            return line.to_vec();
        }
        let mut out = Vec::with_capacity(line.len() + 16);
        let mut start = 0;
        let mut at = 0;
        let mut open = false;
        while at < line.len() {
            match (line[at] == 0x1b).then(|| self.at(&line[at..])).flatten() {
                Some(length) => {
                    put(&mut out, &line[start..at]);
                    out.extend_from_slice(&line[at..at + length]);
                    open = line[at..at + length] != *RESET;
                    at += length;
                    start = at;
                }
                None => at += 1,
            }
        }
        put(&mut out, &line[start..]);
        if open {
            let ended = out.pop_if(|last| *last == b'\n');
            out.extend_from_slice(RESET);
            out.extend(ended);
        }
        out
    }
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
                && let Some(length) = self.at(&line[at..])
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

    #[test]
    fn only_gits_own_escapes_pass() {
        let escapes = usual();
        let line = b"\x1b[32m+\x1b[m\x1b[32mfoo\x1b[2J\x1b]0;x\x07\x1b[8mbar\x1b[m\n";
        let clean = String::from_utf8(escapes.clean(line)).expect("text");
        assert_eq!(
            clean,
            "\x1b[32m+\x1b[m\x1b[32mfoo\\x1b[2J\\x1b]0;x\\x07\\x1b[8mbar\x1b[m\n"
        );
        assert_eq!(escapes.strip(b"\x1b[31m-old\x1b[m\n"), b"-old");
        assert_eq!(
            escapes.clean(b" a \x1b[31mred\n"),
            b" a \x1b[31mred\x1b[m\n"
        );
        let none = Escapes::default();
        assert_eq!(none.clean(b"+a \x1b[31mred\n"), b"+a \\x1b[31mred\n");
        assert_eq!(none.strip(b"+a \x1b[31mred\n"), b"+a \x1b[31mred");
        assert_eq!(escapes.clean(b"+crlf\r\n"), b"+crlf^M\n");
        let configured = Escapes::of(&|key| (key == "color.diff.old").then(|| "blink blue".into()));
        assert_eq!(configured.strip(b"\x1b[5;34m-x\x1b[m"), b"-x");
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
