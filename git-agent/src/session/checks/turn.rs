//! The state of a session before and after a turn: its files, all refs, stashes and reflogs, and the guard's log.
//!
//! The state before a turn is also in a file until it was compared. A supervisor that dies leaves that file, and
//! [`crate::session::checks::dead_turns`] makes the comparison in its place.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::agent::driver::Link;
use crate::config::settings;
use crate::context::{Context, secrets};
use crate::error::{Context as _, Error, Result};
use crate::git::ObjectId;
use crate::git::refs::move_log::Position;
use crate::git::snapshot::Snapshot;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::scan::{LeftOut, Reason};
use crate::guard;
use crate::guard::cell;
use crate::guard::environment::Guard;
use crate::guard::watch::{Evidence, Refs, Restored};
use crate::model::event::Body;
use crate::model::event_words::ErrorKind;
use crate::model::session::settings::set;
use crate::model::session::{Session, SessionId};
use crate::session::checks::read_only::{self, Broken};
use crate::session::checks::{forged_refs, reflogs};
use crate::session::supervisor::turn::Live;
use crate::session::worktree::setup::{is_read_only, own_refs};
use crate::store::Store;
use crate::store::list::Scope;
use crate::store::log::writer::SessionWriter;
use crate::store::refname::is_ours;

/// The directory with a file for each turn that runs.
pub(crate) const DIRECTORY: &str = "turns";
/// Words for a change that a supervisor finds.
const DURING: &str = "during the turn";
/// Words for a change that is found after the supervisor died: the user may have made it later.
const DURING_OR_SINCE: &str = "during the turn in which the supervisor died, or since";

/// A writer of a session's transcript: its supervisor, or a command that finds the supervisor dead.
pub trait Recorder {
    fn session(&self) -> &Session;
    /// Adds to the transcript.
    fn record(&mut self, body: Body) -> Result<()>;
    /// Does work that may take long, until the user stops the session.
    fn unless_stopped<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T>;
}

impl Recorder for Live<'_> {
    fn session(&self) -> &Session {
        self.writer.session()
    }

    fn record(&mut self, body: Body) -> Result<()> {
        self.event(body)
    }

    fn unless_stopped<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        Live::unless_stopped(self, work)
    }
}

impl Recorder for SessionWriter<'_> {
    fn session(&self) -> &Session {
        SessionWriter::session(self)
    }

    fn record(&mut self, body: Body) -> Result<()> {
        self.append(body).map(drop)
    }

    fn unless_stopped<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        work()
    }
}

/// A session and the repository before a turn.
#[derive(Debug, PartialEq, Eq)]
pub struct Before {
    /// The files and the tip, if they are known.
    state: Option<(ObjectId, Option<ObjectId>)>,
    /// The snapshot that the worktree of a read-only session must match after the turn.
    pub(crate) unread: Option<ObjectId>,
    refs: Refs,
    /// The end of the list of refs that our programs moved.
    moves: Position,
    /// The end of the guard's log; nothing without a guard.
    refused: Option<u64>,
}

impl Before {
    /// Returns all refs before the turn.
    pub(crate) fn refs(&self) -> &Refs {
        &self.refs
    }

    /// Counts changes from the last prompt that was not only to go on. `false` if that is not known.
    pub fn go_back(&mut self, session: &Session) -> bool {
        let noted = session.settings.before.as_deref();
        let Some((tree, head)) = noted.and_then(|noted| noted.split_once(' ')) else {
            return false;
        };
        let Ok(tree) = tree.parse() else { return false };
        self.state = Some((tree, head.parse().ok()));
        true
    }

    /// Returns the event that records the files and the tip.
    pub fn as_event(&self) -> Body {
        let noted = self.state.map(|(tree, head)| {
            let head = head.map_or_else(|| "-".to_owned(), |head| head.to_string());
            format!("{tree} {head}")
        });
        set::before(noted)
    }

    /// Writes the file from which a command can end this turn if its supervisor dies.
    fn save(&self, context: &Context<'_>, sid: SessionId) -> Result<()> {
        let path = context.store.require_dir(DIRECTORY)?.join(sid.as_str());
        let fresh = path.with_extension("new");
        let write = || -> std::io::Result<()> {
            let mut file = fs::File::create(&fresh)?;
            file.write_all(&self.to_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &path)
        };
        write().context(|| format!("cannot write '{}'", path.display()))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let id = |id: Option<ObjectId>| id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let refused = self
            .refused
            .map_or_else(|| "-".to_owned(), |at| at.to_string());
        let head = format!("{} {} {refused}\0", id(self.unread), self.moves);
        let mut bytes = head.into_bytes();
        bytes.extend(self.refs.to_bytes());
        bytes.extend(END);
        bytes
    }

    /// Reads such a file; `None` if it is damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.strip_suffix(END)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let mut words = std::str::from_utf8(&bytes[..end]).ok()?.splitn(3, ' ');
        let unread = match words.next()? {
            "-" => None,
            id => Some(id.parse().ok()?),
        };
        let moves = words.next()?.parse().ok()?;
        let refused = match words.next()? {
            "-" => None,
            at => Some(at.parse().ok()?),
        };
        Some(Before {
            state: None,
            unread,
            refs: Refs::parse(&bytes[end + 1..])?,
            moves,
            refused,
        })
    }
}

/// The last bytes of the file: without them it was not written to its end.
const END: &[u8] = b"end\0";

/// Returns the file of a session's turn.
pub(crate) fn file(store: &Store<'_>, sid: SessionId) -> PathBuf {
    store.dir().join(DIRECTORY).join(sid.as_str())
}

/// Removes the file of a session's turn: all of it was looked at.
pub(crate) fn let_go(context: &Context<'_>, sid: SessionId) -> Result<()> {
    let path = file(&context.store, sid);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context(|| format!("cannot remove '{}'", path.display()))
        }
        _ => Ok(()),
    }
}

/// The reason of the snapshot with which a turn begins.
pub const BEFORE_TURN: &str = "before the turn";

/// Looks at a session before a turn.
pub fn before_turn(
    context: &Context<'_>,
    session: &Session,
    guard: Option<&Guard>,
) -> Result<Before> {
    let (mut state, mut unread) = (None, None);
    if let Some(checkout) = crate::session::worktree::work::checkout(context, session)? {
        let taken = context
            .store
            .take_snapshot(session.sid, None, BEFORE_TURN, &checkout)?;
        let kept = context.repo.read_snapshot(taken.id)?;
        state = Some((kept.tree, kept.head));
        if is_read_only(session) {
            unread = Some(read_only::before(context, session, taken.id)?);
        }
    }
    look(context, session, guard, (state, unread))
}

/// Looks at the repository before a command of a session that may change its files.
pub fn before_command(
    context: &Context<'_>,
    session: &Session,
    guard: Option<&Guard>,
) -> Result<Before> {
    look(context, session, guard, (None, None))
}

type Files = (Option<(ObjectId, Option<ObjectId>)>, Option<ObjectId>);

fn look(
    context: &Context<'_>,
    session: &Session,
    guard: Option<&Guard>,
    (state, unread): Files,
) -> Result<Before> {
    reflogs::keep(context, session, &own_refs(session))?;
    let refused = match guard {
        Some(guard) => Some(guard::log::read(&guard.log(), 0)?.1),
        None => None,
    };
    // Before the refs: a ref that moves in between is in both then.
    let end = context.repo.moves_so_far();
    let refs = Refs::take(context.repo)?;
    let before = Before {
        state,
        unread,
        moves: context.repo.pending_moves(end, |name| refs.id(name))?,
        refs,
        refused,
    };
    before.save(context, session.sid)?;
    Ok(before)
}

/// Looks at the repository after a command of a session.
pub fn after_command(
    context: &Context<'_>,
    recorder: &mut impl Recorder,
    before: &Before,
) -> Result<()> {
    let checkout = crate::session::worktree::work::checkout(context, recorder.session())?;
    look_again(context, recorder, checkout.as_ref(), (before, DURING))?;
    let_go(context, recorder.session().sid)
}

/// Records refused moves of refs, puts back stashes and reflogs, and compares all refs.
fn look_again(
    context: &Context<'_>,
    recorder: &mut impl Recorder,
    checkout: Option<&Checkout>,
    (before, when): (&Before, &str),
) -> Result<()> {
    let session = recorder.session().clone();
    finish_cell(context, recorder)?;
    if let Some(since) = before.refused {
        let directory = context.store.dir().join("guard").join(session.sid.as_str());
        for note in guard::log::read(&guard::environment::log(&directory), since)?.0 {
            recorder.record(guarded(note.words()))?;
        }
    }
    for told in reflogs::settle(context, session.sid) {
        recorder.record(told)?;
    }
    look_at_refs(context, recorder, checkout, (before, when))
}

/// Brings the work of the session's cell over, and leads its worktree back.
pub(crate) fn finish_cell(context: &Context<'_>, recorder: &mut impl Recorder) -> Result<()> {
    let session = recorder.session();
    for text in cell::finish(context, session.sid, &own_refs(session))? {
        recorder.record(Body::Notice { text })?;
    }
    Ok(())
}

/// The result of a turn.
#[derive(Debug, Default)]
pub struct After {
    /// Whether anything in the worktree or on the branch changed; `None` if that is not known.
    pub changed: Option<bool>,
    /// The changes of a read-only session, in words. They were undone where that was possible.
    pub broken: Option<String>,
}

/// Looks at a session after a turn, and keeps its files in a snapshot.
pub fn after_turn(
    context: &Context<'_>,
    recorder: &mut impl Recorder,
    before: &Before,
) -> Result<After> {
    let after = keep_turn(context, recorder, before)?;
    let_go(context, recorder.session().sid)?;
    Ok(after)
}

fn keep_turn(
    context: &Context<'_>,
    recorder: &mut impl Recorder,
    before: &Before,
) -> Result<After> {
    let session = recorder.session().clone();
    let checkout = crate::session::worktree::work::checkout(context, &session)?;
    look_again(context, recorder, checkout.as_ref(), (before, DURING))?;
    let Some(checkout) = checkout else {
        recorder.record(Body::Notice {
            text: "the worktree is gone".to_owned(),
        })?;
        return Ok(After::default());
    };
    if context.config.require(&settings::AUTO_COMMIT)?
        && !is_read_only(&session)
        && let Err(error) = crate::session::worktree::commit::commit_all(context, &session, None)
    {
        // The snapshot keeps the work.
        let message = error.message();
        recorder.record(failed(format!(
            "cannot commit the work of the turn: {message}"
        )))?;
    }
    let Some((kept, broken)) = keep_files(context, recorder, &checkout, (before, DURING))? else {
        return Ok(After::default());
    };
    let now = (kept.tree, kept.head);
    if let Some(state) = before.state
        && let Err(error) = secrets::remember_objects(context, state, now)
    {
        let message = error.message();
        recorder.record(failed(format!(
            "cannot search the work for secrets: {message}"
        )))?;
    }
    Ok(After {
        changed: before.state.map(|state| state != now),
        broken: broken.map(|broken| broken.reason),
    })
}

/// Looks at a session after a turn whose supervisor died. Only the files of a read-only session are put back: those of
/// another stay in the worktree, and nothing is lost.
pub(crate) fn after_death(
    context: &Context<'_>,
    recorder: &mut impl Recorder,
    before: &Before,
) -> Result<()> {
    let session = recorder.session().clone();
    let checkout = crate::session::worktree::work::checkout(context, &session)?;
    let before = (before, DURING_OR_SINCE);
    look_again(context, recorder, checkout.as_ref(), before)?;
    if before.0.unread.is_some()
        && let Some(checkout) = checkout
    {
        keep_files(context, recorder, &checkout, before)?;
    }
    let_go(context, session.sid)
}

/// Keeps the files that a turn left in a snapshot; those of a read-only session are put back. `None` if they cannot be
/// kept.
fn keep_files(
    context: &Context<'_>,
    recorder: &mut impl Recorder,
    checkout: &Checkout,
    (before, when): (&Before, &str),
) -> Result<Option<(Snapshot, Option<Broken>)>> {
    let session = recorder.session().clone();
    let look = || snapshot(context, &session, checkout, (before, when));
    // Files that are put back must not stay half done.
    let looked = match before.unread {
        None => recorder.unless_stopped(look),
        Some(_) => look(),
    };
    let (kept, left_out, broken) = match looked {
        Ok(found) => found,
        Err(error) => {
            let message = error.message();
            recorder.record(failed(format!("cannot snapshot the worktree: {message}")))?;
            return Ok(None);
        }
    };
    if let Some(broken) = &broken {
        recorder.record(guarded(broken.text.clone()))?;
    }
    recorder.record(Body::Snapshot {
        commit: kept.id.to_string(),
        tree: kept.tree.to_string(),
        head: kept.head.map(|head| head.to_string()),
    })?;
    for left in &left_out {
        if left.reason == Reason::Large {
            let text = format!("not in the snapshot: {left}");
            recorder.record(Body::Notice { text })?;
        }
    }
    Ok(Some((kept, broken)))
}

/// Takes the snapshot at the end of a turn. Before that, the changes of a read-only session are kept in one and undone.
fn snapshot(
    context: &Context<'_>,
    session: &Session,
    checkout: &Checkout,
    (before, when): (&Before, &str),
) -> Result<(Snapshot, Vec<LeftOut>, Option<Broken>)> {
    let turn = u64::from(session.turns);
    let take = |turn: Option<u64>, reason: &str| {
        let store = &context.store;
        let taken = store.take_snapshot(session.sid, turn, reason, checkout)?;
        let kept = context.repo.read_snapshot(taken.id)?;
        Ok::<_, Error>((kept, taken.left_out))
    };
    let Some(unread) = before.unread else {
        let (kept, left_out) = take(Some(turn), &format!("after turn {turn}"))?;
        return Ok((kept, left_out, None));
    };
    let (kept, left_out) = take(None, &format!("written by turn {turn}, which is read-only"))?;
    let Some(broken) = read_only::put_back(context, session, checkout, (unread, &kept, when))?
    else {
        return Ok((kept, left_out, None));
    };
    let (kept, left_out) = take(Some(turn), &format!("after turn {turn}"))?;
    Ok((kept, left_out, Some(broken)))
}

fn branches_of_others(context: &Context<'_>, session: &Session) -> Result<Vec<String>> {
    let listing = context.store.list(Scope::Mine)?;
    let others = listing.sessions.iter().map(|listed| &listed.session);
    Ok(others
        .filter(|other| other.sid != session.sid)
        .filter_map(|other| Some(format!("refs/heads/{}", other.branch.as_deref()?)))
        .collect())
}

/// Reports refs that no known process moved, and restores those that the session moved.
fn look_at_refs(
    context: &Context<'_>,
    recorder: &mut impl Recorder,
    checkout: Option<&Checkout>,
    (before, when): (&Before, &str),
) -> Result<()> {
    let session = recorder.session().clone();
    // Listed only if a ref moved that is not plainly ours: a turn must not cost more beside more sessions.
    let (others, failed) = (OnceCell::new(), Cell::new(None));
    let list = || {
        branches_of_others(context, &session).unwrap_or_else(|error| {
            failed.set(Some(error));
            Vec::new()
        })
    };
    let after = Refs::take(context.repo)?;
    let moves = context.repo.moves_since(before.moves)?;
    let made: BTreeSet<&str> = moves
        .iter()
        .flatten()
        .filter(|step| step.old.is_none())
        .map(|step| step.name.as_str())
        .collect();
    let is_known = |name: &str| {
        is_ours(name)
            || made.contains(name)
            || others.get_or_init(list).iter().any(|other| other == name)
    };
    let own = own_refs(&session);
    let nowhere = Path::new("");
    let place = session.local.worktree.as_deref().map_or(nowhere, Path::new);
    let scope = guard::watch::Scope {
        own: &own,
        worktree: checkout.map_or(place, |checkout| &checkout.top),
        git_dir: checkout.map_or(nowhere, |checkout| &checkout.admin_dir),
        is_known: &is_known,
    };
    let changes = before.refs.compare(context.repo, &after, &scope)?;
    match &moves {
        Some(moves) => {
            let refs = (&before.refs, &after);
            for told in forged_refs::look(context, &session, refs, (moves, when))? {
                recorder.record(told)?;
            }
        }
        None => {
            let text =
                "too many refs moved during the turn to find those that git-agent did not move";
            recorder.record(Body::Notice { text: text.into() })?;
        }
    }
    if let Some(error) = failed.take() {
        return Err(error);
    }
    for change in changes {
        let mut text = format!("{change} {when}");
        // Only a change that is shown to be the session's is put back: the user may have made the others.
        if change.evidence != Evidence::None {
            text.push_str(match change.restore(context.env, context.repo, &scope)? {
                Restored::Done(_) => "; it was restored",
                Restored::Stale => "; it has changed again since",
                Restored::Kept(_) => "; it was left as it is",
            });
        }
        recorder.record(guarded(text))?;
    }
    Ok(())
}

fn guarded(text: String) -> Body {
    let kind = ErrorKind::Guard;
    Body::Error { kind, text }
}

fn failed(text: String) -> Body {
    let kind = ErrorKind::Unclear;
    Body::Error { kind, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_before_a_turn_is_read_back_as_it_was_written() {
        let id: ObjectId = "a".repeat(40).parse().expect("an id");
        let refs = [
            ("refs/heads/a".to_owned(), "b".repeat(40)),
            (
                "refs/remotes/o/HEAD".to_owned(),
                "ref:refs/heads/a".to_owned(),
            ),
        ];
        let mut text = Vec::new();
        for (name, value) in &refs {
            text.extend(format!("ref {value} {name}\0").into_bytes());
        }
        text.extend(b"head ref:refs/heads/a /a dir\xff\n/x\0");
        let written = Before {
            state: None,
            unread: Some(id),
            refs: Refs::parse(&text).expect("refs"),
            moves: "7:99".parse().expect("a position"),
            refused: Some(12),
        };
        assert_eq!(written.refs.to_bytes(), text);
        let bytes = written.to_bytes();
        assert_eq!(Before::parse(&bytes), Some(written));
        for damaged in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            assert_eq!(Before::parse(&bytes[..damaged]), None);
        }
    }
}
