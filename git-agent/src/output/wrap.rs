//! Breaks long lines at the width of the screen, between words if possible.

use unicode_width::UnicodeWidthChar;

use crate::output::terminal::sanitize;

/// The least room for text: on a narrower screen the terminal breaks the lines.
const LEAST: usize = 20;
/// An indent is repeated on the further lines up to this many cells.
const INDENT: usize = 8;
/// A tab becomes so many spaces, because the terminal's tab stops are not those of an indented text.
const TAB: &str = "    ";

/// Returns the lines of one escaped line of text, each at most `width` cells wide. Further lines keep its indent.
pub fn wrap(line: &str, width: Option<usize>) -> Vec<String> {
    let line = line.trim_end().replace('\t', TAB);
    let Some(width) = width.map(|width| width.max(LEAST)) else {
        return vec![line];
    };
    if sanitize::width(&line) <= width {
        return vec![line];
    }
    let blanks = line.len() - line.trim_start_matches(' ').len();
    let indent = " ".repeat(blanks.min(INDENT));
    let mut lines: Vec<String> = Vec::new();
    let mut now = String::new();
    let mut cells = 0;
    // Where the line may be broken: the bytes before a blank.
    let mut gap: Option<usize> = None;
    let text = format!("{indent}{}", line.trim_start_matches(' '));
    for c in text.chars() {
        let wide = c.width().unwrap_or(1);
        if cells + wide > width {
            let rest = match gap {
                Some(at) if c != ' ' => now.split_off(at).trim_start().to_owned(),
                _ => String::new(),
            };
            lines.push(now.trim_end().to_owned());
            now = format!("{indent}{rest}");
            cells = sanitize::width(&now);
            gap = None;
            if c == ' ' {
                continue;
            }
        }
        if c == ' ' && now.len() > indent.len() {
            gap = Some(now.len());
        }
        now.push(c);
        cells += wide;
    }
    if !now.trim().is_empty() {
        lines.push(now.trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_break_between_words_and_keep_their_indent() {
        let text = "  one two three four five six";
        assert_eq!(wrap(text, Some(20)), ["  one two three four", "  five six"]);
        assert_eq!(wrap(text, None), [text]);
        assert_eq!(wrap("short", Some(80)), ["short"]);
        assert_eq!(wrap("", Some(80)), [""]);
        let path = "x".repeat(45);
        assert_eq!(
            wrap(&path, Some(20)),
            [&path[..20], &path[..20], &path[..5]]
        );
        assert_eq!(
            wrap(&"日".repeat(11), Some(20)),
            ["日".repeat(10), "日".into()]
        );
        assert_eq!(wrap("a\tb", Some(80)), ["a    b"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_all_fits(text in "[a-zä日 ]{0,200}", width in 20usize..90) {
            let lines = wrap(&text, Some(width));
            for line in &lines {
                prop_assert!(sanitize::width(line) <= width, "{line:?}");
            }
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
