//! Whether reviewers approved exactly the work that would land.

use std::collections::BTreeMap;

use super::Standing;
use crate::error::Result;
use crate::git::ObjectId;
use crate::review::{self, Record, Review, Verdict};
use crate::session::SessionId;
use crate::session::context::Context;
use crate::store::notes::Kind;

/// Returns what reviewers said about every session.
pub fn reviews(context: &Context<'_>) -> Result<BTreeMap<SessionId, Review>> {
    let records = context.store.note_records::<Record>(Kind::Review)?.records;
    Ok(review::fold(
        records
            .into_iter()
            .map(|record| (record.writer, record.value)),
    ))
}

/// Returns what a review means for a session's work with this tip and these files. `committed` is the tree of the tip
/// alone. What the session's own agent says of it does not count.
pub fn standing(
    review: Option<&Review>,
    sid: SessionId,
    tip: ObjectId,
    tree: ObjectId,
    committed: ObjectId,
) -> Standing {
    let Some(review) = review else {
        return Standing::Undecided;
    };
    let (tip, tree) = (tip.to_string(), tree.to_string());
    let committed = committed.to_string();
    let is_about = |given: &review::Given| {
        given.commit == tip && given.tree.as_deref().unwrap_or(&committed) == tree
    };
    let mut standing = Standing::Undecided;
    let is_own = |given: &&review::Given| review::standing::session_of(&given.who) == Some(sid);
    for given in review.verdicts.values().filter(|given| !is_own(given)) {
        match given.verdict {
            Verdict::Reject => return Standing::Rejected,
            Verdict::RequestChanges if is_about(given) => return Standing::ChangesRequested,
            Verdict::RequestChanges => {}
            Verdict::Approve if is_about(given) => standing = Standing::Approved,
            Verdict::Approve => {
                if standing == Standing::Undecided {
                    let at = given.commit.chars().take(10).collect();
                    standing = Standing::Stale { at };
                }
            }
        }
    }
    standing
}
