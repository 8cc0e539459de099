//! `git agent merge [--into BRANCH] [SESSION…]`: shows the plan, asks, and merges.

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::merge::landing::approve::{self, Offer};
use git_agent::merge::landing::journal::{Journal, MergeLock};
use git_agent::merge::landing::recover::{self, UnfinishedMerge};
use git_agent::merge::pick;
use git_agent::merge::run::{self, MergeAnswer, MergePlan, MergeRequest, Told};
use git_agent::model::merge::{LeftOut, Style, Why};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui};
use git_agent::selection;

use crate::{apply, clean, undo, view};

/// The options of a merge.
#[derive(Debug, Args)]
pub struct Merge {
    /// Sessions: names or their beginnings, ids, @3 of the last list, '-' the last (default: all approved sessions of the branch)
    #[arg(value_name = "SESSION")]
    pub names: Vec<String>,
    /// The branch to merge into (default: the parent of the sessions, or the current branch)
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Merge the sessions of a group
    #[arg(long, value_name = "GROUP", conflicts_with = "names")]
    group: Option<String>,
    #[command(flatten)]
    style: StyleArgs,
    #[command(flatten)]
    testing: TestArgs,
    /// Merge without testing the result; the log records it
    #[arg(long, conflicts_with_all = ["test", "retest"])]
    no_test: bool,
    /// Run the tests even if their result is remembered
    #[arg(long)]
    retest: bool,
    /// Only show the plan
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Afterwards remove the worktrees and branches of the merged sessions
    #[arg(long, conflicts_with_all = ["dry_run", "apply", "go_on", "abort", "undo"])]
    clean: bool,
    /// Apply a session's changes to the files here, uncommitted
    #[arg(long, conflicts_with_all = ["into", "group", "pick", "dry_run"])]
    apply: bool,
    /// Merge this session of a group, then close and clean the others
    #[arg(long, conflicts_with_all = ["group", "dry_run"])]
    pick: bool,
    /// Continue an interrupted merge
    #[arg(long = "continue", conflicts_with_all = ["names", "into", "group", "apply", "pick"])]
    go_on: bool,
    /// Roll back an interrupted merge
    #[arg(long, conflicts_with_all = ["names", "into", "group", "apply", "pick", "go_on"])]
    abort: bool,
    /// Undo the last merge
    #[arg(long, conflicts_with_all = ["names", "into", "group", "apply", "pick", "go_on", "abort"])]
    undo: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// The merge style.
#[derive(Debug, Clone, Args)]
pub struct StyleArgs {
    /// Make a merge commit for each session (the default)
    #[arg(long, conflicts_with_all = ["squash", "rebase", "ff_only"])]
    no_ff: bool,
    /// Make one commit for each session
    #[arg(long, conflicts_with_all = ["rebase", "ff_only"])]
    squash: bool,
    /// Rebase each session's commits onto the branch
    #[arg(long, conflicts_with = "ff_only")]
    rebase: bool,
    /// Refuse a merge that is not a fast-forward
    #[arg(long)]
    ff_only: bool,
}

impl StyleArgs {
    /// Returns the requested merge style.
    pub fn style(&self) -> Option<Style> {
        match (self.no_ff, self.squash, self.rebase, self.ff_only) {
            (true, ..) => Some(Style::NoFf),
            (_, true, ..) => Some(Style::Squash),
            (_, _, true, _) => Some(Style::Rebase),
            (.., true) => Some(Style::FfOnly),
            _ => None,
        }
    }
}

/// How to test the merged result.
#[derive(Debug, Clone, Args)]
pub struct TestArgs {
    /// Test the merged result with this command (default: agent.test)
    #[arg(long, value_name = "COMMAND")]
    pub test: Option<String>,
    /// Send a session that breaks the tests their log as its next prompt
    #[arg(long = "return")]
    pub give_back: bool,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Merge) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        if args.undo {
            return undo::run(context, ui, args.yes);
        }
        if args.apply {
            return apply::run(context, ui, &args.names);
        }
        if args.go_on || args.abort {
            return take_up(context, ui, args);
        }
        if args.pick {
            return pick(context, ui, args);
        }
        let request = args.request();
        if args.dry_run {
            let plan = run::plan(context, &request)?;
            view::claims(ui, &plan);
            view::left_out(ui, &plan);
            return view::plan(ui, &plan).map(|()| 0);
        }
        let right = run::begin(context, &mut |told| view::told(ui, &told))?;
        let code = land(context, ui, &right, &request, args.yes)?;
        drop(right);
        if args.clean {
            clean::run(context, ui, &request)?;
        }
        Ok(code)
    })
}

impl Merge {
    fn request(&self) -> MergeRequest {
        MergeRequest {
            into: self.into.clone(),
            names: self.names.clone(),
            group: self.group.clone(),
            style: self.style.style(),
            test: self.testing.test.clone(),
            no_test: self.no_test,
            again: self.retest,
            give_back: self.testing.give_back,
            look_only: self.dry_run,
            approving: Vec::new(),
        }
    }
}

/// Plans, asks and merges. Exit code 1 means that a chosen session was not merged.
fn land(
    context: &Context<'_>,
    ui: &Ui,
    right: &MergeLock,
    request: &MergeRequest,
    yes: bool,
) -> Result<u8> {
    let mut plan = run::plan(context, request)?;
    let named = !request.names.is_empty() || request.group.is_some();
    let asks = !yes && ui.may_ask() && ui.format() == Format::Human;
    let mut confirmed = None;
    if asks && let Some(offer) = approve::offer(context, request, &plan)? {
        if !ask_at_once(ui, &offer)? {
            ui.narrate("nothing was approved or merged");
            return Ok(1);
        }
        approve::approve(context, &offer)?;
        plan = run::plan(context, request)?;
        confirmed = Some(offer.plan);
    }
    let agree = &mut |plan: &MergePlan| match (asks, confirmed.take()) {
        // The user has agreed to exactly this.
        (true, Some(seen)) if approve::is_same(&seen, plan) => Ok(MergeAnswer::Yes),
        (true, _) => ask(ui, plan),
        (false, _) => {
            view::claims(ui, plan);
            view::left_out(ui, plan);
            Ok(MergeAnswer::Unasked)
        }
    };
    let tell = &mut |told: Told<'_>| view::told(ui, &told);
    let Some(outcome) = run::execute(context, right, plan, request, tell, agree)? else {
        ui.narrate("nothing was merged");
        return Ok(1);
    };
    view::outcome(ui, &outcome)?;
    let all = outcome.left.is_empty() || !named;
    let any = !outcome.landed.is_empty() || outcome.prepared.is_some();
    let is_other = |left: &LeftOut| matches!(left.why, Why::OtherParent(_));
    let nothing_to_do = outcome.left.iter().all(is_other);
    Ok(u8::from(!(all && (any || (!named && nothing_to_do)))))
}

/// Shows a plan and asks for confirmation.
fn ask(ui: &Ui, plan: &MergePlan) -> Result<MergeAnswer> {
    view::claims(ui, plan);
    view::left_out(ui, plan);
    view::plan(ui, plan)?;
    let many = plan.candidates.len();
    let what = if many == 1 { "session" } else { "sessions" };
    let branch = &plan.target.branch;
    match ui.confirm(&format!("Merge {many} {what} into '{branch}'?"))? {
        true => Ok(MergeAnswer::Yes),
        false => Ok(MergeAnswer::No),
    }
}

/// Shows a plan and the work that lacks an approval, and asks once for both.
fn ask_at_once(ui: &Ui, offer: &Offer) -> Result<bool> {
    view::claims(ui, &offer.plan);
    view::left_out(ui, &offer.plan);
    view::offer(ui, offer)?;
    view::plan(ui, &offer.plan)?;
    if offer.plan.candidates.is_empty() {
        return Ok(false);
    }
    let branch = &offer.plan.target.branch;
    let question = match offer.plan.candidates.len() {
        1 => format!("Approve exactly this and merge it into '{branch}'?"),
        many => format!("Approve exactly this and merge {many} sessions into '{branch}'?"),
    };
    ui.confirm(&question)
}

/// Merges one session of a group and closes the others.
fn pick(context: &Context<'_>, ui: &Ui, args: &Merge) -> Result<u8> {
    let [name] = args.names.as_slice() else {
        return Err(Error::usage("--pick takes exactly one session"));
    };
    let winner = selection::select_mine(context, Some(name))?.session;
    let others = pick::others(context, &winner)?;
    let right = run::begin(context, &mut |told| view::told(ui, &told))?;
    let code = land(context, ui, &right, &args.request(), args.yes)?;
    if code != 0 {
        return Ok(code);
    }
    drop(right);
    for cleaned in pick::close(context, &winner, &others)? {
        let name = one_line(cleaned.name.as_str());
        let what = match &cleaned.worktree {
            Some(_) => "closed, and its worktree removed".to_owned(),
            None => format!("closed; {}", one_line(cleaned.kept.join(", ").as_str())),
        };
        ui.narrate(format!("{name}: {what}"));
    }
    if !others.is_empty() {
        ui.hint("git agent restore SESSION    restore one of the others");
    }
    Ok(0)
}

/// Continues or rolls back an interrupted merge.
fn take_up(context: &Context<'_>, ui: &Ui, args: &Merge) -> Result<u8> {
    let right = MergeLock::take(context)?;
    let (found, journal) = recover::recover(context, &right)?;
    match (&found, journal) {
        (UnfinishedMerge::Nothing, _) | (_, None) => Err(Error::fatal("no interrupted merge")
            .hint("git agent merge --undo    undo the last merge")),
        (UnfinishedMerge::Finished(_), Some(_)) => {
            view::recovered(ui, &found);
            if args.abort {
                return Err(Error::fatal("already merged").hint("git agent merge --undo"));
            }
            Ok(0)
        }
        (UnfinishedMerge::TakenBack { .. }, Some(journal)) => {
            view::recovered(ui, &found);
            match args.go_on && !journal.asked.sessions.is_empty() {
                true => land(context, ui, &right, &again(&journal), true),
                false => Ok(0),
            }
        }
    }
}

/// Returns the request of an interrupted merge.
fn again(journal: &Journal) -> MergeRequest {
    let asked = &journal.asked;
    MergeRequest {
        into: Some(asked.into.clone()),
        names: asked.sessions.iter().map(ToString::to_string).collect(),
        style: Some(asked.style),
        test: asked.test.clone(),
        no_test: asked.no_test,
        give_back: asked.give_back,
        ..MergeRequest::default()
    }
}
