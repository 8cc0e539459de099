//! A merge from plan to result: looked at, built in memory, tested, landed, written down.

use crate::config::settings;
use crate::context::Context;
use crate::error::{Context as _, Error, Result, shell_word};
use crate::fault;
use crate::git::ObjectId;
use crate::git::merge::move_branch::Landed;
use crate::git::refs::{Expected, RefChange, Swap};
use crate::merge::bisect::{self, Colour, World};
use crate::merge::build::{Builder, Chain};
use crate::merge::candidates::{self, Candidate, Choice, Target};
use crate::merge::landing::journal::{Asked, Journal, Part, Right};
use crate::merge::landing::land::{self, Load};
use crate::merge::landing::recover;
use crate::merge::testing::{self, Tester};
use crate::merge::{hooks, return_to_agent};
use crate::model::merge::message::TaskText;
use crate::model::merge::plan::{self, Entry, Needed};
use crate::model::merge::{LeftOut, Strategy, Style, Tested, Why};
use crate::model::session::SessionId;
use crate::session::task_text::task_text;

/// How often a plan is made again because somebody else moved the target.
const ATTEMPTS: usize = 5;
/// What prepared branches begin with.
const PREPARED: &str = "agent-merge/";

/// What a person asked for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The branch to merge into.
    pub into: Option<String>,
    /// Sessions by name, id or end of an id.
    pub names: Vec<String>,
    /// The sessions of a group.
    pub group: Option<String>,
    /// How, if not as configured.
    pub style: Option<Style>,
    /// What tests the result, if not as configured.
    pub test: Option<String>,
    /// Whether nothing tests it.
    pub no_test: bool,
    /// Whether remembered results of tests do not count.
    pub again: bool,
    /// Whether a session whose work fails the tests gets the log as a prompt.
    pub give_back: bool,
    /// Whether nothing at all may be written.
    pub look_only: bool,
}

/// What is about to be done: one value is shown, asked about and carried out.
#[derive(Debug)]
pub struct Plan {
    /// The branch.
    pub target: Target,
    /// The sessions that go in, in this order.
    pub candidates: Vec<Candidate>,
    /// Those that do not.
    pub left: Vec<LeftOut>,
    /// How they go in.
    pub style: Style,
    /// What it takes.
    pub strategy: Strategy,
    /// What tests the result.
    pub test: Option<String>,
    /// How much of their tasks the commits tell.
    text: TaskText,
    /// The result, built in memory: a link for each session that goes in, in their order.
    built: Chain,
    /// What it was made from.
    basis: Basis,
}

/// What a plan is made from: as long as that is the same, so is the plan.
#[derive(Debug, PartialEq, Eq)]
struct Basis {
    target: ObjectId,
    /// Each session's last commit and its files.
    work: Vec<(SessionId, ObjectId, ObjectId)>,
    left: Vec<LeftOut>,
}

/// What somebody who was shown a plan says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Nobody was asked.
    Unasked,
    /// Do it.
    Yes,
    /// Leave it.
    No,
}

/// Asks somebody about a plan.
pub type Agree<'a> = dyn FnMut(&Plan) -> Result<Answer> + 'a;

/// Something to tell while it is done.
#[derive(Debug)]
pub enum Told<'a> {
    /// What died before was put right.
    Recovered(&'a recover::Found),
    /// The result with these sessions in it is tested.
    Testing(Vec<&'a str>),
    /// The guard refused something, a ref moved or a verdict was given while it ran.
    Meanwhile(&'a str),
    /// The test ended.
    Tested {
        /// How.
        colour: &'a Colour,
        /// Whether it was known from before.
        remembered: bool,
    },
    /// Somebody moved the target: all is planned anew.
    Again,
    /// The target or a session changed while somebody was asked: all is planned anew.
    Changed,
    /// The target moved.
    Landed(&'a str),
}

/// Where that is told.
pub type Tell<'a> = dyn FnMut(Told<'_>) + 'a;

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// The branch.
    pub branch: String,
    /// Where it was.
    pub before: ObjectId,
    /// Where it is.
    pub after: ObjectId,
    /// The sessions that landed, in their order.
    pub landed: Vec<Part>,
    /// Those that did not.
    pub left: Vec<LeftOut>,
    /// How they were merged.
    pub style: Style,
    /// Whether the result was tested.
    pub tested: Tested,
    /// The branch that was prepared instead of moving the target.
    pub prepared: Option<String>,
    /// Sessions that got the log of their failed tests as a prompt.
    pub returned: Vec<String>,
    /// What could not be recorded, in words.
    pub troubles: Vec<String>,
}

/// Returns the way of merging: as asked for, else as configured.
pub fn style(context: &Context<'_>, asked: Option<Style>) -> Result<Style> {
    match asked {
        Some(style) => Ok(style),
        None => context.config.require(&settings::MERGE_STYLE)?.parse(),
    }
}

/// Returns what it takes to land, as configured.
pub fn strategy(context: &Context<'_>) -> Result<Strategy> {
    context.config.require(&settings::MERGE_STRATEGY)?.parse()
}

/// Makes the plan, and builds its result in memory without tests and hooks: what does not merge is left out already.
pub fn plan(context: &Context<'_>, request: &Request) -> Result<Plan> {
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
                name: candidate.session.name,
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

impl Plan {
    /// Returns whether the target and the sessions are still as they were when this was made.
    fn is_current(&self, context: &Context<'_>, request: &Request) -> Result<bool> {
        Ok(draft(context, request)?.basis == self.basis)
    }
}

/// Looks at the target and the sessions, and puts those that may go in into their order.
fn draft(context: &Context<'_>, request: &Request) -> Result<Plan> {
    let strategy = strategy(context)?;
    let choice = Choice {
        names: request.names.clone(),
        group: request.group.clone(),
        strategy,
        look_only: request.look_only,
    };
    let configured = || context.config.text(&settings::TEST);
    let test = match request.no_test {
        true => None,
        false => request.test.clone().or_else(configured),
    };
    if strategy == Strategy::Auto && test.is_none() {
        return Err(Error::fatal(
            "'agent.mergeStrategy' is 'auto': without tests nothing may land",
        )
        .hint("git agent config set agent.test 'make test'"));
    }
    let target = candidates::target(context, request.into.as_deref(), &choice)?;
    let (found, mut left) = candidates::gather(context, &target, &choice)?;
    let conflicts = candidates::clashes(context, &found)?;
    let entries = found.iter().map(|candidate| Entry {
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
    Ok(Plan {
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

/// Asks about a plan until somebody agrees to one that still holds: whoever reads a plan takes time. `None` when nobody
/// does.
fn agreed(
    context: &Context<'_>,
    mut plan: Plan,
    request: &Request,
    tell: &mut Tell<'_>,
    agree: &mut Agree<'_>,
) -> Result<Option<Plan>> {
    while !plan.candidates.is_empty() {
        match agree(&plan)? {
            Answer::No => return Ok(None),
            Answer::Unasked => break,
            Answer::Yes if plan.is_current(context, request)? => break,
            Answer::Yes => {
                tell(Told::Changed);
                plan = self::plan(context, request)?;
            }
        }
    }
    Ok(Some(plan))
}

/// Does what a plan says, once somebody agreed to it; `None` when nobody did. When somebody moves the target meanwhile, the
/// plan is made again for the same sessions, and asked about again.
pub fn execute(
    context: &Context<'_>,
    right: &Right,
    plan: Plan,
    request: &Request,
    tell: &mut Tell<'_>,
    agree: &mut Agree<'_>,
) -> Result<Option<Outcome>> {
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
    let same = Request {
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
                // What cannot be put right now is put right by the next merge. Before anything moved there is nothing to.
                let recovered = recover::recover(context, right);
                if recovered.is_err() && journal.landing.is_none() {
                    let _ = right.forget();
                }
                return Err(error);
            }
        }
    }
    Err(Error::fatal(format!(
        "'{}' moves all the time: gave up after {ATTEMPTS} attempts",
        plan.target.branch
    )))
}

fn nothing(plan: &Plan) -> Outcome {
    Outcome {
        branch: plan.target.branch.clone(),
        before: plan.target.tip,
        after: plan.target.tip,
        landed: Vec::new(),
        left: Vec::new(),
        style: plan.style,
        tested: Tested::None,
        prepared: None,
        returned: Vec::new(),
        troubles: Vec::new(),
    }
}

/// Gives culprits back and warns about what could not be done; the target has moved, so nothing here may fail.
fn finish(context: &Context<'_>, plan: &Plan, request: &Request, outcome: &mut Outcome) {
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
                "cannot give '{}' its log: {}",
                left.name,
                error.message()
            )),
        }
    }
}

/// Tries once. `None` means that the target moved meanwhile.
fn attempt(
    context: &Context<'_>,
    right: &Right,
    journal: &mut Journal,
    plan: &Plan,
    request: &Request,
    tell: &mut Tell<'_>,
) -> Result<Option<Outcome>> {
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
        outcome.prepared = Some(prepare(context, plan, &chain)?);
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
            // Everything is as it was: there is nothing to recover.
            right.forget()?;
            return Err(
                Error::fatal(format!("'{}' was not moved: {said}", plan.target.branch))
                    .hint("nothing was changed; put that right and merge again"),
            );
        }
    }
    verify(context, plan, &chain)?;
    if let Some(landing) = &journal.landing {
        outcome.landed.clone_from(&landing.parts);
    }
    tell(Told::Landed(&plan.target.branch));
    Ok(Some(outcome))
}

/// Merges, tests, looks for marks of conflicts and asks the hooks, until all that is left in passes.
fn sifted(
    context: &Context<'_>,
    plan: &Plan,
    batch: &mut Batch<'_, '_>,
    mut order: Vec<usize>,
) -> Result<(Chain, Vec<(usize, Why)>)> {
    let mut left: Vec<(usize, Why)> = Vec::new();
    loop {
        let (chain, out) = merged(context, batch, order.clone())?;
        left.extend(out);
        order.retain(|index| !left.iter().any(|(gone, _)| gone == index));
        match hooks::seal(context, &batch.builder, chain, plan.style)? {
            Ok(sealed) => return Ok((sealed, left)),
            Err(refused) => {
                order.retain(|index| *index != refused.0);
                left.push(refused);
            }
        }
    }
}

/// Merges, tests where there are tests, and looks for marks of conflicts, until all that is left in passes.
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

/// Returns the first link that adds marks of a conflict.
fn marked(context: &Context<'_>, chain: &Chain) -> Result<Option<(usize, Why)>> {
    let repo = context.repo;
    if chain.links.is_empty() || repo.markers_added(chain.base, chain.tip())?.is_empty() {
        return Ok(None);
    }
    for link in &chain.links {
        let places = repo.markers_added(link.onto, link.commit)?;
        if !places.is_empty() {
            return Ok(Some((link.index, Why::Markers(places))));
        }
    }
    Ok(None)
}

/// Points a branch at the result for a person to look at, instead of moving the target.
fn prepare(context: &Context<'_>, plan: &Plan, chain: &Chain) -> Result<String> {
    let branch = format!("{PREPARED}{}", plan.target.branch);
    let name = format!("refs/heads/{branch}");
    let before = context.repo.find_ref(&name)?;
    if let Some(at) = context.repo.checkouts_of(&name)?.first() {
        return Err(Error::fatal(format!(
            "branch '{branch}' is checked out in '{}'",
            at.top.display()
        )));
    }
    if let Some(before) = before {
        context.store.keep_lost(&name, before)?;
    }
    let change = RefChange {
        name,
        expected: before.map_or(Expected::Absent, Expected::At),
        new: Some(chain.tip()),
    };
    match context.repo.swap_refs(&[change])? {
        Swap::Done => Ok(branch),
        Swap::Stale => Err(Error::fatal(format!("branch '{branch}' moved just now"))),
    }
}

/// Looks once more at what landed: the target holds it, and those who have it checked out see it.
fn verify(context: &Context<'_>, plan: &Plan, chain: &Chain) -> Result<()> {
    let wrong = |what: String| {
        Error::fatal(what).hint(format!(
            "git log --oneline {}",
            shell_word(&plan.target.branch)
        ))
    };
    let repo = context.repo;
    match repo.find_ref(&plan.target.name)? {
        Some(tip) if repo.is_ancestor(chain.tip(), tip)? => {}
        _ => {
            return Err(wrong(format!(
                "'{}' does not hold what was merged",
                plan.target.branch
            )));
        }
    }
    for at in &plan.target.checkouts {
        if repo.head_of(at)? == Some(chain.tip())
            && !repo.index_follows(at, chain.base, chain.tip())?
        {
            return Err(wrong(format!(
                "'{}' does not have the merged files",
                at.top.display()
            )));
        }
    }
    Ok(())
}

/// The candidates of one attempt, as the gate sees them.
struct Batch<'a, 't> {
    base: ObjectId,
    candidates: &'a [Candidate],
    builder: Builder<'a>,
    /// What is built already.
    built: &'a Chain,
    tester: Option<Tester<'a>>,
    tell: &'t mut Tell<'t>,
}

impl<'a, 't> Batch<'a, 't> {
    /// Returns the candidates of a plan, without tests.
    fn of(context: &'a Context<'_>, plan: &'a Plan, tell: &'t mut Tell<'t>) -> Self {
        let builder = Builder::new(context.repo, &plan.candidates, plan.style, plan.text);
        Batch {
            base: plan.target.tip,
            candidates: &plan.candidates,
            builder: builder.knowing(&plan.built),
            built: &plan.built,
            tester: None,
            tell,
        }
    }
}

impl World for Batch<'_, '_> {
    fn build(&mut self, order: &[usize]) -> Result<Chain> {
        let built = self.built.links.iter().map(|link| &link.index);
        match !order.is_empty() && built.eq(order) {
            true => Ok(self.built.clone()),
            false => self.builder.build(self.base, order),
        }
    }

    fn test(&mut self, commit: ObjectId, holds: &[usize]) -> Result<Colour> {
        let Some(tester) = &mut self.tester else {
            return Ok(Colour::Green);
        };
        let names = holds
            .iter()
            .map(|index| self.candidates[*index].session.name.as_str());
        (self.tell)(Told::Testing(names.collect()));
        // The branch itself is tested as what the first of them builds on.
        let marked = holds.first().copied().unwrap_or(0);
        let of = self.candidates[marked].session.sid;
        let verdict = tester.test(commit, of)?;
        for words in &verdict.told {
            (self.tell)(Told::Meanwhile(words));
        }
        (self.tell)(Told::Tested {
            colour: &verdict.colour,
            remembered: verdict.remembered,
        });
        Ok(verdict.colour)
    }

    fn builds_on(&self, one: usize, other: usize) -> bool {
        let other = self.candidates[other].session.sid;
        self.candidates[one].needs.contains(&other)
    }

    fn name(&self, index: usize) -> String {
        self.candidates[index].session.name.clone()
    }
}

/// Begins: takes the right to merge and puts right what a merge that died left.
pub fn begin(context: &Context<'_>, tell: &mut Tell<'_>) -> Result<Right> {
    let right = Right::take(context)?;
    let (found, _) = recover::recover(context, &right)?;
    if found != recover::Found::Nothing {
        tell(Told::Recovered(&found));
    }
    Ok(right)
}
