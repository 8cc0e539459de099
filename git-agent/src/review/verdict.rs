//! Verdicts: what reviewers decided about a session's work as it is now, and giving one.

use std::time::Duration;

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::review::standing::{Opinion, counts, is_unnamed, judge, session_of};
use crate::model::review::{Action, Review, Verdict};
use crate::model::session::{Person, Session, SessionId, State};
use crate::review::records;
use crate::session::control::state;
use crate::session::worktree::work::{self, Keep, Work};
use crate::session::{caller, control};
use crate::store::list::Listed;

/// How often and how long it is tried to let a state follow a verdict while somebody else does the same.
const ATTEMPTS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(1);

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
    require_open(context, listed, verdict)?;
    let work = work::look(context, listed, Keep::Snapshot)?;
    if let Some(seen) = seen
        && (seen.base, seen.tip, seen.tree) != (work.base, work.tip, work.tree)
    {
        let name = &session.name;
        return Err(
            Error::negative(format!("session '{name}' has changed since it was shown"))
                .hint(format!("git agent review diff {}", shell_word(name))),
        );
    }
    if verdict == Verdict::Approve
        && let Some(path) = work::refused_path(context, &work)?
    {
        let name = &session.name;
        return Err(Error::fatal(format!(
            "session '{name}' cannot be approved: git refuses to check out '{path}'"
        ))
        .hint(format!("git agent shell {}", shell_word(name))));
    }
    let action = Action::Verdict {
        verdict,
        commit: work.tip.to_string(),
        tree: Some(work.tree.to_string()),
        base: Some(work.base.to_string()),
        body: why.to_owned(),
    };
    let who = records::author(context)?;
    records::write(context, session.sid, work.tip, &who, vec![action])?;
    if listed.is_mine() {
        follow(context, session, &who)?;
    }
    Ok(work)
}

/// Returns the session in which this command gives verdicts, if its approval of a session does not count.
pub fn unheard(context: &Context<'_>, sid: SessionId) -> Result<Option<String>> {
    let who = records::author(context)?;
    let (Some(_), Some(writer)) = (session_of(&who), context.store.writer()?) else {
        return Ok(None);
    };
    let review = records::load_one(context, sid)?;
    let given = review.verdicts.get(&(writer, session_of(&who)));
    let unheard = given.is_some_and(|given| is_unnamed(&review, given));
    Ok(unheard.then_some(who.name))
}

/// Lets the state of one's own session follow the last verdict of a reviewer. Of two that were given at once that is the one
/// which counts, whoever comes here last.
fn follow(context: &Context<'_>, session: &Session, who: &Person) -> Result<()> {
    let Some(writer) = context.store.writer()? else {
        return Ok(());
    };
    let judge = (writer, session_of(who));
    let mut followed = None;
    for _ in 0..ATTEMPTS {
        let review = records::load_one(context, session.sid)?;
        let Some(given) = review.verdicts.get(&judge) else {
            break;
        };
        if followed == Some(given.id) {
            break;
        }
        if !counts(&review, session.sid, given) {
            break;
        }
        let state = match given.verdict {
            Verdict::Approve => State::Approved,
            Verdict::RequestChanges => State::ChangesRequested,
            Verdict::Reject => State::Rejected,
        };
        // The state says it all.
        if state::set_state(context, session.sid, state, "")?.is_some() {
            followed = Some(given.id);
        } else if !control::idle::is_idle(context, session)? {
            // Its agent is at work: what becomes of that decides about the state.
            break;
        } else {
            control::idle::wait_until_free(context, session.sid, PATIENCE)?;
        }
    }
    Ok(())
}

/// Makes sure that a verdict can be given, as far as that can be told before.
pub fn require(context: &Context<'_>, listed: &Listed, verdict: Verdict) -> Result<()> {
    require_open(context, listed, verdict)?;
    work::look(context, listed, Keep::Nothing)?;
    Ok(())
}

/// Makes sure that a session is one for a verdict of whoever gives it.
fn require_open(context: &Context<'_>, listed: &Listed, verdict: Verdict) -> Result<()> {
    forbid_own(context, listed, verdict)?;
    forbid_over(listed, verdict)?;
    forbid_resolver(context, listed)?;
    if listed.is_mine() {
        // A supervisor whose turn is over is waited for in any case, so that the state can follow.
        let idle = control::idle::require_idle(context, &listed.session);
        if verdict != Verdict::RequestChanges {
            idle?;
        }
    }
    Ok(())
}

/// Refuses to let land, or to keep from landing, what has landed or was given up.
fn forbid_over(listed: &Listed, verdict: Verdict) -> Result<()> {
    let session = &listed.session;
    let over = matches!(session.status, State::Merged | State::Discarded);
    if !over || verdict == Verdict::RequestChanges {
        return Ok(());
    }
    let (name, state) = (&session.name, session.status.as_str());
    Err(Error::fatal(format!(
        "session '{name}' is {state} already: there is nothing to decide"
    ))
    .hint(format!(
        "git agent review request-changes {} -m \"<what>\"",
        shell_word(name)
    )))
}

/// Refuses to judge the resolution of a conflict: it is reviewed as part of the session that takes it over.
fn forbid_resolver(context: &Context<'_>, listed: &Listed) -> Result<()> {
    let Some(resolved) = listed.session.resolves() else {
        return Ok(());
    };
    let name = &listed.session.name;
    let resolved = context.store.session(resolved)?;
    let error = match &resolved {
        Some(resolved) => Error::fatal(format!(
            "session '{name}' resolves a conflict of '{}'",
            resolved.name
        )),
        None => Error::fatal(format!("session '{name}' resolves a conflict")),
    };
    Err(match resolved {
        Some(resolved) => error.hint(format!(
            "git agent review approve {}",
            shell_word(&resolved.name)
        )),
        None => error,
    })
}

/// Refuses an agent that judges its own work, whatever it says about who it is.
fn forbid_own(context: &Context<'_>, listed: &Listed, verdict: Verdict) -> Result<()> {
    if caller::is_test(context) {
        return Err(Error::fatal("the tests of a merge cannot judge work")
            .hint("a person judges it outside of the tests"));
    }
    let Some(biased) = caller::bias(context, &listed.session)? else {
        return Ok(());
    };
    let (does, others) = match verdict {
        Verdict::Approve => ("approve", "a person approves"),
        _ => ("judge", "a person judges"),
    };
    let (name, judged) = (&biased.name, &listed.session.name);
    let error = match biased.why {
        None => Error::fatal(format!("session '{name}' cannot {does} its own work")),
        Some(why) => Error::fatal(format!(
            "session '{name}' cannot {does} the work of '{judged}': {why}"
        )),
    };
    Err(error.hint(format!(
        "{others} it outside of the session, or another session does"
    )))
}
