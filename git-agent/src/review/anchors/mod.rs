//! The anchors of comments: makes a place from the file and lines that the user names, and finds it again in the
//! current work.

pub(crate) mod find;

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::diff::Delta;
use crate::git::object::EntryKind;
use crate::git::{ObjectId, ObjectKind, Repo, sha256};
use crate::model::review::anchor::lines;
use crate::model::review::path::{from_text, to_text};
use crate::model::review::{CodePlace, Review, Side, Thread};
use crate::model::session::fold::shorten;
use crate::model::session::{Session, SessionId, Ulid};
use crate::review::anchors::find::Finder;
use crate::review::last_seen;
use crate::session::worktree::work::Work;

/// Files larger than this have no lines to comment on.
const FILE_LIMIT: u64 = 16 << 20;
/// git looks this far for a NUL to tell binary files from text.
const BINARY_LOOK: usize = 8000;
/// Lines kept before and after those that are commented on.
const SURROUNDINGS: usize = 3;
/// The most commented lines that are kept, and the most of each.
const KEPT_LINES: usize = 20;
const KEPT_WIDTH: usize = 200;

/// The place of a comment in the current work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spot {
    /// On the session as a whole.
    Session,
    /// On an event of the transcript.
    Event(Ulid),
    File {
        /// The path as it is now.
        path: Vec<u8>,
        /// Which side of the change.
        side: Side,
    },
    Lines {
        /// The path as it is now.
        path: Vec<u8>,
        /// Which side of the change.
        side: Side,
        /// The first line, from 1.
        first: u32,
        /// The last line.
        last: u32,
    },
    /// On code that is not there any more.
    Outdated,
}

/// A thread, and where it hangs now.
#[derive(Debug, Clone)]
pub struct Placed<'r> {
    pub thread: &'r Thread,
    /// Where.
    pub spot: Spot,
}

impl Placed<'_> {
    /// Returns the file it hangs on, as it is called now.
    pub fn path(&self) -> Option<&[u8]> {
        match &self.spot {
            Spot::File { path, .. } | Spot::Lines { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns the state of the thread in a word: `open`, `outdated` or `resolved`.
    pub fn state(&self) -> &'static str {
        match (self.thread.is_open(), &self.spot) {
            (false, _) => "resolved",
            (true, Spot::Outdated) => "outdated",
            (true, _) => "open",
        }
    }
}

/// The file and lines that the user names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointed {
    /// The file.
    pub path: Vec<u8>,
    /// The first and last line, from 1; nothing is the whole file.
    pub lines: Option<(u32, u32)>,
    /// Which side of the change.
    pub side: Side,
}

/// Makes a place of the file and lines that the user names. If they do not exist, the error names those that do.
pub fn point(
    context: &Context<'_>,
    session: &Session,
    work: &Work,
    at: &Pointed,
) -> Result<CodePlace> {
    let repo = context.repo;
    let name = String::from_utf8_lossy(&at.path).into_owned();
    let tree = side_tree(repo, work, at.side)?;
    let Some(entry) = repo.entry_at(tree, &at.path)? else {
        return Err(missing(repo, session, work, at));
    };
    let commit = match at.side {
        Side::New => work.tip,
        Side::Old => work.base,
    };
    let mut place = CodePlace {
        commit: commit.to_string(),
        path: Some(to_text(&at.path)),
        side: at.side,
        blob: Some(entry.id.to_string()),
        ..CodePlace::default()
    };
    let Some((first, last)) = at.lines else {
        return Ok(place);
    };
    let whole = |what: &str| {
        Error::fatal(format!("'{name}' {what}: it has no lines")).hint(format!(
            "comment on the whole file: git agent review comment {} {}",
            shell_word(&session.name),
            shell_word(&at.path)
        ))
    };
    let text = match entry.kind {
        EntryKind::Commit => return Err(whole("is a submodule")),
        EntryKind::Tree => return Err(whole("is a directory")),
        _ => match repo.object_header(entry.id)? {
            Some((_, size)) if size > FILE_LIMIT => return Err(whole("is too large")),
            _ => repo.read_object(entry.id, ObjectKind::Blob, FILE_LIMIT)?,
        },
    };
    if is_binary(&text) {
        return Err(whole("is binary"));
    }
    let all = lines(&text);
    let (start, end) = (first as usize, last as usize);
    if start == 0 || end < start {
        return Err(Error::usage(format!(
            "'{first}-{last}' is not a range of lines"
        )));
    }
    if end > all.len() {
        let count = all.len();
        let noun = if count == 1 { "line" } else { "lines" };
        return Err(Error::fatal(format!("'{name}' has only {count} {noun}")));
    }
    let kept = |lines: &[&[u8]]| -> Vec<String> { lines.iter().map(|line| keep(line)).collect() };
    place.line = Some(first);
    place.end = (last != first).then_some(last);
    place.before = kept(&all[(start - 1).saturating_sub(SURROUNDINGS)..start - 1]);
    place.text = kept(&all[start - 1..end.min(start - 1 + KEPT_LINES)]);
    place.after = kept(&all[end..(end + SURROUNDINGS).min(all.len())]);
    place.hunk_sha = Some(sha256(&all[start - 1..end].join(&b'\n')));
    let around = (start - 1).saturating_sub(SURROUNDINGS)..(end + SURROUNDINGS).min(all.len());
    place.repeated = is_repeated(&all, &all[around]);
    Ok(place)
}

/// Returns the line that had this number in the last diff the user saw; `None` without such a diff, or if it is
/// unchanged.
pub fn line_last_seen(context: &Context<'_>, sid: SessionId, place: &CodePlace) -> Option<String> {
    let repo = context.repo;
    let seen = last_seen::last(context, sid).ok()??;
    let path = from_text(place.path.as_deref()?);
    let entry = repo.entry_at(seen.tree, &path).ok()??;
    if Some(entry.id.to_string()) == place.blob {
        return None;
    }
    let text = repo
        .read_object(entry.id, ObjectKind::Blob, FILE_LIMIT)
        .ok()?;
    let number = (place.line? as usize).checked_sub(1)?;
    lines(&text).get(number).map(|line| keep(line))
}

/// Lines before and after others.
pub type Around = (Vec<String>, Vec<String>);

/// Returns the lines before and after those that a thread hangs on, as they are now.
pub fn around(repo: &Repo, work: &Work, spot: &Spot) -> Option<Around> {
    let Spot::Lines {
        path,
        side,
        first,
        last,
    } = spot
    else {
        return None;
    };
    let tree = side_tree(repo, work, *side).ok()?;
    let entry = repo.entry_at(tree, path).ok()??;
    let text = repo.read_object(entry.id, ObjectKind::Blob, FILE_LIMIT);
    let text = text.ok()?;
    let all = lines(&text);
    let (start, end) = ((*first as usize).checked_sub(1)?, *last as usize);
    let kept = |lines: &[&[u8]]| -> Vec<String> { lines.iter().map(|line| keep(line)).collect() };
    let above = all.get(start.saturating_sub(SURROUNDINGS)..start)?;
    let below = all.get(end..(end + SURROUNDINGS).min(all.len()))?;
    Some((kept(above), kept(below)))
}

fn keep(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
    shorten(&text, KEPT_WIDTH)
}

/// Returns whether lines are among others more than once, judged by the part of them that is kept.
fn is_repeated(all: &[&[u8]], wanted: &[&[u8]]) -> bool {
    let alike = |one: &[u8], other: &[u8]| {
        let is_cut = one.len() > KEPT_WIDTH || one.ends_with(b"\r") || !one.is_ascii();
        one == other || ((is_cut || other.ends_with(b"\r")) && keep(one) == keep(other))
    };
    all.windows(wanted.len())
        .filter(|these| {
            these
                .iter()
                .zip(wanted)
                .all(|(one, other)| alike(one, other))
        })
        .nth(1)
        .is_some()
}

fn is_binary(text: &[u8]) -> bool {
    text[..text.len().min(BINARY_LOOK)].contains(&0)
}

/// Returns the tree that one side of the change shows.
pub fn side_tree(repo: &Repo, work: &Work, side: Side) -> Result<ObjectId> {
    match side {
        Side::New => Ok(work.tree),
        Side::Old => repo.tree_of(work.base),
    }
}

/// Returns the name that a file was given by the work.
fn renamed(repo: &Repo, work: &Work, path: &[u8]) -> Option<Vec<u8>> {
    let deltas = repo.deltas(work.base, work.tree).ok()?;
    let is_it = |delta: &Delta| delta.status == 'R' && delta.old_path == path;
    deltas.into_iter().find(is_it).map(|delta| delta.path)
}

fn missing(repo: &Repo, session: &Session, work: &Work, at: &Pointed) -> Error {
    let (name, path) = (&session.name, String::from_utf8_lossy(&at.path));
    let other = match at.side {
        Side::New => Side::Old,
        Side::Old => Side::New,
    };
    let there = side_tree(repo, work, other)
        .and_then(|tree| repo.entry_at(tree, &at.path))
        .is_ok_and(|entry| entry.is_some());
    if there
        && at.side == Side::New
        && let Some(now) = renamed(repo, work, &at.path)
    {
        let now = String::from_utf8_lossy(&now).into_owned();
        return Error::fatal(format!("session '{name}' renamed '{path}' to '{now}'"))
            .hint("comment on it under that name, or with --old on the file before the change");
    }
    match (there, at.side) {
        (true, Side::New) => Error::fatal(format!("session '{name}' deleted '{path}'"))
            .hint("comment on the file before the change: --old"),
        (true, Side::Old) => Error::fatal(format!("session '{name}' added '{path}'"))
            .hint("comment on the current file: leave out --old"),
        (false, _) => Error::fatal(format!("session '{name}' has no file '{path}'")).hint(format!(
            "git agent review diff {} --name-only",
            shell_word(name)
        )),
    }
}

/// Finds the place of every visible thread in the current work.
pub fn place_all<'r>(
    context: &Context<'_>,
    work: &Work,
    review: &'r Review,
) -> Result<Vec<Placed<'r>>> {
    let mut finder = Finder::new(context.repo, work);
    review
        .threads
        .iter()
        .filter(|thread| thread.is_visible())
        .map(|thread| {
            let spot = finder.spot(thread.at.as_ref())?;
            Ok(Placed { thread, spot })
        })
        .collect()
}

/// Reads the target that the user names: `FILE`, `FILE:LINE` or `FILE:FIRST-LAST`. `exists` tells whether a path is a
/// file, for names that end like a line number.
pub fn parse(text: &[u8], side: Side, exists: &dyn Fn(&[u8]) -> bool) -> Result<Pointed> {
    let whole = Pointed {
        path: text.to_vec(),
        lines: None,
        side,
    };
    let Some(colon) = text.iter().rposition(|byte| *byte == b':') else {
        return Ok(whole);
    };
    let (path, tail) = (&text[..colon], &text[colon + 1..]);
    let numeric = !tail.is_empty()
        && tail
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'-');
    if !numeric || path.is_empty() || exists(text) {
        return Ok(whole);
    }
    let tail = String::from_utf8_lossy(tail).into_owned();
    let bad = || Error::usage(format!("'{tail}' is not a line or a range of lines"));
    let (first, last) = tail.split_once('-').unwrap_or((&tail, &tail));
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    let lines = number(first).zip(number(last)).ok_or_else(bad)?;
    if lines.1 < lines.0 {
        return Err(bad());
    }
    Ok(Pointed {
        path: path.to_vec(),
        lines: Some(lines),
        side,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pointed_at_is_understood() {
        let exists = |path: &[u8]| path == b"odd:12";
        let read =
            |text: &str| parse(text.as_bytes(), Side::New, &exists).map(|at| (at.path, at.lines));
        let file = |path: &str, lines| (path.as_bytes().to_vec(), lines);
        for (text, meant) in [
            ("a.rs", file("a.rs", None)),
            ("a.rs:7", file("a.rs", Some((7, 7)))),
            ("a:b.rs:7-9", file("a:b.rs", Some((7, 9)))),
            ("odd:12", file("odd:12", None)),
            ("odd:12:3", file("odd:12", Some((3, 3)))),
            ("c:drive", file("c:drive", None)),
        ] {
            assert_eq!(read(text).expect("understood"), meant, "{text}");
        }
        for bad in ["a:0", "a:3-2", "a:-", "a:1-2-3", "a:99999999999"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
