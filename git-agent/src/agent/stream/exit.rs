//! The end of a process after its turn: how long it is waited for, and what it means.

use std::time::Duration;

use crate::agent::driver::Link;
use crate::error::Result;
use crate::model::event::Body;
use crate::model::session::Exit;

/// How long an agent may take to end a turn that is cancelled, or itself after the turn.
pub const FAREWELL: Duration = Duration::from_secs(10);

/// Returns how a process ended whose turn was over, if that says anything about the turn: that it had to be ended does not.
pub fn after_turn(exit: Exit, link: &mut dyn Link) -> Result<Option<Exit>> {
    if exit.signal.is_none() && exit.reason.is_empty() {
        return Ok(Some(exit));
    }
    link.event(Body::Notice {
        text: "the agent did not end by itself after the turn, and was ended".to_owned(),
    })?;
    Ok(None)
}
