//! Verdicts: those that count for a session's current work, and giving one.

use std::time::Duration;

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::ObjectId;
use crate::model::review::standing::{Opinion, counts, is_unnamed, judge, session_of};
use crate::model::review::{Action, Review, Verdict};
use crate::model::session::{Person, Session, SessionId, State};
use crate::review::shown::Shown;
use crate::review::state::Regard;
use crate::review::{draft, git_notes, last_seen, records};
use crate::session::control::state;
use crate::session::worktree::work::{self, Keep, Work};
use crate::session::{caller, control};
use crate::store::list::Listed;

/// How often and how long it is tried to let a state follow a verdict while another process does the same.
const ATTEMPTS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the verdicts in the records that apply to some work.
pub fn about(review: &Review, sid: SessionId, work: &Work) -> Opinion {
    judge(review, sid, &work.tip.to_string(), &work.tree.to_string())
}

/// The sessions that a verdict is about.
#[derive(Debug)]
pub enum Cases {
    /// Sessions that were named: they are judged as they are, together or not at all as far as that can be told before.
    Named(Vec<Listed>),
    /// Sessions that a filter found: those that wait for the verdict are shown, and judged exactly as they were shown.
    Found(Vec<Listed>),
    /// Work that a screen shows: it is judged exactly as it is shown there.
    Shown(Box<(Listed, Work)>),
}

impl Cases {
    /// Returns the case of work that a screen shows.
    pub fn of_shown(shown: &Shown) -> Result<Self> {
        let origin = shown.origin()?;
        Ok(Cases::Shown(Box::new((
            origin.listed.clone(),
            origin.work.clone(),
        ))))
    }
}

/// A session that a filter found and that waits for a verdict.
#[derive(Debug)]
pub struct Waiting {
    /// The session.
    pub listed: Listed,
    /// Its work, which is judged only as it is here.
    pub work: Work,
    /// How many files changed.
    pub files: u64,
    /// How many lines were added.
    pub added: u64,
    /// How many lines were deleted.
    pub deleted: u64,
    /// How many comments are open.
    pub open_comments: u64,
}

/// A verdict that was given.
#[derive(Debug)]
pub struct Decision {
    /// The session.
    pub listed: Listed,
    /// The work that was judged.
    pub work: Work,
    /// The files as they were last shown, and how many differ from those; nothing where all of it was shown.
    pub unseen: Option<(ObjectId, u64)>,
}

/// The result of a verdict on some sessions.
#[derive(Debug)]
pub struct Decided {
    /// The verdicts that were given.
    pub decisions: Vec<Decision>,
    /// Whether some sessions were not judged.
    pub incomplete: bool,
    /// The session in which the verdicts were given, if its approval does not count.
    pub unheard: Option<String>,
    /// The failure that ended it after some verdicts were given.
    pub failure: Option<Error>,
}

/// Receives the progress of giving verdicts, and asks for confirmation.
pub trait VerdictReporter {
    /// A session that a filter found cannot be judged.
    fn left_out(&mut self, session: &Session, why: &Error);

    /// Shows a session before it is judged.
    fn show(&mut self, waiting: &Waiting) -> Result<()>;

    /// Asks whether so many sessions shall be judged as they were shown.
    fn agrees(&mut self, sessions: usize) -> Result<bool>;

    /// A verdict was given.
    fn decided(&mut self, decision: &Decision);

    /// A session that was shown could not be judged.
    fn failed(&mut self, error: &Error);
}

/// Gives a verdict on sessions, and reports the result. A reason that could not be recorded is kept in a file.
pub fn decide(
    context: &Context<'_>,
    chosen: Cases,
    verdict: Verdict,
    why: &str,
    reporter: &mut dyn VerdictReporter,
) -> Result<Decided> {
    let mut is_on_screen = false;
    let cases = draft::keeping(context, "message", why, || match chosen {
        Cases::Named(named) => named_cases(context, named, verdict),
        Cases::Found(found) => found_cases(context, found, verdict, reporter),
        Cases::Shown(shown) => {
            let (listed, work) = *shown;
            is_on_screen = true;
            Ok(vec![(listed, Some(work))])
        }
    })?;
    let many = cases.len();
    let mut decisions = Vec::new();
    let mut failure = None;
    for (listed, seen) in cases {
        let was_shown = seen.is_some();
        let given = draft::keeping(context, "message", why, || {
            decide_one(context, listed, verdict, why, seen.as_ref())
        });
        match given {
            Ok(decision) => {
                reporter.decided(&decision);
                decisions.push(decision);
            }
            // Sessions that a filter found are judged as far as it goes.
            Err(error) if was_shown && !is_on_screen => reporter.failed(&error),
            Err(error) if decisions.is_empty() => return Err(error),
            // The verdicts before it are told all the same.
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    let unheard = match decisions.first() {
        Some(decision) => unheard(context, decision.listed.session.sid)?,
        None => None,
    };
    let failure = failure.or(git_notes::refresh(context).err());
    Ok(Decided {
        incomplete: decisions.len() < many,
        decisions,
        unheard,
        failure,
    })
}

/// A session to judge, and its work if that was shown.
type Case = (Listed, Option<Work>);

fn named_cases(context: &Context<'_>, named: Vec<Listed>, verdict: Verdict) -> Result<Vec<Case>> {
    if named.len() > 1 {
        for listed in &named {
            require(context, listed, verdict)?;
        }
    }
    Ok(named.into_iter().map(|listed| (listed, None)).collect())
}

/// Returns the sessions that wait for a verdict, once they were shown and agreed to.
fn found_cases(
    context: &Context<'_>,
    found: Vec<Listed>,
    verdict: Verdict,
    reporter: &mut dyn VerdictReporter,
) -> Result<Vec<Case>> {
    let reviews = records::load(context)?;
    let mut cases = Vec::new();
    for listed in found {
        if listed.session.resolves().is_some() {
            continue;
        }
        let review = reviews.of(listed.session.sid);
        let work = match work::look(context, &listed, Keep::Nothing) {
            Ok(work) => work,
            Err(_) if !waits(listed.session.status, verdict) => continue,
            Err(error) => {
                reporter.left_out(&listed.session, &error);
                continue;
            }
        };
        let regard = Regard::of_work(context.repo, &listed.session, &review, &work);
        if waits(regard.state, verdict) {
            let waiting = waiting(context, listed, work, &review)?;
            reporter.show(&waiting)?;
            cases.push((waiting.listed, Some(waiting.work)));
        }
    }
    if cases.is_empty() {
        return Err(
            Error::negative("none of these sessions needs this verdict").hint("git agent review")
        );
    }
    if !reporter.agrees(cases.len())? {
        return Err(Error::negative("nothing was decided"));
    }
    Ok(cases)
}

/// Returns whether a session that was not named is one for a verdict: only a ready session is approved.
fn waits(state: State, verdict: Verdict) -> bool {
    match verdict {
        Verdict::Approve => state == State::Ready,
        Verdict::RequestChanges | Verdict::Reject => {
            matches!(
                state,
                State::Ready | State::Approved | State::ChangesRequested
            )
        }
    }
}

/// Counts the work that a session is about to be judged on.
pub fn waiting(
    context: &Context<'_>,
    listed: Listed,
    work: Work,
    review: &Review,
) -> Result<Waiting> {
    let base = context.repo.tree_of(work.base)?;
    let counts = context.repo.numstat(base, work.tree)?;
    let lines = || counts.iter().filter_map(|counted| counted.lines);
    let open = review.threads.iter().filter(|thread| thread.is_open());
    Ok(Waiting {
        files: counts.len() as u64,
        added: lines().map(|(added, _)| added).sum(),
        deleted: lines().map(|(_, deleted)| deleted).sum(),
        open_comments: open.count() as u64,
        listed,
        work,
    })
}

fn decide_one(
    context: &Context<'_>,
    listed: Listed,
    verdict: Verdict,
    why: &str,
    seen: Option<&Work>,
) -> Result<Decision> {
    let work = give(context, &listed, verdict, why, seen)?;
    let unseen = match seen {
        Some(_) => None,
        None => unseen(context, &listed, &work)?,
    };
    last_seen::remember(context, listed.session.sid, &work)?;
    Ok(Decision {
        listed,
        work,
        unseen,
    })
}

/// Approves a session's work exactly as the user was shown it; fails if it has changed meanwhile.
pub fn approve_as_shown(context: &Context<'_>, listed: &Listed, seen: &Work) -> Result<()> {
    let work = give(context, listed, Verdict::Approve, "", Some(seen))?;
    last_seen::remember(context, listed.session.sid, &work)?;
    git_notes::refresh(context)
}

/// Returns the files as they were when the work was last shown, and how many are not like that any more.
fn unseen(context: &Context<'_>, listed: &Listed, work: &Work) -> Result<Option<(ObjectId, u64)>> {
    let Some(seen) = last_seen::last(context, listed.session.sid)? else {
        return Ok(None);
    };
    let since = last_seen::since(context, &seen, work)?;
    let files = context.repo.numstat(since.tree, work.tree)?.len() as u64;
    Ok((files > 0).then_some((since.tree, files)))
}

/// Gives a verdict on the exact current work, and returns that work.
///
/// The judged work stays in the session's snapshots. The state of one's own session follows the verdict. Work that was
/// shown before is judged only as it was `seen`: if it has changed meanwhile, that is an error.
fn give(
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
fn unheard(context: &Context<'_>, sid: SessionId) -> Result<Option<String>> {
    let who = records::author(context)?;
    let (Some(_), Some(writer)) = (session_of(&who), context.store.writer()?) else {
        return Ok(None);
    };
    let review = records::load_one(context, sid)?;
    let given = review.verdicts.get(&(writer, session_of(&who)));
    let unheard = given.is_some_and(|given| is_unnamed(&review, given));
    Ok(unheard.then_some(who.name))
}

/// Lets the state of one's own session follow the last verdict of a reviewer. Of two that were given at once that is
/// the one which counts, not the one that comes here last.
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
            // Its agent is at work: the outcome of the turn decides the state.
            break;
        } else {
            control::idle::wait_until_free(context, session.sid, PATIENCE)?;
        }
    }
    Ok(())
}

/// Makes sure that a verdict can be given, as far as that can be told before.
fn require(context: &Context<'_>, listed: &Listed, verdict: Verdict) -> Result<()> {
    require_open(context, listed, verdict)?;
    work::look(context, listed, Keep::Nothing)?;
    Ok(())
}

/// Makes sure that a session is open for a verdict of this caller.
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

/// Refuses a verdict on work that has landed or was discarded.
fn forbid_over(listed: &Listed, verdict: Verdict) -> Result<()> {
    let session = &listed.session;
    let over = matches!(session.status, State::Merged | State::Discarded);
    if !over || verdict == Verdict::RequestChanges {
        return Ok(());
    }
    let (name, state) = (&session.name, session.status.as_str());
    Err(Error::fatal(format!(
        "session '{name}' is already {state}: it takes no verdict"
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

/// Refuses an agent's verdict on its own work, whatever identity it claims.
fn forbid_own(context: &Context<'_>, listed: &Listed, verdict: Verdict) -> Result<()> {
    if caller::is_test(context) {
        return Err(Error::fatal("the tests of a merge cannot give a verdict")
            .hint("run this command outside of the tests"));
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
