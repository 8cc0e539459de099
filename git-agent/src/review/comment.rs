//! Writes, answers, resolves, reopens, deletes and edits comments on lines, a file, a turn or the whole session.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::event::Body;
use crate::model::review::path::unquote;
use crate::model::review::{Action, CommentPlace, Severity, Side};
use crate::model::session::Ulid;
use crate::review::records::{self, LoadedReviews, Reviews, short_id};
use crate::review::{anchors, draft, git_notes};
use crate::session::caller::{self, Act};
use crate::session::events;
use crate::session::worktree::work::{self, Keep, Work};
use crate::store::list::Listed;

/// The target of a comment, as the user names it.
#[derive(Debug, Clone, Copy)]
pub enum CommentTarget<'t> {
    Session,
    /// A turn of the conversation.
    Turn(u32),
    /// `FILE`, `FILE:LINE` or `FILE:FIRST-LAST`, on one side of the change.
    Code(&'t OsStr, Side),
}

/// A comment that was written.
#[derive(Debug)]
pub struct Written {
    pub id: Ulid,
    /// The work that it is about.
    pub work: Work,
    /// Its place there.
    pub at: Option<CommentPlace>,
    /// The line that had this number when the work was last shown, where that was another one.
    pub line_before: Option<String>,
}

/// Makes sure that there is something to comment on, before a person types.
pub fn require_target(
    context: &Context<'_>,
    listed: &Listed,
    target: CommentTarget<'_>,
) -> Result<()> {
    place(context, listed, target).map(drop)
}

/// Writes a comment. The text of one that cannot be written is kept.
pub fn add(
    context: &Context<'_>,
    listed: &Listed,
    target: CommentTarget<'_>,
    body: &str,
    severity: Option<Severity>,
) -> Result<Written> {
    let written = draft::keeping(context, "comment", body, || {
        let (work, at) = place(context, listed, target)?;
        let line_before = line_before(context, listed, at.as_ref());
        let action = Action::Comment {
            target: None,
            of: None,
            at: at.clone(),
            body: body.to_owned(),
            severity,
        };
        let who = records::author(context)?;
        let ids = records::write(context, listed.session.sid, work.tip, &who, vec![action])?;
        Ok(Written {
            id: ids[0],
            work,
            at,
            line_before,
        })
    })?;
    git_notes::refresh(context)?;
    Ok(written)
}

/// Returns the line that a place named when the work was last shown, if it was another one: numbers come from there.
fn line_before(
    context: &Context<'_>,
    listed: &Listed,
    at: Option<&CommentPlace>,
) -> Option<String> {
    let Some(CommentPlace::Code(code)) = at else {
        return None;
    };
    if code.side == Side::Old || code.line.is_none() || code.path.is_none() {
        return None;
    }
    let text = code.text.first()?;
    let before = anchors::line_last_seen(context, listed.session.sid, code);
    before.filter(|before| before != text)
}

/// Resolves the target of the comment.
fn place(
    context: &Context<'_>,
    listed: &Listed,
    target: CommentTarget<'_>,
) -> Result<(Work, Option<CommentPlace>)> {
    let work = work::look(context, listed, Keep::Snapshot)?;
    let (text, side) = match target {
        CommentTarget::Session => return Ok((work, None)),
        CommentTarget::Turn(turn) => {
            let event = prompt_of(context, listed, turn)?;
            let turn = Some(turn);
            return Ok((work, Some(CommentPlace::Event { event, turn })));
        }
        CommentTarget::Code(text, side) => (text, side),
    };
    let tree = anchors::side_tree(context.repo, &work, side)?;
    let exists = |path: &[u8]| matches!(context.repo.entry_at(tree, path), Ok(Some(_)));
    let typed = typed_path(context, text, &exists);
    let pointed = anchors::parse(&typed, side, &exists)?;
    let code = anchors::point(context, &listed.session, &work, &pointed)?;
    Ok((work, Some(CommentPlace::Code(code))))
}

/// Returns a typed path as seen from the top of the repository: it is typed from there, or from the current directory.
fn typed_path(context: &Context<'_>, text: &OsStr, exists: &dyn Fn(&[u8]) -> bool) -> Vec<u8> {
    let typed = text.as_bytes();
    let file = |text: &[u8]| -> Vec<u8> {
        anchors::parse(text, Side::New, exists).map_or_else(|_| text.to_vec(), |at| at.path)
    };
    if exists(&file(typed)) {
        return typed.to_vec();
    }
    if let Some(plain) = unquoted(typed)
        && exists(&file(&plain))
    {
        return plain;
    }
    let below = context
        .repo
        .work_tree()
        .and_then(|top| context.env.cwd.strip_prefix(top).ok())
        .filter(|below| *below != Path::new(""));
    if let Some(below) = below {
        let joined = without_dots(&below.join(Path::new(text)));
        if exists(&file(&joined)) {
            return joined;
        }
    }
    typed.strip_prefix(b"./").unwrap_or(typed).to_vec()
}

/// Reads a quoted file name, as git writes unusual ones, and the text after it.
fn unquoted(typed: &[u8]) -> Option<Vec<u8>> {
    let end = typed.iter().rposition(|byte| *byte == b'"')? + 1;
    let mut plain = unquote(&typed[..end])?;
    plain.extend_from_slice(&typed[end..]);
    Some(plain)
}

/// Returns a path without steps back to where it came from.
fn without_dots(path: &Path) -> Vec<u8> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            part => plain.push(part),
        }
    }
    OsString::from(plain).into_vec()
}

/// Returns the event that began a turn.
fn prompt_of(context: &Context<'_>, listed: &Listed, turn: u32) -> Result<Ulid> {
    for event in events::all(context, listed)? {
        let event = event?;
        if event.turn == turn && matches!(event.body, Body::Prompt { .. }) {
            return Ok(event.id);
        }
    }
    let (name, turns) = (&listed.session.name, listed.session.turns);
    Err(Error::fatal(format!(
        "session '{name}' has no turn {turn}: it has had {turns}"
    )))
}

/// Makes sure that a name means a comment, before a person types.
pub fn require_comment(context: &Context<'_>, wanted: &str) -> Result<()> {
    let reviews = records::load(context)?;
    find_all(context, &reviews, &[wanted.to_owned()]).map(drop)
}

/// Replies to a comment, and closes its thread if that is asked for. The text of a reply that cannot be written is
/// kept.
pub fn reply(context: &Context<'_>, wanted: &str, body: &str, resolve: bool) -> Result<Ulid> {
    let id = draft::keeping(context, "reply", body, || {
        let reviews = records::load(context)?;
        let found = reviews.find(wanted, context.store.writer()?.as_ref())?;
        let target = found.comment.id;
        let mut actions = vec![Action::Comment {
            target: Some(target),
            of: found.of(),
            at: None,
            body: body.to_owned(),
            severity: None,
        }];
        if resolve {
            actions.push(Action::Resolve { target });
        }
        let who = records::author(context)?;
        let home = records::home(context, found.thread);
        let ids = records::write(context, found.sid, home, &who, actions)?;
        Ok(ids[0])
    })?;
    git_notes::refresh(context)?;
    Ok(id)
}

/// The effect on a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentChange {
    /// It was changed.
    Changed,
    /// It was like that already.
    Already,
}

/// Closes the threads of some comments, or opens them again: all or none, as far as that can be told before. Returns
/// the comments; `tell` hears of each.
pub fn close(
    context: &Context<'_>,
    wanted: &[String],
    resolved: bool,
    tell: &mut dyn FnMut(Ulid, CommentChange),
) -> Result<Vec<Ulid>> {
    let reviews = records::load(context)?;
    let found = find_all(context, &reviews, wanted)?;
    if let Some(found) = found.iter().find(|found| !found.thread.is_visible()) {
        return Err(deleted(found));
    }
    for found in &found {
        let session = context.store.session(found.sid)?;
        caller::permit(context, Act::CloseThreads, &session)?;
    }
    for found in &found {
        let target = found.comment.id;
        if found.thread.is_open() != resolved {
            tell(target, CommentChange::Already);
            continue;
        }
        let action = if resolved {
            Action::Resolve { target }
        } else {
            Action::Reopen { target }
        };
        write(context, found, action)?;
        tell(target, CommentChange::Changed);
    }
    git_notes::refresh(context)?;
    Ok(found.iter().map(|found| found.comment.id).collect())
}

/// Deletes own comments: all or none, as far as that can be told before. Returns the comments; `tell` hears of each.
pub fn delete(
    context: &Context<'_>,
    wanted: &[String],
    tell: &mut dyn FnMut(Ulid, CommentChange),
) -> Result<Vec<Ulid>> {
    let reviews = records::load(context)?;
    let found = find_all(context, &reviews, wanted)?;
    for found in &found {
        require_own(context, found)?;
    }
    for found in &found {
        let id = found.comment.id;
        if found.comment.deleted {
            tell(id, CommentChange::Already);
            continue;
        }
        write(context, found, Action::Del { target: Some(id) })?;
        tell(id, CommentChange::Changed);
    }
    git_notes::refresh(context)?;
    Ok(found.iter().map(|found| found.comment.id).collect())
}

/// Gives an own comment new words. Words that cannot be written are kept.
pub fn reword(context: &Context<'_>, wanted: &str, words: &str) -> Result<Ulid> {
    let target = draft::keeping(context, "comment", words, || {
        let reviews = records::load(context)?;
        let found = reviews.find(wanted, context.store.writer()?.as_ref())?;
        require_own(context, &found)?;
        if found.comment.deleted {
            return Err(deleted(&found));
        }
        let target = found.comment.id;
        let body = words.to_owned();
        write(context, &found, Action::Edit { target, body })?;
        Ok(target)
    })?;
    git_notes::refresh(context)?;
    Ok(target)
}

/// Returns the error for a comment that was deleted: it stays so, whatever is done with it.
fn deleted(found: &LoadedReviews<'_>) -> Error {
    let short = short_id(found.comment.id);
    Error::fatal(format!("comment {short} was deleted")).hint("git agent review list")
}

fn find_all<'r>(
    context: &Context<'_>,
    reviews: &'r Reviews,
    wanted: &[String],
) -> Result<Vec<LoadedReviews<'r>>> {
    let me = context.store.writer()?;
    let find = |wanted: &String| reviews.find(wanted, me.as_ref());
    wanted.iter().map(find).collect()
}

/// Writes one record about a comment.
fn write(context: &Context<'_>, found: &LoadedReviews<'_>, action: Action) -> Result<()> {
    let who = records::author(context)?;
    let home = records::home(context, found.thread);
    records::write(context, found.sid, home, &who, vec![action])?;
    Ok(())
}

/// Refuses to change another author's comment.
fn require_own(context: &Context<'_>, found: &LoadedReviews<'_>) -> Result<()> {
    let writer = context.store.writer()?;
    let speaker = records::author(context)?;
    if records::is_own(found.comment, writer.as_ref(), &speaker) {
        return Ok(());
    }
    let short = short_id(found.comment.id);
    Err(Error::fatal(format!(
        "comment {short} is by '{}': only its author may change it",
        found.comment.who.name
    ))
    .hint(format!(
        "git agent review reply {} -m \"<answer>\"",
        shell_word(short)
    )))
}
