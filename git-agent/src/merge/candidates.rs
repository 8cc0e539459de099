//! Finds the target branch and the sessions that may be merged, with the exact work of each, uncommitted files
//! included.

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::snapshot::capture::Checkout;
use crate::git::{ObjectId, Repo};
use crate::merge::conflicts;
use crate::merge::coverage::{self, Approved};
use crate::model::merge::plan::{self, Conflicts, Needed};
use crate::model::merge::{Attempt, LeftOut, Strategy, Why};
use crate::model::review::authorship::{self, Authorship};
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
    /// Short name, `main`.
    pub branch: String,
    /// Full name, `refs/heads/main`.
    pub name: String,
    pub tip: ObjectId,
    /// The worktrees that have it checked out.
    pub checkouts: Vec<Checkout>,
}

/// A session that may be merged.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub session: Session,
    pub work: Work,
    /// The sessions it builds on; it is merged only with them.
    pub needs: Vec<SessionId>,
    /// The approver, if the only approvals come from writers whose identity is not verified.
    pub claimed: Option<String>,
}

/// The chosen sessions and the condition for merging them.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Names, ids or ends of ids.
    pub names: Vec<String>,
    /// The group whose sessions are chosen.
    pub group: Option<String>,
    /// The condition for merging.
    pub strategy: Strategy,
    /// Whether nothing may be written, not even a snapshot.
    pub look_only: bool,
    /// Sessions that are taken for approved, towards their own parent.
    pub approving: Vec<SessionId>,
}

/// Returns a session as if it had been created from the named branch, if one is named: its work is then the work that a
/// merge into that branch would add. Nothing is recorded.
pub fn towards(context: &Context<'_>, mut listed: Listed, into: Option<&str>) -> Result<Listed> {
    if let Some(into) = into {
        let target = target(context, Some(into), &Choice::default())?;
        listed.session.parent = Some(target.branch);
    }
    Ok(listed)
}

/// Finds the branch to merge into: the named one, or else the common parent of the chosen sessions, or else the current
/// branch.
pub fn target(context: &Context<'_>, wanted: Option<&str>, choice: &Choice) -> Result<Target> {
    let repo = context.repo;
    let branch = match wanted {
        Some(name) => name.to_owned(),
        None => default_target(context, choice)?,
    };
    let short = branch.strip_prefix("refs/heads/").unwrap_or(&branch);
    let name = format!("refs/heads/{short}");
    let tip = if repo.is_valid_branch(short) {
        repo.find_ref(&name)?
    } else {
        None
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
        Error::usage("HEAD is detached, so the branch to merge into must be named")
            .hint("git agent merge --into BRANCH")
    })
}

fn no_branch(repo: &Repo, name: &str) -> Result<Error> {
    let is = |kind: &str| repo.find_ref(&format!("refs/{kind}/{name}"));
    if repo.is_valid_branch(name) {
        if is("tags")?.is_some() {
            return Ok(Error::fatal(format!("'{name}' is a tag, not a branch"))
                .hint(format!("git branch NAME {}", shell_word(name))));
        }
        if is("remotes")?.is_some() {
            return Ok(Error::fatal(format!(
                "'{name}' is a remote-tracking branch, not a local branch"
            ))
            .hint(format!("git switch --track {}", shell_word(name))));
        }
    }
    Ok(Error::fatal(format!("branch '{name}' does not exist")).hint("git branch --list"))
}

/// Returns the sessions that were chosen by name or group. Fails if one belongs to a teammate.
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
            Error::fatal(format!("session '{name}' belongs to a teammate"))
                .hint(format!("git agent fork {}", shell_word(name))),
        );
    }
    Ok(listed)
}

/// Examines every chosen session. Returns those that may be merged and those that may not.
pub fn gather(
    context: &Context<'_>,
    target: &Target,
    choice: &Choice,
) -> Result<(Vec<Candidate>, Vec<LeftOut>)> {
    let reviews = records::load(context)?;
    let named = !choice.names.is_empty() || choice.group.is_some();
    let sessions = if named {
        chosen(context, choice)?
    } else {
        of_target(context, target, &reviews)?
    };
    let (mut goes, mut stays) = (Vec::new(), Vec::new());
    for listed in sessions {
        let review = reviews.of(listed.session.sid);
        let found = examine(context, target, &listed, &review, choice)?;
        let session = listed.session;
        match found {
            Attempt::Made(FoundSessions {
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
            Attempt::Refused(why) => stays.push(LeftOut {
                sid: session.sid,
                name: session.record.name,
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

/// Returns the finished sessions of other branches, as a hint for a user who finds none here.
fn of_others(context: &Context<'_>, target: &Target) -> Result<Vec<LeftOut>> {
    let listing = selection::list(context, Scope::Mine)?;
    let other = |listed: Listed| {
        let session = listed.session.record;
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

/// Returns the open sessions of the target that are done or reviewed.
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

/// The work and approvals of a session that may be merged.
struct FoundSessions {
    work: Work,
    /// The commit that each approval was compared with.
    against: Vec<String>,
    /// The approver, if all approvals come from writers whose identity is not verified.
    claimed: Option<String>,
}

/// Examines one session. Returns its work if it may be merged, or else the reason.
fn examine(
    context: &Context<'_>,
    target: &Target,
    listed: &Listed,
    review: &Review,
    choice: &Choice,
) -> Result<Attempt<FoundSessions>> {
    let session = &listed.session;
    let state = session.status;
    if let Some(resolved) = session.resolves() {
        let name = context.store.session(resolved)?;
        let name = name.map_or_else(|| resolved.to_string(), |session| session.record.name);
        return Ok(Attempt::Refused(Why::Resolves(name)));
    }
    // A read-only look must not end an agent that waits for the next prompt.
    let idle = if choice.look_only {
        control::idle::is_idle(context, session)?
    } else {
        control::idle::require_idle(context, session).is_ok()
    };
    if state.needs_supervisor() || !idle {
        return Ok(Attempt::Refused(Why::AtWork(state)));
    }
    match state {
        State::Draft | State::Merged | State::Discarded => {
            return Ok(Attempt::Refused(Why::State(state)));
        }
        State::Rejected => return Ok(Attempt::Refused(Why::Rejected)),
        _ => {}
    }
    if session.branch.as_deref() == Some(target.branch.as_str()) {
        return Ok(Attempt::Refused(Why::Nothing));
    }
    let needs_review = choice.strategy == Strategy::OrchestratorReview;
    if needs_review && review.verdicts.is_empty() && !choice.approving.contains(&session.sid) {
        return Ok(Attempt::Refused(Why::NotApproved));
    }
    let work = match look(context, listed, choice.look_only)? {
        Attempt::Made(work) => work,
        Attempt::Refused(why) => return Ok(Attempt::Refused(why)),
    };
    let Regard { state, opinion } = Regard::of_work(context.repo, session, review, &work);
    let into_parent = session.parent.as_deref() == Some(target.branch.as_str());
    let approved = into_parent && choice.approving.contains(&session.sid);
    let lacks = |why: &Why| matches!(why, Why::NotApproved | Why::Stale(_));
    let objection = objection(&opinion, state, choice.strategy);
    if let Some(why) = objection.filter(|why| !(approved && lacks(why))) {
        return Ok(Attempt::Refused(match why {
            Why::NotApproved => no_approval(review, &opinion),
            why => why,
        }));
    }
    if context.repo.merge_base(target.tip, work.tip)?.is_none() {
        return Ok(Attempt::Refused(Why::Unrelated));
    }
    if work.is_committed() && context.repo.is_ancestor(work.tip, target.tip)? {
        return Ok(Attempt::Refused(Why::Nothing));
    }
    // Older records lack the base; those reviews were compared with the parent.
    let against = |base: Option<String>| base.unwrap_or_else(|| work.base.to_string());
    let against = if approved {
        vec![work.base.to_string()]
    } else {
        (opinion.approvals())
            .map(|judged| against(judged.given.base.clone()))
            .collect()
    };
    let mut approvals = opinion.approvals();
    let shown = |judged: &Judged| authorship::shown(&judged.given.who.name, judged.given.claim);
    let is_claimed = |judged: &Judged| judged.given.claim == Some(Authorship::Claimed);
    let claimed = (approvals.next()).filter(|first| is_claimed(first) && approvals.all(is_claimed));
    let claimed = claimed.map(shown);
    Ok(Attempt::Made(FoundSessions {
        work,
        against,
        claimed,
    }))
}

/// Returns why no approval counts: there is none, or none is by a person or signed, as the review requires.
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

/// Returns the reviewers' objection to merging, if there is one.
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
        // Without a verdict, only a turn that ended well counts.
        Standing::Stale | Standing::Unjudged => match state {
            State::Ready | State::Approved => None,
            state => Some(Why::State(state)),
        },
    }
}

/// Returns a session's work as it is now. Unless `look_only` is set, a snapshot keeps it.
pub fn look(context: &Context<'_>, listed: &Listed, look_only: bool) -> Result<Attempt<Work>> {
    let keep = if look_only {
        Keep::Nothing
    } else {
        Keep::Snapshot
    };
    let work = match work::look(context, listed, keep) {
        Ok(work) => work,
        Err(error) => return Ok(Attempt::Refused(Why::Lost(error.message().to_owned()))),
    };
    let branch = listed.session.branch.as_deref();
    let tip = branch.map_or(Ok(None), |branch| context.repo.branch_tip(branch))?;
    if work.checkout.is_some() && tip != Some(work.tip) {
        Ok(Attempt::Refused(Why::OffBranch))
    } else {
        Ok(Attempt::Made(work))
    }
}

/// Returns whether the target already contains the session that another one builds on.
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
    if landed {
        Needed::Landed
    } else {
        Needed::Missing(session.record.name)
    }
}

/// Counts the conflicting files of each two candidates. Fewer than three candidates need no order.
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
