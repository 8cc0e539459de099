//! Records a state that follows from a command, not from the agent, for idle sessions.

use crate::context::Context;
use crate::error::Result;
use crate::model::session::{SessionId, State};
use crate::session::checks::dead_turns;
use crate::session::supervisor::launch;
use crate::store::log::writer::SessionWriter;

/// Records the state of an idle session. Returns whether the change is allowed; `None` if the session is not idle.
pub fn set_state(
    context: &Context<'_>,
    sid: SessionId,
    to: State,
    reason: &str,
) -> Result<Option<bool>> {
    launch::without_supervisor(context, sid, || {
        let mut writer = SessionWriter::open(&context.store, sid, context.redactor())?;
        let possible = writer.session().status.may_become(to);
        if possible {
            writer.set_status(to, reason)?;
        }
        writer.close()?;
        Ok(possible)
    })
}

/// Records the state of a session without a supervisor, unless it is already over.
pub fn settle(context: &Context<'_>, sid: SessionId, to: State, reason: &str) -> Result<()> {
    launch::without_supervisor(context, sid, || {
        let mut writer = SessionWriter::open(&context.store, sid, context.redactor())?;
        dead_turns::settle_or_tell(context, &mut writer)?;
        if writer.session().status.needs_supervisor() || writer.session().status == State::Draft {
            writer.set_status(to, reason)?;
        }
        writer.close()
    })?;
    Ok(())
}
