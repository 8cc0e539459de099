//! The state of a session and the verdict on its current work. Every command that shows, selects or merges sessions
//! takes both from here, so that all commands agree.

use crate::context::Context;
use crate::cores;
use crate::error::{Error, Result};
use crate::git::Repo;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::scan::Hidden;
use crate::model::review::Review;
use crate::model::review::standing::{Opinion, Standing, judge};
use crate::model::session::{Session, State};
use crate::review::records;
use crate::session::worktree::base;
use crate::session::worktree::work::{self, Keep, Work};
use crate::store::list::Listed;

/// The commit and the files that verdicts are compared with, as they name them.
pub type Files = (String, String);

/// A session as its reviewers left it.
#[derive(Debug, Clone)]
pub struct Regard {
    /// The state it is really in.
    pub state: State,
    /// The verdicts on its work.
    pub opinion: Opinion,
}

impl Regard {
    /// Returns how a session stands whose work is at some commit and files.
    fn of_files(session: &Session, review: &Review, (tip, tree): &Files) -> Self {
        let opinion = judge(review, session.sid, tip, tree);
        Regard {
            state: state(session.status, &opinion),
            opinion,
        }
    }

    /// Returns how a session stands whose work was looked at.
    pub fn of_work(repo: &Repo, session: &Session, review: &Review, work: &Work) -> Self {
        Regard::of_files(session, review, &files_of(repo, session, review, work))
    }
}

/// Returns the state of a session given its verdicts. The record of an idle session may be older than its verdicts:
/// approved work may have changed, or changed back.
fn state(recorded: State, opinion: &Opinion) -> State {
    if !is_reviewed(recorded) || opinion.verdicts.is_empty() {
        return recorded;
    }
    match opinion.standing {
        Standing::Approved => State::Approved,
        Standing::ChangesRequested => State::ChangesRequested,
        Standing::Rejected => State::Rejected,
        Standing::Stale | Standing::Unjudged if recorded == State::Approved => State::Ready,
        Standing::Stale | Standing::Unjudged => recorded,
    }
}

/// Returns whether a verdict decides the next state.
fn is_reviewed(state: State) -> bool {
    matches!(
        state,
        State::Ready | State::Approved | State::ChangesRequested
    )
}

/// Returns the work that verdicts are compared with: the given work, or for a merged session the merged work.
pub fn files_of(repo: &Repo, session: &Session, review: &Review, work: &Work) -> Files {
    landed(repo, session, review).unwrap_or_else(|| (work.tip.to_string(), work.tree.to_string()))
}

/// Returns the work of a merged session. Uncommitted work was committed as it was approved, on top of the judged commit.
fn landed(repo: &Repo, session: &Session, review: &Review) -> Option<Files> {
    if session.status != State::Merged {
        return None;
    }
    let code = base::recorded(repo, session.code.as_deref())?;
    let commit = repo.read_commit(code).ok()?;
    let tree = commit.tree.to_string();
    let before = commit.parents.first().map(ToString::to_string);
    let is_judged = |tip: &String| {
        let mut verdicts = review.verdicts.values();
        verdicts.any(|given| given.commit == *tip && given.tree.as_ref() == Some(&tree))
    };
    let tip = before.filter(is_judged).unwrap_or_else(|| code.to_string());
    Some((tip, tree))
}

/// Returns how sessions stand. Nothing is written, and only files that a verdict may still be about are looked at, on all
/// cores.
pub fn all(context: &Context<'_>, asked: &[(Listed, &Review)]) -> Vec<Result<Regard>> {
    let places: Vec<_> = asked
        .iter()
        .map(|(listed, review)| {
            let known = landed(context.repo, &listed.session, review);
            (known, work::place(context, listed), *review)
        })
        .collect();
    let own = || context.repo.clone();
    let looked = cores::each(&places, own, |repo, (known, place, review)| match known {
        Some(files) => Some(Ok(files.clone())),
        None => Some(files_judged(repo, place.as_ref().ok()?.as_ref()?, review)),
    });
    asked
        .iter()
        .zip(looked)
        .map(|((listed, review), looked)| {
            let files = match looked {
                Some(files) => files?,
                None => files_recorded(context, listed)?,
            };
            Ok(Regard::of_files(&listed.session, review, &files))
        })
        .collect()
}

/// Returns the work that the verdicts on a session are compared with now.
pub fn files_now(context: &Context<'_>, listed: &Listed, review: &Review) -> Result<Files> {
    if let Some(files) = landed(context.repo, &listed.session, review) {
        return Ok(files);
    }
    match work::place(context, listed)? {
        Some(at) => files_judged(context.repo, &at, review),
        None => files_recorded(context, listed),
    }
}

/// Returns the last commit in a worktree and its files. Files that no verdict can be about, because none is about the commit,
/// are not looked at.
fn files_judged(repo: &Repo, at: &Checkout, review: &Review) -> Result<Files> {
    let none = || Error::fatal(format!("'{}' has no commit yet", at.top.display()));
    let tip = repo.head_of(at)?.ok_or_else(none)?.to_string();
    if !review.verdicts.values().any(|given| given.commit == tip) {
        return Ok((tip, String::new()));
    }
    let seen = repo.capture(at, Hidden::Look)?;
    let tip = seen.head.ok_or_else(none)?;
    Ok((tip.to_string(), seen.tree.to_string()))
}

/// Returns the same of a session without a worktree here.
fn files_recorded(context: &Context<'_>, listed: &Listed) -> Result<Files> {
    let work = work::look(context, listed, Keep::Nothing)?;
    Ok((work.tip.to_string(), work.tree.to_string()))
}

/// Gives sessions the states that they are really in. One whose verdicts or work cannot be read keeps the recorded one.
pub fn settle(context: &Context<'_>, sessions: &mut [Listed]) {
    let reviewed = |listed: &Listed| is_reviewed(listed.session.status);
    if !sessions.iter().any(reviewed) {
        return;
    }
    let Ok(reviews) = records::load(context) else {
        return;
    };
    let mut judged = Vec::new();
    let mut asked = Vec::new();
    for (index, listed) in sessions.iter().enumerate() {
        let review = reviews.sessions.get(&listed.session.sid);
        if let Some(review) = review.filter(|review| !review.verdicts.is_empty())
            && reviewed(listed)
        {
            judged.push(index);
            asked.push((listed.clone(), review));
        }
    }
    for (index, regard) in judged.into_iter().zip(all(context, &asked)) {
        if let Ok(regard) = regard {
            sessions[index].session.status = regard.state;
        }
    }
}

/// Gives one of this clone's sessions the state that it is really in.
pub fn settle_own(context: &Context<'_>, session: &mut Session) {
    if !is_reviewed(session.status) {
        return;
    }
    let Ok(review) = records::load_one(context, session.sid) else {
        return;
    };
    let listed = Listed::own(session.clone());
    if !review.verdicts.is_empty()
        && let Ok(files) = files_now(context, &listed, &review)
    {
        session.status = Regard::of_files(session, &review, &files).state;
    }
}
