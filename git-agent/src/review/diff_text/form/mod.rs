//! The whole diff as one form to type comments into, and reading it back.
//!
//! Lines of ours begin with a bar: `|=` a file, `|` a line of the diff with its numbers. Threads stand under their
//! line: a box with their id, then their comments quoted with `>`. Everything else was typed: under a line it is a
//! comment on it, under a thread an answer. A changed line of ours is an error, never a guess.

mod quotes;
mod reader;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use crate::model::review::Side;
use crate::model::review::authorship::shown;
use crate::model::review::path::to_text;
use crate::model::session::{Ulid, WriterId};
use crate::review::anchors::{Placed, Pointed, Spot};
use crate::review::diff_text::form::quotes::Shown;
use crate::review::diff_text::form::reader::Reader;
use crate::review::prompt;
use crate::review::records::short_id;

/// Makes foreign text visible as it is, so that an editor shows all of it.
pub type Escape = fn(&str) -> String;

/// The text at the top of a form.
const HELP: &str = "\
#: Type a comment under the line it is about; under a file's name, about the file; here, about the session.
#: Type an answer under a thread, or write [x] in its box to resolve it.
#: Lines with a bar, and these, are left as they are. An unchanged page changes nothing.
";
/// Marks a line of our own that is not read back.
const OURS: &str = "#:";
/// Marks a mistake that was found.
const MISTAKE: &str = "#! ";
/// How many ids the first line names: where the work began, its last commit, its files.
const IDS: usize = 3;
/// The way a file begins.
const HEADING: &str = "|= ";

/// The mistakes in a form.
const NO_TEXT: &str = "this line is not UTF-8: type it again, or save the page as UTF-8";
const NO_LINE: &str = "this line is not part of the diff, or not any more";
const NO_FILE: &str = "several files have this line, and the file's name above it was removed";
const NO_PLACE: &str = "a comment cannot stand under this line: type it under a line with numbers";
const NO_ANSWER: &str = "a quote alone is not an answer: type one below it, or remove the quote";
const NO_BOX: &str = "is neither '[ ]' nor '[x]'";
const NO_THREAD: &str = "the thread above this was deleted: type it under a line with numbers";

/// One line of the diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A file begins.
    File {
        /// Its path before the change.
        old_path: Vec<u8>,
        /// Its path; of a file that is gone, the one before.
        path: Vec<u8>,
        gone: bool,
    },
    /// A line of a file.
    Code {
        /// Its number before the change.
        old: Option<u32>,
        /// Its number after the change.
        new: Option<u32>,
        /// The line with its sign.
        text: String,
    },
    /// Something to read only.
    Note(String),
}

/// A form: its lines, and the meaning of each of ours.
#[derive(Debug)]
pub struct Form {
    pub text: String,
    escape: Escape,
    bars: Vec<(String, Meaning)>,
    threads: BTreeMap<String, Named>,
    /// The threads as the form shows them.
    shown: Vec<Shown>,
    /// The boxes of threads that a draft shows and that are gone.
    gone: HashSet<String>,
}

/// A comment on a form: its id, and its writer where that is another's id too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub id: Ulid,
    /// Whose it is, where its id alone does not tell.
    pub of: Option<WriterId>,
}

/// The target of text typed under a line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Meaning {
    Nothing,
    At(Pointed),
}

/// A change that a person asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// A new comment; without a place it is about the session.
    Comment(Option<Pointed>, String),
    /// An answer to a comment.
    Reply(Named, String),
    /// A thread to be closed.
    Resolve(Ulid),
}

/// Something on a form that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 0.
    pub line: usize,
    /// The mistake, in words.
    pub what: String,
}

impl Form {
    /// Lays out a form. `head` identifies the work, for a draft that is opened again.
    pub fn new(head: &str, lines: &[Line], placed: &[Placed<'_>], escape: Escape) -> Self {
        let mut form = Form {
            text: format!("{OURS} {head}\n{HELP}"),
            escape,
            bars: Vec::new(),
            threads: BTreeMap::new(),
            shown: Vec::new(),
            gone: HashSet::new(),
        };
        for thread in placed {
            if matches!(thread.spot, Spot::Session | Spot::Event(_) | Spot::Outdated) {
                form.thread(thread);
            }
        }
        // The names of the file before and after the change.
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for line in lines {
            match line {
                Line::File {
                    old_path,
                    path,
                    gone,
                } => {
                    form.rest_of(placed, &before, &after);
                    before.clone_from(old_path);
                    after.clone_from(path);
                    let bar = format!("{HEADING}{}", form.clean(&to_text(path)));
                    let at = Pointed {
                        path: path.clone(),
                        lines: None,
                        side: if *gone { Side::Old } else { Side::New },
                    };
                    form.bar(bar, Meaning::At(at));
                    let whole = |spot: &Spot| {
                        matches!(spot, Spot::File { .. }) && is_on(spot, &before, &after)
                    };
                    form.threads_at(placed, &whole);
                }
                Line::Note(text) => {
                    let bar = format!("|  {}", form.clean(text));
                    form.bar(bar, Meaning::Nothing);
                }
                Line::Code { old, new, text } => {
                    let number =
                        |number: &Option<u32>| number.map(|n| n.to_string()).unwrap_or_default();
                    let bar = format!(
                        "| {:>5} {:>5} {}",
                        number(old),
                        number(new),
                        form.clean(text)
                    );
                    let (side, number) = match (old, new) {
                        (_, Some(new)) => (Side::New, *new),
                        (Some(old), None) => (Side::Old, *old),
                        (None, None) => continue,
                    };
                    let file = match side {
                        Side::Old => &before,
                        Side::New => &after,
                    };
                    let at = Pointed {
                        path: file.clone(),
                        lines: Some((number, number)),
                        side,
                    };
                    form.bar(bar, Meaning::At(at));
                    let here = |spot: &Spot| match spot {
                        Spot::Lines { side, last, .. } => {
                            let number = match side {
                                Side::Old => old,
                                Side::New => new,
                            };
                            *number == Some(*last) && is_on(spot, &before, &after)
                        }
                        _ => false,
                    };
                    form.threads_at(placed, &here);
                }
            }
        }
        form.rest_of(placed, &before, &after);
        form.threads_at(placed, &|_| true);
        form.shown = quotes::shown(&form.text);
        form
    }

    /// Puts the threads on a file whose lines the diff does not show at its end.
    fn rest_of(&mut self, placed: &[Placed<'_>], before: &[u8], after: &[u8]) {
        self.threads_at(placed, &|spot| is_on(spot, before, after));
    }

    /// Returns foreign text on one line that an editor shows as it is.
    fn clean(&self, text: &str) -> String {
        (self.escape)(&text.replace(['\n', '\r'], " "))
    }

    fn bar(&mut self, bar: String, meaning: Meaning) {
        let bar = bar.trim_end().to_owned();
        let _ = writeln!(self.text, "{bar}");
        self.bars.push((bar, meaning));
    }

    fn threads_at(&mut self, placed: &[Placed<'_>], is_here: &dyn Fn(&Spot) -> bool) {
        for thread in placed.iter().filter(|placed| is_here(&placed.spot)) {
            self.thread(thread);
        }
    }

    fn thread(&mut self, placed: &Placed<'_>) {
        let Some(first) = placed.thread.comments.first() else {
            return;
        };
        let of = Some(first.writer.clone());
        let named = Named { id: first.id, of };
        let mut name = short_id(first.id);
        // Two ids may end alike, and a forger can take another writer's: neither may hide a thread.
        if self.threads.get(&name).is_some_and(|known| *known != named) {
            name = format!("{}@{}", first.id, first.writer);
        }
        if self.threads.insert(name.clone(), named).is_some() {
            return;
        }
        let place = self.clean(&prompt::place(placed));
        let _ = writeln!(self.text, "[ ] {name} {place}");
        for comment in placed
            .thread
            .comments
            .iter()
            .filter(|comment| !comment.deleted)
        {
            self.quote(&format!("{}:", shown(&comment.who.name, comment.claim)));
            comment.body.lines().for_each(|line| self.quote(line));
        }
    }

    fn quote(&mut self, line: &str) {
        let line = format!("> {}", self.clean(line)).trim_end().to_owned();
        let _ = writeln!(self.text, "{line}");
    }

    /// Takes over the form as it was shown first. Its threads may have been edited or deleted since, and their old text
    /// was not typed by the user.
    pub fn recall(&mut self, shown: &str) {
        // If the original form was not kept, the current one is close enough.
        if shown.is_empty() {
            return;
        }
        self.shown = quotes::shown(shown);
        let names = self.shown.iter().map(|thread| &thread.name);
        let gone = names.filter(|name| !self.threads.contains_key(*name));
        self.gone.extend(gone.cloned());
    }

    /// Reads a form back.
    pub fn read(&self, text: &str) -> Result<Vec<Wish>, Mistake> {
        let mut reader = Reader::new(self);
        for (number, line) in text.lines().enumerate() {
            reader.line(number, line)?;
        }
        reader.finish()
    }
}

/// Returns whether a thread hangs on a file, by its name on that side of the change.
fn is_on(spot: &Spot, before: &[u8], after: &[u8]) -> bool {
    match spot {
        Spot::File { path, side } | Spot::Lines { path, side, .. } => match side {
            Side::Old => path == before,
            Side::New => path == after,
        },
        _ => false,
    }
}

/// Returns a form as the text that it is. Other bytes are not guessed at: they were typed, as a form shows only text.
pub fn plain(form: &[u8]) -> Result<&str, Mistake> {
    std::str::from_utf8(form).map_err(|error| Mistake {
        line: lines(&form[..error.valid_up_to()]).count() - 1,
        what: NO_TEXT.to_owned(),
    })
}

/// Returns the lines of a form, with a last one that is empty when it ends with a line's end.
fn lines(form: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = form.split(|byte| *byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns whether a line is the first of a form, or of a draft of an older one: it ends in the ids that it was made
/// of.
pub fn is_head(line: &str) -> bool {
    let is_id = |word: &str| word.len() >= 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = line.trim_end().rsplit(' ').take(IDS);
    line.starts_with(OURS) && words.filter(|word| is_id(word)).count() == IDS
}

/// Returns whether a line is one that we wrote above the diff, not one that was typed.
fn is_ours(line: &str) -> bool {
    is_head(line) || HELP.lines().any(|help| help == line.trim_end())
}

/// Returns whether a line is a mark that we left.
fn is_mark(line: &str) -> bool {
    let what = line.strip_prefix(MISTAKE).map(str::trim_end);
    what.is_some_and(|what| {
        [NO_TEXT, NO_LINE, NO_FILE, NO_PLACE, NO_ANSWER, NO_THREAD].contains(&what)
            || what.ends_with(NO_BOX)
    })
}

/// Returns a form with a mistake marked above its line.
pub fn marked(form: &[u8], mistake: &Mistake) -> Vec<u8> {
    let mut marked = Vec::new();
    let mut put = |line: &[u8]| {
        marked.extend_from_slice(line);
        marked.push(b'\n');
    };
    let form = form.strip_suffix(b"\n").unwrap_or(form);
    for (number, line) in lines(form).enumerate() {
        if std::str::from_utf8(line).is_ok_and(is_mark) {
            continue;
        }
        if number == mistake.line {
            put(format!("{MISTAKE}{}", mistake.what).as_bytes());
        }
        put(line);
    }
    marked
}
