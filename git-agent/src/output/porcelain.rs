//! Writes `--porcelain[=v1]`: one record per line, with tabs between fields; with `-z`, records end with NUL and
//! nothing is quoted.
//!
//! A field with a tab, a quote, a backslash or a control character is quoted as git quotes unusual paths: in double
//! quotes, with `\t`, `
//! `, `\"`, `\\` and octal `\ooo` for other bytes. Readable UTF-8 stays, as with `core.quotePath=false`. With `-z`,
//! fields are written raw. A tab or NUL inside a field would break the record and becomes a space, except for a tab in
//! the last field, because the number of fields is known. So a field that may contain any byte, such as a path, comes
//! last.

use std::borrow::Cow;
use std::io::{self, Write};
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::output::terminal::sanitize;

/// The version of the line format, as in `--porcelain=v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// The first, and the default.
    #[default]
    V1,
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "v1" | "1" => Ok(Version::V1),
            _ => Err(Error::usage(format!(
                "unsupported porcelain version '{text}'"
            ))),
        }
    }
}

/// Writes one record.
pub fn write_record<F: AsRef<[u8]>>(
    out: &mut dyn Write,
    nul: bool,
    fields: impl IntoIterator<Item = F>,
) -> io::Result<()> {
    let mut record = Vec::new();
    let mut fields = fields.into_iter().peekable();
    while let Some(field) = fields.next() {
        let is_last = fields.peek().is_none();
        if nul {
            record.extend(field.as_ref().iter().map(|byte| match byte {
                b'\t' if !is_last => b' ',
                b'\0' => b' ',
                byte => *byte,
            }))
        } else {
            record.extend_from_slice(&quote(field.as_ref()))
        }
        if !is_last {
            record.push(b'\t');
        }
    }
    record.push(if nul { b'\0' } else { b'\n' });
    out.write_all(&record)
}

/// Quotes a field as git quotes unusual paths; returns it unchanged if nothing needs quoting.
pub fn quote(field: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = |c: char| c != '"' && c != '\\' && !sanitize::is_unsafe(c);
    if std::str::from_utf8(field).is_ok_and(|text| text.chars().all(is_plain)) {
        return Cow::Borrowed(field);
    }
    let mut out = vec![b'"'];
    for chunk in field.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            match c {
                '"' | '\\' => out.extend([b'\\', bytes[0]]),
                c if is_plain(c) => out.extend_from_slice(bytes),
                _ => bytes.iter().for_each(|byte| quote_byte(*byte, &mut out)),
            }
        }
        chunk
            .invalid()
            .iter()
            .for_each(|byte| quote_byte(*byte, &mut out));
    }
    out.push(b'"');
    Cow::Owned(out)
}

fn quote_byte(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        0x07 => b'a',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0b => b'v',
        0x0c => b'f',
        b'\r' => b'r',
        _ => return out.extend(format!("\\{byte:03o}").bytes()),
    };
    out.extend([b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(nul: bool, fields: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        write_record(&mut out, nul, fields).expect("memory takes everything");
        out
    }

    #[test]
    fn odd_fields_are_quoted_as_git_does() {
        assert_eq!(
            record(false, &[b"a b", "größe".as_bytes(), b""]),
            "a b\tgröße\t\n".as_bytes()
        );
        assert_eq!(
            record(false, &[b"a\tb\n\"\\\x1b\xff\x7f"]),
            b"\"a\\tb\\n\\\"\\\\\\033\\377\\177\"\n"
        );
        assert_eq!(
            quote("\u{202e}".as_bytes()).as_ref(),
            b"\"\\342\\200\\256\""
        );
    }

    #[test]
    fn nul_records_are_raw() {
        assert_eq!(
            record(true, &[b"a\n\"b\t\xff", b"c\td\0e"]),
            b"a\n\"b \xff\tc\td e\0"
        );
    }

    #[test]
    fn versions() {
        assert!("v1".parse::<Version>().is_ok());
        assert!("v2".parse::<Version>().is_err());
    }

    /// Decodes a quoted field, as git's `unquote_c_style` does.
    fn unquote(field: &[u8]) -> Vec<u8> {
        let Some(inner) = field.strip_prefix(b"\"") else {
            return field.to_vec();
        };
        let mut bytes = inner[..inner.len() - 1].iter().copied();
        let mut out = Vec::new();
        while let Some(byte) = bytes.next() {
            if byte != b'\\' {
                out.push(byte);
                continue;
            }
            let letter = bytes.next().expect("an escape has a letter");
            out.push(match letter {
                b'a' => 7,
                b'b' => 8,
                b't' => 9,
                b'n' => 10,
                b'v' => 11,
                b'f' => 12,
                b'r' => 13,
                b'0'..=b'3' => {
                    let mut digit = || bytes.next().expect("three digits") - b'0';
                    (letter - b'0') * 64 + digit() * 8 + digit()
                }
                other => other,
            });
        }
        out
    }

    proptest! {
        #[test]
        fn quoting_loses_nothing(field in proptest::collection::vec(any::<u8>(), 0..40)) {
            let quoted = quote(&field);
            let text = std::str::from_utf8(&quoted).expect("quoted fields are text");
            prop_assert!(!text.chars().any(sanitize::is_unsafe));
            prop_assert_eq!(unquote(&quoted), field);
        }
    }
}
