//! Archives sessions that were closed long ago, so that they share one ref.

use std::path::Path;

use crate::config::settings;
use crate::context::Context;
use crate::env::Millis;
use crate::error::Result;
use crate::git::ObjectId;
use crate::model::session::Session;
use crate::session::worktree::ignored_files;
use crate::store::archive::{Folded, Rule};

/// How many closed sessions keep a ref of their own, however recent they are. A host lists all of its refs at every push:
/// a thousand of them take as long as the rest of a small push.
const CLOSED: usize = 20;

/// Folds sessions that were closed long ago, or before many others, and have no worktree any more. `agent.retention` of 0
/// keeps all as they are. If this clone shares sessions, one whose code is not in its log waits for the next push: an
/// archive contains no code, and teammates would never get it.
pub fn fold_old(context: &Context<'_>) -> Result<Folded> {
    let days = context.config.require(&settings::RETENTION)?;
    if days == 0 {
        return Ok(Folded::default());
    }
    let now = context.env.now().0;
    let is_left = |session: &Session| {
        let worktree = session.local.worktree.as_deref().map(Path::new);
        !worktree.is_some_and(Path::exists)
    };
    let alone =
        context.repo.remote_names().is_empty() && context.config.list(&settings::SHARE).is_empty();
    let may = |session: &Session| is_left(session) && (alone || has_its_code(context, session));
    let rule = Rule {
        may: &may,
        before: Millis(now.saturating_sub(days.saturating_mul(24 * 60 * 60 * 1000))),
        most: CLOSED,
    };
    let folded = context.store.fold_by(&context.redactor(), &rule)?;
    for sid in &folded.sessions {
        ignored_files::forget(context, *sid);
    }
    Ok(folded)
}

fn has_its_code(context: &Context<'_>, session: &Session) -> bool {
    let tip = context.store.log_tip(session.sid).ok().flatten();
    tip.is_some_and(|tip| matches!(unsubmitted(context, session, tip.id), Ok(None)))
}

/// Returns the tip of a session's branch, unless its log has it already.
pub fn unsubmitted(
    context: &Context<'_>,
    session: &Session,
    tip: ObjectId,
) -> Result<Option<ObjectId>> {
    let Some(branch) = session.branch.as_deref() else {
        return Ok(None);
    };
    let Some(code) = context.repo.branch_tip(branch)? else {
        return Ok(None);
    };
    // Where nothing was committed there is nothing that the branch it began on does not have.
    let begun = session.base.as_deref() == Some(code.to_string().as_str());
    let known = begun || context.store.submitted(tip)? == Some(code);
    Ok((!known).then_some(code))
}
