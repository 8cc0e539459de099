//! Finding commented lines again after the code around them changed: by their text and their surroundings, never by
//! their number. What cannot be told for certain is not found, because a comment on the wrong line is worse than one that
//! is shown with the code it was about.
//!
//! Lines that occur once in both versions are found wherever they went if they are too long to be there by chance; shorter
//! ones if something next to them that is more than a brace, or near them and in the same order, is still there. Lines that occur several times (a
//! lone brace) are found by the lines next to them, if together they occur once in both versions, and if what is next to
//! the place that was found does not belong to another of them.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Letters and digits that make a line more than decoration.
const TELLING: usize = 4;
/// Letters and digits that are there by intent, so that lines may have moved anywhere. `size_t length = 0;` has 13, and stands
/// in functions that have nothing to do with each other.
const UNMISTAKABLE: usize = 17;
/// The same for lines together with those next to them.
const UNMISTAKABLE_TOGETHER: usize = 12;
/// How far away a line may be that tells where others belong.
const NEAR: usize = 3;
/// How many lines before and after are looked at, in this order.
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

/// How much of the earlier version is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// All of it.
    Whole,
    /// Only some lines around those that were commented on: all of them must be there again.
    Excerpt,
}

/// Two versions of a file, prepared for finding any number of lines.
#[derive(Debug)]
pub struct Versions {
    known: Known,
    before: Side,
    after: Side,
    /// Lines that occur once in both, in the order of both.
    order: Vec<(usize, usize)>,
}

#[derive(Debug)]
struct Side {
    lines: Vec<u32>,
    /// Letters and digits in each line.
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

    /// Returns where lines occur; more than two places are as good as two.
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

    /// Returns lines with some before and after them, and how many letters and digits these have, if they are enough to
    /// tell them from others.
    fn window(&self, lines: Range<usize>, above: usize, below: usize) -> Option<(&[u32], usize)> {
        let window = lines.start.checked_sub(above)?..lines.end + below;
        let text = self.lines.get(window.clone())?;
        let weight: usize = self.weights[window].iter().sum();
        (weight >= TELLING).then_some((text, weight))
    }
}

impl Versions {
    /// Prepares two versions, given as lines. A carriage return at the end of a line is no part of it.
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

    /// Returns where `count` lines from `start` (both counted from 0) of the earlier version are in the later one; `None`
    /// when they are gone, or when that cannot be told.
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
            // A lone brace is next to everything: it tells something only where nothing was moved.
            let trusted = weight >= UNMISTAKABLE
                || neighbour.is_some_and(|weight| weight >= TELLING || in_order)
                || in_order && self.is_near(start, end, at);
            return trusted.then_some(at);
        }
        if self.known == Known::Excerpt {
            // Whether fewer lines were there only once, nobody can tell.
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
                // The lines before say one thing, those after another.
                Some(_) => return None,
            }
        }
        found.filter(|at| !self.belongs_elsewhere(start, *at, count))
    }

    /// Returns whether lines of the later version are, by what is next to them, others than those from `start` of the
    /// earlier one: where those were deleted, the next ones that look alike come to stand beside what was beside them.
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

    /// Finds lines together with some before and after them.
    fn find_window(&self, start: usize, end: usize, above: usize, below: usize) -> Option<usize> {
        let (window, weight) = self.before.window(start..end, above, below)?;
        self.before.only(window)?;
        let at = self.after.only(window)? + above;
        (weight >= UNMISTAKABLE_TOGETHER || self.is_in_order(start, end, at)).then_some(at)
    }

    /// Returns whether lines at a new place stand in the same order among the lines that occur once as before.
    fn is_in_order(&self, start: usize, end: usize, at: usize) -> bool {
        let to = at + (end - start);
        let above = self.order.partition_point(|(before, _)| *before < start);
        let below = self.order.partition_point(|(before, _)| *before < end);
        let fits_above = above == 0 || self.order[above - 1].1 < at;
        let fits_below = self.order.get(below).is_none_or(|(_, after)| *after >= to);
        fits_above && fits_below
    }

    /// Returns whether a line that occurs once is near both the old and the new place.
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

    /// Returns how many letters and digits the lines next to the new place have that were next to the old place; nothing if
    /// there are none.
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

/// Returns how many letters and digits a line has.
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

/// Returns a longest part of pairs, sorted by their first halves, whose second halves rise too.
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

/// Returns whether most of a file's lines are lines of another: it, or a part of it, went there. What every file begins with
/// is not enough.
pub fn is_made_of(before: &[&[u8]], after: &[&[u8]]) -> bool {
    let known: HashSet<&[u8]> = before.iter().map(|line| bare(line)).collect();
    let telling = || {
        let lines = after.iter().map(|line| bare(line));
        lines.filter(|line| weight(line) >= TELLING)
    };
    telling().filter(|line| known.contains(line)).count() * 2 > telling().count()
}

/// Splits a file into lines, without their ends. A file that ends with a newline has no empty line after it.
pub fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines
}
