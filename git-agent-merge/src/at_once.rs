//! Approval and merge in one step: one question about exactly the plan that is shown.

use git_agent::context::Context;
use git_agent::error::Result;
use git_agent::merge::landing::approve::{self, Offer};
use git_agent::merge::run::{MergePlan, MergeRequest};
use git_agent::output::Ui;
use git_agent::output::merge::report;

use crate::merge;

/// The answer to the offer to approve and merge in one step.
pub enum AtOnce {
    /// Nothing lacks an approval that this user can give, or the user cannot be asked.
    NotNeeded,
    /// The work is approved, and this plan is confirmed.
    Approved(Box<MergePlan>),
    Refused,
}

/// Offers to approve work that only lacks an approval, on the way to its merge.
pub fn offer(
    context: &Context<'_>,
    ui: &Ui,
    request: &MergeRequest,
    unasked: bool,
) -> Result<AtOnce> {
    if unasked || !merge::can_ask(ui) {
        return Ok(AtOnce::NotNeeded);
    }
    let Some(offer) = approve::offer(context, request)? else {
        return Ok(AtOnce::NotNeeded);
    };
    if !ask_at_once(ui, &offer)? {
        return Ok(AtOnce::Refused);
    }
    approve::approve(context, &offer)?;
    Ok(AtOnce::Approved(Box::new(offer.plan)))
}

/// Shows a plan and the work that lacks an approval, and asks once for both.
fn ask_at_once(ui: &Ui, offer: &Offer) -> Result<bool> {
    report::warnings(ui, &offer.plan);
    report::offer(ui, offer)?;
    report::plan(ui, &offer.plan)?;
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
