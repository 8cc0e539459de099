//! Verdicts: what reviewers decided about a session's work as it is now, and giving one.

use super::context::Context;
use super::work::{self, Keep, Work};
use super::{SessionId, State, launch, remark, steer};
use crate::error::{Error, Result};
use crate::process::lock::Lock;
use crate::process::tree;
use crate::review::standing::{Opinion, judge};
use crate::review::{Action, Review, Verdict};
use crate::store::append::SessionWriter;
use crate::store::list::Listed;

/// Returns what reviewers decided about a session's work as it is now, and that work. Nothing is remembered.
pub fn of(context: &Context<'_>, listed: &Listed) -> Result<(Work, Opinion)> {
    let review = remark::load(context)?.of(listed.session.sid);
    with_review(context, listed, &review)
}

/// Returns the same from records that are read already.
pub fn with_review(
    context: &Context<'_>,
    listed: &Listed,
    review: &Review,
) -> Result<(Work, Opinion)> {
    let work = work::look(context, listed, Keep::Nothing)?;
    let opinion = about(review, listed.session.sid, &work);
    Ok((work, opinion))
}

/// Returns what records say about some work.
pub fn about(review: &Review, sid: SessionId, work: &Work) -> Opinion {
    judge(review, sid, &work.tip.to_string(), &work.tree.to_string())
}

/// Gives a verdict on exactly the work as it is now, and returns that work.
///
/// What is judged stays in the session's snapshots. The state of one's own session follows the verdict. Where somebody was
/// shown the work before, only what was `seen` is judged: if it has changed meanwhile, that is an error.
pub fn give(
    context: &Context<'_>,
    listed: &Listed,
    verdict: Verdict,
    why: &str,
    seen: Option<&Work>,
) -> Result<Work> {
    let session = &listed.session;
    if verdict == Verdict::Approve {
        forbid_own(context, listed)?;
    }
    if listed.is_mine() && verdict != Verdict::RequestChanges {
        steer::require_idle(context, session)?;
    }
    let work = work::look(context, listed, Keep::Snapshot)?;
    if let Some(seen) = seen
        && (seen.tip, seen.tree) != (work.tip, work.tree)
    {
        let name = &session.name;
        return Err(
            Error::negative(format!("session '{name}' has changed since it was shown"))
                .hint(format!("git agent review diff {name}")),
        );
    }
    let action = Action::Verdict {
        verdict,
        commit: work.tip.to_string(),
        tree: Some(work.tree.to_string()),
        body: why.to_owned(),
    };
    let who = remark::author(context)?;
    remark::write(context, session.sid, work.tip, &who, vec![action])?;
    if listed.is_mine() {
        let (state, reason) = match verdict {
            Verdict::Approve => (State::Approved, "approved"),
            Verdict::RequestChanges => (State::ChangesRequested, "changes were requested"),
            Verdict::Reject => (State::Rejected, "rejected"),
        };
        set_state(context, session.sid, state, reason)?;
    }
    Ok(work)
}

/// Refuses an agent that judges its own work.
fn forbid_own(context: &Context<'_>, listed: &Listed) -> Result<()> {
    let sid = listed.session.sid;
    let variable = context.env.var("GIT_AGENT_SESSION");
    let inside = variable == Some(sid.as_str())
        || tree::inherited_mark("GIT_AGENT_SESSION").as_deref() == Some(sid.as_str());
    if !inside {
        return Ok(());
    }
    Err(Error::fatal(format!(
        "session '{}' cannot approve its own work",
        listed.session.name
    ))
    .hint("a person approves it outside of the session, or another session does"))
}

/// Records the state of a session, if nobody works in it. Returns whether it was recorded.
pub fn set_state(context: &Context<'_>, sid: SessionId, to: State, reason: &str) -> Result<bool> {
    context.store.require_dir("run")?;
    let Some(_lock) = Lock::try_acquire(context.env, launch::run_lock(&context.store, sid))? else {
        return Ok(false);
    };
    let mut writer = SessionWriter::open(&context.store, sid, context.redactor())?;
    let possible = writer.session().status.may_become(to);
    if possible {
        writer.set_status(to, reason)?;
    }
    writer.close()?;
    Ok(possible)
}
