//! Sending a further prompt to a session.

use crate::context::Context;
use crate::error::Result;
use crate::model::event_words::Sender;
use crate::model::session::Session;
use crate::session::caller::{self, Act};
use crate::session::supervisor::budget;
use crate::session::supervisor::inbox::Message;
use crate::session::supervisor::prompts;

pub use crate::session::supervisor::prompts::Delivery;

/// Sends a prompt of the user to a session. `read` is asked for the words once it is known that they may be sent.
pub fn send(
    context: &Context<'_>,
    session: &Session,
    read: impl FnOnce() -> Result<String>,
) -> Result<Delivery> {
    caller::permit(context, Act::Prompt, [session])?;
    budget::require(context, session)?;
    let message = Message::Prompt {
        text: read()?,
        from: Sender::User,
        again: false,
    };
    prompts::send(context, session.sid, &message)
}
