//! Holds a session: no turn begins in it while another command changes its branch and worktree.

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::session::Session;
use crate::process::lock::Lock;
use crate::session::checks::read_only;
use crate::session::control;
use crate::session::supervisor::launch;

/// Sessions of one worktree in which nothing happens until this is let go.
#[derive(Debug)]
#[must_use]
struct Still {
    /// Keeps their supervisors away.
    sessions: Vec<launch::Held>,
    /// Keeps away the sessions that share their worktree.
    worktree: Lock,
}

impl Still {
    /// Holds a session and others that share its worktree; fails while the agent of one works.
    fn hold(context: &Context<'_>, session: &Session, sharers: &[&Session]) -> Result<Self> {
        let mut sessions = Vec::new();
        match Still::hold_all(context, session, sharers, &mut sessions) {
            Ok(worktree) => Ok(Still { sessions, worktree }),
            Err(error) => {
                // A prompt may have come to those that were held already.
                let_all_go(context, sessions)?;
                Err(error)
            }
        }
    }

    fn hold_all(
        context: &Context<'_>,
        session: &Session,
        sharers: &[&Session],
        sessions: &mut Vec<launch::Held>,
    ) -> Result<Lock> {
        let busy = |what: &str, name: &str| {
            Error::fatal(format!("{what} '{name}' is at work"))
                .hint(format!("git agent wait {}", shell_word(name)))
        };
        for one in std::iter::once(&session).chain(sharers) {
            control::idle::require_idle(context, one)?;
            let held = launch::Held::take(context, one.sid)?;
            sessions.push(held.ok_or_else(|| busy("session", &one.name))?);
        }
        let locked = context.store.require_dir("worktrees")?;
        let path = locked.join(format!("{}.lock", session.host()));
        let worktree = Lock::try_acquire(context.env, path)?
            .ok_or_else(|| busy("a session in the worktree of", &session.name))?;
        if !read_only::is_unread(session, &locked)? {
            return Err(busy("a session in the worktree of", &session.name));
        }
        Ok(worktree)
    }

    /// Lets the sessions go on. A prompt that came meanwhile was left to this process: its turn begins now. A session that
    /// rested with a prompt before goes on resting.
    fn let_go(self, context: &Context<'_>) -> Result<()> {
        let Still { sessions, worktree } = self;
        drop(worktree);
        let_all_go(context, sessions)
    }
}

fn let_all_go(context: &Context<'_>, sessions: Vec<launch::Held>) -> Result<()> {
    let begun = sessions.into_iter().map(|one| one.let_go(context));
    // An error with one does not stop the others.
    begun.fold(Ok(()), Result::and)
}

/// Does something while a session is held still.
pub fn while_still<T>(
    context: &Context<'_>,
    session: &Session,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    while_all_still(context, session, &[], work)
}

/// Does something while a session and all that share its worktree are held still.
pub fn while_all_still<T>(
    context: &Context<'_>,
    session: &Session,
    sharers: &[&Session],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let still = Still::hold(context, session, sharers)?;
    let result = work();
    let freed = still.let_go(context);
    let value = result?;
    freed?;
    Ok(value)
}
