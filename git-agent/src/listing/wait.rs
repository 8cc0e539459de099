//! Waiting until the selected sessions are in a state.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::session::State;
use crate::review::state;
use crate::selection::{self, Chosen, Selection};
use crate::session::events::wait;
use crate::store::list::Listed;

pub use crate::session::events::wait::{WaitOutcome, Wish};

/// Waits for the selected sessions. Without a selection these are all that run, or the one of this worktree.
pub fn wait(context: &Context<'_>, selection: &Selection, wish: &Wish) -> Result<WaitOutcome> {
    let chosen = choose(context, selection)?;
    if let Some(listed) = chosen.iter().find(|listed| !listed.is_mine()) {
        return Err(Error::fatal(format!(
            "session '{}' belongs to a teammate: this clone does not see its changes",
            listed.session.name
        )));
    }
    let sids: Vec<_> = chosen.iter().map(|listed| listed.session.sid).collect();
    wait::wait(context, &sids, wish, &|session| {
        state::settle_own(context, session);
    })
}

fn choose(context: &Context<'_>, selection: &Selection) -> Result<Vec<Listed>> {
    let Chosen { mut sessions, all } = selection::select_or_open(context, selection)?;
    // None of them was named: sessions at rest and drafts are not waited for.
    sessions.retain(|listed| match (all, &selection.group) {
        (true, _) => listed.session.status.needs_supervisor(),
        (false, Some(_)) => listed.session.status != State::Draft,
        (false, None) => true,
    });
    Ok(sessions)
}
