//! The outline of git's diff: its headings, its hunks, and the file of each heading.

use std::collections::VecDeque;

use crate::error::Result;
use crate::git::Git;
use crate::git::diff::Delta;
use crate::model::review::Side;

/// The way a file's heading begins.
pub const HEADING: &[u8] = b"diff --git ";
/// The way a submodule's begins where its commits are shown.
pub const SUBMODULE: &[u8] = b"Submodule ";

/// Where in a hunk the next line is.
#[derive(Debug)]
pub struct Hunk {
    old: u32,
    new: u32,
    old_left: u32,
    new_left: u32,
}

impl Hunk {
    /// Reads what follows `@@ -`.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(&text[..text.len().min(80)])
            .or_else(|error| std::str::from_utf8(&text[..error.valid_up_to()]));
        let (old, rest) = text.ok()?.split_once(" +")?;
        let (new, _) = rest.split_once(" @@")?;
        let numbers = |text: &str| -> Option<(u32, u32)> {
            match text.split_once(',') {
                Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
                None => Some((text.parse().ok()?, 1)),
            }
        };
        let ((old, old_left), (new, new_left)) = (numbers(old)?, numbers(new)?);
        Some(Hunk {
            old,
            new,
            old_left,
            new_left,
        })
    }

    /// Moves past a line, and returns its numbers before and after the change; `None` for remarks of git's.
    pub fn step(&mut self, line: &[u8]) -> Option<(Option<u32>, Option<u32>)> {
        // An empty line is a common line whose blank was left out.
        let (old, new) = match line.first() {
            Some(b'-') => (true, false),
            Some(b'+') => (false, true),
            Some(b' ') | None => (true, true),
            Some(_) => return None,
        };
        let numbers = (old.then_some(self.old), new.then_some(self.new));
        self.old += u32::from(old);
        self.new += u32::from(new);
        self.old_left = self.old_left.saturating_sub(u32::from(old));
        self.new_left = self.new_left.saturating_sub(u32::from(new));
        Some(numbers)
    }

    /// Returns whether a line that is still to come is in it.
    pub fn contains(&self, side: Side, line: u32) -> bool {
        match side {
            Side::Old => (self.old..self.old + self.old_left).contains(&line),
            Side::New => (self.new..self.new + self.new_left).contains(&line),
        }
    }

    /// Returns whether all its lines were seen.
    pub fn is_over(&self) -> bool {
        self.old_left == 0 && self.new_left == 0
    }
}

/// The headings of files and hunks of a diff, in order.
#[derive(Debug, Default)]
pub struct Outline(VecDeque<Vec<u8>>);

impl Outline {
    /// Reads them from a diff without colours in which every line has its sign, so that none is mistaken.
    pub fn read(program: Git) -> Result<Self> {
        let mut headings = VecDeque::new();
        let mut hunk: Option<Hunk> = None;
        program.lines(&mut |line| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            match &mut hunk {
                Some(inside) => {
                    inside.step(line);
                    if inside.is_over() {
                        hunk = None;
                    }
                }
                None => {
                    hunk = line.strip_prefix(b"@@ -").and_then(Hunk::parse);
                    if hunk.is_some() || line.starts_with(HEADING) {
                        headings.push_back(line.to_vec());
                    }
                    hunk = hunk.take().filter(|hunk| !hunk.is_over());
                }
            }
            Ok(true)
        })?;
        Ok(Outline(headings))
    }

    /// Returns whether a line is the heading that comes next, and goes past it if so.
    pub fn is_next(&mut self, line: &[u8]) -> bool {
        let is = self.0.front().is_some_and(|next| next == line);
        if is {
            self.0.pop_front();
        }
        is
    }
}

/// Returns how many bytes git puts before the two names of a file together: `a/` and `b/`, unless told otherwise.
pub fn prefixes(config: &dyn Fn(&str) -> Option<String>) -> usize {
    let none = config("diff.noprefix").is_some_and(|value| {
        !matches!(
            value.to_ascii_lowercase().as_str(),
            "false" | "no" | "off" | "0"
        )
    });
    if none {
        return 0;
    }
    let length = |key: &str| config(key).map_or(2, |prefix| prefix.len());
    length("diff.srcPrefix") + length("diff.dstPrefix")
}

/// Returns whether a heading is about a file. Where it is not known how many bytes stand before the names, the end of the
/// heading must do.
pub fn names(heading: &[u8], delta: &Delta, prefixes: Option<usize>) -> bool {
    // Names with odd characters are quoted, in more than one way.
    if heading.ends_with(b"\"") {
        return prefixes.is_none();
    }
    let ends = heading.ends_with(&delta.path);
    let Some(prefixes) = prefixes else {
        return ends || heading.ends_with(&delta.old_path);
    };
    let length = HEADING.len() + delta.old_path.len() + 1 + delta.path.len() + prefixes;
    ends && heading.len() == length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(old: &str, new: &str) -> Delta {
        Delta {
            status: 'M',
            old_mode: 0,
            new_mode: 0,
            old_id: None,
            new_id: None,
            old_path: old.into(),
            path: new.into(),
        }
    }

    #[test]
    fn headings_name_their_files() {
        let heading = b"diff --git a/lib/b b/lib/b";
        assert!(names(heading, &delta("lib/b", "lib/b"), Some(4)));
        assert!(!names(heading, &delta("b", "b"), Some(4)));
        assert!(names(heading, &delta("b", "b"), None));
        assert!(names(b"diff --git x y", &delta("x", "y"), Some(0)));
        assert!(names(b"diff --git a/x b/y", &delta("x", "y"), Some(4)));
        assert!(!names(
            b"diff --git \"a/\\303\" \"b/\\303\"",
            &delta("x", "y"),
            Some(4)
        ));
    }

    #[test]
    fn prefixes_are_as_configured() {
        let with = |key: &'static str, value: &'static str| {
            prefixes(&|asked| (asked == key).then(|| value.to_owned()))
        };
        assert_eq!(prefixes(&|_| None), 4);
        assert_eq!(with("diff.noprefix", "true"), 0);
        assert_eq!(with("diff.noprefix", "false"), 4);
        assert_eq!(with("diff.srcPrefix", "before/"), 9);
    }

    #[test]
    fn only_the_next_heading_counts() {
        let mut outline = Outline(VecDeque::from([b"one".to_vec(), b"two".to_vec()]));
        assert!(!outline.is_next(b"two"));
        assert!(outline.is_next(b"one"));
        assert!(!outline.is_next(b"one"));
        assert!(outline.is_next(b"two"));
        assert!(!outline.is_next(b""));
    }
}
