//! Counts the uncommitted files of sessions: a push shares only commits, so the log records how many files stay behind,
//! without names.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::Context;
use crate::error::Result;
use crate::model::session::settings::set;
use crate::model::session::{Session, SessionId, WriterId};
use crate::process::lock;
use crate::selection;
use crate::session::worktree::work::{self, Keep};
use crate::store::list::{Listed, Scope};
use crate::store::log::writer::SessionWriter;

/// Records in the log of each session how many files are uncommitted before a push. Returns the sessions that have any.
/// A working session is skipped, because its turn may still commit.
pub fn note(
    context: &Context<'_>,
    only: Option<&BTreeSet<SessionId>>,
    writers: &[WriterId],
) -> Result<BTreeMap<SessionId, u64>> {
    let mut found = BTreeMap::new();
    for listed in selection::list(context, Scope::Mine)?.sessions {
        let session = &listed.session;
        let wanted = only.is_none_or(|only| only.contains(&session.sid));
        let is_known = listed.tip.is_some() && writers.contains(&session.writer);
        if !wanted || !is_known || session.status.needs_supervisor() {
            continue;
        }
        let files = if session.status.is_closed() {
            0
        } else {
            // A worktree that cannot be read must not stop the push.
            count(context, &listed).unwrap_or(0)
        };
        if session.unshared().unwrap_or(0) != files && !record(context, session, files)? {
            continue;
        }
        if files > 0 {
            found.insert(session.sid, files);
        }
    }
    Ok(found)
}

fn count(context: &Context<'_>, listed: &Listed) -> Result<u64> {
    let work = work::look(context, listed, Keep::Nothing)?;
    if work.is_committed() {
        return Ok(0);
    }
    let files = context.repo.deltas(work.committed, work.tree)?;
    Ok(files.len() as u64)
}

/// Records the number. Returns `false` while another process writes to the session.
fn record(context: &Context<'_>, session: &Session, files: u64) -> Result<bool> {
    if lock::is_held(&context.store.write_lock(session.sid))? {
        return Ok(false);
    }
    let mut writer = SessionWriter::open(&context.store, session.sid, context.redactor())?;
    writer.append(set::unshared(Some(files).filter(|files| *files > 0)))?;
    writer.close()?;
    Ok(true)
}
