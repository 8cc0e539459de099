//! Looking at what could go in: the target, and each session's work exactly as it is, uncommitted files included.

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::snapshot::capture::Checkout;
use crate::git::{ObjectId, Repo};
use crate::merge::conflicts;
use crate::merge::coverage::{self, Approved};
use crate::model::merge::plan::{self, Conflicts, Needed};
use crate::model::merge::{LeftOut, Strategy, Why};
use crate::model::review::authorship::{self, Claim};
use crate::model::review::standing::{Judged, Opinion, Standing};
use crate::model::review::{Review, Verdict};
use crate::model::session::{Session, SessionId, State};
use crate::review::records::{self, Reviews};
use crate::review::state::Regard;
use crate::selection::{self, Selection};
use crate::session::control;
use crate::session::supervisor::dependencies;
use crate::session::worktree::clean::is_integrated;
use crate::session::worktree::work::{self, Keep, Work};
use crate::store::list::{Listed, Scope};

/// The branch to merge into.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its short name.
    pub branch: String,
    /// Its full name.
    pub name: String,
    /// Its tip.
    pub tip: ObjectId,
    /// The working trees that have it checked out.
    pub checkouts: Vec<Checkout>,
}

/// A session that may go in.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The session.
    pub session: Session,
    /// Its work.
    pub work: Work,
    /// The sessions that it builds on: without them it does not land.
    pub needs: Vec<SessionId>,
    /// Who approved it, where nobody did whose name is worth more than that it is claimed.
    pub claimed: Option<String>,
}

/// Which sessions are meant, and what they need.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Names, ids, ends of ids.
    pub names: Vec<String>,
    /// Those of a group.
    pub group: Option<String>,
    /// What it takes to land.
    pub strategy: Strategy,
    /// Whether nothing at all may be written, not even snapshots.
    pub look_only: bool,
}

/// Finds the branch to merge into: the one that was named, else the parent that all chosen sessions have, else the one
/// that is checked out here.
pub fn target(context: &Context<'_>, wanted: Option<&str>, choice: &Choice) -> Result<Target> {
    let repo = context.repo;
    let branch = match wanted {
        Some(name) => name.to_owned(),
        None => default_target(context, choice)?,
    };
    let short = branch.strip_prefix("refs/heads/").unwrap_or(&branch);
    let name = format!("refs/heads/{short}");
    let tip = match repo.is_valid_branch(short) {
        true => repo.find_ref(&name)?,
        false => None,
    };
    let Some(tip) = tip else {
        return Err(no_branch(repo, short)?);
    };
    Ok(Target {
        branch: short.to_owned(),
        checkouts: repo.checkouts_of(&name)?,
        name,
        tip,
    })
}

fn default_target(context: &Context<'_>, choice: &Choice) -> Result<String> {
    if !choice.names.is_empty() || choice.group.is_some() {
        let chosen = chosen(context, choice)?;
        let mut parents: Vec<&str> = chosen
            .iter()
            .filter_map(|listed| listed.session.parent.as_deref())
            .collect();
        parents.sort_unstable();
        parents.dedup();
        if let [only] = parents.as_slice() {
            return Ok((*only).to_owned());
        }
    }
    context.repo.head()?.branch.ok_or_else(|| {
        Error::usage("HEAD is detached: say which branch to merge into")
            .hint("git agent merge --into BRANCH")
    })
}

fn no_branch(repo: &Repo, name: &str) -> Result<Error> {
    let is = |kind: &str| repo.find_ref(&format!("refs/{kind}/{name}"));
    if repo.is_valid_branch(name) {
        if is("tags")?.is_some() {
            return Ok(Error::fatal(format!(
                "'{name}' is a tag: only a branch can be merged into"
            ))
            .hint(format!("git branch NAME {}", shell_word(name))));
        }
        if is("remotes")?.is_some() {
            return Ok(Error::fatal(format!(
                "'{name}' is a remote-tracking branch: only a local one can be merged into"
            ))
            .hint(format!("git switch --track {}", shell_word(name))));
        }
    }
    Ok(Error::fatal(format!("no branch '{name}' to merge into")).hint("git branch --list"))
}

/// Returns the sessions that were chosen by name or group; all must be this clone's.
fn chosen(context: &Context<'_>, choice: &Choice) -> Result<Vec<Listed>> {
    let selection = Selection {
        names: choice.names.clone(),
        group: choice.group.clone(),
        ..Selection::default()
    };
    let listed = selection::select(context, &selection)?;
    if let Some(other) = listed.iter().find(|listed| !listed.is_mine()) {
        let name = &other.session.name;
        return Err(
            Error::fatal(format!("session '{name}' belongs to somebody else"))
                .hint(format!("git agent fork {}", shell_word(name))),
        );
    }
    Ok(listed)
}

/// Looks at every session that is meant, and returns those that may go in and those that may not.
pub fn gather(
    context: &Context<'_>,
    target: &Target,
    choice: &Choice,
) -> Result<(Vec<Candidate>, Vec<LeftOut>)> {
    let reviews = records::load(context)?;
    let named = !choice.names.is_empty() || choice.group.is_some();
    let sessions = match named {
        true => chosen(context, choice)?,
        false => of_target(context, target, &reviews)?,
    };
    let (mut goes, mut stays) = (Vec::new(), Vec::new());
    for listed in sessions {
        let review = reviews.of(listed.session.sid);
        let found = examine(context, target, &listed, &review, choice)?;
        let session = listed.session;
        match found {
            Ok(Found {
                work,
                against,
                claimed,
            }) => {
                let needs = dependencies::waits_for(&session);
                let candidate = Candidate {
                    session,
                    work,
                    needs,
                    claimed,
                };
                goes.push(Approved { candidate, against });
            }
            Err(why) => stays.push(LeftOut {
                sid: session.sid,
                name: session.name,
                why,
            }),
        }
    }
    let (goes, unseen) = match choice.strategy {
        Strategy::OrchestratorReview => coverage::sift(context, target, goes)?,
        _ => (
            goes.into_iter().map(|one| one.candidate).collect(),
            Vec::new(),
        ),
    };
    stays.extend(unseen);
    if !named && goes.is_empty() && stays.is_empty() {
        stays = of_others(context, target)?;
    }
    Ok((goes, stays))
}

/// Returns the sessions that are done and came from other branches: who finds nothing here may have meant those.
fn of_others(context: &Context<'_>, target: &Target) -> Result<Vec<LeftOut>> {
    let listing = selection::list(context, Scope::Mine)?;
    let other = |listed: Listed| {
        let session = listed.session;
        let done = matches!(session.status, State::Ready | State::Approved)
            && session.resolves().is_none();
        let parent = session.parent.filter(|parent| *parent != target.branch)?;
        done.then_some(LeftOut {
            sid: session.sid,
            name: session.name,
            why: Why::OtherParent(parent),
        })
    };
    Ok(listing.sessions.into_iter().filter_map(other).collect())
}

/// Returns the sessions that came from the target and have something to say about landing.
fn of_target(context: &Context<'_>, target: &Target, reviews: &Reviews) -> Result<Vec<Listed>> {
    let listing = selection::list(context, Scope::Mine)?;
    let mut sessions = Vec::new();
    for listed in listing.sessions {
        let session = &listed.session;
        let reviewed = !reviews.of(session.sid).verdicts.is_empty();
        let done = matches!(
            session.status,
            State::Ready | State::Approved | State::ChangesRequested
        );
        if session.parent.as_deref() == Some(target.branch.as_str())
            && !session.status.is_closed()
            && session.resolves().is_none()
            && (done || reviewed)
        {
            sessions.push(listed);
        }
    }
    Ok(sessions)
}

/// What was found of a session that may go in.
struct Found {
    work: Work,
    /// What its approvals were judged against.
    against: Vec<String>,
    /// Who claims to have approved it, if nobody else did.
    claimed: Option<String>,
}

/// Returns what was found of a session if it may go in; otherwise why not.
fn examine(
    context: &Context<'_>,
    target: &Target,
    listed: &Listed,
    review: &Review,
    choice: &Choice,
) -> Result<Result<Found, Why>> {
    let session = &listed.session;
    let state = session.status;
    if let Some(resolved) = session.resolves() {
        let name = context.store.session(resolved)?;
        let name = name.map_or_else(|| resolved.to_string(), |session| session.name);
        return Ok(Err(Why::Resolves(name)));
    }
    // Whoever only looks lets an agent stay that stays for the next prompt.
    let idle = match choice.look_only {
        true => control::idle::is_idle(context, session)?,
        false => control::idle::require_idle(context, session).is_ok(),
    };
    if state.needs_supervisor() || !idle {
        return Ok(Err(Why::AtWork(state)));
    }
    match state {
        State::Draft | State::Merged | State::Discarded => return Ok(Err(Why::State(state))),
        State::Rejected => return Ok(Err(Why::Rejected)),
        _ => {}
    }
    if session.branch.as_deref() == Some(target.branch.as_str()) {
        return Ok(Err(Why::Nothing));
    }
    if choice.strategy == Strategy::OrchestratorReview && review.verdicts.is_empty() {
        return Ok(Err(Why::NotApproved));
    }
    let work = match look(context, listed, choice.look_only)? {
        Ok(work) => work,
        Err(why) => return Ok(Err(why)),
    };
    let Regard { state, opinion } = Regard::of_work(context.repo, session, review, &work);
    if let Some(why) = objection(&opinion, state, choice.strategy) {
        return Ok(Err(match why {
            Why::NotApproved => no_approval(review, &opinion),
            why => why,
        }));
    }
    if context.repo.merge_base(target.tip, work.tip)?.is_none() {
        return Ok(Err(Why::Unrelated));
    }
    if work.is_committed() && context.repo.is_ancestor(work.tip, target.tip)? {
        return Ok(Err(Why::Nothing));
    }
    // Older records do not tell: theirs were judged against the parent.
    let against = |base: Option<String>| base.unwrap_or_else(|| work.base.to_string());
    let against = (opinion.approvals())
        .map(|judged| against(judged.given.base.clone()))
        .collect();
    let mut approvals = opinion.approvals();
    let shown = |judged: &Judged| authorship::shown(&judged.given.who.name, judged.given.claim);
    let is_claimed = |judged: &Judged| judged.given.claim == Some(Claim::Claimed);
    let claimed = (approvals.next()).filter(|first| is_claimed(first) && approvals.all(is_claimed));
    let claimed = claimed.map(shown);
    Ok(Ok(Found {
        work,
        against,
        claimed,
    }))
}

/// Returns why no approval lets the work land: there is none, or those that there are do not count.
fn no_approval(review: &Review, opinion: &Opinion) -> Why {
    let who = |judged: &Judged| authorship::shown(&judged.given.who.name, judged.given.claim);
    let mut all = opinion.verdicts.iter();
    if let Some(judged) = all.clone().find(|judged| judged.lacks_approver(review)) {
        return Why::NotByPerson(who(judged));
    }
    match all.find(|judged| judged.lacks_signature(review)) {
        Some(judged) => Why::NotVerified(who(judged)),
        None => Why::NotApproved,
    }
}

/// Returns what speaks against landing, given what reviewers said.
fn objection(opinion: &Opinion, state: State, strategy: Strategy) -> Option<Why> {
    let needs_review = strategy == Strategy::OrchestratorReview;
    match opinion.standing {
        Standing::Approved => None,
        Standing::Rejected => Some(Why::Rejected),
        Standing::ChangesRequested => Some(Why::ChangesRequested),
        Standing::Stale if needs_review => {
            let approves = |verdict: Verdict| verdict == Verdict::Approve;
            let given = opinion
                .verdicts
                .iter()
                .find(|judged| judged.counts && approves(judged.given.verdict));
            let commit = given.map_or("", |judged| judged.given.commit.as_str());
            Some(Why::Stale(commit.chars().take(10).collect()))
        }
        Standing::Unjudged if needs_review => Some(Why::NotApproved),
        // Without a reviewer only a turn that ended well counts.
        Standing::Stale | Standing::Unjudged => match state {
            State::Ready | State::Approved => None,
            state => Some(Why::State(state)),
        },
    }
}

/// Returns a session's work as it is now. A snapshot keeps it, unless only looking is allowed.
pub fn look(context: &Context<'_>, listed: &Listed, look_only: bool) -> Result<Result<Work, Why>> {
    let keep = match look_only {
        true => Keep::Nothing,
        false => Keep::Snapshot,
    };
    let work = match work::look(context, listed, keep) {
        Ok(work) => work,
        Err(error) => return Ok(Err(Why::Lost(error.message().to_owned()))),
    };
    let branch = listed.session.branch.as_deref();
    let tip = branch.map_or(Ok(None), |branch| context.repo.branch_tip(branch))?;
    match work.checkout.is_some() && tip != Some(work.tip) {
        true => Ok(Err(Why::OffBranch)),
        false => Ok(Ok(work)),
    }
}

/// Returns whether what a session builds on is in the target already.
pub fn needed(context: &Context<'_>, target: &Target, sid: SessionId) -> Needed {
    let Ok(Some(session)) = context.store.session(sid) else {
        return Needed::Missing(sid.to_string());
    };
    let tip = session
        .branch
        .as_deref()
        .and_then(|branch| context.repo.branch_tip(branch).ok().flatten());
    let mut towards = session.clone();
    towards.parent = Some(target.branch.clone());
    let landed = session.status == State::Merged
        || is_integrated(context.repo, &towards, tip).unwrap_or(false);
    match landed {
        true => Needed::Landed,
        false => Needed::Missing(session.name),
    }
}

/// Counts in how many files each two of these conflict. With fewer than three there is nothing to choose.
pub fn clashes(context: &Context<'_>, candidates: &[Candidate]) -> Result<Conflicts> {
    let mut found = Conflicts::new();
    if candidates.len() < 3 {
        return Ok(found);
    }
    let listed: Vec<Listed> = candidates
        .iter()
        .map(|candidate| Listed::own(candidate.session.clone()))
        .collect();
    let matrix = conflicts::matrix(context, &listed, &conflicts::Options::default())?;
    for pair in &matrix.between {
        let (Some(one), Some(other)) = (pair.ours.session, pair.theirs.session) else {
            continue;
        };
        let many = pair.verdict.clashing().len();
        if many > 0 {
            found.insert(plan::pair(one, other), many);
        }
    }
    Ok(found)
}
