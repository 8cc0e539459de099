//! Sends a review back: the open comments and requests for changes that the agent has not seen become one prompt in the
//! same conversation.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::event_words::Sender;
use crate::model::review::Review;
use crate::model::review::standing::{Judged, Opinion};
use crate::model::session::{SessionId, State, Ulid, WriterId};
use crate::process::lock::Lock;
use crate::review::anchors::{self, Placed, Spot};
use crate::review::prompt::{self, Sent, Whose};
use crate::review::{last_seen, records, verdict};
use crate::session::caller::{self, Act};
use crate::session::control::state;
use crate::session::supervisor::budget;
use crate::session::supervisor::inbox::Message;
use crate::session::supervisor::prompts::{self, Delivery};
use crate::session::worktree::work::{self, Keep, Work};
use crate::store::list::Listed;

/// How long another process that sends is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The choice of comments to send.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendOptions<'w> {
    /// Words before everything else.
    pub preface: &'w str,
    /// Comments of teammates too, marked as theirs.
    pub others: bool,
    /// Comments that were sent before too, as long as they are open.
    pub again: bool,
    /// Only make the prompt.
    pub dry_run: bool,
}

/// A review that was sent, or would be.
#[derive(Debug)]
pub struct Outgoing {
    pub prompt: String,
    /// The requests for changes in it.
    pub requests: Vec<Ulid>,
    /// The threads in it, by their first comment.
    pub comments: Vec<Ulid>,
    /// How it was delivered; nothing where it was only made.
    pub delivery: Option<Delivery>,
}

#[derive(Debug)]
pub enum Sending {
    /// There was something to send.
    Review(Outgoing),
    /// There was nothing new, but an earlier prompt had not begun: the session was started for it.
    StartedEarlier,
}

/// Sends the review of a session to its agent, and keeps the work that it is about. Refuses a call from inside that
/// session; of several calls at the same time only one sends.
pub fn send(context: &Context<'_>, listed: &Listed, options: &SendOptions<'_>) -> Result<Sending> {
    let sid = listed.session.sid;
    let name = &listed.session.name;
    require(context, listed, options.dry_run)?;
    let _alone = if options.dry_run {
        None
    } else {
        Some(hold(context)?)
    };
    let review = records::load(context)?.of(sid);
    let keep = if options.dry_run {
        Keep::Nothing
    } else {
        Keep::Snapshot
    };
    let work = work::look(context, listed, keep)?;
    let said = Said::of(context, sid, &work, &review)?;
    let whose = if options.others {
        Whose::Everybody
    } else {
        Whose::Mine
    };
    let sent = if options.again {
        Sends::new()
    } else {
        prompt::sent(context, listed)?
    };
    let (requests, threads) = (said.requests(whose, &sent), said.threads(whose, &sent));
    if requests.is_empty() && threads.is_empty() {
        // One that was killed here may have left it unread.
        if !options.dry_run
            && let Some(Delivery::Started) = prompts::deliver_left(context, sid)?
        {
            return Ok(Sending::StartedEarlier);
        }
        let error = Error::negative(format!("session '{name}' has no open comment left to send"));
        return Err(error.hint(instead(&said, name, whose, &sent)));
    }
    let around = |spot: &Spot| anchors::around(context.repo, &work, spot);
    let me = said.me.as_ref();
    let preface = options.preface.trim();
    let prompt = prompt::prompt(&requests, &threads, &around, sid, me, whose, preface);
    let first = |placed: &&Placed<'_>| placed.thread.comments.first().map(|said| said.id);
    let mut message = Outgoing {
        prompt,
        requests: requests.iter().map(|judged| judged.given.id).collect(),
        comments: threads.iter().filter_map(first).collect(),
        delivery: None,
    };
    if !options.dry_run {
        message.delivery = Some(deliver(context, sid, message.prompt.clone())?);
        last_seen::remember(context, sid, &work)?;
    }
    Ok(Sending::Review(message))
}

/// Makes sure that the caller may send to a session.
fn require(context: &Context<'_>, listed: &Listed, dry_run: bool) -> Result<()> {
    let name = &listed.session.name;
    if !listed.is_mine() {
        return Err(Error::fatal(format!(
            "session '{name}' belongs to a teammate: only its owner can send to its agent"
        ))
        .hint("git agent push"));
    }
    if caller::is_in(context, listed.session.sid) {
        return Err(Error::fatal(format!(
            "session '{name}' cannot send comments to itself"
        )));
    }
    if dry_run {
        return Ok(());
    }
    caller::permit(context, Act::Prompt, [&listed.session])
}

/// Keeps others from sending until dropped, so that nothing is sent twice.
fn hold(context: &Context<'_>) -> Result<Lock> {
    let locks = context.store.require_dir("locks")?;
    Lock::acquire(context.env, locks.join("review-send"), PATIENCE)
}

/// Sends a prompt made of a review to the same conversation. The session asks for changes until its agent begins.
fn deliver(context: &Context<'_>, sid: SessionId, text: String) -> Result<Delivery> {
    if let Some(session) = context.store.session(sid)? {
        budget::require(context, &session)?;
    }
    state::set_state(
        context,
        sid,
        State::ChangesRequested,
        "review comments were sent",
    )?;
    let message = Message::Prompt {
        text,
        from: Sender::Review,
        again: false,
    };
    prompts::send(context, sid, &message)
}

/// Comments and verdicts that were sent, and when.
type Sends = BTreeMap<Ulid, Sent>;

/// The comments and requests on a session's current work.
struct Said<'r> {
    sid: SessionId,
    placed: Vec<Placed<'r>>,
    opinion: Opinion,
    me: Option<WriterId>,
}

impl<'r> Said<'r> {
    fn of(
        context: &Context<'_>,
        sid: SessionId,
        work: &Work,
        review: &'r Review,
    ) -> Result<Said<'r>> {
        Ok(Said {
            sid,
            placed: anchors::place_all(context, work, review)?,
            opinion: verdict::about(review, sid, work),
            me: context.store.writer()?,
        })
    }

    fn requests(&self, whose: Whose, sent: &Sends) -> Vec<&Judged> {
        prompt::requests(&self.opinion, self.me.as_ref(), whose, sent)
    }

    fn threads(&self, whose: Whose, sent: &Sends) -> Vec<&Placed<'r>> {
        prompt::unsent(&self.placed, self.sid, self.me.as_ref(), whose, sent)
    }

    /// Returns whether there is anything to send.
    fn has_any(&self, whose: Whose, sent: &Sends) -> bool {
        !self.requests(whose, sent).is_empty() || !self.threads(whose, sent).is_empty()
    }
}

/// Returns the command that sends a review to the author of the work; `None` if there is nothing to send, or if the
/// agent itself asks. It is only a hint, so an error counts as `None`.
pub fn next_step(context: &Context<'_>, listed: &Listed, work: &Work) -> Option<String> {
    if !listed.is_mine() {
        return Some("git agent push".to_owned());
    }
    let inside = caller::is_in(context, listed.session.sid);
    let name = shell_word(&listed.session.name);
    (!inside && would_send(context, listed, work).unwrap_or(true))
        .then(|| format!("git agent review send {name}"))
}

/// Returns whether `send` without options would send something about some work of a session.
fn would_send(context: &Context<'_>, listed: &Listed, work: &Work) -> Result<bool> {
    let sid = listed.session.sid;
    let review = records::load_one(context, sid)?;
    let said = Said::of(context, sid, work, &review)?;
    Ok(said.has_any(Whose::Mine, &prompt::sent(context, listed)?))
}

/// Returns a hint for a review with nothing new: an option, or a command, that would send something.
fn instead(said: &Said<'_>, name: &str, whose: Whose, sent: &Sends) -> String {
    let nothing = Sends::new();
    let again = said.has_any(whose, &nothing);
    let others = said.has_any(Whose::Everybody, sent);
    let both = said.has_any(Whose::Everybody, &nothing);
    match (again, others, both) {
        (true, true, _) => "send them again: --again, or those of teammates: --others".to_owned(),
        (true, false, _) => "send them again: --again".to_owned(),
        (false, true, _) => "send those of teammates: --others".to_owned(),
        (false, false, true) => "send those of teammates again: --others --again".to_owned(),
        (false, false, false) => comment_on(name),
    }
}

/// Returns the command that says something about a session, which can be sent then.
pub fn comment_on(name: &str) -> String {
    format!(
        "git agent review comment {} FILE:LINE -m \"<text>\"",
        shell_word(name)
    )
}
