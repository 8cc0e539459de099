//! The whole diff as one page to type comments into, and reading it back.
//!
//! What is ours begins with a bar: `|=` a file, `|` a line of the diff with its numbers. Threads stand under their line:
//! a box with their id, then their comments quoted with `>`. Everything else was typed: under a line it is a comment on
//! it, under a thread an answer. A changed bar cannot be understood and is said, instead of guessing what was meant.

mod quotes;
mod reader;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use git_agent::model::review::Side;
use git_agent::model::review::authorship::shown;
use git_agent::model::review::path::to_text;
use git_agent::model::session::{Ulid, WriterId};
use git_agent::output::terminal::sanitize::block;
use git_agent::review::anchors::{Placed, Pointed, Spot};

use self::quotes::Shown;
use self::reader::Reader;
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
/// How many ids the first line names: where the work began, its last commit, its files.
const IDS: usize = 3;
/// The way a file begins.
const HEADING: &str = "|= ";

/// What can be wrong with a page.
const NO_TEXT: &str = "this line is not UTF-8: type it again, or save the page as UTF-8";
const NO_LINE: &str = "this line is not, or no more, a line of the diff";
const NO_FILE: &str = "several files have this line, and the name of its file above it is gone";
const NO_PLACE: &str = "text under this line belongs to nothing: type it under a line with numbers";
const NO_ANSWER: &str = "a quote alone is no answer: type one below it, or take the quote away";
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
        /// Whether it is gone.
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

/// A page: its lines, and what each of ours means.
#[derive(Debug)]
pub struct Page {
    /// The text.
    pub text: String,
    bars: Vec<(String, Meaning)>,
    threads: BTreeMap<String, Named>,
    /// The threads as the page shows them.
    shown: Vec<Shown>,
    /// The boxes of threads that a draft shows and that are gone.
    gone: HashSet<String>,
}

/// A comment on a page: its id, and its writer where that is another's id too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its id.
    pub id: Ulid,
    /// Whose it is, where its id alone does not tell.
    pub of: Option<WriterId>,
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
    Reply(Named, String),
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
            shown: Vec::new(),
            gone: HashSet::new(),
        };
        for thread in placed {
            if matches!(thread.spot, Spot::Session | Spot::Event(_) | Spot::Outdated) {
                page.thread(thread);
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
                    page.rest_of(placed, &before, &after);
                    before.clone_from(old_path);
                    after.clone_from(path);
                    let bar = format!("{HEADING}{}", clean(&to_text(path)));
                    let at = Pointed {
                        path: path.clone(),
                        lines: None,
                        side: if *gone { Side::Old } else { Side::New },
                    };
                    page.bar(bar, Meaning::At(at));
                    let whole = |spot: &Spot| {
                        matches!(spot, Spot::File { .. }) && is_on(spot, &before, &after)
                    };
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
                    let file = match side {
                        Side::Old => &before,
                        Side::New => &after,
                    };
                    let at = Pointed {
                        path: file.clone(),
                        lines: Some((number, number)),
                        side,
                    };
                    page.bar(bar, Meaning::At(at));
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
                    page.threads_at(placed, &here);
                }
            }
        }
        page.rest_of(placed, &before, &after);
        page.threads_at(placed, &|_| true);
        page.shown = quotes::shown(&page.text);
        page
    }

    /// Puts the threads on a file whose lines the diff does not show at its end.
    fn rest_of(&mut self, placed: &[Placed<'_>], before: &[u8], after: &[u8]) {
        self.threads_at(placed, &|spot| is_on(spot, before, after));
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
        let mut name = short(first.id);
        // Two ids may end alike, and a forger can take somebody else's: neither may hide a thread.
        if self.threads.get(&name).is_some_and(|known| *known != named) {
            name = format!("{}@{}", first.id, first.writer);
        }
        if self.threads.insert(name.clone(), named).is_some() {
            return;
        }
        let place = clean(&crate::threads::Look::place(placed));
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
        let line = format!("> {}", clean(line)).trim_end().to_owned();
        let _ = writeln!(self.text, "{line}");
    }

    /// Takes over what a draft was shown at first: its threads may have been edited or deleted since, and what they said
    /// then was not typed.
    pub fn recall(&mut self, shown: &str) {
        // A draft of a page that was not kept shows about what a page shows now.
        if shown.is_empty() {
            return;
        }
        self.shown = quotes::shown(shown);
        let names = self.shown.iter().map(|thread| &thread.name);
        let gone = names.filter(|name| !self.threads.contains_key(*name));
        self.gone.extend(gone.cloned());
    }

    /// Reads a page back.
    pub fn read(&self, text: &str) -> Result<Vec<Wish>, Mistake> {
        let mut reader = Reader::new(self);
        for (number, line) in text.lines().enumerate() {
            reader.line(number, line)?;
        }
        reader.finish()
    }
}

/// Returns foreign text on one line that an editor shows as it is.
fn clean(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    block(&text).to_text().into_owned()
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

/// Returns a page as the text that it is. What is no text is not guessed: it was typed, as a page shows only text.
pub fn plain(page: &[u8]) -> Result<&str, Mistake> {
    std::str::from_utf8(page).map_err(|error| Mistake {
        line: lines(&page[..error.valid_up_to()]).count() - 1,
        what: NO_TEXT.to_owned(),
    })
}

/// Returns the lines of a page, with a last one that is empty when it ends with a line's end.
fn lines(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = page.split(|byte| *byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns whether a line is the first of a page, or of a draft of an older one: it ends in the ids that it was made of.
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

/// Returns a page with a mistake marked above its line.
pub fn marked(page: &[u8], mistake: &Mistake) -> Vec<u8> {
    let mut marked = Vec::new();
    let mut put = |line: &[u8]| {
        marked.extend_from_slice(line);
        marked.push(b'\n');
    };
    let page = page.strip_suffix(b"\n").unwrap_or(page);
    for (number, line) in lines(page).enumerate() {
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

#[cfg(test)]
mod tests {
    use git_agent::env::Millis;
    use git_agent::model::review::{Comment, Thread};
    use git_agent::model::session::Person;

    use super::*;

    const HEAD: &str = "s 0123456789012345678901234567890123456789 \
        0123456789012345678901234567890123456789 0123456789012345678901234567890123456789";

    fn code(old: Option<u32>, new: Option<u32>, text: &str) -> Line {
        let text = text.to_owned();
        Line::Code { old, new, text }
    }

    fn file(path: &str) -> Line {
        Line::File {
            old_path: path.into(),
            path: path.into(),
            gone: false,
        }
    }

    fn lines() -> Vec<Line> {
        vec![
            file("a.rs"),
            code(Some(1), Some(1), " same"),
            code(Some(2), None, "-old"),
            code(None, Some(2), "+new"),
            file("logo.png"),
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
                claim: None,
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

    fn shown(page: &str, mistake: &Mistake) -> String {
        String::from_utf8(marked(page.as_bytes(), mistake)).expect("a text")
    }

    #[test]
    fn what_is_no_text_is_marked_and_kept() {
        for (typed, line) in [(&b"caf\xe9"[..], 0), (b"a\nb\n\xe9\nc\n", 2)] {
            let mistake = plain(typed).expect_err("no text");
            assert_eq!(mistake.line, line);
            let mark = format!("#! {NO_TEXT}\n").into_bytes();
            let draft = marked(typed, &mistake);
            assert!(draft.windows(mark.len()).any(|at| at == mark));
            let again = plain(&draft).expect_err("no text");
            assert_eq!(marked(&draft, &again), draft, "marked once");
        }
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
        let page = Page::new(HEAD, &lines(), &placed);
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
                Wish::Reply(
                    Named {
                        id,
                        of: Some(thread.comments[0].writer.clone())
                    },
                    "because".to_owned()
                ),
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
    fn a_forged_id_hides_no_thread() {
        let (forged, mut own) = (thread(), thread());
        own.comments[0].writer = "bob-3c4d".parse().expect("a writer");
        own.comments[0].body = "mine".to_owned();
        let placed = [&forged, &own].map(|thread| Placed {
            thread,
            spot: Spot::Session,
        });
        let page = Page::new(HEAD, &lines(), &placed);
        assert_eq!(page.text.matches("[ ] ").count(), 2, "{}", page.text);
        let typed = page.text.replace("> mine\n", "> mine\nto bob\n");
        let named = Named {
            id: own.comments[0].id,
            of: Some(own.comments[0].writer.clone()),
        };
        let wish = Wish::Reply(named, "to bob".to_owned());
        assert_eq!(page.read(&typed), Ok(vec![wish]));
    }

    #[test]
    fn a_line_of_a_file_without_its_name_is_not_guessed() {
        let both = ["a.rs", "b.rs"].map(|path| vec![file(path), code(None, Some(1), "+same")]);
        let page = Page::new(HEAD, &both.concat(), &[]);
        let bare = "|           1 +same\nabout b\n";
        let mistake = page.read(bare).expect_err("of which file?");
        assert_eq!(mistake.what, NO_FILE);
        assert!(page.read(&shown(bare, &mistake)).is_err());
        let named = format!("|= b.rs\n{bare}");
        let [Wish::Comment(Some(at), _)] = &page.read(&named).expect("told")[..] else {
            panic!("one comment");
        };
        assert_eq!(at.path, b"b.rs");
    }

    #[test]
    fn only_what_we_wrote_is_left_out() {
        let page = Page::new(HEAD, &lines(), &[]);
        let mine = "#: mine\n#! mine too\n#: see 0123456789012345678901234567890123456789";
        let typed = page.text.replace("+new\n", &format!("+new\n{mine}\n"));
        let wish = Wish::Comment(pointed(2, Side::New), mine.to_owned());
        assert_eq!(page.read(&typed), Ok(vec![wish]));
    }

    #[test]
    fn an_answer_may_begin_with_a_quote() {
        let thread = thread();
        let placed = [Placed {
            thread: &thread,
            spot: Spot::Session,
        }];
        let page = Page::new(HEAD, &lines(), &placed);
        let answer = |typed: &str| {
            let under = format!("> | not a bar\n{typed}\n");
            page.read(&page.text.replace("> | not a bar\n", &under))
        };
        let Ok(wishes) = answer("> why not?\nbecause") else {
            panic!("an answer");
        };
        let [Wish::Reply(_, said)] = &wishes[..] else {
            panic!("one answer: {wishes:?}");
        };
        assert_eq!(said, "> why not?\nbecause");
        let mistake = answer("> why, then?").expect_err("no answer");
        assert_eq!(mistake.what, NO_ANSWER);
    }

    #[test]
    fn a_thread_whose_box_was_taken_away_was_not_typed() {
        let thread = thread();
        let on = |path: &str| Spot::Lines {
            path: path.into(),
            side: Side::New,
            first: 2,
            last: 2,
        };
        let file = Spot::File {
            path: b"logo.png".to_vec(),
            side: Side::New,
        };
        for (spot, wanted) in [
            (Spot::Session, "my words"),
            (on("a.rs"), "my words"),
            (file, "my words"),
            (on("logo.png"), NO_PLACE),
        ] {
            let placed = [Placed {
                thread: &thread,
                spot: spot.clone(),
            }];
            let page = Page::new(HEAD, &lines(), &placed);
            let start = page.text.find("[ ] ").expect("a box");
            let end = start + page.text[start..].find('\n').expect("its end") + 1;
            let without = format!("{}{}", &page.text[..start], &page.text[end..]);
            assert_eq!(page.read(&without), Ok(vec![]), "{spot:?}");
            let typed = without.replace("> | not a bar\n", "> | not a bar\nmy words\n");
            let said = match page.read(&typed) {
                Ok(wishes) => match &wishes[..] {
                    [Wish::Comment(_, said)] => said.clone(),
                    other => panic!("one comment: {other:?}"),
                },
                Err(mistake) => mistake.what,
            };
            assert_eq!(said, wanted);
        }
    }

    #[test]
    fn what_is_broken_is_marked_and_kept() {
        let page = Page::new(HEAD, &lines(), &[]);
        let broken = page.text.replace("+new", "+newer\nmy thoughts");
        let mistake = page.read(&broken).expect_err("a changed bar");
        let draft = shown(&broken, &mistake);
        assert!(draft.contains("#! this line is not"), "{draft}");
        assert!(draft.contains("my thoughts\n"), "{draft}");
        let again = page.read(&draft).expect_err("still broken");
        assert_eq!(shown(&draft, &again).matches("#! ").count(), 1);
        let note = page.text.replace("|  binary", "|  binary\nhm");
        assert!(page.read(&note).is_err());
    }
}
