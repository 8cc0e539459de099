//! The overview of a reviewer: the sessions that wait, how much they changed, their comments and verdicts, their
//! conflicts, and the commands that come next.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::Serialize;

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::listing::list;
use crate::listing::row::{self, Summary};
use crate::listing::urgency::{self, has_changes};
use crate::merge::conflicts::{self, Pair, PairResult};
use crate::model::session::State;
use crate::review::send;
use crate::selection::{self, Selection};
use crate::session::worktree::work;
use crate::store::list::{Listed, Scope};

/// So many sessions are asked whether there is something to send to them.
const ASKED: usize = 5;

/// The sessions of an overview.
#[derive(Debug)]
pub struct Overview {
    pub sessions: Vec<Listed>,
    pub rows: Vec<OverviewRow>,
    /// The reason why conflicts are not told.
    pub conflicts_unknown: Option<Error>,
}

/// A session in one row, with its conflicts.
#[derive(Debug, Serialize)]
pub struct OverviewRow {
    /// The session.
    #[serde(flatten)]
    pub summary: Summary,
    /// The branch it goes to, and other sessions of the table, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts_with: Vec<String>,
}

impl Deref for OverviewRow {
    type Target = Summary;

    fn deref(&self) -> &Summary {
        &self.summary
    }
}

/// Returns the overview of the sessions that were asked for, otherwise of those that wait for a reviewer.
pub fn overview(context: &Context<'_>, selection: &Selection) -> Result<Overview> {
    let sessions = chosen(context, selection)?;
    let rows = row::summarize(context, &sessions);
    let matrix = conflicts::matrix(context, &sessions, &conflicts::Options::default());
    let (pairs, conflicts_unknown): (Vec<Pair>, _) = match matrix {
        Ok(matrix) => (
            matrix.against.into_iter().chain(matrix.between).collect(),
            None,
        ),
        Err(error) => (Vec::new(), Some(error)),
    };
    let rows = rows
        .into_iter()
        .map(|summary| with_conflicts(summary, &pairs));
    Ok(Overview {
        rows: rows.collect(),
        sessions,
        conflicts_unknown,
    })
}

/// Adds the conflicts of a session: with its parent branch and with other sessions.
fn with_conflicts(summary: Summary, pairs: &[Pair]) -> OverviewRow {
    let sid = Some(summary.session.sid);
    let conflicts_with = pairs
        .iter()
        .filter(|pair| pair.verdict != PairResult::Clean)
        .filter_map(|pair| match sid {
            sid if pair.ours.session == sid => Some(pair.theirs.name.clone()),
            sid if pair.theirs.session == sid => Some(pair.ours.name.clone()),
            _ => None,
        })
        .collect();
    OverviewRow {
        summary,
        conflicts_with,
    }
}

/// Returns the sessions that were asked for, otherwise those that wait for a reviewer: this clone's and teammates'.
fn chosen(context: &Context<'_>, selection: &Selection) -> Result<Vec<Listed>> {
    if !selection.is_empty() {
        return selection::select(context, selection);
    }
    let mut listing = selection::list(context, Scope::All)?;
    list::hide_forgotten(context, &mut listing);
    let mut sessions = listing.sessions;
    sessions.retain(|listed| {
        let waits = matches!(
            listed.session.status,
            State::Ready | State::Approved | State::ChangesRequested
        );
        waits && listed.session.resolves().is_none()
    });
    Ok(sessions)
}

/// Returns the commands that come next, the most urgent first. Sessions without changes, and those that resolve a
/// conflict of another, need none.
pub fn next_steps(context: &Context<'_>, overview: &Overview) -> Vec<String> {
    let mut steps = Vec::new();
    let wanted = |row: &&OverviewRow| row.session.resolves().is_none() && has_changes(row);
    let rows: Vec<&OverviewRow> = overview.rows.iter().filter(wanted).collect();
    let verdict = |row: &OverviewRow| row.verdict.known().cloned().unwrap_or_default();
    let open = |row: &OverviewRow| {
        row.comments
            .known()
            .is_some_and(|comments| comments.open > 0)
    };
    // Where a comment hangs now does not matter for this, so no file is looked at.
    let to_send = |row: &OverviewRow| {
        let listed = overview
            .sessions
            .iter()
            .find(|listed| listed.session.sid == row.session.sid)?;
        let work = work::committed(context, listed).ok()?;
        send::next_step(context, listed, &work)
    };
    let commented = (rows.iter().copied()).filter(|row| row.mine && open(row));
    if let Some(step) = commented.take(ASKED).find_map(to_send) {
        steps.push(step);
    }
    // Each goes where it came from; one that conflicts there is resolved first.
    let mut targets: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let approved = |row: &&OverviewRow| row.mine && verdict(row) == "approve";
    for row in rows.iter().copied().filter(approved) {
        let conflicts = row.conflicts.known().is_some_and(|paths| !paths.is_empty());
        match (conflicts, row.parent.as_deref()) {
            (true, _) => steps.push(format!("git agent merge resolve {}", shell_word(&row.name))),
            (false, into) => {
                let into = into.unwrap_or("BRANCH");
                targets.entry(into).or_default().push(row.name.clone());
            }
        }
    }
    for (into, names) in targets {
        steps.push(urgency::merge_command(into, &names));
    }
    let unjudged = |row: &&OverviewRow| !open(row) && verdict(row) != "approve";
    if let Some(row) = rows.iter().copied().find(unjudged) {
        let name = shell_word(&row.name);
        steps.push(format!("git agent review diff {name}"));
        steps.push(format!("git agent review approve {name}"));
    }
    steps
}
