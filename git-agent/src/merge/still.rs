//! Holding a session still: while its branch and worktree change hands, no turn begins in it.

use crate::error::{Error, Result};
use crate::process::lock::Lock;
use crate::session::context::Context;
use crate::session::{Session, launch, steer};

/// A session in which nothing happens until this is let go.
#[derive(Debug)]
#[must_use]
pub struct Still {
    /// Keeps its supervisor away.
    lock: Lock,
    /// Keeps away whoever shares its worktree.
    worktree: Lock,
    /// What waited in it before.
    resting: launch::Resting,
}

impl Still {
    /// Holds a session; fails while its agent works.
    pub fn hold(context: &Context<'_>, session: &Session) -> Result<Self> {
        let resting = launch::Resting::look(context, session.sid)?;
        steer::require_idle(context, session)?;
        let name = &session.name;
        let busy = |what: &str| {
            Error::fatal(format!("{what} '{name}' is at work"))
                .hint(format!("git agent wait {name}"))
        };
        let path = launch::run_lock(&context.store, session.sid);
        let lock = Lock::try_acquire(context.env, path)?.ok_or_else(|| busy("session"))?;
        let host = session.more.get("shares").and_then(|host| host.as_str());
        let host = host.unwrap_or(session.sid.as_str());
        let path = context
            .store
            .require_dir("worktrees")?
            .join(format!("{host}.lock"));
        let worktree = Lock::try_acquire(context.env, path)?
            .ok_or_else(|| busy("a session in the worktree of"))?;
        Ok(Still {
            lock,
            worktree,
            resting,
        })
    }

    /// Lets the session go on. A prompt that came meanwhile was left to this process: its turn begins now. A session that
    /// rested with a prompt before goes on resting.
    pub fn let_go(self, context: &Context<'_>) -> Result<()> {
        let Still {
            lock,
            worktree,
            resting,
        } = self;
        drop(worktree);
        drop(lock);
        resting.take_up_others(context)
    }
}

/// Does something while a session is held still.
pub fn while_still<T>(
    context: &Context<'_>,
    session: &Session,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let still = Still::hold(context, session)?;
    let result = work();
    let freed = still.let_go(context);
    let value = result?;
    freed?;
    Ok(value)
}
