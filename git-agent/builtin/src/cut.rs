//! Long output, cut to its beginning and its end.

use std::collections::VecDeque;

/// How much of the beginning and of the end is kept.
const HALF: usize = 5_000;

/// Collects output of any length in bounded memory.
#[derive(Debug, Default)]
pub struct Cut {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Cut {
    /// Adds output.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = HALF.saturating_sub(self.head.len());
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(HALF);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    /// Returns the text, with the number of bytes left out in the middle.
    pub fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.left_out == 0 {
            let whole = [&self.head[..], &tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        format!(
            "{}\n(... {} bytes left out ...)\n{}",
            String::from_utf8_lossy(&self.head).trim_end_matches('\u{fffd}'),
            self.left_out,
            String::from_utf8_lossy(&tail).trim_start_matches('\u{fffd}')
        )
    }
}

/// Cuts a text to its beginning and its end.
pub fn cut(text: &str) -> String {
    let mut cut = Cut::default();
    cut.push(text.as_bytes());
    cut.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_middle_of_long_output_is_left_out() {
        assert_eq!(cut("short"), "short");
        let whole = "ä".repeat(HALF);
        assert_eq!(cut(&whole), whole);
        let mut long = Cut::default();
        long.push(b"first ");
        for _ in 0..100_000 {
            long.push("some output\n".as_bytes());
        }
        long.push(b"last");
        let text = long.text();
        assert!(
            text.starts_with("first ") && text.ends_with("last"),
            "{text}"
        );
        assert!(text.len() < 2 * HALF + 100);
        assert!(text.contains("(... 1190010 bytes left out ...)"), "{text}");
    }
}
