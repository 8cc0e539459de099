//! Turns whose supervisor died: the next command makes the checks at the end of the turn.
//!
//! The files of a read-only session are restored before a writer uses its worktree, so that later work is not blamed on
//! the reader.

use std::fs;
use std::time::Duration;

use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::guard::cell;
use crate::model::event::Body;
use crate::model::event_words::ErrorKind;
use crate::model::session::{Session, SessionId};
use crate::process::lock;
use crate::session::checks::read_only::Hold;
use crate::session::checks::reflogs;
use crate::session::checks::turn::{self, Before, Recorder};
use crate::session::control;
use crate::session::supervisor::launch;
use crate::session::worktree::setup;
use crate::store::log::writer::SessionWriter;

/// How often the worktree of a dead reader is asked for, and the pause in between.
const ATTEMPTS: usize = 25;
const PAUSE: Duration = Duration::from_millis(20);

/// Whether the caller is in the session's worktree already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupancy {
    /// It is, as the only writer.
    Held,
    /// It is not, and takes a reader's place.
    Take,
}

/// Returns the sessions of the turns that run, or did when their supervisor died.
fn noted(context: &Context<'_>) -> Vec<SessionId> {
    let entries = fs::read_dir(context.store.dir().join(turn::DIRECTORY));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Ends all dead turns of the repository. Returns the trouble with each that stays.
pub fn settle_all(context: &Context<'_>) -> Vec<Error> {
    if context.repo.is_read_only() || context.store.is_closed() {
        return Vec::new();
    }
    for sid in cell::in_use(context) {
        // What an agent commits is seen while it works. One that moves on at the same moment is seen the next time.
        let _ = cell::sync(context, sid);
    }
    let all = noted(context).into_iter();
    all.filter_map(|sid| settle_dead(context, sid, Occupancy::Take).err())
        .collect()
}

/// Ends a session's turn if it has no supervisor. Returns whether no dead turn is left.
fn settle_dead(context: &Context<'_>, sid: SessionId, entry: Occupancy) -> Result<bool> {
    let store = &context.store;
    if lock::is_held(&launch::run_lock(store, sid))? {
        return Ok(false);
    }
    if store.session(sid)?.is_none() {
        turn::let_go(context, sid)?;
        return Ok(true);
    }
    control::stop::end_orphans(context, sid)?;
    launch::without_supervisor(context, sid, || {
        let mut writer = SessionWriter::open(store, sid, context.redactor())?;
        settle(context, &mut writer, entry)?;
        writer.close()
    })?;
    Ok(!turn::file(store, sid).exists())
}

/// Ends the dead turns of readers in a session's worktree. The caller holds it, and no reader is in it. Returns whether none
/// is left: a supervisor that was just started ends its own.
pub(crate) fn settle_readers(context: &Context<'_>, session: &Session) -> Result<bool> {
    let mut done = true;
    for sid in noted(context) {
        let Some(reader) = context.store.session(sid)? else {
            continue;
        };
        let concerned = sid != session.sid && reader.host() == session.host();
        if concerned && setup::is_read_only(&reader) {
            done &= settle_dead(context, sid, Occupancy::Held)?;
        }
    }
    Ok(done)
}

/// Makes the look at the end of a turn that a dead supervisor did not make. The caller holds the session. While another
/// session writes in a reader's worktree nothing is done.
pub fn settle(context: &Context<'_>, recorder: &mut impl Recorder, entry: Occupancy) -> Result<()> {
    turn::finish_cell(context, recorder)?;
    let session = recorder.session().clone();
    let path = turn::file(&context.store, session.sid);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Their trouble of an earlier turn.
            for told in reflogs::settle(context, session.sid) {
                recorder.record(told)?;
            }
            return Ok(());
        }
        Err(error) => {
            return Err(error).context(|| format!("cannot read '{}'", path.display()));
        }
    };
    let Some(before) = Before::parse(&bytes) else {
        for told in reflogs::settle(context, session.sid) {
            recorder.record(told)?;
        }
        recorder.record(trouble(format!(
            "the supervisor died, and '{}' is damaged: refs and files were not compared with those before the turn",
            path.display()
        )))?;
        return turn::let_go(context, session.sid);
    };
    let mut hold = None;
    if before.unread.is_some() && entry == Occupancy::Take {
        hold = enter(context, &session)?;
        if hold.is_none() {
            return Ok(());
        }
    }
    let done = turn::after_death(context, recorder, &before);
    drop(hold);
    done
}

fn enter(context: &Context<'_>, session: &Session) -> Result<Option<Hold>> {
    let locks = context.store.require_dir("worktrees")?;
    for _ in 0..ATTEMPTS {
        if let Some(hold) = Hold::take(context, session, &locks)? {
            return Ok(Some(hold));
        }
        // Most hold it for a moment only.
        std::thread::sleep(PAUSE);
    }
    Ok(None)
}

/// The same for a command that must go on: trouble is told to the transcript, and the next command tries again.
pub fn settle_or_tell(context: &Context<'_>, writer: &mut SessionWriter<'_>) -> Result<()> {
    let Err(error) = settle(context, writer, Occupancy::Take) else {
        return Ok(());
    };
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    writer.record(trouble(format!(
        "cannot compare refs and files with those before the turn: {}{}",
        error.message(),
        cause.unwrap_or_default()
    )))
}

fn trouble(text: String) -> Body {
    let kind = ErrorKind::Guard;
    Body::Error { kind, text }
}
