//! The threads on a form: separates the lines that the form showed under a box from the typed ones.

use std::collections::HashMap;

use crate::review::diff_text::form::reader::boxed;

/// A thread as a form showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    /// The name in its box.
    pub(super) name: String,
    /// How many lines with a bar stand above it.
    bars: usize,
    /// Its lines.
    says: Vec<String>,
}

/// Returns the threads of a form that nothing was typed into.
pub(super) fn shown(form: &str) -> Vec<Shown> {
    let mut threads: Vec<Shown> = Vec::new();
    let mut bars = 0;
    for line in form.lines() {
        if line.starts_with('|') {
            bars += 1;
        } else if let Some((_, rest)) = boxed(line) {
            threads.push(Shown {
                name: rest.split(' ').next().unwrap_or_default().to_owned(),
                bars,
                says: Vec::new(),
            });
        } else if let Some(thread) = threads.last_mut().filter(|_| line.starts_with('>')) {
            thread.says.push(line.to_owned());
        }
    }
    threads
}

/// Returns the text under a box, up to the next box or the next line of the diff. If the user deleted boxes below it,
/// their threads belong to that text.
pub(super) fn under(threads: &[Shown], at: usize, next: Option<usize>) -> Vec<&str> {
    let Some(first) = threads.get(at) else {
        return Vec::new();
    };
    let together = threads[at..]
        .iter()
        .take_while(|thread| thread.bars == first.bars)
        .count();
    let end = next.filter(|next| *next > at).unwrap_or(threads.len());
    threads[at..end.min(at + together)]
        .iter()
        .flat_map(|thread| &thread.says)
        .map(String::as_str)
        .collect()
}

/// Returns the text of the threads after this number of lines with a bar, up to the next box. Their own boxes were
/// deleted.
pub(super) fn boxless(threads: &[Shown], bars: usize, next: Option<usize>) -> Vec<&str> {
    match threads.iter().position(|thread| thread.bars == bars) {
        Some(first) if next.is_none_or(|next| next > first) => under(threads, first, next),
        _ => Vec::new(),
    }
}

/// Returns for each line whether it is one that was shown: each of those once and in order, wherever something was
/// typed between them, and some perhaps taken away.
pub(super) fn own(lines: &[&str], shown: &[&str]) -> Vec<bool> {
    let mut below = tally(lines);
    let mut coming = tally(shown);
    let mut rest = shown;
    let mut is_own = Vec::with_capacity(lines.len());
    for line in lines {
        take(&mut below, line);
        let at = rest.iter().position(|shown| shown == line);
        let at = at.filter(|at| are_gone(&rest[..*at], &below, &coming));
        is_own.push(at.is_some());
        if let Some(at) = at {
            rest[..=at]
                .iter()
                .for_each(|shown| take(&mut coming, shown));
            rest = &rest[at + 1..];
        }
    }
    is_own
}

/// Returns whether shown lines were deleted: then the text below has no more of them than the form shows below.
/// Otherwise the lines before them are a typed quote of something further down.
fn are_gone(passed: &[&str], below: &HashMap<&str, usize>, coming: &HashMap<&str, usize>) -> bool {
    let count = |tally: &HashMap<&str, usize>, line| tally.get(line).copied().unwrap_or(0);
    let mut gone = HashMap::new();
    passed.iter().copied().all(|line| {
        let gone = gone.entry(line).or_insert(0);
        *gone += 1;
        count(below, line) + *gone <= count(coming, line)
    })
}

/// Counts how often each line is there.
fn tally<'l>(lines: &[&'l str]) -> HashMap<&'l str, usize> {
    let mut tally = HashMap::new();
    for line in lines {
        *tally.entry(*line).or_insert(0) += 1;
    }
    tally
}

fn take(tally: &mut HashMap<&str, usize>, line: &str) {
    if let Some(count) = tally.get_mut(line) {
        *count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines that were typed.
    fn typed(lines: &str, shown: &str) -> String {
        let lines: Vec<&str> = lines.split(' ').collect();
        let shown: Vec<&str> = shown.split(' ').collect();
        let is_own = own(&lines, &shown);
        let typed = lines.iter().zip(is_own).filter(|(_, is_own)| !is_own);
        let typed: Vec<&str> = typed.map(|(line, _)| *line).collect();
        typed.join(" ")
    }

    #[test]
    fn each_line_that_was_shown_is_found_once() {
        for (lines, shown, wanted) in [
            ("a b", "a b", ""),
            ("1 a 2 b 3", "a b", "1 2 3"),
            // Quoted again below, and above.
            ("a b b 1", "a b", "b 1"),
            ("a b 1 a b 2", "a b", "1 a b 2"),
            ("b 1 a b", "a b", "b 1"),
            ("b 1 a b b", "a b b", "b 1"),
            // Taken away.
            ("b 1", "a b", "1"),
            ("a c 1", "a b c", "1"),
            ("1", "a b", "1"),
            // Lines that are equal, one of them taken away.
            ("a x x b x", "a x x b x", ""),
            ("a b x c", "a x b x c", ""),
            ("a x b c 1", "a x b x c", "1"),
            ("a x b x c x 1", "a x b x c", "x 1"),
            // Changed, which is typing.
            ("a B c", "a b c", "B"),
            // Taken away, and quoted above the rest.
            ("d 1 b c d", "a b c d", "d 1"),
        ] {
            assert_eq!(typed(lines, shown), wanted, "{lines} of {shown}");
        }
    }

    #[test]
    fn threads_without_their_box_are_known() {
        let form = "#: x\n[ ] aa here\n> 1\n| bar\n[ ] bb there\n> 2\n[ ] cc there\n> 3\n";
        let threads = shown(form);
        assert_eq!(under(&threads, 0, None), ["> 1"]);
        assert_eq!(under(&threads, 1, Some(2)), ["> 2"]);
        assert_eq!(under(&threads, 1, None), ["> 2", "> 3"]);
        assert_eq!(under(&threads, 2, Some(0)), ["> 3"]);
        let none: [&str; 0] = [];
        assert_eq!(boxless(&threads, 0, Some(0)), none);
        assert_eq!(boxless(&threads, 0, None), ["> 1"]);
        assert_eq!(boxless(&threads, 1, Some(2)), ["> 2"]);
        assert_eq!(boxless(&threads, 1, None), ["> 2", "> 3"]);
        assert_eq!(boxless(&threads, 2, None), none);
    }
}
