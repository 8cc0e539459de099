//! Verdicts: what reviewers decided about a session's work as it is now, and giving one.

use std::time::Duration;

use super::context::Context;
use super::work::{self, Keep, Work};
use super::{Person, Session, SessionId, State, inside, launch, remark, steer};
use crate::cores;
use crate::error::{Error, Result, shell_word};
use crate::git::Repo;
use crate::git::capture::Checkout;
use crate::git::scan::Hidden;
use crate::review::standing::{Opinion, Standing, judge, session_of};
use crate::review::{Action, Review, Verdict};
use crate::store::append::SessionWriter;
use crate::store::list::Listed;

/// How often and how long it is tried to let a state follow a verdict while somebody else does the same.
const ATTEMPTS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(1);

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

/// Returns how sessions stand with their reviewers. Nothing is written, and only files that a verdict may still be about
/// are looked at, on all cores.
pub fn standings(context: &Context<'_>, asked: &[(Listed, &Review)]) -> Vec<Result<Standing>> {
    let places: Vec<_> = asked
        .iter()
        .map(|(listed, review)| (work::place(context, listed), *review))
        .collect();
    let own = || context.repo.clone();
    let looked = cores::each(&places, own, |repo, (place, review)| {
        let at = place.as_ref().ok()?.as_ref()?;
        Some(files_judged(repo, at, review))
    });
    asked
        .iter()
        .zip(looked)
        .map(|((listed, review), looked)| {
            let sid = listed.session.sid;
            match looked {
                Some(Ok((tip, tree))) => Ok(judge(review, sid, &tip, &tree).standing),
                Some(Err(error)) => Err(error),
                None => Ok(with_review(context, listed, review)?.1.standing),
            }
        })
        .collect()
}

/// Returns the last commit in a worktree and its files, as verdicts name them. Files that no verdict can be about, because
/// none is about the commit, are not looked at.
fn files_judged(repo: &Repo, at: &Checkout, review: &Review) -> Result<(String, String)> {
    let none = || Error::fatal(format!("'{}' has no commit yet", at.top.display()));
    let tip = repo.head_of(at)?.ok_or_else(none)?.to_string();
    if !review.verdicts.values().any(|given| given.commit == tip) {
        return Ok((tip, String::new()));
    }
    let seen = repo.capture(at, Hidden::Look)?;
    let tip = seen.head.ok_or_else(none)?;
    Ok((tip.to_string(), seen.tree.to_string()))
}

/// Returns the last commit of a session and its files as they are now, as verdicts name them.
pub fn files_now(
    context: &Context<'_>,
    listed: &Listed,
    review: &Review,
) -> Result<(String, String)> {
    match work::place(context, listed)? {
        Some(at) => files_judged(context.repo, &at, review),
        None => {
            let work = work::look(context, listed, Keep::Nothing)?;
            Ok((work.tip.to_string(), work.tree.to_string()))
        }
    }
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
    let action = Action::Verdict {
        verdict,
        commit: work.tip.to_string(),
        tree: Some(work.tree.to_string()),
        base: Some(work.base.to_string()),
        body: why.to_owned(),
    };
    let who = remark::author(context)?;
    remark::write(context, session.sid, work.tip, &who, vec![action])?;
    if listed.is_mine() {
        follow(context, session, &who)?;
    }
    Ok(work)
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
        let review = remark::load_one(context, session.sid)?;
        let Some(given) = review.verdicts.get(&judge) else {
            break;
        };
        if followed == Some(given.id) {
            break;
        }
        let (state, reason) = match given.verdict {
            Verdict::Approve => (State::Approved, "approved"),
            Verdict::RequestChanges => (State::ChangesRequested, "changes were requested"),
            Verdict::Reject => (State::Rejected, "rejected"),
        };
        if set_state(context, session.sid, state, reason)?.is_some() {
            followed = Some(given.id);
        } else if !steer::is_idle(context, session)? {
            // Its agent is at work: what becomes of that decides about the state.
            break;
        } else {
            steer::wait_until_free(context, session.sid, PATIENCE)?;
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
    if listed.is_mine() {
        // A supervisor whose turn is over is waited for in any case, so that the state can follow.
        let idle = steer::require_idle(context, &listed.session);
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
        "git agent review request-changes {name} -m \"<what>\""
    )))
}

/// Refuses an agent that judges its own work, whatever it says about who it is.
fn forbid_own(context: &Context<'_>, listed: &Listed, verdict: Verdict) -> Result<()> {
    let Some(biased) = inside::bias(context, &listed.session)? else {
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
