//! The prompts of a session: the first one is kept whole beside the inbox until its turn begins, later ones come by
//! [`inbox`](crate::session::supervisor::inbox).

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::fault;
use crate::model::event_words::Sender;
use crate::model::session::{Session, SessionId, Ulid};
use crate::process::lock;
use crate::session::supervisor::inbox::{Inbox, Message};
use crate::session::supervisor::launch;

/// Leaves the first prompt for the supervisor.
pub fn keep_first(context: &Context<'_>, sid: SessionId, task: &str) -> Result<()> {
    let message = Message::Prompt {
        text: task.to_owned(),
        from: Sender::User,
        again: false,
    };
    Inbox::open(&context.store, sid)?.put(context.env, &message)?;
    Ok(())
}

/// Leaves a message for a session and makes sure that a supervisor reads it.
pub fn send(context: &Context<'_>, sid: SessionId, message: &Message) -> Result<Delivery> {
    send_named(context, sid, message).map(|(_, delivery)| delivery)
}

/// Does the same, and returns the message's id.
pub fn send_named(
    context: &Context<'_>,
    sid: SessionId,
    message: &Message,
) -> Result<(Ulid, Delivery)> {
    let inbox = Inbox::open(&context.store, sid)?;
    let _sending = inbox.begin_to_send()?;
    let id = inbox.put(context.env, message)?;
    fault::point("prompt.left").context(|| "cannot send a prompt".into())?;
    Ok((id, deliver(context, sid)?))
}

/// Does the same with a message that comes before all that wait.
pub fn send_first(context: &Context<'_>, sid: SessionId, message: &Message) -> Result<Delivery> {
    let inbox = Inbox::open(&context.store, sid)?;
    let _sending = inbox.begin_to_send()?;
    inbox.put_first(context.env, message)?;
    deliver(context, sid)
}

/// Returns the prompts whose turn never began, oldest first. A crash may leave one that is in the transcript already.
pub fn left(
    context: &Context<'_>,
    sid: SessionId,
    recorded: Option<&Session>,
) -> Result<Vec<String>> {
    if !context
        .store
        .dir()
        .join("inbox")
        .join(sid.as_str())
        .exists()
    {
        return Ok(Vec::new());
    }
    let mut texts = Vec::new();
    for (id, message) in Inbox::open(&context.store, sid)?.list()? {
        if let Message::Prompt { text, .. } = message
            && !recorded.is_some_and(|session| session.has_begun(id))
        {
            texts.push(text);
        }
    }
    Ok(texts)
}

/// Removes a sender's prompts whose turn never began: another takes their place. The caller holds the session.
pub fn withdraw(context: &Context<'_>, sid: SessionId, sender: &Sender) -> Result<()> {
    let inbox = Inbox::open(&context.store, sid)?;
    for (id, message) in inbox.list()? {
        if matches!(&message, Message::Prompt { from, .. } if from == sender) {
            inbox.remove(id)?;
        }
    }
    Ok(())
}

/// Makes sure that a supervisor reads a prompt whose sender died before it started one. Returns `None` without such a
/// prompt.
pub fn deliver_left(context: &Context<'_>, sid: SessionId) -> Result<Option<Delivery>> {
    if Inbox::open(&context.store, sid)?.has_prompt()? {
        begin_left(context, sid).map(Some)
    } else {
        Ok(None)
    }
}

/// Makes sure that a supervisor begins the prompts that rest. A process that holds the session for a moment counts them as
/// resting, so it is told by a message that came after them.
pub fn begin_left(context: &Context<'_>, sid: SessionId) -> Result<Delivery> {
    send(context, sid, &Message::Begin)
}

fn deliver(context: &Context<'_>, sid: SessionId) -> Result<Delivery> {
    // Left before looking: a supervisor that ends just now looks once more after it has let go of its lock.
    if lock::is_held(&launch::run_lock(&context.store, sid))? {
        return Ok(Delivery::Queued);
    }
    launch::launch(context, sid)?;
    Ok(Delivery::Started)
}

/// The delivery of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// A supervisor runs and will read it.
    Queued,
    /// A supervisor was started for it.
    Started,
}
