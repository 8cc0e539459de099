//! Snapshots that the user asks for.

use crate::context::Context;
use crate::error::Result;
use crate::model::session::Session;
use crate::session::caller::{self, Act};
use crate::session::worktree::work;
use crate::store::snapshot::{Kept, Taken};

/// Takes a snapshot of a session's worktree. `reason` says why.
pub fn take(context: &Context<'_>, session: &Session, reason: &str) -> Result<Taken> {
    caller::permit(context, Act::Snapshot, [session])?;
    let checkout = work::require_checkout(context, session)?;
    context
        .store
        .take_snapshot(session.sid, None, reason, &checkout)
}

/// Returns the snapshots of a session, newest first.
pub fn list(context: &Context<'_>, session: &Session) -> Result<Vec<Kept>> {
    context.store.snapshots(session.sid)
}
