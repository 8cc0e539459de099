//! Comments woven into git's diff, line by line as it comes: under the line they are about, and those without a line at
//! the end of their file or of the diff.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::git::diff::Delta;
use crate::git::{ObjectId, ObjectKind};
use crate::model::review::Side;
use crate::model::review::path::unquote;
use crate::output::{Ui, cannot_write};
use crate::review::anchors::{Placed, Spot};

use crate::output::review::emphasis::{Escapes, differing};
use crate::output::review::threads::Look;
use crate::review::diff_text::outline::{self, Hunk, Outline};

/// Longer changes are shown at once, without a search for changes within lines.
const LONGEST_RUN: usize = 200;
/// Larger files are not compared with their lines in the diff.
const FILE_LIMIT: u64 = 16 << 20;

/// How the diff is shown.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Whether it goes to a screen, where foreign text must not steer anything.
    pub on_screen: bool,
    /// Whether git colours it: then some escapes are its own.
    pub colored: bool,
    /// Whether changes within a line are emphasised.
    pub emphasis: bool,
    /// Whether changed words are shown within lines, so that lines do not begin with a sign.
    pub words: bool,
}

type Key = (Side, u32);

/// The lines of a file.
struct Lines {
    text: Vec<u8>,
    /// Where each begins, and where the last one ends.
    bounds: Vec<usize>,
}

impl Lines {
    fn new(text: Vec<u8>) -> Self {
        let after = |(at, byte): (usize, &u8)| (*byte == b'\n').then_some(at + 1);
        let mut bounds = vec![0];
        bounds.extend(text.iter().enumerate().filter_map(after));
        if bounds.last() != Some(&text.len()) {
            bounds.push(text.len());
        }
        Lines { text, bounds }
    }

    /// Returns a line by its number, from 1, without its end.
    fn get(&self, number: u32) -> Option<&[u8]> {
        let at = (number as usize).checked_sub(1)?;
        let line = &self.text[*self.bounds.get(at)?..*self.bounds.get(at + 1)?];
        Some(bare(line.strip_suffix(b"\n").unwrap_or(line)))
    }
}

/// Writes a diff with its comments.
pub struct Weaver<'a, 'r> {
    context: &'a Context<'a>,
    ui: &'a Ui,
    look: Look<'a>,
    manner: Manner,
    escapes: Escapes,
    /// How many bytes git puts before both names of a file.
    prefixes: usize,
    /// Files of which something else than their own lines is shown.
    converted: HashSet<Vec<u8>>,
    /// The headings to come, when lines do not begin with a sign.
    outline: Option<Outline>,
    /// Threads by file, then by side and last line; line 0 is the whole file.
    waiting: HashMap<Vec<u8>, BTreeMap<Key, Vec<&'a Placed<'r>>>>,
    /// The files of the diff, as git announced them.
    deltas: Vec<Delta>,
    next: usize,
    in_patch: bool,
    file: Option<File<'a, 'r>>,
    hunk: Option<Hunk>,
    run: Vec<Held>,
}

/// The file that is being shown.
struct File<'a, 'r> {
    path: Vec<u8>,
    waiting: BTreeMap<Key, Vec<&'a Placed<'r>>>,
    /// The lines of both sides, to be sure that a line is the one that was meant.
    texts: (Option<Lines>, Option<Lines>),
}

/// A line that waits for the rest of its change.
struct Held {
    line: Vec<u8>,
    text: Vec<u8>,
    /// The comments under it.
    below: String,
}

impl<'a, 'r> Weaver<'a, 'r> {
    /// Prepares weaving threads into the diff of two trees.
    pub fn new(
        context: &'a Context<'a>,
        ui: &'a Ui,
        placed: &'a [Placed<'r>],
        manner: Manner,
    ) -> Self {
        let mut waiting: HashMap<Vec<u8>, BTreeMap<Key, Vec<&Placed<'_>>>> = HashMap::new();
        for placed in placed {
            let (path, key) = match &placed.spot {
                Spot::File { path, side } => (path, (*side, 0)),
                Spot::Lines {
                    path, side, last, ..
                } => (path, (*side, *last)),
                _ => continue,
            };
            let file = waiting.entry(path.clone()).or_default();
            file.entry(key).or_default().push(placed);
        }
        let config = |key: &str| context.repo.config_string(key);
        Weaver {
            context,
            ui,
            look: Look {
                palette: ui.palette(),
                now: context.env.now(),
            },
            manner,
            escapes: if manner.colored {
                Escapes::of(&config)
            } else {
                Escapes::default()
            },
            prefixes: outline::prefixes(&config),
            converted: HashSet::new(),
            outline: None,
            waiting,
            deltas: Vec::new(),
            next: 0,
            in_patch: false,
            file: None,
            hunk: None,
            run: Vec::new(),
        }
    }

    /// Says of which files something else than their own lines is shown: no comment is put between those.
    pub fn set_converted(&mut self, converted: HashSet<Vec<u8>>) {
        self.converted = converted;
    }

    /// Says what the same diff looks like with signs before its lines, for one without.
    pub fn set_outline(&mut self, outline: Outline) {
        self.outline = Some(outline);
    }

    /// Returns the files of the diff, once git has announced them.
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    /// Returns whether a line of git's output begins a file; only where lines have a sign before them.
    pub fn is_heading(&self, line: &[u8]) -> bool {
        self.escapes.strip(line).starts_with(outline::HEADING)
    }

    /// Takes the next line of git's output.
    pub fn line(&mut self, line: &[u8]) -> Result<()> {
        if !self.in_patch {
            match line {
                b"\n" => {
                    self.in_patch = true;
                    return Ok(());
                }
                line if line.starts_with(b":") => {
                    let line = line.strip_suffix(b"\n").unwrap_or(line);
                    let plain = |path: &[u8]| unquote(path).unwrap_or_else(|| path.to_vec());
                    self.deltas.extend(self.context.repo.raw_line(line, &plain));
                    return Ok(());
                }
                // A program of the user's own stands in for git's diff: its lines mean nothing here.
                _ => self.in_patch = true,
            }
        }
        if self.waiting.is_empty() && self.file.is_none() && !self.manner.emphasis {
            return self.put(line);
        }
        let text = self.escapes.strip(line);
        match self.hunk.take() {
            Some(hunk) if !self.manner.words => self.in_hunk(hunk, line, text),
            _ => self.outside(line, &text),
        }
    }

    /// Takes a line that belongs to no hunk.
    fn outside(&mut self, line: &[u8], text: &[u8]) -> Result<()> {
        // Without signs the text of a file can look like a heading.
        if let Some(outline) = &mut self.outline
            && !outline.is_next(text)
        {
            return self.put(line);
        }
        if text.starts_with(outline::HEADING) {
            self.end_file()?;
            self.begin_file(text)?;
            return self.put(line);
        }
        if let Some(rest) = text.strip_prefix(outline::SUBMODULE) {
            self.begin_log(rest)?;
            return self.put(line);
        }
        if let Some(hunk) = text.strip_prefix(b"@@ -").and_then(Hunk::parse) {
            self.put(line)?;
            if self.manner.words {
                // Lines cannot be told apart here, so the comments of the hunk come before it.
                let below = self.take(&|(side, line)| hunk.contains(*side, *line));
                return self.put_clean(below.as_bytes());
            }
            self.hunk = Some(hunk);
            return Ok(());
        }
        self.put(line)
    }

    /// Takes a line of a hunk.
    fn in_hunk(&mut self, mut hunk: Hunk, line: &[u8], text: Vec<u8>) -> Result<()> {
        let sign = text.first().copied().unwrap_or(b' ');
        let content = text.get(1..).unwrap_or_default();
        let mut below = String::new();
        if let Some((old, new)) = hunk.step(&text) {
            if let Some(old) = old {
                below = self.under((Side::Old, old), content);
            }
            if let Some(new) = new {
                below += &self.under((Side::New, new), content);
            }
        }
        let over = hunk.is_over();
        if !over {
            self.hunk = Some(hunk);
        }
        if !self.manner.emphasis {
            self.put(line)?;
            return self.put_clean(below.as_bytes());
        }
        let held = Held {
            line: self.clean(line),
            text,
            below,
        };
        if matches!(sign, b'-' | b'+') {
            // A change begins with deleted lines; added lines alone need no comparing.
            let begins = self
                .run
                .last()
                .is_none_or(|last| last.text.starts_with(b"+"))
                && sign == b'-';
            if begins {
                self.flush()?;
            }
            if !self.run.is_empty() || sign == b'-' {
                self.run.push(held);
                if self.run.len() > LONGEST_RUN || over {
                    self.flush()?;
                }
                return Ok(());
            }
        } else {
            self.flush()?;
        }
        self.put_clean(&held.line)?;
        self.put_clean(held.below.as_bytes())
    }

    /// Writes the buffered change, with its differences within lines.
    fn flush(&mut self) -> Result<()> {
        let mut run = std::mem::take(&mut self.run);
        let gone = run
            .iter()
            .take_while(|held| held.text.starts_with(b"-"))
            .count();
        if gone > 0 && run.len() == gone * 2 {
            for index in 0..gone {
                let text = |held: &Held| {
                    self.escapes
                        .strip_shown(&held.line)
                        .get(1..)
                        .map(<[u8]>::to_vec)
                };
                let (one, other) = (text(&run[index]), text(&run[gone + index]));
                let (one, other) = (one.unwrap_or_default(), other.unwrap_or_default());
                if let Some((from, to_one, to_other)) = differing(&one, &other) {
                    let one = self
                        .escapes
                        .reversed(&run[index].line, from + 1, to_one + 1);
                    let other =
                        self.escapes
                            .reversed(&run[gone + index].line, from + 1, to_other + 1);
                    run[index].line = one;
                    run[gone + index].line = other;
                }
            }
        }
        for held in run {
            self.put_clean(&held.line)?;
            self.put_clean(held.below.as_bytes())?;
        }
        Ok(())
    }

    /// Returns the comments under a line, if it is the line that they mean.
    fn under(&mut self, key: Key, content: &[u8]) -> String {
        let Some(file) = &mut self.file else {
            return String::new();
        };
        if !file.waiting.contains_key(&key) {
            return String::new();
        }
        let text = match key.0 {
            Side::Old => &file.texts.0,
            Side::New => &file.texts.1,
        };
        let meant = text.as_ref().and_then(|lines| lines.get(key.1));
        // The output of a textconv filter has other lines than the file.
        if meant != Some(bare(content)) {
            return String::new();
        }
        let found = file.waiting.remove(&key).unwrap_or_default();
        self.blocks(&found)
    }

    fn blocks(&self, threads: &[&Placed<'_>]) -> String {
        threads
            .iter()
            .map(|placed| self.look.block(placed, range(placed).as_deref()))
            .collect()
    }

    /// Takes the threads of the current file that a test wants.
    fn take(&mut self, wanted: &dyn Fn(&Key) -> bool) -> String {
        let Some(file) = &mut self.file else {
            return String::new();
        };
        if self.converted.contains(&file.path) {
            return String::new();
        }
        let keys: Vec<Key> = file
            .waiting
            .keys()
            .copied()
            .filter(|key| key.1 > 0 && wanted(key))
            .collect();
        let found: Vec<_> = keys
            .iter()
            .filter_map(|key| file.waiting.remove(key))
            .flatten()
            .collect();
        let block = |placed: &&Placed<'_>| self.look.block(placed, Some(&Look::place(placed)));
        found.iter().map(block).collect()
    }

    /// Begins a submodule whose commits are shown instead of the change of its line: what belongs to it comes after those.
    fn begin_log(&mut self, rest: &[u8]) -> Result<()> {
        let coming = &self.deltas[self.next.min(self.deltas.len())..];
        let is_this = |delta: &Delta| {
            let after = rest.strip_prefix(delta.path.as_slice());
            delta.is_submodule() && after.is_some_and(|after| after.starts_with(b" "))
        };
        let Some(found) = coming.iter().position(is_this) else {
            return Ok(());
        };
        let path = coming[found].path.clone();
        self.end_file()?;
        self.next += found + 1;
        self.file = Some(File {
            waiting: self.waiting.remove(&path).unwrap_or_default(),
            texts: (None, None),
            path,
        });
        Ok(())
    }

    fn begin_file(&mut self, header: &[u8]) -> Result<()> {
        // What git shows in another way (a submodule's log) has no such header: skip to the one that fits.
        let coming = &self.deltas[self.next.min(self.deltas.len())..];
        let exactly = |delta: &Delta| outline::names(header, delta, Some(self.prefixes));
        let found = coming.iter().position(exactly).or_else(|| {
            coming
                .iter()
                .position(|delta| outline::names(header, delta, None))
        });
        let Some(found) = found else {
            self.file = None;
            return Ok(());
        };
        let delta = self.deltas[self.next + found].clone();
        // A file that becomes a link is shown twice, once going and once coming.
        let again = delta.status == 'T'
            && self
                .file
                .as_ref()
                .is_none_or(|file| file.path != delta.path);
        self.next += found + usize::from(!again);
        let mut waiting = self.waiting.remove(&delta.path).unwrap_or_default();
        if delta.old_path != delta.path
            && let Some(old) = self.waiting.get_mut(&delta.old_path)
        {
            let moved: Vec<Key> = old
                .keys()
                .copied()
                .filter(|(side, _)| *side == Side::Old)
                .collect();
            for key in moved {
                waiting
                    .entry(key)
                    .or_default()
                    .extend(old.remove(&key).unwrap_or_default());
            }
            if old.is_empty() {
                self.waiting.remove(&delta.old_path);
            }
        }
        let texts = if waiting.is_empty() || self.converted.contains(&delta.path) {
            (None, None)
        } else {
            (self.text(delta.old_id), self.text(delta.new_id))
        };
        self.file = Some(File {
            path: delta.path,
            waiting,
            texts,
        });
        Ok(())
    }

    fn text(&self, id: Option<ObjectId>) -> Option<Lines> {
        let repo = self.context.repo;
        let text = repo.read_object(id?, ObjectKind::Blob, FILE_LIMIT).ok()?;
        Some(Lines::new(text))
    }

    /// Ends a file: writes its comments that have no line.
    pub fn end_file(&mut self) -> Result<()> {
        self.flush()?;
        self.hunk = None;
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        // Shown in two parts: the rest comes with the second.
        let shown_again = self
            .deltas
            .get(self.next)
            .is_some_and(|delta| delta.status == 'T' && delta.path == file.path);
        if shown_again {
            self.waiting.insert(file.path.clone(), file.waiting);
            self.file = Some(File {
                path: file.path,
                waiting: BTreeMap::new(),
                texts: (None, None),
            });
            return Ok(());
        }
        for placed in file.waiting.values().flatten() {
            let text = self.look.block(placed, Some(&Look::place(placed)));
            self.put_clean(text.as_bytes())?;
        }
        Ok(())
    }

    /// Writes a line outside of a patch.
    pub fn plain(&self, line: &[u8]) -> Result<()> {
        self.put(line)
    }

    /// Ends the diff of a part: comments on other files are left out.
    pub fn end(&mut self) -> Result<()> {
        self.end_file()?;
        // A program of the user's own shows files without a heading of git's.
        let deltas = &self.deltas;
        self.waiting.retain(|path, threads| {
            threads.retain(|(side, _), _| {
                let is_shown = |delta: &Delta| {
                    delta.path == *path || (*side == Side::Old && delta.old_path == *path)
                };
                deltas.iter().any(is_shown)
            });
            !threads.is_empty()
        });
        self.finish()
    }

    /// Ends the diff: comments on files that are not in it come last.
    pub fn finish(&mut self) -> Result<()> {
        self.end_file()?;
        let mut left: Vec<_> = std::mem::take(&mut self.waiting).into_iter().collect();
        left.sort_by(|one, other| one.0.cmp(&other.0));
        for placed in left
            .iter()
            .flat_map(|(_, threads)| threads.values().flatten())
        {
            let text = self.look.block(placed, Some(&Look::place(placed)));
            self.put_clean(text.as_bytes())?;
        }
        Ok(())
    }

    fn put(&self, line: &[u8]) -> Result<()> {
        if self.manner.on_screen {
            self.put_clean(&self.escapes.clean(line))
        } else {
            self.put_clean(&self.escapes.colored(line))
        }
    }

    fn clean(&self, line: &[u8]) -> Vec<u8> {
        if self.manner.on_screen {
            self.escapes.clean(line)
        } else {
            self.escapes.colored(line)
        }
    }

    fn put_clean(&self, text: &[u8]) -> Result<()> {
        self.ui.out().write_all(text).context(cannot_write)
    }
}

fn bare(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns a heading for a thread on several lines.
fn range(placed: &Placed<'_>) -> Option<String> {
    match &placed.spot {
        Spot::Lines { first, last, .. } if first != last => Some(format!("lines {first}-{last}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_number() {
        let lines = Lines::new(b"one\r\n\nthree".to_vec());
        let all = [1, 2, 3].map(|number| lines.get(number));
        assert_eq!(all, [Some(&b"one"[..]), Some(b""), Some(b"three")]);
        assert_eq!((lines.get(0), lines.get(4)), (None, None));
        let ended = Lines::new(b"one\n".to_vec());
        assert_eq!((ended.get(1), ended.get(2)), (Some(&b"one"[..]), None));
        assert_eq!(Lines::new(Vec::new()).get(1), None);
    }
}
