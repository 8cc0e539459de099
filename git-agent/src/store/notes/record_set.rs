//! The lines of a note, each one record, as a sorted set, so that a union of notes is a union of sets.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::redact::Redacted;
use crate::store::limits;

/// One record's line: ASCII JSON with sorted keys, without a newline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line(Vec<u8>);

impl Line {
    /// Returns the line of a record. Fails if the record is not an object or is too long.
    pub fn new(record: &Redacted<Value>) -> Result<Self> {
        if !record.get().is_object() {
            return Err(Error::fatal("a note record must be a JSON object"));
        }
        let line = record.to_line().into_inner();
        if line.len() > limits::NOTE_LINE {
            return Err(Error::fatal(format!(
                "record has {} bytes, more than the {} allowed",
                line.len(),
                limits::NOTE_LINE
            )));
        }
        Ok(Line(line.into_bytes()))
    }

    /// Returns how many bytes of a note the line takes.
    pub fn size(&self) -> usize {
        self.0.len() + 1
    }
}

/// All lines of one note, including unparsable ones: a write never drops lines that it does not understand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Lines(BTreeSet<Vec<u8>>);

impl Lines {
    /// Reads a note.
    pub fn parse(blob: &[u8]) -> Self {
        Lines(split(blob).into_iter().map(<[u8]>::to_vec).collect())
    }

    /// Returns the note: all lines with their ends, in byte order.
    pub fn to_blob(&self) -> Vec<u8> {
        let mut blob = Vec::with_capacity(self.0.iter().map(|line| line.len() + 1).sum());
        for line in &self.0 {
            blob.extend_from_slice(line);
            blob.push(b'\n');
        }
        blob
    }

    /// Adds a line. Returns whether it was new.
    pub fn insert(&mut self, line: &Line) -> bool {
        self.0.insert(line.0.clone())
    }

    /// Returns whether the note contains a line.
    pub fn has(&self, line: &[u8]) -> bool {
        self.0.contains(line)
    }

    /// Keeps only the wanted lines.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        self.0.retain(|line| keep(line));
    }

    /// Replaces the lines for which `change` returns others. Returns whether there were any.
    pub fn replace(&mut self, change: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> bool {
        let mut changed = false;
        let lines = std::mem::take(&mut self.0);
        for line in lines {
            match change(&line) {
                None => self.0.insert(line),
                Some(other) => {
                    changed = true;
                    self.0.insert(other)
                }
            };
        }
        changed
    }

    /// Adds the lines of another note whose records are not here in any form. Returns whether there were any.
    pub fn add_news(&mut self, other: Lines) -> bool {
        let known: BTreeSet<String> = self.0.iter().filter_map(|line| record_id(line)).collect();
        let mut grown = false;
        for line in other.0 {
            if !record_id(&line).is_some_and(|id| known.contains(&id)) {
                grown |= self.0.insert(line);
            }
        }
        grown
    }

    /// Adds all lines of another note.
    pub fn union(&mut self, other: Lines) {
        self.0.extend(other.0);
    }

    /// Returns whether the note has no lines.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the lines that can be records, sorted, and the problems of the others.
    pub fn readable(&self) -> (Vec<&str>, Vec<String>) {
        sort_out(self.0.iter().map(Vec::as_slice))
    }
}

/// Returns the lines of a note that can be records, sorted, without duplicates, and the problems of the others.
pub(super) fn readable(blob: &[u8]) -> (Vec<&str>, Vec<String>) {
    let mut lines = split(blob);
    // Our own writers always sort them.
    if !lines.is_sorted_by(|one, other| one < other) {
        lines.sort_unstable();
        lines.dedup();
    }
    sort_out(lines.into_iter())
}

/// Returns the lines of a note, without empty ones.
fn split(blob: &[u8]) -> Vec<&[u8]> {
    let is_line = |line: &&[u8]| !line.is_empty();
    match std::str::from_utf8(blob) {
        // Splitting a string is several times faster.
        Ok(text) => (text.split('\n').map(str::as_bytes))
            .filter(is_line)
            .collect(),
        Err(_) => (blob.split(|byte| *byte == b'\n'))
            .filter(is_line)
            .collect(),
    }
}

/// Returns the id of a line's record, if it has one.
fn record_id(line: &[u8]) -> Option<String> {
    let record: Value = serde_json::from_slice(line).ok()?;
    record.get("id")?.as_str().map(str::to_owned)
}

fn sort_out<'l>(lines: impl Iterator<Item = &'l [u8]>) -> (Vec<&'l str>, Vec<String>) {
    let mut good = Vec::with_capacity(lines.size_hint().0);
    let mut long = 0;
    let mut raw = 0;
    for line in lines {
        if line.len() > limits::NOTE_LINE {
            long += 1;
            continue;
        }
        // Checking all bytes is faster than stopping early.
        let plain = line
            .iter()
            .fold(true, |plain, byte| plain & (0x20..0x7f).contains(byte));
        match std::str::from_utf8(line) {
            Ok(text) if plain => good.push(text),
            _ => raw += 1,
        }
    }
    let mut bad = Vec::new();
    if long > 0 {
        let most = limits::NOTE_LINE;
        bad.push(format!("lines longer than {most} bytes: {long}"));
    }
    if raw > 0 {
        bad.push(format!("lines that are not plain ASCII: {raw}"));
    }
    (good, bad)
}
