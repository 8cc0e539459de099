//! Folding sessions that have long been closed, so that they cost no ref of their own.

use std::path::Path;

use super::context::Context;
use super::{Session, ignored};
use crate::env::Millis;
use crate::error::Result;
use crate::store::archive::{Folded, Rule};

/// How many days after it was closed a session is folded, unless `agent.retention` says otherwise.
const DAYS: u64 = 14;
/// How many closed sessions keep a ref of their own, however young they are. Whoever pushes to a host is first told of
/// every ref that it has: of a thousand this takes as long as the rest of a small push.
const CLOSED: usize = 20;

/// Folds sessions that were closed long ago, or before many others, and have no worktree any more. `agent.retention` of 0
/// keeps all as they are.
pub fn fold_old(context: &Context<'_>) -> Result<Folded> {
    let days = context.config.number("agent.retention")?.unwrap_or(DAYS);
    if days == 0 {
        return Ok(Folded::default());
    }
    let now = context.env.now().0;
    let is_left = |session: &Session| {
        let worktree = session.worktree.as_deref().map(Path::new);
        !worktree.is_some_and(Path::exists)
    };
    let rule = Rule {
        may: &is_left,
        before: Millis(now.saturating_sub(days.saturating_mul(24 * 60 * 60 * 1000))),
        most: CLOSED,
    };
    let folded = context.store.fold_by(&context.redactor(), &rule)?;
    for sid in &folded.sessions {
        ignored::forget(context, *sid);
    }
    Ok(folded)
}
