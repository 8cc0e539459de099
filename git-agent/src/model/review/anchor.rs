//! Finds commented lines again after the code around them changed, by their text and their surroundings, never by their
//! number. An uncertain match counts as none: a comment on the wrong line is worse than a comment that is shown with
//! its original code.
//!
//! Lines that occur once in both versions are found anywhere if they are too long to match by chance. Shorter ones also
//! need a neighbour that is more than a brace, or a line near them in the same order. Lines that occur several times (a
//! lone brace) are found together with their neighbours, if that block occurs once in both versions and the neighbours
//! of the match do not belong to another occurrence.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Letters and digits that make a line more than decoration.
const TELLING: usize = 4;
/// Letters and digits that no line has by chance, so that it may have moved anywhere. `size_t length = 0;` has 13, and
/// occurs in unrelated functions.
const UNMISTAKABLE: usize = 17;
/// The same for lines together with their neighbours.
const UNMISTAKABLE_TOGETHER: usize = 12;
/// The distance within which a line helps to locate others.
const NEAR: usize = 3;
/// The numbers of lines before and after that are tried, in this order.
const WINDOWS: [(usize, usize); 11] = [
    (1, 1),
    (2, 1),
    (1, 2),
    (2, 2),
    (3, 3),
    (1, 0),
    (0, 1),
    (2, 0),
    (0, 2),
    (3, 0),
    (0, 3),
];

/// How much of the earlier version is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The whole file.
    Whole,
    /// Only some lines around the commented ones; all of them must occur again.
    Excerpt,
}

/// Two versions of a file, prepared for locating any number of lines.
#[derive(Debug)]
pub struct Versions {
    known: Known,
    before: Side,
    after: Side,
    /// Lines that occur once in both versions, in the order of both.
    order: Vec<(usize, usize)>,
}

#[derive(Debug)]
struct Side {
    lines: Vec<u32>,
    /// The number of letters and digits in each line.
    weights: Vec<usize>,
    places: HashMap<u32, Vec<usize>>,
}

impl Side {
    fn new<'l>(numbers: &mut HashMap<&'l [u8], u32>, text: &[&'l [u8]]) -> Self {
        let text: Vec<&[u8]> = text.iter().map(|line| bare(line)).collect();
        let weights = text.iter().map(|line| weight(line)).collect();
        let lines = numbered(numbers, &text);
        let mut places: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, line) in lines.iter().enumerate() {
            places.entry(*line).or_default().push(at);
        }
        Side {
            lines,
            weights,
            places,
        }
    }

    /// Returns the positions of a block of lines, at most two of them.
    fn find(&self, wanted: &[u32]) -> Vec<usize> {
        let Some(first) = wanted.first() else {
            return Vec::new();
        };
        let starts = self.places.get(first).map_or(&[][..], Vec::as_slice);
        starts
            .iter()
            .copied()
            .filter(|at| self.lines[*at..].starts_with(wanted))
            .take(2)
            .collect()
    }

    fn only(&self, wanted: &[u32]) -> Option<usize> {
        match self.find(wanted).as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// Returns a block with some lines before and after it, and its number of letters and digits, if these are enough
    /// to distinguish it.
    fn window(&self, lines: Range<usize>, above: usize, below: usize) -> Option<(&[u32], usize)> {
        let window = lines.start.checked_sub(above)?..lines.end + below;
        let text = self.lines.get(window.clone())?;
        let weight: usize = self.weights[window].iter().sum();
        (weight >= TELLING).then_some((text, weight))
    }
}

impl Versions {
    /// Prepares two versions, given as lines. A trailing carriage return does not count.
    pub fn new(known: Known, before: &[&[u8]], after: &[&[u8]]) -> Self {
        let mut numbers: HashMap<&[u8], u32> = HashMap::new();
        let before = Side::new(&mut numbers, before);
        let after = Side::new(&mut numbers, after);
        let mut pairs: Vec<(usize, usize)> = before
            .places
            .iter()
            .filter_map(|(line, places)| {
                match (places.as_slice(), after.places.get(line)?.as_slice()) {
                    ([one], [other]) => Some((*one, *other)),
                    _ => None,
                }
            })
            .collect();
        pairs.sort_unstable();
        Versions {
            known,
            order: rising(&pairs),
            before,
            after,
        }
    }

    /// Returns the position in the later version of `count` lines from `start` of the earlier one (both from 0).
    /// Returns `None` if they are gone, or if their position is ambiguous.
    pub fn find(&self, start: usize, count: usize) -> Option<usize> {
        let end = start.checked_add(count)?;
        let block = self
            .before
            .lines
            .get(start..end)
            .filter(|block| !block.is_empty())?;
        let weight: usize = self.before.weights[start..end].iter().sum();
        if self.known == Known::Whole
            && weight >= TELLING
            && self.before.only(block).is_some()
            && let Some(at) = self.after.only(block)
        {
            let in_order = self.is_in_order(start, end, at);
            let neighbour = self.neighbour(start, end, at);
            // Every line may have a brace as neighbour, so a brace counts only where nothing was moved.
            let trusted = weight >= UNMISTAKABLE
                || neighbour.is_some_and(|weight| weight >= TELLING || in_order)
                || in_order && self.is_near(start, end, at);
            return trusted.then_some(at);
        }
        if self.known == Known::Excerpt {
            // An excerpt cannot show whether a smaller block was unique.
            return self.find_window(start, end, start, self.before.lines.len() - end);
        }
        let mut found = None;
        for (above, below) in WINDOWS {
            let Some(at) = self.find_window(start, end, above, below) else {
                continue;
            };
            match found {
                None => found = Some(at),
                Some(known) if known == at => {}
                // The lines before and those after disagree.
                Some(_) => return None,
            }
        }
        found.filter(|at| !self.belongs_elsewhere(start, *at, count))
    }

    /// Returns whether the neighbours of lines in the later version show that they are not those from `start` of the
    /// earlier one. After a deletion, the next similar lines stand beside the old neighbours.
    fn belongs_elsewhere(&self, start: usize, at: usize, count: usize) -> bool {
        WINDOWS.iter().any(|(above, below)| {
            let window = self.after.window(at..at + count, *above, *below);
            let before = window.and_then(|(window, _)| {
                self.after.only(window)?;
                self.before.only(window)
            });
            before.is_some_and(|before| before + above != start)
        })
    }

    /// Locates a block together with some lines before and after it.
    fn find_window(&self, start: usize, end: usize, above: usize, below: usize) -> Option<usize> {
        let (window, weight) = self.before.window(start..end, above, below)?;
        self.before.only(window)?;
        let at = self.after.only(window)? + above;
        (weight >= UNMISTAKABLE_TOGETHER || self.is_in_order(start, end, at)).then_some(at)
    }

    /// Returns whether a block at its new position keeps its order among the unique lines.
    fn is_in_order(&self, start: usize, end: usize, at: usize) -> bool {
        let to = at + (end - start);
        let above = self.order.partition_point(|(before, _)| *before < start);
        let below = self.order.partition_point(|(before, _)| *before < end);
        let fits_above = above == 0 || self.order[above - 1].1 < at;
        let fits_below = self.order.get(below).is_none_or(|(_, after)| *after >= to);
        fits_above && fits_below
    }

    /// Returns whether a unique line is near both the old and the new position.
    fn is_near(&self, start: usize, end: usize, at: usize) -> bool {
        let to = at + (end - start);
        let first = self
            .order
            .partition_point(|(before, _)| *before < start.saturating_sub(NEAR));
        self.order[first..]
            .iter()
            .take_while(|(before, _)| *before < end + NEAR)
            .filter(|(before, _)| {
                !(start..end).contains(before) && self.before.weights[*before] >= TELLING
            })
            .any(|(_, after)| (at.saturating_sub(NEAR)..to + NEAR).contains(after))
    }

    /// Returns the number of letters and digits in the neighbours that the old and the new position share, or nothing
    /// if they share none.
    fn neighbour(&self, start: usize, end: usize, at: usize) -> Option<usize> {
        let same = |before: Option<usize>, after: Option<usize>| {
            let before = before?;
            let line = self.before.lines.get(before)?;
            (self.after.lines.get(after?) == Some(line)).then(|| self.before.weights[before])
        };
        let above = same(start.checked_sub(1), at.checked_sub(1));
        let below = same(Some(end), Some(at + (end - start)));
        match (above, below) {
            (Some(above), Some(below)) => Some(above + below),
            (one, other) => one.or(other),
        }
    }
}

fn bare(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the number of letters and digits in a line.
fn weight(line: &[u8]) -> usize {
    line.iter()
        .filter(|byte| byte.is_ascii_alphanumeric() || **byte >= 0x80)
        .count()
}

/// Gives equal lines equal numbers.
fn numbered<'l>(numbers: &mut HashMap<&'l [u8], u32>, lines: &[&'l [u8]]) -> Vec<u32> {
    lines
        .iter()
        .map(|line| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(line).or_insert(next)
        })
        .collect()
}

/// Returns a longest subsequence of pairs, sorted by their first halves, whose second halves rise too.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; pairs.len()];
    for (index, (_, value)) in pairs.iter().enumerate() {
        let place = tails.partition_point(|tail| pairs[*tail].1 < *value);
        before[index] = place.checked_sub(1).map(|place| tails[place]);
        match tails.get_mut(place) {
            Some(tail) => *tail = index,
            None => tails.push(index),
        }
    }
    let mut chain = Vec::with_capacity(tails.len());
    let mut next = tails.last().copied();
    while let Some(index) = next {
        chain.push(pairs[index]);
        next = before[index];
    }
    chain.reverse();
    chain
}

/// Returns whether most lines of a file are lines of another, so that it or a part of it moved there. Lines that start
/// every file are not enough.
pub fn is_made_of(before: &[&[u8]], after: &[&[u8]]) -> bool {
    let known: HashSet<&[u8]> = before.iter().map(|line| bare(line)).collect();
    let telling = || {
        let lines = after.iter().map(|line| bare(line));
        lines.filter(|line| weight(line) >= TELLING)
    };
    telling().filter(|line| known.contains(line)).count() * 2 > telling().count()
}

/// Splits a file into lines without their ends. A final newline does not start another line.
pub fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines
}
