//! Removes terminal colours from a text, because programs such as `grep` may colour the middle of a secret.

/// A text without escapes, and the original position of each byte.
pub(crate) struct Plain {
    pub(crate) text: Vec<u8>,
    places: Vec<usize>,
}

impl Plain {
    /// Returns a text without its escapes; `None` if it has none.
    pub(crate) fn of(text: &[u8]) -> Option<Self> {
        // Most texts contain none, and one byte shows that fastest.
        if !text.contains(&0x1b) || !text.windows(2).any(|two| two == b"\x1b[") {
            return None;
        }
        let mut plain = Plain {
            text: Vec::with_capacity(text.len()),
            places: Vec::with_capacity(text.len()),
        };
        let mut at = 0;
        while at < text.len() {
            let length = escape(&text[at..]);
            if length == 0 {
                plain.text.push(text[at]);
                plain.places.push(at);
            }
            at += length.max(1);
        }
        Some(plain)
    }

    /// Returns the original range of a range of the plain text, if an escape was inside it.
    pub(crate) fn stood(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let (from, last) = (*self.places.get(start)?, *self.places.get(end - 1)?);
        (last - from != end - 1 - start).then_some((from, last + 1))
    }
}

/// Returns the length of the escape at the start of a text.
fn escape(text: &[u8]) -> usize {
    let Some(rest) = text.strip_prefix(b"\x1b[") else {
        return 0;
    };
    let inside = rest.iter().take_while(|byte| matches!(byte, 0x20..=0x3f));
    let inside = inside.count();
    match rest.get(inside) {
        Some(0x40..=0x7e) => inside + 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_left_out_and_places_kept() {
        assert!(Plain::of(b"plain \x1b]0;x\x07 text").is_none());
        let plain = Plain::of(b"ab\x1b[01;31m\x1b[Kcd\x1b[me\x1b[").expect("it has some");
        assert_eq!(plain.text, b"abcde\x1b[");
        assert_eq!(plain.stood(0, 2), None, "no escape is inside");
        assert_eq!(plain.stood(1, 5), Some((1, 19)));
    }
}
