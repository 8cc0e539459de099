//! The end of a process after its turn: how long to wait for it, and what it means.

use std::time::Duration;

use crate::agent::driver::Link;
use crate::error::Result;
use crate::model::event::Body;
use crate::model::session::Exit;

/// How long an agent may take to end a cancelled turn, or its process after the turn.
pub const FAREWELL: Duration = Duration::from_secs(10);

/// Returns the exit of a process after its turn, if it says something about the turn; that we had to end it does not.
pub fn after_turn(exit: Exit, link: &mut dyn Link) -> Result<Option<Exit>> {
    if exit.signal.is_none() && exit.reason.is_empty() {
        return Ok(Some(exit));
    }
    link.event(Body::Notice {
        text: "the agent did not exit after the turn and was ended".to_owned(),
    })?;
    Ok(None)
}
