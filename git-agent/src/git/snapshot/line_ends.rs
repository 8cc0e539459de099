//! The line ends that a checkout writes, by git's own rules. A file with other line ends is stored as it is.

/// The line ends that a checkout gives a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::git) enum Ends {
    /// Those that are stored.
    #[default]
    Stored,
    Crlf,
    /// CRLF if the file looks like text and holds no CR.
    CrlfIfText,
}

impl Ends {
    /// Returns how long a checkout makes a file with this stored content.
    pub(in crate::git) fn length(self, stored: &[u8]) -> u64 {
        let converts = match self {
            Ends::Stored => false,
            Ends::Crlf => true,
            Ends::CrlfIfText => !stored.contains(&b'\r') && !is_binary(stored),
        };
        let added = if converts { lone_line_feeds(stored) } else { 0 };
        (stored.len() + added) as u64
    }
}

/// Counts the line feeds without a carriage return before them.
fn lone_line_feeds(bytes: &[u8]) -> usize {
    let mut before = 0;
    let mut count = 0;
    for byte in bytes {
        count += usize::from(*byte == b'\n' && before != b'\r');
        before = *byte;
    }
    count
}

/// Returns whether git takes these bytes, which hold no CR, for no text.
fn is_binary(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_suffix(b"\x1a").unwrap_or(bytes);
    let (mut printable, mut other) = (0usize, 0usize);
    for byte in bytes {
        match byte {
            0 => return true,
            b'\n' => {}
            // Backspace, tab, form feed, escape.
            8 | 9 | 12 | 27 => printable += 1,
            1..=31 | 127 => other += 1,
            _ => printable += 1,
        }
    }
    printable >> 7 < other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_makes_files_as_long_as_git_does() {
        for (ends, stored, length) in [
            (Ends::Stored, &b"a\nb\n"[..], 4),
            (Ends::Crlf, b"a\nb\n", 6),
            (Ends::Crlf, b"a\r\nb\n", 6),
            (Ends::Crlf, b"\n\n", 4),
            (Ends::CrlfIfText, b"a\nb\n", 6),
            (Ends::CrlfIfText, b"a\r\nb\n", 5),
            (Ends::CrlfIfText, b"a\0b\n", 4),
            (Ends::CrlfIfText, b"a\x01b\n", 4),
            (Ends::CrlfIfText, b"a\n\x1a", 4),
        ] {
            assert_eq!(ends.length(stored), length, "{ends:?} {stored:?}");
        }
    }
}
