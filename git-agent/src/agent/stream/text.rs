//! Gathers text that arrives in small pieces into events of a readable size.
//!
//! The events of one message, joined, are exactly its text. The first words of a message are recorded at once, and the
//! rest a few times a second, so that the user sees the agent write without one event per token. An event ends at a
//! newline if possible, or else at a word, so that a viewer can show one event per line.

use std::time::{Duration, Instant};

use crate::agent::driver::Link;
use crate::agent::stream::split;
use crate::error::Result;
use crate::model::event::Body;

/// From this size on, a newline ends an event.
const FULL: usize = 2 * 1024;
/// At this size an event ends, newline or not.
const LARGEST: usize = 16 * 1024;
/// How long the first words of a message may wait, so that the user sees at once that the agent writes.
const FIRST: Duration = Duration::from_millis(10);
/// How long text may wait to be recorded.
const WAIT: Duration = Duration::from_millis(250);
/// Maximum number of bytes kept of the last message.
const KEPT: usize = 64 * 1024;
/// From this many characters on, the start of a secret waits for the rest even while something else happens. Shorter
/// starts occur in nearly every word, and are only remembered.
const HIDDEN: usize = 3;

/// The kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// The agent's message to the user.
    Assistant,
    /// The agent's thoughts.
    Reasoning,
}

/// Text being gathered.
#[derive(Debug, Default)]
pub struct Streamed {
    pending: Option<(Voice, Instant)>,
    text: String,
    last: String,
    ended: bool,
    /// Text that may be half a secret, from before another voice or event.
    held: Vec<(Voice, String)>,
    /// The last recorded characters, if they may begin a secret.
    lead: Option<(Voice, String)>,
    /// Whether some of the message was recorded.
    told: bool,
}

impl Streamed {
    /// Handles the next piece; a change of voice records the text of the other one.
    pub fn push(&mut self, voice: Voice, text: &str, link: &mut dyn Link) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let before = self.held.iter().position(|(speaker, _)| *speaker == voice);
        let whole = before.map(|index| self.held.remove(index).1 + text);
        let text = whole.as_deref().unwrap_or(text);
        if let Some((earlier, _)) = self.pending.filter(|(earlier, _)| *earlier != voice) {
            let token = split::token(&self.text).unwrap_or(self.text.len());
            self.part(earlier, token, link)?;
        }
        if voice == Voice::Assistant {
            if std::mem::take(&mut self.ended) {
                self.last.clear();
            }
            self.last.push_str(text);
            keep_tail(&mut self.last, KEPT);
        }
        self.pending.get_or_insert_with(|| (voice, Instant::now()));
        self.text.push_str(text);
        if self.follows_lead(voice, link) {
            return Ok(());
        }
        if self.text.len() >= FULL
            && let Some(newline) = self.text.rfind('\n')
        {
            let end = link.cut(&self.text, newline + 1);
            self.record(end, link)?;
        }
        while self.text.len() >= LARGEST {
            let end = match split::place(&self.text, LARGEST, link) {
                0 => self.text.floor_char_boundary(LARGEST),
                end => end,
            };
            self.record(end, link)?;
        }
        Ok(())
    }

    /// Returns when waiting text must be recorded.
    pub fn due(&self) -> Option<Instant> {
        let first = !self.told && words_end(self.text.as_bytes()).is_some();
        let wait = if first { FIRST } else { WAIT };
        self.pending.map(|(_, since)| since + wait)
    }

    /// Records text that has waited long enough.
    pub fn flush_due(&mut self, now: Instant, link: &mut dyn Link) -> Result<()> {
        if self.due().is_some_and(|due| due <= now) {
            let end = match split::place(&self.text, self.text.len(), link) {
                _ if self.lead.is_some() => 0,
                0 => split::half(&self.text, link),
                end => end,
            };
            // The rest of an unfinished word can wait.
            self.told = true;
            self.record(end, link)?;
        }
        Ok(())
    }

    /// Records waiting text because something else happened; the agent may continue in the middle of a word.
    pub fn pause(&mut self, link: &mut dyn Link) -> Result<()> {
        match self.pending {
            Some((voice, _)) => self.part(voice, self.text.len(), link),
            None => self.end_voice(link),
        }
    }

    /// Records all waiting text, because no more will come.
    pub fn end(&mut self, link: &mut dyn Link) -> Result<()> {
        self.end_voice(link)?;
        self.lead = None;
        for (voice, text) in std::mem::take(&mut self.held) {
            link.event(said_by(voice, text))?;
        }
        Ok(())
    }

    /// Records the text of a voice, at most up to `end`, but holds back the start of a secret.
    fn part(&mut self, voice: Voice, end: usize, link: &mut dyn Link) -> Result<()> {
        let lead = self.lead.take_if(|(speaker, _)| *speaker == voice);
        let lead = lead.map(|(_, letters)| letters).unwrap_or_default();
        let said = lead.clone() + &self.text;
        let begun = said.split_at(split::begun(&said, link)).1;
        let few = begun.len() < HIDDEN;
        let end = if few {
            end
        } else {
            end.min(self.text.len().saturating_sub(begun.len()))
        };
        let half = self.text.split_off(end);
        // Remember the characters before the held text, or else the last recorded ones.
        let letters = match (half.is_empty(), few) {
            (true, true) => begun.to_owned(),
            (false, false) => begun[..begun.len().saturating_sub(half.len())].to_owned(),
            _ => String::new(),
        };
        self.end_voice(link)?;
        if !half.is_empty() {
            self.held.push((voice, half));
        }
        if !letters.is_empty() {
            self.lead = Some((voice, letters));
        }
        Ok(())
    }

    /// Joins the remembered characters with the text after them if they form a secret together. Returns whether they
    /// may still become one.
    fn follows_lead(&mut self, voice: Voice, link: &mut dyn Link) -> bool {
        let Some((_, lead)) = self.lead.take_if(|(speaker, _)| *speaker == voice) else {
            return false;
        };
        let said = lead.clone() + &self.text;
        if split::begun(&said, link) < lead.len() {
            self.lead = Some((voice, lead));
            return true;
        }
        if link.cut(&said, lead.len()) < lead.len() {
            // Recorded once more, as part of the redacted text.
            self.text = said;
        }
        false
    }

    fn end_voice(&mut self, link: &mut dyn Link) -> Result<()> {
        self.ended = true;
        self.record(self.text.len(), link)?;
        self.told = false;
        Ok(())
    }

    /// Returns whether nothing happened after the last message.
    pub fn spoke_last(&self) -> bool {
        !self.ended && !self.last.trim().is_empty()
    }

    /// Returns the last message of the assistant, or its end if it is very long.
    pub fn last(&self) -> &str {
        &self.last
    }

    fn record(&mut self, end: usize, link: &mut dyn Link) -> Result<()> {
        let Some((voice, _)) = self.pending else {
            return Ok(());
        };
        let rest = self.text.split_off(end);
        let text = std::mem::replace(&mut self.text, rest);
        self.pending = (!self.text.is_empty()).then(|| (voice, Instant::now()));
        if text.is_empty() {
            return Ok(());
        }
        self.told = true;
        link.event(said_by(voice, text))
    }
}

fn said_by(voice: Voice, text: String) -> Body {
    match voice {
        Voice::Assistant => Body::Assistant { text },
        Voice::Reasoning => Body::Reasoning { text },
    }
}

/// Returns where unfinished text may be cut: after its last newline, or else after its last blank. The word after that
/// may be incomplete.
pub fn words_end(text: &[u8]) -> Option<usize> {
    let after = |found: usize| found + 1;
    let newline = text.iter().rposition(|byte| *byte == b'\n');
    let blank = || text.iter().rposition(|byte| matches!(byte, b' ' | b'\t'));
    newline.or_else(blank).map(after)
}

/// Shortens text to its last `limit` bytes.
pub(crate) fn keep_tail(text: &mut String, limit: usize) {
    // Cut only when it is twice too long, so that many small pieces cost linear time.
    if text.len() > 2 * limit {
        let start = text.ceil_char_boundary(text.len() - limit);
        text.drain(..start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::script::Script;
    use crate::redact::{KnownSecrets, Redactor};

    fn said(link: &Script) -> Vec<String> {
        link.events
            .iter()
            .map(|body| match body {
                Body::Assistant { text } => text.clone(),
                Body::Reasoning { text } => format!("({text})"),
                other => panic!("unexpected {other:?}"),
            })
            .collect()
    }

    #[test]
    fn pieces_become_one_event_and_a_change_of_voice_ends_it() {
        let mut link = Script::default();
        let mut text = Streamed::default();
        for (voice, piece) in [
            (Voice::Reasoning, "let "),
            (Voice::Reasoning, "me see"),
            (Voice::Assistant, "Step"),
            (Voice::Assistant, " 1\n"),
            (Voice::Assistant, ""),
            (Voice::Assistant, "done"),
        ] {
            text.push(voice, piece, &mut link).expect("recorded");
        }
        text.end(&mut link).expect("recorded");
        assert_eq!(said(&link), ["(let me see)", "Step 1\ndone"]);
        assert_eq!(text.last(), "Step 1\ndone");
        text.push(Voice::Assistant, "more", &mut link)
            .expect("recorded");
        assert_eq!(text.last(), "more");
    }

    #[test]
    fn long_text_is_recorded_on_the_way_and_nothing_changes() {
        let mut link = Script::default();
        let mut text = Streamed::default();
        let mut whole = String::new();
        for number in 0..6_000 {
            let piece = if number % 700 == 0 {
                "ä\n"
            } else {
                "wörter "
            };
            whole.push_str(piece);
            text.push(Voice::Assistant, piece, &mut link)
                .expect("recorded");
        }
        text.push(Voice::Assistant, &"x".repeat(100_000), &mut link)
            .expect("recorded");
        whole.push_str(&"x".repeat(100_000));
        text.end(&mut link).expect("recorded");
        let pieces = said(&link);
        assert!(pieces.len() > 10);
        assert!(pieces.iter().all(|piece| piece.len() <= LARGEST));
        assert_eq!(pieces.concat(), whole);
    }

    #[test]
    fn the_first_words_of_a_message_are_recorded_at_once_and_the_rest_now_and_then() {
        let mut link = Script::default();
        let mut text = Streamed::default();
        let begun = Instant::now();
        text.push(Voice::Assistant, "I will lo", &mut link)
            .expect("recorded");
        let due = text.due().expect("something waits");
        assert!(due <= Instant::now() + Duration::from_millis(20));
        text.flush_due(due, &mut link).expect("recorded");
        assert_eq!(said(&link), ["I will "]);
        // An incomplete word waits, and so does the text after it.
        text.push(Voice::Assistant, "ok at it", &mut link)
            .expect("recorded");
        let due = text.due().expect("something waits");
        assert!(due >= begun + WAIT);
        text.flush_due(due - WAIT / 2, &mut link).expect("recorded");
        assert_eq!(link.events.len(), 1);
        text.flush_due(due, &mut link).expect("recorded");
        assert_eq!(said(&link), ["I will ", "look at "]);
        text.end(&mut link).expect("recorded");
        text.push(Voice::Assistant, "next ", &mut link)
            .expect("recorded");
        let due = text.due().expect("something waits");
        assert!(due <= Instant::now() + Duration::from_millis(20));
    }

    #[test]
    fn what_is_said_after_something_happened_is_another_message() {
        let mut link = Script::default();
        let mut text = Streamed::default();
        text.push(Voice::Assistant, "Step 1.\n", &mut link)
            .expect("recorded");
        let due = text.due().expect("something waits");
        text.flush_due(due, &mut link).expect("recorded");
        assert!(text.spoke_last() && text.due().is_none());
        text.pause(&mut link).expect("recorded");
        assert!(!text.spoke_last());
        text.push(Voice::Assistant, "Done ", &mut link)
            .expect("recorded");
        assert!(text.spoke_last());
        assert_eq!(text.last(), "Done ");
        let due = text.due().expect("something waits");
        assert!(due <= Instant::now() + Duration::from_millis(20));
    }

    #[test]
    fn waiting_text_is_recorded_up_to_its_last_newline() {
        let mut link = Script::default();
        let mut text = Streamed::default();
        text.push(Voice::Assistant, "one\ntw", &mut link)
            .expect("recorded");
        let due = text.due().expect("something waits");
        text.flush_due(due - Duration::from_millis(1), &mut link)
            .expect("recorded");
        assert!(link.events.is_empty());
        text.flush_due(due, &mut link).expect("recorded");
        assert_eq!(said(&link), ["one\n"]);
        text.flush_due(due + WAIT * 2, &mut link).expect("recorded");
        assert_eq!(said(&link), ["one\n", "tw"]);
        assert_eq!(text.due(), None);
    }

    #[test]
    fn a_secret_is_never_recorded_in_two_halves() {
        const KEY: &str = "Zq8vLw2pXr5tKd7mQx3v";
        let (one, other) = KEY.split_at(9);
        let far = Instant::now() + Duration::from_secs(3600);
        let cases: [&[(Voice, String)]; 3] = [
            &[(Voice::Assistant, "a".repeat(LARGEST - 10) + KEY)],
            &[
                (Voice::Assistant, format!("it is {one}")),
                (Voice::Assistant, other.to_owned()),
            ],
            &[
                (Voice::Assistant, format!("it is {one}")),
                (Voice::Reasoning, "wait".to_owned()),
                (Voice::Assistant, other.to_owned()),
            ],
        ];
        for pieces in cases {
            let mut link = Script::knowing(KEY);
            let mut text = Streamed::default();
            for (voice, piece) in pieces {
                text.push(*voice, piece, &mut link).expect("recorded");
                text.flush_due(far, &mut link).expect("recorded");
            }
            text.end(&mut link).expect("recorded");
            let whole = said(&link);
            assert!(whole.iter().any(|piece| piece.contains(KEY)), "{whole:?}");
        }
    }

    #[test]
    fn a_secret_is_not_told_around_something_else_that_happens() {
        const KEY: &str = "Zq8vLw2pXr5tKd7mQx3v";
        let far = Instant::now() + Duration::from_secs(3600);
        let mut known = KnownSecrets::new();
        known.add_value(KEY.as_bytes());
        let redactor = Redactor::new(known);
        for length in 1..KEY.len() {
            let (one, other) = KEY.split_at(length);
            for pieces in [vec![one, other], KEY.split("").collect()] {
                for happens in [true, false] {
                    let mut link = Script::knowing(KEY);
                    let mut text = Streamed::default();
                    let first = ["it is ", "yes: "];
                    for piece in first.iter().chain(&pieces).chain(&[" or not"]) {
                        text.push(Voice::Assistant, piece, &mut link)
                            .expect("recorded");
                        text.flush_due(far, &mut link).expect("recorded");
                        if happens {
                            text.pause(&mut link).expect("recorded");
                        }
                    }
                    text.end(&mut link).expect("recorded");
                    let clean: String = said(&link)
                        .iter()
                        .map(|piece| redactor.text(piece).into_inner())
                        .collect();
                    let told = clean.replace("[REDACTED:known-secret]", "");
                    let letters = told.strip_prefix("it is yes: ").expect("as it was said");
                    let letters = letters.strip_suffix(" or not").expect("as it was said");
                    assert!(letters.len() < HIDDEN, "{length} {happens}: {clean}");
                    assert!(happens || letters.is_empty(), "{length}: {clean}");
                }
            }
        }
    }

    #[test]
    fn what_only_looks_like_a_secret_is_recorded_once_and_before_what_happens() {
        let mut link = Script::knowing("Zq8vLw2pXr5tKd7mQx3v");
        let mut text = Streamed::default();
        for piece in ["to Z", "q and", " to Zq8 and", " Zq", "8v"] {
            text.push(Voice::Assistant, piece, &mut link)
                .expect("recorded");
            text.pause(&mut link).expect("recorded");
        }
        text.end(&mut link).expect("recorded");
        assert_eq!(said(&link), ["to Z", "q and", " to Zq8 and", " Zq", "8v"]);
    }
}
