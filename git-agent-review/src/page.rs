//! The whole diff as one page to type comments into, and reading it back.
//!
//! What is ours begins with a bar: `|=` a file, `|` a line of the diff with its numbers. Threads stand under their line:
//! a box with their id, then their comments quoted with `>`. Everything else was typed: under a line it is a comment on
//! it, under a thread an answer. A changed bar cannot be understood and is said, instead of guessing what was meant.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use git_agent::output::sanitize::block;
use git_agent::review::Side;
use git_agent::session::Ulid;
use git_agent::session::anchors::{Placed, Pointed, Spot};

use crate::threads::short;

/// What stands at the top of a page.
const HELP: &str = "\
#: Type a comment under the line it is about; under a file's name, about the file; here, about the session.
#: Type an answer under a thread, or write [x] in its box to resolve it.
#: Lines with a bar, and these, are left as they are. An unchanged page changes nothing.
";
/// Marks a line of our own that is not read back.
const OURS: &str = "#:";
/// Marks a mistake that was found.
const MISTAKE: &str = "#! ";

/// One line of the diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A file begins.
    File(Vec<u8>),
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

/// A page: its lines, and what each of ours means.
#[derive(Debug)]
pub struct Page {
    /// The text.
    pub text: String,
    bars: Vec<(String, Meaning)>,
    threads: BTreeMap<String, Ulid>,
}

/// What typed text under a line is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Meaning {
    Nothing,
    At(Pointed),
}

/// What somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// A new comment; without a place it is about the session.
    Comment(Option<Pointed>, String),
    /// An answer to a comment.
    Reply(Ulid, String),
    /// A thread to be closed.
    Resolve(Ulid),
}

/// Something on a page that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 0.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl Page {
    /// Lays out a page. `head` is what identifies the work, for a draft that is opened again.
    pub fn new(head: &str, lines: &[Line], placed: &[Placed<'_>]) -> Self {
        let mut page = Page {
            text: format!("{OURS} {head}\n{HELP}"),
            bars: Vec::new(),
            threads: BTreeMap::new(),
        };
        for thread in placed {
            if matches!(thread.spot, Spot::Session | Spot::Event(_) | Spot::Outdated) {
                page.thread(thread);
            }
        }
        let mut path = Vec::new();
        for line in lines {
            match line {
                Line::File(file) => {
                    path.clone_from(file);
                    let bar = format!("|= {}", clean(&String::from_utf8_lossy(file)));
                    let at = Pointed {
                        path: path.clone(),
                        lines: None,
                        side: Side::New,
                    };
                    page.bar(bar, Meaning::At(at));
                    let whole = |spot: &Spot| matches!(spot, Spot::File { path: file, .. } if *file == path);
                    page.threads_at(placed, &whole);
                }
                Line::Note(text) => page.bar(format!("|  {}", clean(text)), Meaning::Nothing),
                Line::Code { old, new, text } => {
                    let number =
                        |number: &Option<u32>| number.map(|n| n.to_string()).unwrap_or_default();
                    let bar = format!("| {:>5} {:>5} {}", number(old), number(new), clean(text));
                    let (side, number) = match (old, new) {
                        (_, Some(new)) => (Side::New, *new),
                        (Some(old), None) => (Side::Old, *old),
                        (None, None) => continue,
                    };
                    let at = Pointed {
                        path: path.clone(),
                        lines: Some((number, number)),
                        side,
                    };
                    page.bar(bar, Meaning::At(at));
                    let here = |spot: &Spot| match spot {
                        Spot::Lines {
                            path: file,
                            side,
                            last,
                            ..
                        } => {
                            *file == path
                                && match side {
                                    Side::Old => *old == Some(*last),
                                    Side::New => *new == Some(*last),
                                }
                        }
                        _ => false,
                    };
                    page.threads_at(placed, &here);
                }
            }
        }
        page
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
        let id = short(first.id);
        if self.threads.insert(id.clone(), first.id).is_some() {
            return;
        }
        let place = clean(&crate::threads::Look::place(placed));
        let _ = writeln!(self.text, "[ ] {id} {place}");
        for comment in placed
            .thread
            .comments
            .iter()
            .filter(|comment| !comment.deleted)
        {
            let _ = writeln!(self.text, "> {}:", clean(&comment.who.name));
            for line in comment.body.lines() {
                let _ = writeln!(self.text, "> {}", clean(line));
            }
        }
    }

    /// Reads a page back.
    pub fn read(&self, text: &str) -> Result<Vec<Wish>, Mistake> {
        let mut reader = Reader {
            page: self,
            next: 0,
            target: Target::At(None),
            typed: Vec::new(),
            wishes: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            reader.line(number, line)?;
        }
        reader.settle();
        Ok(reader.wishes)
    }
}

/// Returns foreign text on one line that an editor shows as it is.
fn clean(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    block(&text).to_text().into_owned()
}

/// Returns a page with a mistake marked above its line.
pub fn marked(text: &str, mistake: &Mistake) -> String {
    let mut marked = String::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.starts_with(MISTAKE))
    {
        if number == mistake.line {
            let _ = writeln!(marked, "{MISTAKE}{}", mistake.what);
        }
        let _ = writeln!(marked, "{line}");
    }
    marked
}

/// What typed text belongs to.
enum Target {
    At(Option<Pointed>),
    Thread(Ulid),
    Nothing,
}

struct Reader<'p> {
    page: &'p Page,
    next: usize,
    target: Target,
    typed: Vec<(usize, String)>,
    wishes: Vec<Wish>,
}

impl Reader<'_> {
    fn line(&mut self, number: usize, line: &str) -> Result<(), Mistake> {
        let mistake = |what: String| Mistake { line: number, what };
        if line.starts_with(OURS) || line.starts_with(MISTAKE) {
            return Ok(());
        }
        if line.starts_with('|') {
            self.settle();
            let bar = line.trim_end();
            let found = self.page.bars[self.next..]
                .iter()
                .position(|(known, _)| known == bar);
            let Some(found) = found else {
                return Err(mistake(
                    "this line is not, or no more, a line of the diff".to_owned(),
                ));
            };
            self.next += found + 1;
            self.target = match &self.page.bars[self.next - 1].1 {
                Meaning::At(at) => Target::At(Some(at.clone())),
                Meaning::Nothing => Target::Nothing,
            };
            return Ok(());
        }
        if let Some((mark, rest)) = boxed(line) {
            let id = rest.split(' ').next().unwrap_or_default();
            if let Some(id) = self.page.threads.get(id) {
                self.settle();
                match mark {
                    ' ' => {}
                    'x' | 'X' => self.wishes.push(Wish::Resolve(*id)),
                    other => {
                        return Err(mistake(format!("'[{other}]' is neither '[ ]' nor '[x]'")));
                    }
                }
                self.target = Target::Thread(*id);
                return Ok(());
            }
        }
        // The thread's own words; what is quoted in a comment on code was typed.
        if line.starts_with('>') && matches!(self.target, Target::Thread(_)) && self.is_blank() {
            return Ok(());
        }
        if matches!(self.target, Target::Nothing) && !line.trim().is_empty() {
            return Err(mistake(
                "text under this line belongs to nothing: type it under a line with numbers"
                    .to_owned(),
            ));
        }
        self.typed.push((number, line.to_owned()));
        Ok(())
    }

    fn is_blank(&self) -> bool {
        self.typed.iter().all(|(_, line)| line.trim().is_empty())
    }

    /// Makes a wish of what was typed so far.
    fn settle(&mut self) {
        let typed = std::mem::take(&mut self.typed);
        let text: Vec<&str> = typed.iter().map(|(_, line)| line.as_str()).collect();
        let text = text.join("\n").trim().to_owned();
        if text.is_empty() {
            return;
        }
        match &self.target {
            Target::At(at) => self.wishes.push(Wish::Comment(at.clone(), text)),
            Target::Thread(id) => self.wishes.push(Wish::Reply(*id, text)),
            Target::Nothing => {}
        }
    }
}

/// Splits `[x] rest`.
fn boxed(line: &str) -> Option<(char, &str)> {
    let inner = line.strip_prefix('[')?;
    let mut characters = inner.chars();
    let mark = characters.next()?;
    let rest = characters.as_str().strip_prefix("] ")?;
    Some((mark, rest))
}

#[cfg(test)]
mod tests {
    use git_agent::env::Millis;
    use git_agent::review::{Comment, Thread};
    use git_agent::session::Person;

    use super::*;

    fn code(old: Option<u32>, new: Option<u32>, text: &str) -> Line {
        let text = text.to_owned();
        Line::Code { old, new, text }
    }

    fn lines() -> Vec<Line> {
        vec![
            Line::File(b"a.rs".to_vec()),
            code(Some(1), Some(1), " same"),
            code(Some(2), None, "-old"),
            code(None, Some(2), "+new"),
            Line::File(b"logo.png".to_vec()),
            Line::Note("binary".to_owned()),
        ]
    }

    fn thread() -> Thread {
        Thread {
            at: None,
            comments: vec![Comment {
                id: Ulid::from_parts(Millis(5), [7; 10]),
                writer: "ada-1a2b".parse().expect("a writer"),
                who: Person::default(),
                ts: Millis(5),
                body: "why?\n| not a bar".to_owned(),
                severity: None,
                edited: None,
                deleted: false,
            }],
            resolved_by: None,
        }
    }

    fn pointed(line: u32, side: Side) -> Option<Pointed> {
        Some(Pointed {
            path: b"a.rs".to_vec(),
            lines: Some((line, line)),
            side,
        })
    }

    #[test]
    fn what_is_typed_is_read() {
        let thread = thread();
        let placed = [Placed {
            thread: &thread,
            spot: Spot::Lines {
                path: b"a.rs".to_vec(),
                side: Side::New,
                first: 2,
                last: 2,
            },
        }];
        let page = Page::new("head", &lines(), &placed);
        assert_eq!(
            page.read(&page.text),
            Ok(Vec::new()),
            "unchanged:\n{}",
            page.text
        );
        let id = thread.comments[0].id;
        let typed = page
            .text
            .replace("-old\n", "-old\nwhy remove it?\n\n> quoted\n")
            .replace("|     1     1  same\n", "")
            .replace("> | not a bar\n", "> | not a bar\nbecause\n")
            .replace("[ ] ", "[x] ")
            .replace("|= logo.png\n", "|= logo.png\nnice\n");
        assert_eq!(
            page.read(&typed),
            Ok(vec![
                Wish::Comment(
                    pointed(2, Side::Old),
                    "why remove it?\n\n> quoted".to_owned()
                ),
                Wish::Resolve(id),
                Wish::Reply(id, "because".to_owned()),
                Wish::Comment(
                    Some(Pointed {
                        path: b"logo.png".to_vec(),
                        lines: None,
                        side: Side::New
                    }),
                    "nice".to_owned()
                ),
            ]),
            "{typed}"
        );
        let general = format!("All in all fine.\n{}", page.text);
        assert_eq!(
            page.read(&general),
            Ok(vec![Wish::Comment(None, "All in all fine.".to_owned())])
        );
    }

    #[test]
    fn what_is_broken_is_marked_and_kept() {
        let page = Page::new("head", &lines(), &[]);
        let broken = page.text.replace("+new", "+newer\nmy thoughts");
        let mistake = page.read(&broken).expect_err("a changed bar");
        let shown = marked(&broken, &mistake);
        assert!(shown.contains("#! this line is not"), "{shown}");
        assert!(shown.contains("my thoughts\n"), "{shown}");
        let again = page.read(&shown).expect_err("still broken");
        assert_eq!(marked(&shown, &again).matches("#! ").count(), 1);
        let note = page.text.replace("|  binary", "|  binary\nhm");
        assert!(page.read(&note).is_err());
    }
}
