//! One merge from plan to result: gather, build in memory, test, land, record.

use crate::config::settings;
use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::fault;
use crate::git::ObjectId;
use crate::git::merge::move_branch::Landed;
use crate::merge::batch::{Batch, marked};
use crate::merge::bisect::{self, TestColour};
use crate::merge::build::Chain;
use crate::merge::candidates::{self, Candidate, Choice, Target};
use crate::merge::landing::journal::{Asked, Journal, MergeLock, Part};
use crate::merge::landing::land::{self, Load};
use crate::merge::landing::recover;
use crate::merge::testing::{self, Tester};
use crate::merge::{hooks, return_to_agent};
use crate::model::merge::message::TaskText;
use crate::model::merge::plan::{self, MergeEntry, Needed};
use crate::model::merge::{Attempt, LeftOut, Strategy, Style, Tested, Why};
use crate::model::session::SessionId;
use crate::session::task_text::task_text;

/// How often a plan is remade because another process moved the target.
const ATTEMPTS: usize = 5;

/// The user's request.
#[derive(Debug, Clone, Default)]
pub struct MergeRequest {
    /// The branch to merge into.
    pub into: Option<String>,
    /// Sessions by name, id or end of an id.
    pub names: Vec<String>,
    /// The group whose sessions to merge.
    pub group: Option<String>,
    /// The merge style, if not the configured one.
    pub style: Option<Style>,
    /// The test command, if not the configured one.
    pub test: Option<String>,
    /// Whether to skip the tests.
    pub no_test: bool,
    /// Whether to ignore remembered test results.
    pub again: bool,
    /// Whether a session whose work fails the tests gets the log as a prompt.
    pub give_back: bool,
    /// Whether nothing may be written, not even a snapshot.
    pub look_only: bool,
    /// Sessions that the plan takes for approved, so that the user can approve it as shown.
    pub approving: Vec<SessionId>,
}

/// The plan of a merge. The same value is shown, confirmed and carried out.
#[derive(Debug)]
pub struct MergePlan {
    /// The branch to merge into.
    pub target: Target,
    /// The sessions to merge, in order.
    pub candidates: Vec<Candidate>,
    /// The sessions that are left out, each with its reason.
    pub left: Vec<LeftOut>,
    pub style: Style,
    /// The condition for merging a session.
    pub strategy: Strategy,
    /// The test command.
    pub test: Option<String>,
    /// How much of the tasks goes into the commit messages.
    pub(crate) text: TaskText,
    /// The result, built in memory: one link for each session, in order.
    pub(crate) built: Chain,
    /// The state that the plan was made from.
    basis: Basis,
}

/// The inputs of a plan: while they are unchanged, so is the plan.
#[derive(Debug, PartialEq, Eq)]
struct Basis {
    target: ObjectId,
    /// Each session's last commit and its tree.
    work: Vec<(SessionId, ObjectId, ObjectId)>,
    left: Vec<LeftOut>,
}

/// The user's answer to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeAnswer {
    /// The user was not asked.
    Unasked,
    /// Carry out the plan.
    Yes,
    /// Abandon the plan.
    No,
}

/// Asks the user to confirm a plan.
pub type Agree<'a> = dyn FnMut(&MergePlan) -> Result<MergeAnswer> + 'a;

/// Progress of a merge.
#[derive(Debug)]
pub enum Told<'a> {
    /// An interrupted merge was recovered.
    Recovered(&'a recover::UnfinishedMerge),
    /// The tests run on a result with these sessions.
    Testing(Vec<&'a str>),
    /// During the tests, the guard refused an action, a ref moved or a verdict was given.
    Meanwhile(&'a str),
    /// The tests ended.
    Tested {
        colour: &'a TestColour,
        /// Whether the result was remembered.
        remembered: bool,
    },
    /// Another process moved the target; the plan is remade.
    Again,
    /// The target or a session changed while the user was asked; the plan is remade.
    Changed,
    /// The target moved to the merged result.
    Landed(&'a str),
}

/// Receives the progress of a merge.
pub type Tell<'a> = dyn FnMut(Told<'_>) + 'a;

#[derive(Debug)]
pub struct MergeOutcome {
    /// The target branch.
    pub branch: String,
    /// The tip of the target now.
    pub after: ObjectId,
    /// The merged sessions, in order.
    pub landed: Vec<Part>,
    /// The sessions that were left out, each with its reason.
    pub left: Vec<LeftOut>,
    /// Whether the result was tested.
    pub tested: Tested,
    /// The branch that was prepared instead of moving the target.
    pub prepared: Option<String>,
    /// The sessions that got the log of their failed tests as a prompt.
    pub returned: Vec<String>,
    /// Messages about records that could not be written.
    pub troubles: Vec<String>,
}

impl MergeOutcome {
    /// Returns whether every session that was asked for was merged; without names, whether any was or none had to be.
    pub fn is_complete(&self, request: &MergeRequest) -> bool {
        let merged = !self.landed.is_empty() || self.prepared.is_some();
        if !request.names.is_empty() || request.group.is_some() {
            return merged && self.left.is_empty();
        }
        let is_other = |left: &LeftOut| matches!(left.why, Why::OtherParent(_));
        merged || self.left.iter().all(is_other)
    }
}

/// Returns the requested merge style, or else the configured one.
pub fn style(context: &Context<'_>, asked: Option<Style>) -> Result<Style> {
    match asked {
        Some(style) => Ok(style),
        None => context.config.require(&settings::MERGE_STYLE)?.parse(),
    }
}

/// Returns the configured condition for merging a session.
pub fn strategy(context: &Context<'_>) -> Result<Strategy> {
    context.config.require(&settings::MERGE_STRATEGY)?.parse()
}

/// Makes the plan and builds its result in memory, without tests and hooks. Sessions that do not merge are already left
/// out.
pub fn plan(context: &Context<'_>, request: &MergeRequest) -> Result<MergePlan> {
    let mut plan = draft(context, request)?;
    let (chain, mut left) = {
        let mut silent = |_: Told<'_>| {};
        let mut batch = Batch::of(context, &plan, &mut silent);
        let order = (0..plan.candidates.len()).collect();
        merged(context, &mut batch, order)?
    };
    let mut found: Vec<Option<Candidate>> = plan.candidates.into_iter().map(Some).collect();
    left.sort_by_key(|(index, _)| *index);
    for (index, why) in left {
        if let Some(candidate) = found[index].take() {
            plan.left.push(LeftOut {
                sid: candidate.session.sid,
                name: candidate.session.record.name,
                why,
            });
        }
    }
    plan.candidates = found.into_iter().flatten().collect();
    plan.built = chain;
    plan.built.left.clear();
    for (index, link) in plan.built.links.iter_mut().enumerate() {
        link.index = index;
    }
    Ok(plan)
}

impl MergePlan {
    /// Returns whether the target and the sessions are unchanged since the plan was made.
    fn is_current(&self, context: &Context<'_>, request: &MergeRequest) -> Result<bool> {
        Ok(draft(context, request)?.basis == self.basis)
    }
}

/// Examines the target and the sessions, and orders those that may be merged.
fn draft(context: &Context<'_>, request: &MergeRequest) -> Result<MergePlan> {
    let strategy = strategy(context)?;
    let choice = Choice {
        names: request.names.clone(),
        group: request.group.clone(),
        strategy,
        look_only: request.look_only,
        approving: request.approving.clone(),
    };
    let configured = || context.config.text(&settings::TEST);
    let test = if request.no_test {
        None
    } else {
        request.test.clone().or_else(configured)
    };
    if strategy == Strategy::Auto && test.is_none() {
        return Err(
            Error::fatal("'agent.mergeStrategy' is 'auto', which needs tests")
                .hint("git agent config set agent.test 'make test'"),
        );
    }
    let target = candidates::target(context, request.into.as_deref(), &choice)?;
    let (found, mut left) = candidates::gather(context, &target, &choice)?;
    let conflicts = candidates::clashes(context, &found)?;
    let entries = found.iter().map(|candidate| MergeEntry {
        sid: candidate.session.sid,
        name: candidate.session.name.clone(),
        created: candidate.session.created,
        needs: candidate.needs.clone(),
    });
    let outside = |sid| match left.iter().find(|known| known.sid == sid) {
        Some(known) if known.why != Why::Nothing => Needed::Missing(known.name.clone()),
        _ => candidates::needed(context, &target, sid),
    };
    let (ordered, unmet) = plan::order(entries.collect(), &conflicts, &outside);
    left.extend(unmet);
    let mut found = found;
    let mut candidates = Vec::new();
    for entry in ordered {
        if let Some(at) = found
            .iter()
            .position(|candidate| candidate.session.sid == entry.sid)
        {
            candidates.push(found.remove(at));
        }
    }
    let work = |candidate: &Candidate| {
        let work = &candidate.work;
        (candidate.session.sid, work.tip, work.tree)
    };
    Ok(MergePlan {
        built: Chain {
            base: target.tip,
            links: Vec::new(),
            left: Vec::new(),
        },
        basis: Basis {
            target: target.tip,
            work: candidates.iter().map(work).collect(),
            left: left.clone(),
        },
        target,
        candidates,
        left,
        style: style(context, request.style)?,
        strategy,
        test,
        text: task_text(context)?,
    })
}

/// Asks until the user confirms a plan that is still current, because the sessions may change while the user reads.
/// Returns `None` if the user declines.
fn agreed(
    context: &Context<'_>,
    mut plan: MergePlan,
    request: &MergeRequest,
    tell: &mut Tell<'_>,
    agree: &mut Agree<'_>,
) -> Result<Option<MergePlan>> {
    while !plan.candidates.is_empty() {
        match agree(&plan)? {
            MergeAnswer::No => return Ok(None),
            MergeAnswer::Unasked => break,
            MergeAnswer::Yes if plan.is_current(context, request)? => break,
            MergeAnswer::Yes => {
                tell(Told::Changed);
                plan = self::plan(context, request)?;
            }
        }
    }
    Ok(Some(plan))
}

/// Carries out a plan after the user confirmed it; returns `None` if the user declines. If the target moves meanwhile,
/// the plan is remade for the same sessions and confirmed again.
pub fn execute(
    context: &Context<'_>,
    right: &MergeLock,
    plan: MergePlan,
    request: &MergeRequest,
    tell: &mut Tell<'_>,
    agree: &mut Agree<'_>,
) -> Result<Option<MergeOutcome>> {
    let Some(mut plan) = agreed(context, plan, request, tell, agree)? else {
        return Ok(None);
    };
    let sessions: Vec<_> = plan
        .candidates
        .iter()
        .map(|candidate| candidate.session.sid)
        .collect();
    let asked = Asked {
        into: plan.target.branch.clone(),
        sessions: sessions.clone(),
        style: plan.style,
        test: request.test.clone(),
        no_test: request.no_test,
        give_back: request.give_back,
    };
    let same = MergeRequest {
        into: Some(plan.target.branch.clone()),
        names: sessions.iter().map(ToString::to_string).collect(),
        group: None,
        ..request.clone()
    };
    let mut journal = Journal::begin(context, asked);
    let refused = std::mem::take(&mut plan.left);
    for _ in 0..ATTEMPTS {
        if plan.candidates.is_empty() {
            let mut outcome = nothing(&plan);
            outcome.left = [refused, plan.left].concat();
            return Ok(Some(outcome));
        }
        let tried = attempt(context, right, &mut journal, &plan, request, tell);
        testing::tidy(context);
        match tried {
            Ok(Some(mut outcome)) => {
                outcome.left = [refused, std::mem::take(&mut plan.left), outcome.left].concat();
                finish(context, &plan, request, &mut outcome);
                return Ok(Some(outcome));
            }
            Ok(None) => {
                right.forget()?;
                tell(Told::Again);
                let again = self::plan(context, &same)?;
                match agreed(context, again, &same, tell, agree)? {
                    Some(again) => plan = again,
                    None => return Ok(None),
                }
            }
            Err(error) => {
                // If this fails too, the next merge recovers. Before the landing is recorded there is nothing to
                // recover.
                let recovered = recover::recover(context, right);
                if recovered.is_err() && journal.landing.is_none() {
                    let _ = right.forget();
                }
                return Err(error);
            }
        }
    }
    Err(Error::fatal(format!(
        "'{}' moved during the merge, {ATTEMPTS} times in a row",
        plan.target.branch
    )))
}

fn nothing(plan: &MergePlan) -> MergeOutcome {
    MergeOutcome {
        branch: plan.target.branch.clone(),
        after: plan.target.tip,
        landed: Vec::new(),
        left: Vec::new(),
        tested: Tested::None,
        prepared: None,
        returned: Vec::new(),
        troubles: Vec::new(),
    }
}

/// Returns failed sessions to their agents. The target has moved, so an error here becomes a message.
fn finish(
    context: &Context<'_>,
    plan: &MergePlan,
    request: &MergeRequest,
    outcome: &mut MergeOutcome,
) {
    if !request.give_back {
        return;
    }
    let landed: Vec<&str> = outcome
        .landed
        .iter()
        .map(|part| part.name.as_str())
        .collect();
    for left in &outcome.left {
        let (Why::Tests(log) | Why::Late(log), Some(test)) = (&left.why, &plan.test) else {
            continue;
        };
        match return_to_agent::give_back(context, left.sid, &outcome.branch, &landed, test, log) {
            Ok(()) => outcome.returned.push(left.name.clone()),
            Err(error) => outcome.troubles.push(format!(
                "cannot send '{}' the test log: {}",
                left.name,
                error.message()
            )),
        }
    }
}

/// Tries once. Returns `None` if the target moved meanwhile.
fn attempt(
    context: &Context<'_>,
    right: &MergeLock,
    journal: &mut Journal,
    plan: &MergePlan,
    request: &MergeRequest,
    tell: &mut Tell<'_>,
) -> Result<Option<MergeOutcome>> {
    journal.landing = None;
    right.note(journal)?;
    let mut batch = Batch::of(context, plan, tell);
    batch.tester = plan
        .test
        .clone()
        .map(|command| Tester::new(context, command, request.again));
    let order: Vec<usize> = (0..plan.candidates.len()).collect();
    let (chain, left) = sifted(context, plan, &mut batch, order)?;
    if let Some(tester) = batch.tester.take() {
        tester.finish()?;
    }
    fault::point("merge.passed").context(|| "cannot merge".into())?;
    let left_out = |(index, why): (usize, Why)| LeftOut {
        sid: plan.candidates[index].session.sid,
        name: plan.candidates[index].session.name.clone(),
        why,
    };
    let mut outcome = nothing(plan);
    outcome.left = left.into_iter().map(left_out).collect();
    outcome.tested = match (request.no_test, &plan.test) {
        (true, _) => Tested::Skipped,
        (_, Some(_)) => Tested::Passed,
        _ => Tested::None,
    };
    if chain.links.is_empty() {
        right.forget()?;
        return Ok(Some(outcome));
    }
    outcome.after = chain.tip();
    if plan.strategy == Strategy::Manual {
        outcome.prepared = Some(land::prepare(context, &plan.target, &chain)?);
        right.forget()?;
        return Ok(Some(outcome));
    }
    let load = Load {
        target: &plan.target,
        chain: &chain,
        candidates: &plan.candidates,
        style: plan.style,
        tested: outcome.tested,
    };
    match land::land(context, right, journal, &load)? {
        (Landed::Done, troubles) => outcome.troubles = troubles,
        (Landed::Moved, _) => return Ok(None),
        (Landed::Refused(said), _) => {
            // Nothing has changed, so there is nothing to recover.
            right.forget()?;
            return Err(
                Error::fatal(format!("'{}' was not moved: {said}", plan.target.branch))
                    .hint("nothing was changed; fix this, then run the merge again"),
            );
        }
    }
    land::verify(context, &plan.target, &chain)?;
    if let Some(landing) = &journal.landing {
        outcome.landed.clone_from(&landing.parts);
    }
    tell(Told::Landed(&plan.target.branch));
    Ok(Some(outcome))
}

/// Merges, tests, looks for conflict markers and runs the hooks until all remaining sessions pass.
fn sifted(
    context: &Context<'_>,
    plan: &MergePlan,
    batch: &mut Batch<'_, '_>,
    mut order: Vec<usize>,
) -> Result<(Chain, Vec<(usize, Why)>)> {
    let mut left: Vec<(usize, Why)> = Vec::new();
    loop {
        let (chain, out) = merged(context, batch, order.clone())?;
        left.extend(out);
        order.retain(|index| !left.iter().any(|(gone, _)| gone == index));
        match hooks::seal(context, &batch.builder, chain, plan.style)? {
            Attempt::Made(sealed) => return Ok((sealed, left)),
            Attempt::Refused(refused) => {
                order.retain(|index| *index != refused.0);
                left.push(refused);
            }
        }
    }
}

/// Merges, tests and looks for conflict markers until all remaining sessions pass.
fn merged(
    context: &Context<'_>,
    batch: &mut Batch<'_, '_>,
    mut order: Vec<usize>,
) -> Result<(Chain, Vec<(usize, Why)>)> {
    let mut left: Vec<(usize, Why)> = Vec::new();
    loop {
        let sifted = bisect::sift(order.clone(), batch)?;
        left.extend(sifted.left);
        order.retain(|index| !left.iter().any(|(gone, _)| gone == index));
        match marked(context, &sifted.chain)? {
            None => return Ok((sifted.chain, left)),
            Some(refused) => {
                order.retain(|index| *index != refused.0);
                left.push(refused);
            }
        }
    }
}

/// Takes the merge lock and recovers an interrupted merge.
pub fn begin(context: &Context<'_>, tell: &mut Tell<'_>) -> Result<MergeLock> {
    let right = MergeLock::take(context)?;
    let (found, _) = recover::recover(context, &right)?;
    if found != recover::UnfinishedMerge::Nothing {
        tell(Told::Recovered(&found));
    }
    Ok(right)
}

/// Merges as requested, after recovering an interrupted merge. Returns `None` if the user declines.
pub fn merge(
    context: &Context<'_>,
    request: &MergeRequest,
    tell: &mut Tell<'_>,
    agree: &mut Agree<'_>,
) -> Result<Option<MergeOutcome>> {
    let right = begin(context, tell)?;
    let plan = plan(context, request)?;
    execute(context, &right, plan, request, tell, agree)
}
