//! Recovery after a crash, made by any later command: writes the last events of a dead supervisor to git, and records its death.

use std::path::Path;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::worktree;
use crate::model::session::{Session, State};
use crate::process::lock;
use crate::session::control::{state, stop};
use crate::session::worktree::work;
use crate::store::list::Listing;

/// A repair that failed.
#[derive(Debug)]
pub struct Trouble {
    /// The failed repair, as text.
    pub what: String,
    /// Why it failed.
    pub error: Error,
}

/// Records the results of a crash. A failure must not stop a listing, so it is only reported.
pub fn heal(context: &Context<'_>, listing: &Listing) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    if context.repo.is_read_only() {
        return troubles;
    }
    if let Err(error) = context.repo.clear_recorded_locks() {
        troubles.push(Trouble {
            what: "cannot remove the locks of a command that died".to_owned(),
            error,
        });
    }
    if let Err(error) = take_up_spools(context) {
        troubles.push(Trouble {
            what: "cannot write the last events of a session to git".to_owned(),
            error,
        });
    }
    finish_halves(context, listing, &mut troubles);
    for left in context.repo.dead_scratch() {
        // A leftover that cannot be removed is harmless, and the doctor reports it.
        let _ = context.repo.remove_dead_scratch(&left);
    }
    for listed in &listing.sessions {
        let session = &listed.session;
        if !listed.is_mine() || session.status != State::Interrupted {
            continue;
        }
        if let Err(error) = notice(context, session) {
            troubles.push(Trouble {
                what: format!("cannot record that '{}' was interrupted", session.name),
                error,
            });
        }
    }
    troubles
}

/// Ends changes of worktrees that were interrupted.
fn finish_halves(context: &Context<'_>, listing: &Listing, troubles: &mut Vec<Trouble>) {
    let halves = context.repo.half_worktrees();
    if halves.is_empty() {
        return;
    }
    for listed in listing.sessions.iter().filter(|listed| listed.is_mine()) {
        let session = &listed.session;
        let path = session.local.worktree.as_deref().map(Path::new);
        let known = path.and_then(|path| worktree::admin_dir_of(context.repo, path).ok()?);
        if !known.is_some_and(|admin_dir| halves.contains(&admin_dir)) {
            continue;
        }
        if let Err(error) = work::checkout(context, session) {
            troubles.push(Trouble {
                what: format!("the files of session '{}' are half restored", session.name),
                error,
            });
        }
    }
}

/// Records that one session was interrupted, if that is not recorded yet.
pub fn notice(context: &Context<'_>, session: &Session) -> Result<bool> {
    if context.repo.is_read_only() {
        return Ok(false);
    }
    let names = notice_dead(context, std::slice::from_ref(session))?;
    Ok(!names.is_empty())
}

/// Records that sessions whose supervisor died were interrupted, and ends their processes. Returns their names.
pub fn notice_dead(context: &Context<'_>, sessions: &[Session]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for session in sessions
        .iter()
        .filter(|session| session.status == State::Interrupted)
    {
        let recorded = context.store.session(session.sid)?;
        if recorded.is_some_and(|recorded| recorded.status.needs_supervisor()) {
            stop::end_orphans(context, session.sid)?;
            state::settle(
                context,
                session.sid,
                State::Interrupted,
                "the supervisor died",
            )?;
            names.push(session.name.clone());
        }
    }
    Ok(names)
}

fn take_up_spools(context: &Context<'_>) -> Result<()> {
    let store = &context.store;
    for sid in store.spooled_sessions()? {
        if lock::is_held(&store.write_lock(sid))? {
            continue;
        }
        let in_git = store.log_tip(sid)?.map_or(0, |tip| tip.session.seq);
        let spooled = store.session(sid)?.map_or(0, |session| session.seq);
        // A redactor is worth building only when there is something to bring over.
        if spooled > in_git {
            store.recover(&context.redactor())?;
            return Ok(());
        }
    }
    Ok(())
}
