//! Adds the reviewers' results to rows of a listing: open comments and the verdict.

use crate::context::Context;
use crate::error::Result;
use crate::listing::row::Summary;
use crate::model::known::{Comments, Finding};
use crate::model::review::Review;
use crate::model::review::standing::Standing;
use crate::review::records::Reviews;
use crate::review::state::all;
use crate::store::list::Listed;

/// Adds the reviewers' results to rows. Unreadable reviews are shown as unknown; the rows are always shown.
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
    for (row, regard) in judged.into_iter().zip(all(context, &asked)) {
        let Ok(regard) = regard else {
            row.verdict = Finding::Unknown;
            continue;
        };
        row.state = regard.state;
        row.verdict = match regard.opinion.standing {
            Standing::Unjudged => Finding::Nothing,
            // The verdict may be about files that were not shared.
            Standing::Stale if row.unshared.is_some() => Finding::Unknown,
            standing => Finding::Known(standing.as_str().to_owned()),
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
