//! Scans a text: examines every position that a word or a known value marks, and replaces the secrets.

use std::fmt;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::redact::detect::colors::Plain;
use crate::redact::detect::known::KnownSecrets;
use crate::redact::detect::rules::{RuleMatch, SHAPES};
use crate::redact::detect::words::{Trigger, placeholder_at, words};
use crate::redact::detect::{context, encoded, entropy, headers, pem, url, wrapped};
use crate::redact::text::{Class, starts_token};
use crate::redact::{KNOWN, OPENING};

/// A range of text that one rule matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    start: usize,
    layer: Layer,
    end: usize,
    rule: &'static str,
}

/// The certainty of a rule; where ranges overlap, the most certain one gives the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Known,
    Shape,
    Header,
    Name,
    Entropy,
}

/// Finds and replaces secrets.
pub(super) struct Scanner {
    values: KnownSecrets,
    known: Option<AhoCorasick>,
    forms: Vec<Vec<u8>>,
}

impl fmt::Debug for Scanner {
    // The automaton contains the secrets themselves, which must not be printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner")
            .field("known", &self.known.as_ref().map(AhoCorasick::patterns_len))
            .finish_non_exhaustive()
    }
}

/// The shortest value beside the name of a secret that counts in code.
const DRAWN: usize = 12;
/// How far back the start of a name is searched.
const NAME: usize = 64;
/// How often a text is scanned at most; the second time is nearly always the last.
const ROUNDS: usize = 16;

impl Scanner {
    pub(super) fn new(values: KnownSecrets) -> Self {
        let forms = values.forms();
        Scanner {
            values,
            known: (!forms.is_empty()).then(|| {
                AhoCorasick::builder()
                    .match_kind(MatchKind::LeftmostLongest)
                    .build(&forms)
                    .expect("the values of an environment fit an automaton")
            }),
            forms,
        }
    }

    pub(super) fn is_of(&self, values: &KnownSecrets) -> bool {
        self.values == *values
    }

    pub(super) fn knows(&self, value: &[u8]) -> bool {
        self.known
            .as_ref()
            .and_then(|known| known.find(value))
            .is_some_and(|found| found.range() == (0..value.len()))
    }

    /// Returns the text without its secrets, or nothing if it has none.
    pub(super) fn clean(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.clean_down_to(text, Layer::Entropy)
    }

    /// The same for the two most certain layers only.
    pub(super) fn clean_certain(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.clean_down_to(text, Layer::Shape)
    }

    /// Returns the rule by which code contains a secret. Code is full of names of secrets and of made-up values, so a
    /// value beside such a name counts only if it is random.
    pub(super) fn secret_in_code(&self, code: &[u8]) -> Option<&'static str> {
        let spans = self.spans(code, Layer::Entropy);
        let found = |span: &Span| {
            let value = &code[span.start..span.end];
            match span.layer {
                Layer::Known | Layer::Shape => Some(span.rule),
                Layer::Header | Layer::Name => {
                    entropy::looks_random(value, DRAWN).then_some(span.rule)
                }
                Layer::Entropy => self.shape_within(code, span),
            }
        };
        spans.iter().find_map(found)
    }

    /// The same for known values only.
    pub(super) fn known_in_code(&self, code: &[u8]) -> Option<&'static str> {
        let spans = self.spans(code, Layer::Known);
        spans.first().map(|span| span.rule)
    }

    /// Returns the rule of a provider's shape at the end of a longer name, as in `MY_ghp_…`.
    fn shape_within(&self, code: &[u8], span: &Span) -> Option<&'static str> {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let before = code[..span.start].iter().rev().take(NAME);
        let start = span.start - before.take_while(|byte| is_name(byte)).count();
        let name = &code[start..span.end];
        let joints = name.iter().enumerate().filter(|(_, byte)| **byte == b'_');
        joints
            .flat_map(|(at, _)| self.spans(&name[at + 1..], Layer::Shape))
            .map(|span| span.rule)
            .next()
    }

    fn clean_down_to(&self, text: &[u8], layer: Layer) -> Option<Vec<u8>> {
        let mut clean: Option<Vec<u8>> = None;
        // A removed secret may have hidden the start of another.
        for _ in 0..ROUNDS {
            let current = clean.as_deref().unwrap_or(text);
            let Some(next) = self.cut(current, layer) else {
                break;
            };
            clean = Some(next);
        }
        clean
    }

    /// Returns the last position up to `at` that is neither inside a secret nor after the possible start of one.
    pub(super) fn place_to_cut(&self, text: &[u8], at: usize) -> usize {
        let at = self.open_start(text).map_or(at, |start| at.min(start));
        let spans = self.spans(text, Layer::Entropy);
        let across = spans.iter().find(|span| span.start < at && at < span.end);
        across.map_or(at, |span| span.start)
    }

    /// Returns the start of a known value that the end of the text contains only in part.
    fn open_start(&self, text: &[u8]) -> Option<usize> {
        let longest = self.forms.iter().filter_map(|form| {
            let most = text.len().min(form.len().saturating_sub(1));
            (1..=most)
                .rev()
                .find(|length| text.ends_with(&form[..*length]))
        });
        longest.max().map(|length| text.len() - length)
    }

    fn cut(&self, text: &[u8], layer: Layer) -> Option<Vec<u8>> {
        let spans = self.spans(text, layer);
        if spans.is_empty() {
            return None;
        }
        let mut clean = Vec::with_capacity(text.len());
        let mut done = 0;
        for span in spans {
            clean.extend_from_slice(&text[done..span.start]);
            clean.extend_from_slice(OPENING);
            clean.extend_from_slice(span.rule.as_bytes());
            clean.push(b']');
            done = span.end;
        }
        clean.extend_from_slice(&text[done..]);
        Some(clean)
    }

    /// Returns the secrets in order, without overlaps.
    fn spans(&self, text: &[u8], layer: Layer) -> Vec<Span> {
        let (mut spans, placeholders) = self.find(text, layer);
        if let Some(plain) = Plain::of(text) {
            let (found, _) = self.find(&plain.text, Layer::Shape);
            let certain = found.into_iter().filter(|span| span.layer <= Layer::Shape);
            spans.extend(
                certain
                    .filter(|span| span.start < span.end)
                    .filter_map(|span| {
                        let (start, end) = plain.stood(span.start, span.end)?;
                        Some(Span { start, end, ..span })
                    }),
            );
        }
        spans.retain(|span| span.layer <= layer && span.start < span.end);
        merged(text, spans, &placeholders)
    }

    fn find(&self, text: &[u8], deepest: Layer) -> (Vec<Span>, Vec<(usize, usize)>) {
        let mut spans: Vec<Span> = Vec::new();
        let mut placeholders = Vec::new();
        if let Some(known) = &self.known {
            spans.extend(known.find_iter(text).map(|found| Span {
                start: found.start(),
                end: found.end(),
                layer: Layer::Known,
                rule: KNOWN,
            }));
        }
        let words = words();
        let mut walk = Walk {
            text,
            spans: &mut spans,
            placeholders: &mut placeholders,
            name_end: 0,
            pem_end: 0,
            jwt_end: 0,
            cookie_end: 0,
            program_ends: [0; headers::PROGRAMS.len()],
            shape_ends: Vec::new(),
        };
        words.each(text, &mut |trigger, start, end| {
            walk.look(trigger, start, end);
        });
        if deepest >= Layer::Entropy {
            entropy::scan(text, |start, end, rule| {
                spans.push(Span {
                    start,
                    end,
                    layer: Layer::Entropy,
                    rule,
                });
            });
        }
        (spans, placeholders)
    }
}

/// The state of one pass, so that nothing is examined twice.
struct Walk<'a> {
    text: &'a [u8],
    spans: &'a mut Vec<Span>,
    placeholders: &'a mut Vec<(usize, usize)>,
    name_end: usize,
    pem_end: usize,
    jwt_end: usize,
    cookie_end: usize,
    program_ends: [usize; headers::PROGRAMS.len()],
    /// Filled on first use: most texts need none, and clearing it for each would cost time.
    shape_ends: Vec<usize>,
}

impl Walk<'_> {
    fn add(&mut self, layer: Layer, (start, end, rule): (usize, usize, &'static str)) {
        self.spans.push(Span {
            start,
            layer,
            end,
            rule,
        });
    }

    fn look(&mut self, trigger: Trigger, start: usize, end: usize) {
        let text = self.text;
        match trigger {
            Trigger::Name => {
                if start >= self.name_end {
                    let beside = context::at(text, start, end);
                    self.name_end = beside.name_end;
                    if let Some(secret) = beside.secret {
                        self.add(Layer::Name, secret);
                    }
                }
            }
            Trigger::Shape(index, prefix) => {
                if self.shape_ends.get(index).is_some_and(|end| start < *end) {
                    return;
                }
                if let Some(end) = wrapped::at(text, prefix, start) {
                    self.add(Layer::Shape, (start, end, SHAPES[index].rule));
                }
                let looked = match SHAPES[index].at(text, prefix, start) {
                    RuleMatch::Token(from, to) => {
                        self.add(Layer::Shape, (from, to, SHAPES[index].rule));
                        to
                    }
                    RuleMatch::NothingBefore(place) => place,
                };
                if looked > start + 1 {
                    self.shape_ends.resize(SHAPES.len(), 0);
                    self.shape_ends[index] = looked;
                }
            }
            Trigger::Url => {
                if let Some(secret) = url::at(text, start) {
                    self.add(Layer::Header, secret);
                }
            }
            Trigger::Jwt => self.jwt(start),
            Trigger::Begin => self.pem(pem::begin(text, start)),
            Trigger::End if start >= self.pem_end => self.pem(pem::end(text, start)),
            Trigger::End => {}
            Trigger::Putty => self.pem(pem::putty(text, start)),
            Trigger::Encoded if start >= self.pem_end => self.pem(encoded::armour(text, start)),
            Trigger::OpenSsh if start >= self.pem_end => self.pem(encoded::openssh(text, start)),
            Trigger::Encoded | Trigger::OpenSsh => {}
            Trigger::Bearer => {
                if let Some(secret) = headers::bearer(text, end) {
                    self.add(Layer::Header, secret);
                }
            }
            Trigger::Basic => {
                if let Some(secret) = headers::basic(text, end) {
                    self.add(Layer::Header, secret);
                }
            }
            Trigger::Authorization => {
                if let Some(secret) = headers::authorization(text, end) {
                    self.add(Layer::Name, secret);
                }
            }
            Trigger::Cookie => {
                if start >= self.cookie_end {
                    let spans = &mut *self.spans;
                    self.cookie_end = headers::cookie(text, end, |(start, end, rule)| {
                        spans.push(Span {
                            start,
                            layer: Layer::Header,
                            end,
                            rule,
                        });
                    });
                }
            }
            Trigger::Program(index) => {
                if start >= self.program_ends[index] {
                    let (line_end, secret) = headers::program(text, start, index);
                    self.program_ends[index] = line_end;
                    if let Some(secret) = secret {
                        self.add(Layer::Header, secret);
                    }
                }
            }
            Trigger::Echo => {
                if let Some(secret) = headers::piped(text, start) {
                    self.add(Layer::Header, secret);
                }
            }
            Trigger::Placeholder => {
                if let Some(end) = placeholder_at(text, start) {
                    self.placeholders.push((start, end));
                }
            }
        }
    }

    fn pem(&mut self, found: Option<(usize, usize)>) {
        if let Some((start, end)) = found {
            self.pem_end = end;
            self.add(Layer::Shape, (start, end, pem::RULE));
        }
    }

    /// Three or five runs joined with dots, of which the first two decode to objects.
    fn jwt(&mut self, start: usize) {
        let text = self.text;
        if start < self.jwt_end || !text[start..].starts_with(b"eyJ") || !starts_token(text, start)
        {
            return;
        }
        let mut end = start;
        let mut parts = 0;
        loop {
            let length = Class::Dashed.run(&text[end..], usize::MAX);
            if length < 10 && !(length > 0 && parts > 1) {
                break;
            }
            parts += 1;
            end += length;
            if parts == 5 || text.get(end) != Some(&b'.') {
                break;
            }
            end += 1;
        }
        self.jwt_end = end;
        if text[..end].last() == Some(&b'.') {
            end -= 1;
        }
        // A header and claims without their signature still reveal a lot, and truncated tokens are common.
        if parts >= 3 || parts == 2 && end - start >= 40 {
            self.add(Layer::Shape, (start, end, "jwt"));
        }
    }
}

/// Joins overlapping ranges, excludes placeholders, and widens each range to whole characters.
fn merged(text: &[u8], mut spans: Vec<Span>, placeholders: &[(usize, usize)]) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        let span = widened(text, span);
        match joined.last_mut() {
            Some(last) if span.start < last.end => {
                last.end = last.end.max(span.end);
                if span.layer < last.layer {
                    last.layer = span.layer;
                    last.rule = span.rule;
                }
            }
            _ => joined.push(span),
        }
    }
    if placeholders.is_empty() {
        return joined;
    }
    let mut apart = Vec::with_capacity(joined.len());
    let mut next = 0;
    for span in joined {
        while next < placeholders.len() && placeholders[next].1 <= span.start {
            next += 1;
        }
        let mut start = span.start;
        let mut touched = false;
        for (from, to) in placeholders[next..]
            .iter()
            .take_while(|(from, _)| *from < span.end)
        {
            touched = true;
            if *from > start {
                apart.push((
                    Span {
                        start,
                        end: *from,
                        ..span
                    },
                    true,
                ));
            }
            start = *to;
        }
        if start < span.end {
            apart.push((Span { start, ..span }, touched));
        }
    }
    // Text next to a placeholder becomes another one only if it could be a secret by itself.
    apart
        .into_iter()
        .filter(|(span, touched)| !touched || span.end - span.start >= 8)
        .map(|(span, _)| span)
        .collect()
}

fn widened(text: &[u8], mut span: Span) -> Span {
    let inside = |at: usize| at < text.len() && text[at] & 0xc0 == 0x80;
    for _ in 0..3 {
        if span.start > 0 && inside(span.start) {
            span.start -= 1;
        }
        if inside(span.end) {
            span.end += 1;
        }
    }
    span
}
