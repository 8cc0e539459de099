//! What reviewers said, as part of a session's row: how many comments are open, and what was decided.

use super::context::Context;
use super::opinion;
use super::remark::Reviews;
use super::summary::{Comments, Finding, Summary};
use crate::error::Result;
use crate::review::Review;
use crate::review::standing::Standing;
use crate::store::list::Listed;

/// Adds to rows what reviewers said. What cannot be read is left unknown, and never keeps a row from being shown.
pub fn annotate(context: &Context<'_>, rows: &mut [&mut Summary], reviews: Result<Reviews>) {
    let Ok(reviews) = reviews else {
        for row in rows {
            row.comments = Finding::Unknown;
            row.verdict = Finding::Unknown;
        }
        return;
    };
    let mut asked = Vec::new();
    let mut judged = Vec::new();
    for row in rows {
        let Some(review) = reviews.sessions.get(&row.session.sid) else {
            continue;
        };
        row.comments = comments(review);
        if !review.verdicts.is_empty() {
            asked.push((listed(row), review));
            judged.push(row);
        }
    }
    let standings = opinion::standings(context, &asked);
    for (row, standing) in judged.into_iter().zip(standings) {
        row.verdict = match standing {
            Ok(Standing::Unjudged) => Finding::Nothing,
            Ok(standing) => Finding::Known(standing.as_str().to_owned()),
            Err(_) => Finding::Unknown,
        };
    }
}

/// Counts the threads of a review.
pub fn comments(review: &Review) -> Finding<Comments> {
    let visible = || review.threads.iter().filter(|thread| thread.is_visible());
    let open = visible().filter(|thread| thread.is_open()).count() as u64;
    let resolved = visible().count() as u64 - open;
    match open + resolved {
        0 => Finding::Nothing,
        _ => Finding::Known(Comments { open, resolved }),
    }
}

fn listed(row: &Summary) -> Listed {
    Listed {
        tip: None,
        session: row.session.clone(),
        remote: row.remote.clone(),
        by_hand: row.remote.is_none() && !row.mine,
        archived: row.archived,
    }
}
