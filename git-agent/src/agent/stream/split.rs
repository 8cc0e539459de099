//! Finds places to cut running text: every event is redacted separately, so no secret may span two of them.

use crate::agent::driver::Link;

/// How far back to look for a line end or a blank.
const WINDOW: usize = 4 * 1024;
/// Maximum length of an unfinished word that is held back: longer tokens are rare.
const HELD: usize = 512;
/// From this length on, a word may be the start of a token.
const TOKEN: usize = 8;

/// Returns where to cut at or before `limit`, given the text after it; 0 if all of it should wait for more.
pub(crate) fn place(text: &str, limit: usize, link: &dyn Link) -> usize {
    let limit = text.floor_char_boundary(limit);
    let seen = &text[..text.floor_char_boundary(limit + WINDOW)];
    let at = last_break(&text[..limit]);
    let at = at.unwrap_or_else(|| text.floor_char_boundary(limit.saturating_sub(HELD)));
    link.cut(seen, at)
}

/// Returns the start of a tail that may be half a secret: it waits for more, with the word it is in. Any other word is
/// shown.
pub(crate) fn half(text: &str, link: &dyn Link) -> usize {
    let known = begun(text, link);
    let word = word(text);
    if known < text.len() && text.len() - word <= HELD {
        known.min(word)
    } else {
        token(text).map_or(known, |token| token.min(known))
    }
}

/// Returns the start of a tail that begins a known secret, or the length of the text.
pub(crate) fn begun(text: &str, link: &dyn Link) -> usize {
    link.cut(text, text.len())
}

/// Returns the start of a token that may continue after the text.
pub(crate) fn token(text: &str) -> Option<usize> {
    let word = word(text);
    let token = &text.as_bytes()[word..];
    let running = (TOKEN..=HELD).contains(&token.len())
        && token.iter().any(u8::is_ascii_digit)
        && token.iter().any(u8::is_ascii_alphabetic);
    running.then_some(word)
}

/// Returns the start of the last word.
fn word(text: &str) -> usize {
    text.len() - text.bytes().rev().take_while(u8::is_ascii_graphic).count()
}

/// Returns the end of the last line near the end of a text, or else of the last word. A name stays together with its
/// value.
fn last_break(text: &str) -> Option<usize> {
    let from = text.ceil_char_boundary(text.len().saturating_sub(WINDOW));
    let near = &text[from..];
    if let Some(newline) = near.rfind('\n') {
        return Some(from + newline + 1);
    }
    // Tokens contain only ASCII, and many languages have no blanks.
    let ends = |letter: char| letter.is_whitespace() || !letter.is_ascii();
    near.char_indices()
        .rev()
        .filter(|(_, letter)| ends(*letter))
        .map(|(at, letter)| at + letter.len_utf8())
        .find(|end| {
            !near[..*end]
                .split_whitespace()
                .next_back()
                .is_some_and(is_name)
        })
        .map(|end| from + end)
}

/// Returns whether a value follows a word.
fn is_name(word: &str) -> bool {
    word.ends_with([':', '=']) || word.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::script::Script;

    const KEY: &str = "Zq8v Lw2pXr5tKd7mQx3v";

    fn link() -> Script {
        Script::knowing(KEY)
    }

    #[test]
    fn a_cut_is_at_a_line_end_or_between_words() {
        let place = |text: &str, limit: usize| place(text, limit, &link());
        assert_eq!(place("one\ntwo three four", 12), 4);
        assert_eq!(place("one two three", 10), 8);
        assert_eq!(place("one two three", 13), 8, "the last word may go on");
        assert_eq!(place("log in --password abc", 20), 7);
        assert_eq!(place("password: abc", 12), 0);
        assert_eq!(place("只有中文", 12), 12);
        assert_eq!(place("word", 4), 0);
        assert_eq!(place(&"x".repeat(9000), 8192), 8192 - HELD);
    }

    #[test]
    fn no_secret_lies_across_a_cut() {
        let link = link();
        let text = format!("here is {KEY} there");
        for limit in 0..=text.len() {
            let at = place(&text, limit, &link);
            assert!(at <= 8 || at >= 8 + KEY.len(), "{limit} {at}");
        }
        for length in 1..KEY.len() {
            let text = format!("here is {}", &KEY[..length]);
            assert_eq!(place(&text, text.len(), &link), 8, "{text}");
            let unbroken = format!("{}{}", "a".repeat(9000), &KEY[..length]);
            assert!(place(&unbroken, unbroken.len(), &link) <= 9000);
        }
    }

    #[test]
    fn only_what_may_be_half_a_secret_waits_for_more() {
        let half = |text: &str| text[super::half(text, &link())..].to_owned();
        assert_eq!(half("let me see"), "");
        assert_eq!(half("let me see Z"), "Z");
        assert_eq!(half("let me seeZ"), "seeZ");
        assert_eq!(half("it is Zq8v Lw2"), "Zq8v Lw2");
        assert_eq!(half("it is ghp_Zx9Yw8Vu"), "ghp_Zx9Yw8Vu");
        assert_eq!(half("it is ghp_Zx9Yw8Vu "), "");
    }
}
