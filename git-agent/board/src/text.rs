//! Foreign text on its way to a cell: made safe, with tabs expanded, cut, and wrapped to a width.

use git_agent::output::terminal::sanitize;
use unicode_width::UnicodeWidthChar;

/// The width of a tab.
const TAB: usize = 4;
/// The most characters of one line that are looked at.
const LONGEST: usize = 4000;

/// Returns foreign text as one safe line.
pub fn line(text: impl AsRef<[u8]>) -> String {
    let bytes = text.as_ref();
    let bytes = &bytes[..bytes.len().min(LONGEST * 4)];
    sanitize::one_line(bytes).to_string()
}

/// Returns foreign source code as one safe line, with tabs expanded.
pub fn code(text: &[u8]) -> String {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let text = &text[..text.len().min(LONGEST * 4)];
    let safe = sanitize::block(text).to_text();
    if !safe.contains('\t') && safe.len() <= LONGEST {
        return safe.into_owned();
    }
    let mut out = String::with_capacity(safe.len() + 16);
    let mut column = 0;
    for c in safe.chars().take(LONGEST) {
        match c {
            '\t' => {
                let blanks = TAB - column % TAB;
                out.extend(std::iter::repeat_n(' ', blanks));
                column += blanks;
            }
            c => {
                out.push(c);
                column += c.width().unwrap_or(0);
            }
        }
    }
    out
}

/// Returns the cells of safe text.
pub fn width(text: &str) -> usize {
    sanitize::width(text)
}

/// Cuts safe text to a width, with `…` at its end.
pub fn cut(text: &str, cells: usize) -> String {
    sanitize::one_line(text).max_width(cells).to_string()
}

/// Cuts safe text in its middle, because names of one group differ at their ends.
pub fn cut_middle(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    if cells < 6 {
        return cut(text, cells);
    }
    let tail = cells / 3;
    let mut end = String::new();
    let mut used = 0;
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > tail {
            break;
        }
        end.insert(0, c);
    }
    let head = cut(text, cells - width(&end));
    format!("{head}{end}")
}

/// Wraps safe text at blanks; words that are too long are broken.
pub fn wrap(text: &str, cells: usize) -> Vec<String> {
    let cells = cells.max(1);
    if width(text) <= cells {
        return vec![text.to_owned()];
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    // The start of the last word of the line, so that the whole word can move to the next one.
    let mut word: Option<(usize, usize)> = None;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide > cells {
            match word.filter(|(at, _)| *at > 0 && c != ' ') {
                Some((at, before)) => {
                    let rest = line.split_off(at);
                    lines.push(std::mem::replace(&mut line, rest));
                    used -= before;
                }
                None => {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
            }
            word = None;
            if c == ' ' {
                continue;
            }
        }
        line.push(c);
        used += wide;
        if c == ' ' {
            word = Some((line.len(), used));
        }
    }
    lines.push(line);
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

/// Returns the part of safe text from a column on, cut to a width. A wide character that would be cut becomes blanks.
pub fn slice(text: &str, from: usize, cells: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        let (start, end) = (column, column + wide);
        column = end;
        if start >= from + cells {
            break;
        }
        if wide == 0 {
            if start > from {
                out.push(c);
            }
        } else if start < from || end > from + cells {
            let visible = end.min(from + cells).saturating_sub(start.max(from));
            out.extend(std::iter::repeat_n(' ', visible));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_wrap_whole() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("日本語日本語", 5), ["日本", "語日", "本語"]);
        assert_eq!(wrap("", 5), [""]);
        for line in wrap(&"word ".repeat(50), 17) {
            assert!(width(&line) <= 17);
        }
    }

    #[test]
    fn names_keep_their_ends() {
        assert_eq!(cut_middle("search-v1", 20), "search-v1");
        assert_eq!(cut_middle("search-the-catalogue-v1", 12), "search-…e-v1");
        assert!(width(&cut_middle("日本語日本語日本語", 9)) <= 9);
    }

    #[test]
    fn hostile_text_is_one_safe_line() {
        assert_eq!(code(b"\ta\x1b[31m\r"), "    a\\x1b[31m");
        assert_eq!(line("a\u{202e}\nb"), "a\\u{202e} b");
        assert!(width(&code(&[b'x'; 100_000])) <= LONGEST);
    }

    #[test]
    fn a_slice_never_breaks_a_wide_character() {
        assert_eq!(slice("a日本b", 2, 3), " 本");
        assert_eq!(slice("a日本b", 0, 2), "a ");
        assert_eq!(slice("abc", 1, 10), "bc");
    }
}
