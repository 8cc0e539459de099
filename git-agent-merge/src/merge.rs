//! `git agent merge [--into BRANCH] [SESSION…]`: shows the plan, asks, and merges.

use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::in_repo;
use git_agent::merge::landing::recover;
use git_agent::merge::pick;
use git_agent::merge::run::{self, MergeAnswer, MergeOutcome, MergePlan, MergeRequest};
use git_agent::output::merge::report;
use git_agent::output::{Format, Ui};

use crate::merge_args::Merge;
use crate::{apply, undo};

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
        let agree = &mut |plan: &MergePlan| agree(ui, plan, args.yes);
        if args.go_on || args.abort {
            let agree = &mut |plan: &MergePlan| self::agree(ui, plan, true);
            return match recover::take_up(context, args.go_on, tell, agree)? {
                Some((request, outcome)) => show(ui, outcome.as_ref(), &request),
                None => Ok(0),
            };
        }
        let request = args.request();
        if args.dry_run {
            let plan = run::plan(context, &request)?;
            report::warnings(ui, &plan);
            return report::plan(ui, &plan).map(|()| 0);
        }
        if args.pick {
            let show = &mut |outcome: Option<&MergeOutcome>| show(ui, outcome, &request).map(drop);
            let picked = pick::pick(context, &request, tell, agree, show)?;
            report::picked(ui, &picked);
            return Ok(u8::from(!picked.merged));
        }
        let outcome = run::merge(context, &request, tell, agree)?;
        show(ui, outcome.as_ref(), &request)
    })
}

/// Shows the result, and returns the exit code.
fn show(ui: &Ui, outcome: Option<&MergeOutcome>, request: &MergeRequest) -> Result<u8> {
    let Some(outcome) = outcome else {
        ui.narrate("nothing was merged");
        return Ok(1);
    };
    report::outcome(ui, outcome)?;
    Ok(u8::from(!outcome.is_complete(request)))
}

/// Shows a plan and asks for confirmation, if a user can answer.
fn agree(ui: &Ui, plan: &MergePlan, yes: bool) -> Result<MergeAnswer> {
    report::warnings(ui, plan);
    if yes || !ui.may_ask() || ui.format() != Format::Human {
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
