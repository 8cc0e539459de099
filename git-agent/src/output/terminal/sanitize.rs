//! Escapes foreign text for terminals: characters that could move the cursor, or hide or reorder text, become visible.
//!
//! Foreign text is everything that this program did not write itself: titles, transcripts, file names, output of other
//! programs. Escapes look like `\x1b` (a control byte, or a byte that is not UTF-8) and `\u{202e}` (a character). A
//! backslash stays as it is, so clean text is unchanged. The result is for display and cannot be decoded; use
//! `output::porcelain` for that.

use std::borrow::Cow;
use std::fmt::{self, Write};

use unicode_width::UnicodeWidthChar;

/// Maximum number of zero-width marks on one character before they are escaped: real scripts need three or four, and a
/// large pile paints over the neighbouring lines.
const MARKS_PER_CHARACTER: u32 = 8;

/// Returns whether a character must not reach a terminal unescaped. Newline and tab count as unsafe here.
pub fn is_unsafe(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        _ => is_invisible(c),
    }
}

/// Returns whether a character is invisible or changes the direction of its neighbours.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fdd0}'..='\u{fdef}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
        // The last two code points of every plane are not characters.
        || (c as u32) & 0xfffe == 0xfffe
}

/// Makes foreign text safe for one line: line breaks and tabs become spaces, unsafe characters become escapes.
pub fn one_line<T: AsRef<[u8]> + ?Sized>(text: &T) -> Safe<'_> {
    Safe {
        text: text.as_ref(),
        lines: false,
        max_width: None,
    }
}

/// Makes foreign text safe with its layout: line breaks (also `\r
/// `) and tabs stay.
pub fn block<T: AsRef<[u8]> + ?Sized>(text: &T) -> Safe<'_> {
    Safe {
        text: text.as_ref(),
        lines: true,
        max_width: None,
    }
}

/// Returns the number of terminal cells of clean text.
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    unicode_width::UnicodeWidthStr::width(text)
}

/// Foreign text that is escaped while it is displayed.
#[derive(Debug, Clone, Copy)]
pub struct Safe<'a> {
    text: &'a [u8],
    lines: bool,
    max_width: Option<usize>,
}

impl<'a> Safe<'a> {
    /// Limits the text to this many terminal cells and ends cut text with `…`. Meant for one line.
    #[must_use]
    pub fn max_width(mut self, cells: usize) -> Self {
        self.max_width = Some(cells);
        self
    }

    /// Returns the escaped text, borrowed if nothing had to be escaped.
    pub fn to_text(self) -> Cow<'a, str> {
        match self.clean() {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(self.to_string()),
        }
    }

    /// Returns the text itself if it is plain ASCII without unsafe characters, by far the most common case.
    fn clean(&self) -> Option<&'a str> {
        if self.max_width.is_some_and(|max| self.text.len() > max) {
            return None;
        }
        let lines = self.lines;
        let plain = self
            .text
            .iter()
            .all(|&byte| matches!(byte, b' '..=b'~') || (lines && matches!(byte, b'\n' | b'\t')));
        plain.then(|| std::str::from_utf8(self.text).ok()).flatten()
    }
}

impl fmt::Display for Safe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.clean() {
            return f.write_str(text);
        }
        match self.max_width {
            None => escape(self.text, self.lines, f),
            Some(max) => {
                let mut cut = Cut {
                    out: f,
                    max,
                    used: 0,
                    last: 0,
                    held: String::new(),
                    over: false,
                };
                // The cutter returns an error when it has enough; a real error will come again.
                let result = escape(self.text, self.lines, &mut cut);
                if cut.over {
                    Ok(())
                } else {
                    result.and_then(|()| cut.end())
                }
            }
        }
    }
}

/// Writes text with unsafe characters escaped.
fn escape(text: &[u8], lines: bool, out: &mut dyn Write) -> fmt::Result {
    let mut marks = MARKS_PER_CHARACTER;
    let mut at = 0;
    for chunk in text.utf8_chunks() {
        let valid = chunk.valid();
        // Write safe text in long runs.
        let mut run = 0;
        for (index, c) in valid.char_indices() {
            let next = index + c.len_utf8();
            if matches!(c, ' '..='~') {
                marks = 0;
                continue;
            }
            if lines && matches!(c, '\n' | '\t') {
                marks = MARKS_PER_CHARACTER;
                continue;
            }
            let safe = !is_unsafe(c) && {
                let is_mark = c.width() == Some(0);
                marks = if is_mark { marks.saturating_add(1) } else { 0 };
                !is_mark || marks <= MARKS_PER_CHARACTER
            };
            if safe {
                continue;
            }
            out.write_str(&valid[run..index])?;
            run = next;
            match c {
                '\r' if text.get(at + next) == Some(&b'\n') => {}
                '\n' | '\t' => out.write_char(' ')?,
                '\r' => out.write_str("\\r")?,
                '\0'..='\u{7f}' => write!(out, "\\x{:02x}", c as u32)?,
                _ => write!(out, "\\u{{{:x}}}", c as u32)?,
            }
            marks = MARKS_PER_CHARACTER;
        }
        out.write_str(&valid[run..])?;
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
            marks = MARKS_PER_CHARACTER;
        }
        at += valid.len() + chunk.invalid().len();
    }
    Ok(())
}

/// Passes on text until it is too wide, then ends it with `…`.
struct Cut<'a> {
    out: &'a mut dyn Write,
    max: usize,
    used: usize,
    /// Width of the last character, which a variation selector may widen.
    last: usize,
    /// Text that fits only if nothing follows, because `…` needs its place.
    held: String,
    over: bool,
}

impl Cut<'_> {
    fn end(self) -> fmt::Result {
        self.out.write_str(&self.held)
    }

    fn overflow(&mut self) -> fmt::Result {
        self.over = true;
        if self.max > 0 {
            self.out.write_char('…')?;
        }
        Err(fmt::Error)
    }
}

impl Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            // U+FE0F selects the emoji form, which takes two cells where the character alone may take one.
            let cells = match c {
                '\u{fe0f}' if self.last == 1 => 1,
                _ => c.width().unwrap_or(1),
            };
            self.last = cells;
            self.used += cells;
            if self.used > self.max {
                return self.overflow();
            }
            if self.used < self.max && self.held.is_empty() {
                self.out.write_char(c)?;
            } else {
                self.held.push(c);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(text: impl AsRef<[u8]>) -> String {
        one_line(&text).to_string()
    }

    #[test]
    fn plain_text_is_borrowed() {
        assert!(matches!(
            one_line("add a wipe command").to_text(),
            Cow::Borrowed(_)
        ));
        assert!(matches!(block("a\n\tb\n").to_text(), Cow::Borrowed(_)));
        assert!(matches!(
            one_line("abc").max_width(3).to_text(),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn readable_text_of_any_script_stays() {
        for text in [
            "größe",
            "日本語",
            "שלום",
            "e\u{301}",
            "⚠\u{fe0f} done ✅",
            "C:\\x1b",
            "नमस्ते",
        ] {
            assert_eq!(line(text), text);
            assert_eq!(block(text).to_string(), text);
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(line("\x1b[2J\x07\x7f"), "\\x1b[2J\\x07\\x7f");
        assert_eq!(line("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(
            line("a\u{202e}b\u{2066}\u{200b}\u{feff}"),
            "a\\u{202e}b\\u{2066}\\u{200b}\\u{feff}"
        );
        assert_eq!(
            line("x\u{e0041}\u{ad}\u{2028}"),
            "x\\u{e0041}\\u{ad}\\u{2028}"
        );
        assert_eq!(line(b"ok\xff\xc3"), "ok\\xff\\xc3");
        assert_eq!(line(b"\xed\xa0\x80"), "\\xed\\xa0\\x80");
    }

    #[test]
    fn line_breaks_depend_on_the_place() {
        assert_eq!(line("a\nb\tc\r\nd\re"), "a b c d\\re");
        assert_eq!(block("a\nb\tc\r\nd\re").to_string(), "a\nb\tc\nd\\re");
    }

    #[test]
    fn piles_of_marks_end() {
        let pile = format!("a{}", "\u{301}".repeat(100));
        let shown = line(&pile);
        assert_eq!(
            shown.matches('\u{301}').count(),
            MARKS_PER_CHARACTER as usize
        );
        assert!(
            line("\u{301}a").starts_with('\\'),
            "a mark needs a character to sit on"
        );
    }

    #[test]
    fn cutting_leaves_room_for_the_ellipsis() {
        let cut = |text: &str, max| one_line(text).max_width(max).to_string();
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語x", 6), "日本…");
        assert_eq!(cut("日本", 1), "…");
        assert_eq!(cut("ab", 0), "");
        assert_eq!(cut("", 0), "");
        assert_eq!(cut("ab\u{1b}", 5), "ab\\x…");
    }

    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            "[ -~]{0,8}".prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..4),
            (0u32..0x2100).prop_map(|n| char::from_u32(n).unwrap_or('x').to_string().into_bytes()),
            (0xe0000u32..0xe0200)
                .prop_map(|n| char::from_u32(n).unwrap_or('x').to_string().into_bytes()),
            Just("\u{fe0f}".into()),
            Just("\u{200d}".into()),
            Just("👩🏽".into()),
            Just("\r\n".into()),
        ];
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn one_line_is_safe(text in hostile()) {
            let shown = line(&text);
            prop_assert!(!shown.chars().any(is_unsafe), "{shown:?}");
            prop_assert_eq!(line(&shown), shown, "escaping twice changes nothing");
        }

        #[test]
        fn block_is_safe(text in hostile()) {
            let shown = block(&text).to_string();
            prop_assert!(!shown.chars().any(|c| is_unsafe(c) && c != '\n' && c != '\t'), "{shown:?}");
            prop_assert_eq!(block(&shown).to_string(), shown);
        }

        #[test]
        fn width_is_kept(text in hostile(), max in 0usize..30) {
            let shown = one_line(&text).max_width(max).to_string();
            prop_assert!(width(&shown) <= max, "{shown:?} is {} wide", width(&shown));
            prop_assert!(!shown.chars().any(is_unsafe));
            let whole = line(&text);
            if shown != whole {
                prop_assert!(shown.is_empty() || shown.ends_with('…'));
            }
        }
    }
}
