//! Character classes, and the start of tokens in text that may be escaped, encoded or coloured.

/// A set of bytes that may occur in a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Letters and digits.
    Alnum,
    /// Letters, digits and `_`.
    Word,
    /// Letters, digits, `_` and `-`.
    Dashed,
    /// Letters, digits, `_`, `-` and `.`.
    Dotted,
    /// Letters, digits, `+`, `/` and `=`.
    Base64,
    /// All characters of a bearer token.
    Any,
    /// Base64 in either alphabet, without padding.
    Encoded,
    /// Hexadecimal digits.
    Hex,
    /// Upper-case letters and digits.
    Upper,
    /// Lower-case letters and digits.
    Lower,
}

const fn table(extra: &[u8], upper: bool, lower: bool) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_digit()
            || upper && b.is_ascii_uppercase()
            || lower && b.is_ascii_lowercase();
        byte += 1;
    }
    let mut index = 0;
    while index < extra.len() {
        table[extra[index] as usize] = true;
        index += 1;
    }
    table
}

static ALNUM: [bool; 256] = table(b"", true, true);
static WORD: [bool; 256] = table(b"_", true, true);
static DASHED: [bool; 256] = table(b"_-", true, true);
static DOTTED: [bool; 256] = table(b"_-.", true, true);
static BASE64: [bool; 256] = table(b"+/=", true, true);
static ANY: [bool; 256] = table(b"_-.~+/=", true, true);
static ENCODED: [bool; 256] = table(b"_-+/", true, true);
static HEX: [bool; 256] = table(b"abcdefABCDEF", false, false);
static UPPER: [bool; 256] = table(b"", true, false);
static LOWER: [bool; 256] = table(b"", false, true);

impl Class {
    /// Returns the bytes of the class.
    pub(super) fn table(self) -> &'static [bool; 256] {
        match self {
            Class::Alnum => &ALNUM,
            Class::Word => &WORD,
            Class::Dashed => &DASHED,
            Class::Dotted => &DOTTED,
            Class::Base64 => &BASE64,
            Class::Any => &ANY,
            Class::Encoded => &ENCODED,
            Class::Hex => &HEX,
            Class::Upper => &UPPER,
            Class::Lower => &LOWER,
        }
    }

    /// Returns how many bytes of this class the text starts with, up to `limit`.
    pub(super) fn run(self, text: &[u8], limit: usize) -> usize {
        let table = self.table();
        text.iter()
            .take(limit)
            .position(|byte| !table[usize::from(*byte)])
            .unwrap_or(text.len().min(limit))
    }
}

/// Returns whether a token may start at `at`: the byte before does not belong to a word, or only ends an escape.
pub(super) fn starts_token(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    let Some(last) = before.last() else {
        return true;
    };
    !(last.is_ascii_alphanumeric() || *last == b'_') || ends_escape(before)
}

/// Returns whether text ends with an escape: `\n`, `\u000a`, `\x0a`, `%3D` or a terminal's colour.
pub(super) fn ends_escape(before: &[u8]) -> bool {
    let hex = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_hexdigit);
    match before {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f' | b'v' | b'0'] => true,
        [.., b'%' | b'x', a, b] if hex(&[*a, *b]) => {
            let mark = before[before.len() - 3];
            mark == b'%' || before.len() > 3 && before[before.len() - 4] == b'\\'
        }
        [.., b'\\', b'u', a, b, c, d] => hex(&[*a, *b, *c, *d]),
        [head @ .., b'm'] => {
            let digits = head
                .iter()
                .rev()
                .take(20)
                .take_while(|byte| byte.is_ascii_digit() || **byte == b';')
                .count();
            let head = &head[..head.len() - digits];
            head.ends_with(b"\x1b[")
                || head.ends_with(b"\\u001b[")
                || head.ends_with(b"\\x1b[")
                || head.ends_with(b"\\e[")
                || head.ends_with(b"\\033[")
        }
        _ => false,
    }
}

/// Returns whether `needle`, which is lower case, occurs in the text in any case.
pub(super) fn contains_ignoring_case(text: &[u8], needle: &str) -> bool {
    text.len() >= needle.len()
        && text.windows(needle.len()).any(|window| {
            window[0] | 0x20 == needle.as_bytes()[0] | 0x20
                && window.eq_ignore_ascii_case(needle.as_bytes())
        })
}

/// Returns the part of the line before `at`, at most `limit` bytes.
pub(super) fn line_before(text: &[u8], at: usize, limit: usize) -> &[u8] {
    let start = at.saturating_sub(limit);
    let head = &text[start..at];
    match head.iter().rposition(|byte| *byte == b'\n') {
        Some(newline) => &head[newline + 1..],
        None => head,
    }
}
