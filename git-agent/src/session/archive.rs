//! Folding sessions that have long been closed, so that they cost no ref of their own.

use std::path::Path;

use super::context::Context;
use super::{Session, ignored};
use crate::env::Millis;
use crate::error::Result;
use crate::store::archive::Folded;

/// How many days after it was closed a session is folded, unless `agent.retention` says otherwise.
const DAYS: u64 = 14;

/// Folds sessions that were closed long ago and have no worktree any more. `agent.retention` of 0 keeps all as they are.
pub fn fold_old(context: &Context<'_>) -> Result<Folded> {
    let days = context.config.number("agent.retention")?.unwrap_or(DAYS);
    if days == 0 {
        return Ok(Folded::default());
    }
    let now = context.env.now();
    let horizon = Millis(
        now.0
            .saturating_sub(days.saturating_mul(24 * 60 * 60 * 1000)),
    );
    let is_old = |session: &Session| {
        let worktree = session.worktree.as_deref().map(Path::new);
        session.updated < horizon && !worktree.is_some_and(Path::exists)
    };
    let folded = context.store.fold(&context.redactor(), &is_old)?;
    for sid in &folded.sessions {
        ignored::forget(context, *sid);
    }
    Ok(folded)
}
