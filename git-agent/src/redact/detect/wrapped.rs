//! Finds tokens that a terminal or a formatter broke over lines.
//!
//! Only kinds with an exact length: a piece at the end of one line and a piece at the start of the next form a token if
//! together they have exactly that length and look random. Ordinary text does not.

use crate::redact::detect::judge::is_stand_in;
use crate::redact::text::{Class, starts_token};

/// The most lines of one token, as in a narrow column.
const LINES: usize = 4;
/// The most blanks at the start of a line.
const INDENT: usize = 40;
/// The most backslashes of an escaped line end, for JSON strings inside JSON strings.
const ESCAPES: usize = 4;

/// Prefixes, the class of the rest, and its lengths.
const EXACT: &[(&[&str], Class, &[usize])] = &[
    (
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        Class::Word,
        &[36],
    ),
    (&["github_pat_"], Class::Word, &[82]),
    (&["glpat-"], Class::Dashed, &[20]),
    (&["AKIA", "ASIA"], Class::Upper, &[16]),
    // Including the kind and the version of the key.
    (&["sk-ant-"], Class::Dashed, &[101, 103]),
    (&["sk-proj-"], Class::Dashed, &[124, 156]),
    // Two numbers of 10 to 13 digits come first.
    (&["xoxb-"], Class::Dashed, &[46, 47, 48, 49, 50, 51, 52]),
];

/// Returns the end of a token of several lines whose prefix is at `at`.
pub(crate) fn at(text: &[u8], prefix: &str, at: usize) -> Option<usize> {
    let (_, class, lengths) = EXACT
        .iter()
        .find(|(prefixes, ..)| prefixes.contains(&prefix))?;
    let longest = lengths.iter().copied().max()?;
    if !text[at..].starts_with(prefix.as_bytes()) || !starts_token(text, at) {
        return None;
    }
    let mut end = at + prefix.len();
    let mut token = Vec::new();
    for line in 0..LINES {
        let length = class.run(&text[end..], longest + 1);
        if length == 0 || token.len() + length > longest {
            return None;
        }
        token.extend_from_slice(&text[end..end + length]);
        end += length;
        if lengths.contains(&token.len()) {
            // A token on one line is found by its shape.
            return (line > 0 && is_mixed(&token, *class)).then_some(end);
        }
        end += line_break(&text[end..])?;
    }
    None
}

/// Returns the length of a line end and the indentation of the next line, if the text continues with them.
fn line_break(text: &[u8]) -> Option<usize> {
    let end = ending(text, b'\r', b'r');
    let end = end + Some(ending(&text[end..], b'\n', b'n')).filter(|length| *length > 0)?;
    let blanks = text[end..].iter().take(INDENT + 1);
    let indent = blanks.take_while(|byte| b" \t".contains(byte)).count();
    (indent <= INDENT).then_some(end + indent)
}

/// Returns the length of the control character at the start of a text: plain, or escaped one or more times.
fn ending(text: &[u8], plain: u8, letter: u8) -> usize {
    let strokes = text.iter().take(ESCAPES).take_while(|byte| **byte == b'\\');
    match strokes.count() {
        0 => usize::from(text.first() == Some(&plain)),
        strokes if text.get(strokes) == Some(&letter) => strokes + 1,
        _ => 0,
    }
}

/// Returns whether characters look random.
fn is_mixed(token: &[u8], class: Class) -> bool {
    let some = |is: fn(&u8) -> bool| token.iter().any(is);
    let lower = class == Class::Upper || some(u8::is_ascii_lowercase);
    lower && some(u8::is_ascii_digit) && some(u8::is_ascii_uppercase) && !is_stand_in(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: &str = "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb";

    fn found(text: &str) -> Option<&str> {
        let start = text.find("ghp_")?;
        Some(&text[start..at(text.as_bytes(), "ghp_", start)?])
    }

    #[test]
    fn a_token_is_found_wherever_it_was_broken() {
        for place in 1..DRAWN.len() {
            let (head, tail) = DRAWN.split_at(place);
            for between in [
                "\n",
                "\r\n",
                "\n        ",
                "\n\t",
                "\\n",
                "\\r\\n  ",
                "\\\\n",
            ] {
                let token = format!("ghp_{head}{between}{tail}");
                for behind in ["", "\n", " is it", "\"", "\nmore"] {
                    let text = format!("the token {token}{behind}");
                    assert_eq!(found(&text), Some(token.as_str()), "{text}");
                }
            }
        }
        let (head, tail) = DRAWN.split_at(20);
        let narrow = format!("ghp_{}\n{}\n{tail}", &head[..10], &head[10..]);
        assert_eq!(found(&narrow), Some(narrow.as_str()));
    }

    #[test]
    fn what_is_not_exactly_one_token_is_left_alone() {
        let (head, tail) = DRAWN.split_at(20);
        for text in [
            format!("ghp_{head}\n{tail}x"),
            format!("ghp_{head}\n{}", &tail[1..]),
            format!("ghp_{head}\n\n{tail}"),
            format!("ghp_{head} \n{tail}"),
            format!("ghp_{head}\n{:50}{tail}", ""),
            format!("ghp_\n{DRAWN}"),
            format!("xghp_{head}\n{tail}"),
            format!("ghp_{DRAWN}\nab12"),
            "ghp_prefixes\nare_documented_there".to_owned(),
            format!("ghp_{}\n{}", "x".repeat(16), "x".repeat(20)),
            format!("ghp_{}\n{}", head.to_lowercase(), tail.to_lowercase()),
        ] {
            assert_eq!(found(&text), None, "{text}");
        }
    }
}
