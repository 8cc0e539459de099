//! The words at which detectors start, and the automaton that finds all of them at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use aho_corasick::automaton::Automaton;
use aho_corasick::dfa::DFA;
use aho_corasick::{AhoCorasick, AhoCorasickKind, Anchored};

use crate::redact::detect::rules::SHAPES;
use crate::redact::detect::{context, encoded, headers, names, pem, url};
use crate::redact::{KNOWN, OPENING};

/// The detector that a word starts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trigger {
    Shape(usize, &'static str),
    Jwt,
    Name,
    Url,
    Begin,
    End,
    Putty,
    Encoded,
    OpenSsh,
    Bearer,
    Basic,
    Authorization,
    Cookie,
    Program(usize),
    Echo,
    Placeholder,
}

/// How much text must be read before the fast automaton is worth building.
const MUCH: u64 = 256 << 10;

/// The automaton over all words, shared by all redactors.
pub(crate) struct Words {
    list: Vec<&'static str>,
    /// Built at once.
    light: AhoCorasick,
    /// Finds the same, faster; building it takes as long as reading a few hundred kilobytes.
    fast: OnceLock<DFA>,
    read: AtomicU64,
    triggers: Vec<Trigger>,
    /// The names of all rules, in order.
    pub(crate) rules: Vec<&'static str>,
}

pub(crate) fn words() -> &'static Words {
    static WORDS: OnceLock<Words> = OnceLock::new();
    WORDS.get_or_init(|| {
        let mut list: Vec<(&'static str, Trigger)> = Vec::new();
        for (index, shape) in SHAPES.iter().enumerate() {
            list.extend(
                shape
                    .prefixes
                    .iter()
                    .map(|prefix| (*prefix, Trigger::Shape(index, prefix))),
            );
        }
        list.extend(context::WORDS.iter().map(|word| (*word, Trigger::Name)));
        for (index, (program, ..)) in headers::PROGRAMS.iter().enumerate() {
            list.push((program, Trigger::Program(index)));
        }
        list.extend(encoded::ARMOUR.map(|word| (word, Trigger::Encoded)));
        list.extend([
            (encoded::OPENSSH, Trigger::OpenSsh),
            ("echo ", Trigger::Echo),
            ("eyJ", Trigger::Jwt),
            ("://", Trigger::Url),
            ("-----BEGIN ", Trigger::Begin),
            ("-----END ", Trigger::End),
            ("private-lines:", Trigger::Putty),
            ("bearer ", Trigger::Bearer),
            ("bearer%20", Trigger::Bearer),
            ("basic ", Trigger::Basic),
            ("authorization", Trigger::Authorization),
            ("cookie: ", Trigger::Cookie),
            ("[REDACTED:", Trigger::Placeholder),
        ]);
        let mut rules: Vec<&'static str> = SHAPES.iter().map(|shape| shape.rule).collect();
        rules.extend(names::rules());
        rules.extend(url::RULES);
        rules.extend(headers::RULES);
        rules.extend([KNOWN, pem::RULE, "jwt", "high-entropy", "discord-token"]);
        rules.sort_unstable();
        rules.dedup();
        let (list, triggers): (Vec<&'static str>, Vec<Trigger>) = list.into_iter().unzip();
        Words {
            light: light(&list),
            fast: OnceLock::new(),
            read: AtomicU64::new(0),
            list,
            triggers,
            rules,
        }
    })
}

fn light(words: &[&str]) -> AhoCorasick {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(words)
        .expect("a few hundred short words fit an automaton")
}

fn fast(words: &[&str]) -> DFA {
    DFA::builder()
        .ascii_case_insensitive(true)
        .build(words)
        .expect("a few hundred short words fit an automaton")
}

impl Words {
    /// Calls `look` for every occurrence of a word with its trigger, start and end. Words may overlap.
    pub(crate) fn each(&self, text: &[u8], look: &mut dyn FnMut(Trigger, usize, usize)) {
        let length = text.len() as u64;
        let read = self.read.fetch_add(length, Ordering::Relaxed) + length;
        if read < MUCH {
            for hit in self.light.find_overlapping_iter(text) {
                let trigger = self.triggers[hit.pattern().as_usize()];
                look(trigger, hit.start(), hit.end());
            }
            return;
        }
        self.each_fast(self.fast.get_or_init(|| fast(&self.list)), text, look);
    }

    /// The same with one state per byte: the crate's iterator takes several times as long on a text with few words.
    fn each_fast(&self, dfa: &DFA, text: &[u8], look: &mut dyn FnMut(Trigger, usize, usize)) {
        let Ok(mut state) = dfa.start_state(Anchored::No) else {
            unreachable!("it was built to begin anywhere");
        };
        for (at, byte) in text.iter().enumerate() {
            state = dfa.next_state(Anchored::No, state, *byte);
            if !dfa.is_special(state) || !dfa.is_match(state) {
                continue;
            }
            for index in 0..dfa.match_len(state) {
                let word = dfa.match_pattern(state, index).as_usize();
                let end = at + 1;
                look(self.triggers[word], end - self.list[word].len(), end);
            }
        }
    }
}

/// Returns the end of the placeholder at `at`; only our own rules produce one.
pub(crate) fn placeholder_at(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?.strip_prefix(OPENING)?;
    let length = rest.iter().take(40).position(|byte| *byte == b']')?;
    let rule = std::str::from_utf8(&rest[..length]).ok()?;
    words().rules.binary_search(&rule).ok()?;
    Some(at + OPENING.len() + length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_automata_find_the_same() {
        let words = words();
        let fast = fast(&words.list);
        let mut text = String::from("-----BEGIN x Authorization: bearer ://user eyJ password=");
        for word in &words.list {
            text.push_str(word);
            text.push_str(&word.to_uppercase());
            text.push(' ');
        }
        let light: Vec<_> = words
            .light
            .find_overlapping_iter(&text)
            .map(|hit| {
                let trigger = words.triggers[hit.pattern().as_usize()];
                (format!("{trigger:?}"), hit.start(), hit.end())
            })
            .collect();
        assert!(light.len() > words.list.len());
        let mut found = Vec::new();
        words.each_fast(&fast, text.as_bytes(), &mut |trigger, start, end| {
            found.push((format!("{trigger:?}"), start, end));
        });
        assert_eq!(light, found);
    }
}
