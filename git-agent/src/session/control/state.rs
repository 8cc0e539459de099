//! Records a state that follows from a command, not from the agent: for sessions that nobody works in.

use crate::context::Context;
use crate::error::Result;
use crate::model::session::{SessionId, State};
use crate::session::checks::dead_turns;
use crate::session::supervisor::launch;
use crate::store::log::writer::SessionWriter;

/// Records the state of a session, if nobody works in it. Returns whether it could become that; `None` when somebody does.
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

/// Records the state of a session that nobody supervises, if it is not over already.
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
