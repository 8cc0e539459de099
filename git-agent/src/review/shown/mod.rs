//! A session's changes as values for a screen: the files, hunks and lines of git's diff, the threads that hang in them, and
//! exactly the work that they were made of.

pub mod generated;
mod parse;
pub mod revert;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::{ObjectId, ObjectKind};
use crate::model::review::Thread;
use crate::model::review::standing::Standing;
use crate::model::session::Ulid;
use crate::review::anchors::{self, Spot};
use crate::review::diff_scope::{self, Scope};
use crate::review::prompt::{self, Sent};
use crate::review::state::Regard;
use crate::review::{last_seen, records};
use crate::session::worktree::work::{self, Keep, Work};
use crate::store::list::Listed;

/// The largest file whose lines are shown around a change.
const FILE_LIMIT: u64 = 8 << 20;

/// A session's changes as they were at one moment.
#[derive(Debug)]
pub struct Shown {
    /// The part of the work that is shown.
    pub scope: Scope,
    /// The changed files, in git's order.
    pub files: Vec<ChangedFile>,
    /// The visible threads of the review.
    pub threads: Vec<ShownThread>,
    /// Something to say about the scope.
    pub note: Option<String>,
    /// The verdict on exactly this work.
    pub standing: Standing,
    /// Whether everything is committed.
    pub is_committed: bool,
    /// The session's id.
    pub id: String,
    /// The session's name.
    pub name: String,
    /// How many turns the session has had.
    pub turns: u32,
    /// Nothing for changes without a session, which are only looked at.
    origin: Option<Box<Origin>>,
}

/// The session and the exact work that changes are made of.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The session as it was listed.
    pub(crate) listed: Listed,
    /// The work that is shown.
    pub(crate) work: Work,
    pub(crate) old: ObjectId,
    pub(crate) new: ObjectId,
}

/// How a file changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its lines changed.
    Changed,
    /// It has another name.
    Renamed,
    /// It became another kind of file.
    Retyped,
}

impl FileChange {
    /// Returns git's letter.
    pub fn letter(self) -> char {
        match self {
            FileChange::Added => 'A',
            FileChange::Deleted => 'D',
            FileChange::Changed => 'M',
            FileChange::Renamed => 'R',
            FileChange::Retyped => 'T',
        }
    }
}

/// One changed file.
#[derive(Debug, Clone)]
pub struct ChangedFile {
    /// The path, as it is now.
    pub path: Vec<u8>,
    /// The path before, where that was another.
    pub old_path: Option<Vec<u8>>,
    /// How it changed.
    pub change: FileChange,
    /// Added lines.
    pub added: u64,
    /// Deleted lines.
    pub deleted: u64,
    /// Whether git shows no lines of it.
    pub is_binary: bool,
    /// Whether a program made it, as far as its name tells.
    pub is_generated: bool,
    /// Further facts of git's heading, such as modes.
    pub remarks: Vec<String>,
    /// The hunks.
    pub hunks: Vec<ShownHunk>,
}

/// One hunk.
#[derive(Debug, Clone)]
pub struct ShownHunk {
    /// The text behind the line numbers: the function that git found.
    pub heading: Vec<u8>,
    /// The lines.
    pub lines: Vec<ShownLine>,
}

/// One line of a hunk.
#[derive(Debug, Clone)]
pub struct ShownLine {
    /// Its number before the change.
    pub old: Option<u32>,
    /// Its number after the change.
    pub new: Option<u32>,
    /// The text, as it is in the file.
    pub text: Vec<u8>,
    /// Whether no newline follows.
    pub is_cut: bool,
}

/// A thread of the review.
#[derive(Debug, Clone)]
pub struct ShownThread {
    /// The thread.
    pub thread: Thread,
    /// Where it hangs now.
    pub spot: Spot,
    /// `open`, `outdated` or `resolved`.
    pub state: &'static str,
    /// When it was sent to the agent.
    pub sent: Option<Sent>,
}

impl ShownThread {
    /// Returns the id of its first comment.
    pub fn id(&self) -> Option<Ulid> {
        self.thread.comments.first().map(|comment| comment.id)
    }
}

impl Shown {
    /// Returns changes without a session behind them: they can be looked at, but not judged.
    pub fn of_files(name: &str, files: Vec<ChangedFile>, threads: Vec<ShownThread>) -> Self {
        Shown {
            scope: Scope::Branch,
            files,
            threads,
            note: None,
            standing: Standing::Unjudged,
            is_committed: true,
            id: name.to_owned(),
            name: name.to_owned(),
            turns: 1,
            origin: None,
        }
    }

    /// Returns the session and the work behind the changes.
    pub(crate) fn origin(&self) -> Result<&Origin> {
        let origin = self.origin.as_deref();
        origin.ok_or_else(|| Error::fatal("these changes belong to no session"))
    }

    /// Returns added and deleted lines of all files.
    pub fn counts(&self) -> (u64, u64) {
        let files = self.files.iter();
        files.fold((0, 0), |(added, deleted), file| {
            (added + file.added, deleted + file.deleted)
        })
    }
}

/// Reads a part of a session's work and its review.
pub fn load(context: &Context<'_>, listed: Listed, scope: Scope) -> Result<Shown> {
    let work = work::look(context, &listed, Keep::Nothing)?;
    let review = records::load_one(context, listed.session.sid)?;
    let compared = diff_scope::compared(context, &listed, &work, scope)?;
    let sent = prompt::sent(context, &listed)?;
    let regard = Regard::of_work(context.repo, &listed.session, &review, &work);
    let placed = anchors::place_all(context, &work, &review)?;
    let threads = placed.into_iter().map(|placed| ShownThread {
        state: placed.state(),
        sent: sent_of(&sent, placed.thread),
        thread: placed.thread.clone(),
        spot: placed.spot,
    });
    let threads: Vec<ShownThread> = threads.collect();
    let attributes = context.repo.tree_of(work.base)?;
    let files = parse::files(context, attributes, (compared.old, compared.new))?;
    Ok(Shown {
        scope,
        files,
        threads,
        note: compared.note,
        standing: regard.opinion.standing,
        is_committed: work.is_committed(),
        id: listed.session.sid.to_string(),
        name: listed.session.name.clone(),
        turns: listed.session.turns,
        origin: Some(Box::new(Origin {
            old: compared.old,
            new: compared.new,
            listed,
            work,
        })),
    })
}

fn sent_of(sent: &BTreeMap<Ulid, Sent>, thread: &Thread) -> Option<Sent> {
    let first = thread.comments.first()?;
    sent.get(&first.id).copied()
}

/// The kind of change since a session's work was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    Nothing,
    /// Only the comments.
    Comments,
    /// The work, and perhaps the comments.
    Work,
}

/// Compares the session as it is now with the changes that are shown.
pub fn since(context: &Context<'_>, shown: &Shown) -> Result<Since> {
    let origin = shown.origin()?;
    let now = work::look(context, &origin.listed, Keep::Nothing)?;
    let of = |work: &Work| (work.base, work.tip, work.tree);
    if of(&now) != of(&origin.work) {
        return Ok(Since::Work);
    }
    let review = records::load_one(context, origin.listed.session.sid)?;
    let placed = anchors::place_all(context, &now, &review)?;
    let threads = placed.iter().map(|placed| placed.thread);
    Ok(
        if threads.eq(shown.threads.iter().map(|shown| &shown.thread)) {
            Since::Nothing
        } else {
            Since::Comments
        },
    )
}

/// Remembers that all of the shown work was seen, where the scope has everything new.
pub fn seen(context: &Context<'_>, shown: &Shown) -> Result<()> {
    let origin = shown.origin()?;
    match shown.scope {
        Scope::Branch | Scope::SinceReview => {
            last_seen::remember_shown(context, origin.listed.session.sid, &origin.work)
        }
        _ => Ok(()),
    }
}

/// Returns all lines of a shown file as it is after the change.
pub fn file_lines(context: &Context<'_>, shown: &Shown, path: &[u8]) -> Result<Vec<Vec<u8>>> {
    let name = || {
        OsString::from_vec(path.to_vec())
            .to_string_lossy()
            .into_owned()
    };
    let Some(entry) = context.repo.entry_at(shown.origin()?.new, path)? else {
        return Err(Error::fatal(format!("'{}' is deleted", name())));
    };
    let text = context
        .repo
        .read_object(entry.id, ObjectKind::Blob, FILE_LIMIT)?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines.map(<[u8]>::to_vec).collect())
}
