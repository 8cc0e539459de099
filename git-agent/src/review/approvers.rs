//! The sessions whose approval counts for a merge: only those that `agent.approvers` names.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::settings;
use crate::context::Context;
use crate::error::Result;
use crate::model::review::{Review, Verdict};
use crate::model::session::SessionId;

/// Notes in each review which of the sessions that approved may do so.
pub fn mark(context: &Context<'_>, reviews: &mut BTreeMap<SessionId, Review>) -> Result<()> {
    let named = context.config.list(&settings::APPROVERS);
    if named.is_empty() {
        return Ok(());
    }
    let mut may: BTreeMap<SessionId, bool> = BTreeMap::new();
    let mut pairs: BTreeSet<(SessionId, SessionId)> = BTreeSet::new();
    for (sid, review) in reviews.iter() {
        for judge in judges(review) {
            if let std::collections::btree_map::Entry::Vacant(place) = may.entry(judge) {
                place.insert(is_named(context, &named, judge)?);
            }
            pairs.insert((judge, *sid));
        }
    }
    for (judge, sid) in &pairs {
        // Two that approve each other would land whatever they agree on.
        if may[judge]
            && !pairs.contains(&(*sid, *judge))
            && let Some(review) = reviews.get_mut(sid)
        {
            review.approvers.insert(*judge);
        }
    }
    Ok(())
}

/// Returns the sessions that approved.
fn judges(review: &Review) -> impl Iterator<Item = SessionId> {
    let approvals = review.verdicts.iter();
    approvals
        .filter(|(_, given)| given.verdict == Verdict::Approve)
        .filter_map(|((_, session), _)| *session)
}

/// Returns whether a session of this clone is named: itself, its role or its agent. Names of other clones' sessions are
/// whatever their writers say.
fn is_named(context: &Context<'_>, named: &[String], sid: SessionId) -> Result<bool> {
    let Some(session) = context.store.session(sid)? else {
        return Ok(false);
    };
    let known = [
        Some(&session.name),
        session.role.as_ref(),
        Some(&session.agent),
    ];
    Ok(known
        .into_iter()
        .flatten()
        .any(|name| !name.is_empty() && named.contains(name)))
}
