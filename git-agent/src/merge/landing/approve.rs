//! Approves and merges in one step: the user is shown the plan with the work that only lacks an approval, and says yes
//! to exactly that.

use crate::context::Context;
use crate::error::Result;
use crate::merge::run::{self, MergePlan, MergeRequest};
use crate::model::merge::Why;
use crate::model::session::SessionId;
use crate::review::records;
use crate::review::verdict::{self, Waiting};
use crate::session::caller;
use crate::store::list::Listed;

/// A changed file: its path, and its added and deleted lines unless it is binary.
pub type ChangedFile = (String, Option<(u64, u64)>);

/// A plan that needs approvals, and the work to approve.
#[derive(Debug)]
pub struct Offer {
    /// The plan, with the work taken for approved.
    pub plan: MergePlan,
    /// The work to approve, as the plan merges it.
    pub waiting: Vec<Waiting>,
    /// The changed files of each of them.
    pub files: Vec<Vec<ChangedFile>>,
}

/// Returns a plan that the user can approve, if sessions that were named lack nothing but an approval. An agent never
/// gets one: it would approve its own work.
pub fn offer(context: &Context<'_>, request: &MergeRequest) -> Result<Option<Offer>> {
    let named = !request.names.is_empty() || request.group.is_some();
    if !named || caller::foreign(context).is_some() {
        return Ok(None);
    }
    let plan = run::plan(context, request)?;
    let lacks = |why: &Why| matches!(why, Why::NotApproved | Why::Stale(_));
    let left = plan.left.iter().filter(|left| lacks(&left.why));
    let approving: Vec<SessionId> = left.map(|left| left.sid).collect();
    if approving.is_empty() {
        return Ok(None);
    }
    let request = MergeRequest {
        approving: approving.clone(),
        ..request.clone()
    };
    let plan = run::plan(context, &request)?;
    let reviews = records::load(context)?;
    let mut waiting = Vec::new();
    let mut files = Vec::new();
    for candidate in &plan.candidates {
        let session = &candidate.session;
        if !approving.contains(&session.sid) {
            continue;
        }
        let review = reviews.of(session.sid);
        let listed = Listed::own(session.clone());
        let one = verdict::waiting(context, listed, candidate.work.clone(), &review)?;
        let base = context.repo.tree_of(one.work.base)?;
        let counts = context.repo.numstat(base, one.work.tree)?.into_iter();
        let name = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        files.push(counts.map(|file| (name(&file.path), file.lines)).collect());
        waiting.push(one);
    }
    Ok(Some(Offer {
        plan,
        waiting,
        files,
    }))
}

/// Approves the work of an offer, exactly as it was shown. Work that changed meanwhile is an error.
pub fn approve(context: &Context<'_>, offer: &Offer) -> Result<()> {
    for one in &offer.waiting {
        verdict::approve_as_shown(context, &one.listed, &one.work)?;
    }
    Ok(())
}

/// Returns whether a plan merges the same work into the same commit as another.
pub fn is_same(one: &MergePlan, other: &MergePlan) -> bool {
    let work = |plan: &MergePlan| -> Vec<_> {
        let work = plan.candidates.iter();
        work.map(|candidate| {
            (
                candidate.session.sid,
                candidate.work.tip,
                candidate.work.tree,
            )
        })
        .collect()
    };
    one.target.tip == other.target.tip && work(one) == work(other)
}
