//! Continues sessions that were interrupted, stopped, failed or never started.

use crate::context::Context;
use crate::error::Result;
use crate::model::event::Body;
use crate::model::event_words::Sender;
use crate::model::session::{Session, SessionId, State};
use crate::session::caller::{self, Act};
use crate::session::control::stop;
use crate::session::events;
use crate::session::supervisor::inbox::Message;
use crate::session::supervisor::prompts;
use crate::session::supervisor::{budget, launch};
use crate::store::list::Listed;

pub use crate::session::supervisor::budget::RAISE;

/// The prompt for an agent that remembers its interrupted turn.
pub const GO_ON: &str =
    "The previous turn was interrupted. Go on with the task where you left off.";
/// The prompt if nothing was interrupted.
const MORE: &str = "Go on with the task.";

/// How to go on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'w> {
    /// The prompt; where it was interrupted otherwise.
    pub words: Option<&'w str>,
    /// Whether sessions that run are left alone.
    pub leave_running: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restarted {
    /// It goes on.
    Started,
    /// It runs and was left alone.
    RunsAlready,
    /// Its budget is used up, as these words say.
    NoBudget(String),
}

/// Goes on with sessions. `tell` is told of each.
pub fn restart(
    context: &Context<'_>,
    chosen: &[Listed],
    options: Options<'_>,
    tell: &mut dyn FnMut(&Session, &Restarted),
) -> Result<()> {
    caller::permit(context, Act::Restart, [])?;
    for Listed { session, .. } in chosen {
        let restarted = restart_one(context, session, options)?;
        tell(session, &restarted);
    }
    Ok(())
}

fn restart_one(
    context: &Context<'_>,
    session: &Session,
    options: Options<'_>,
) -> Result<Restarted> {
    if options.leave_running && launch::running(&context.store, session.sid)?.is_some() {
        return Ok(Restarted::RunsAlready);
    }
    if let Some(words) = budget::used_up(context, session)? {
        return Ok(Restarted::NoBudget(words));
    }
    go_on(context, session, options.words)?;
    Ok(Restarted::Started)
}

/// Goes on with a session: with the given words, or where it was interrupted.
fn go_on(context: &Context<'_>, session: &Session, words: Option<&str>) -> Result<()> {
    if launch::running(&context.store, session.sid)?.is_some() {
        stop::end(context, session.sid, "restarted")?;
    }
    let waiting = has_prompt_left(context, session.sid)?;
    let last = last_turn(context, session.sid)?;
    let text = match words {
        Some(words) => Some(words.to_owned()),
        // A prompt that was never begun is simply begun, if none before it was cut short.
        None if waiting && !last.cut => None,
        None => Some(continuation(session, last)),
    };
    let prompt = text.map(|text| Message::Prompt {
        text,
        from: Sender::User,
        again: words.is_none(),
    });
    match (&prompt, words) {
        (None, _) => prompts::begin_left(context, session.sid)?,
        (Some(prompt), Some(_)) => prompts::send(context, session.sid, prompt)?,
        (Some(prompt), None) => prompts::send_first(context, session.sid, prompt)?,
    };
    Ok(())
}

/// Returns whether a prompt waits whose turn never began.
fn has_prompt_left(context: &Context<'_>, sid: SessionId) -> Result<bool> {
    let recorded = context.store.session(sid)?;
    Ok(!prompts::left(context, sid, recorded.as_ref())?.is_empty())
}

/// The turn that was begun last.
#[derive(Debug, Default)]
struct LastTurn {
    prompt: Option<String>,
    /// Whether it did not come to its end.
    cut: bool,
}

fn last_turn(context: &Context<'_>, sid: SessionId) -> Result<LastTurn> {
    let mut last = LastTurn::default();
    let tip = context.store.log_tip(sid)?.map(|tip| tip.id);
    events::for_each(context, sid, tip, &mut |event| {
        match event.body {
            Body::Prompt { text, .. } => {
                last.prompt = Some(text);
                last.cut = true;
            }
            Body::Status {
                to: State::Ready | State::Failed,
                ..
            } => last.cut = false,
            _ => {}
        }
        Ok(true)
    })?;
    Ok(last)
}

/// Returns the prompt to continue with: an agent that remembers is told to continue, another gets its last prompt
/// again.
fn continuation(session: &Session, last: LastTurn) -> String {
    match (&session.vendor_session, last.cut) {
        (Some(_), true) => GO_ON.to_owned(),
        (Some(_), false) => MORE.to_owned(),
        (None, _) => last.prompt.unwrap_or_else(|| session.task.clone()),
    }
}
