//! `git agent merge [--into BRANCH] [SESSION…]`: shows the plan, asks, and merges.

use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::in_repo;
use git_agent::merge::landing::approve;
use git_agent::merge::landing::recover;
use git_agent::merge::pick;
use git_agent::merge::run::{self, MergeAnswer, MergeOutcome, MergePlan, MergeRequest};
use git_agent::output::merge::report;
use git_agent::output::{Format, Ui};

use crate::at_once::{self, AtOnce};
use crate::merge_args::Merge;
use crate::{apply, clean, group_verdict, undo};

/// Runs the verb. Exit code 1 means that a chosen session was not merged.
pub fn run(env: &Env, args: &Merge) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        if args.undo {
            return undo::run(context, ui, args.yes);
        }
        if args.apply {
            return apply::run(context, ui, &args.names);
        }
        let tell = &mut |told: run::Told<'_>| report::told(ui, &told);
        if args.go_on || args.abort {
            let agree = &mut |plan: &MergePlan| self::agree(ui, plan, true);
            return match recover::take_up(context, args.go_on, tell, agree)? {
                Some((request, outcome)) => show(ui, outcome.as_ref(), &request, false),
                None => Ok(0),
            };
        }
        if let Some(group) = &args.group
            && (args.verdict.approve || args.verdict.of_part().is_some())
        {
            let all = group_verdict::decide(context, ui, group, &args.verdict, args.yes)?;
            if !all || !args.verdict.approve {
                return Ok(u8::from(!all));
            }
        }
        let request = args.request();
        if args.dry_run {
            let plan = run::plan(context, &request)?;
            report::warnings(ui, &plan);
            return report::plan(ui, &plan).map(|()| 0);
        }
        // An approval of the shown work is the confirmation.
        let unasked = args.yes || args.verdict.approve;
        let mut confirmed = match at_once::offer(context, ui, &request, unasked)? {
            AtOnce::Refused => {
                ui.narrate("nothing was approved or merged");
                return Ok(1);
            }
            AtOnce::Approved(plan) => Some(plan),
            AtOnce::NotNeeded => None,
        };
        let agree = &mut |plan: &MergePlan| match confirmed.take() {
            // The user has agreed to exactly this.
            Some(seen) if approve::is_same(&seen, plan) => Ok(MergeAnswer::Yes),
            _ => agree(ui, plan, unasked),
        };
        if args.pick {
            let show =
                &mut |outcome: Option<&MergeOutcome>| show(ui, outcome, &request, true).map(drop);
            let picked = pick::pick(context, &request, tell, agree, show)?;
            report::picked(ui, &picked);
            return Ok(u8::from(!picked.merged));
        }
        let outcome = run::merge(context, &request, tell, agree)?;
        let code = show(ui, outcome.as_ref(), &request, args.clean)?;
        if args.clean {
            clean::run(context, ui, &request)?;
        }
        Ok(code)
    })
}

/// Returns whether a user can be asked.
pub fn can_ask(ui: &Ui) -> bool {
    ui.may_ask() && ui.format() == Format::Human
}

/// Shows the result, and returns the exit code.
fn show(
    ui: &Ui,
    outcome: Option<&MergeOutcome>,
    request: &MergeRequest,
    cleans: bool,
) -> Result<u8> {
    let Some(outcome) = outcome else {
        ui.narrate("nothing was merged");
        return Ok(1);
    };
    report::outcome(ui, outcome)?;
    report::next_steps(ui, outcome, cleans);
    Ok(u8::from(!outcome.is_complete(request)))
}

/// Shows a plan and asks for confirmation, if a user can answer.
fn agree(ui: &Ui, plan: &MergePlan, yes: bool) -> Result<MergeAnswer> {
    report::warnings(ui, plan);
    if yes || !can_ask(ui) {
        return Ok(MergeAnswer::Unasked);
    }
    report::plan(ui, plan)?;
    let many = plan.candidates.len();
    let what = if many == 1 { "session" } else { "sessions" };
    let branch = &plan.target.branch;
    if ui.confirm(&format!("Merge {many} {what} into '{branch}'?"))? {
        Ok(MergeAnswer::Yes)
    } else {
        Ok(MergeAnswer::No)
    }
}
