//! The content of reviews: verdicts, and comment threads with their places in the work as it is now.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::context::Context;
use crate::error::Result;
use crate::listing::review::verdicts::{self, Judgement};
use crate::listing::row::timestamp;
use crate::model::review::authorship::Authorship;
use crate::model::review::path::to_text;
use crate::model::review::{CommentPlace, Review, Side};
use crate::model::session::Ulid;
use crate::review::anchors::{self, Placed, Spot};
use crate::review::prompt::{self, Sent};
use crate::review::{records, state};
use crate::selection::{self, Selection};
use crate::session::worktree::work::{self, Keep, Work};
use crate::store::list::{Listed, Scope};
use crate::store::notes::Problem;

/// How many notes that cannot be read are told.
const PROBLEMS: usize = 5;

/// Which comments are listed; open and outdated ones where none are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter {
    /// Open ones whose code is still there.
    pub open: bool,
    pub resolved: bool,
    /// Open ones whose code has changed since.
    pub outdated: bool,
    /// All of them.
    pub everything: bool,
}

impl Filter {
    /// Returns whether the verdicts on a session are asked for. Among all sessions, those that are over would only be
    /// in the way.
    fn wants_verdicts(self, listed: &Listed, all: bool) -> bool {
        let comments_only = self.open || self.resolved || self.outdated;
        let over = all && listed.session.status.is_closed();
        !comments_only && (self.everything || !over)
    }

    fn wants(self, placed: &Placed<'_>) -> bool {
        let state = placed.state();
        let none = !self.open && !self.resolved && !self.outdated;
        match state {
            "resolved" => self.everything || self.resolved,
            "outdated" => self.everything || none || self.outdated,
            _ => self.everything || none || self.open,
        }
    }
}

/// How much was listed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Total {
    /// The threads that were asked for.
    pub shown: usize,
    /// The other threads.
    pub others: usize,
    pub verdicts: usize,
}

/// The review of a session, as far as it is asked for.
#[derive(Debug)]
pub struct SessionReview<'r> {
    pub listed: &'r Listed,
    pub verdicts: Vec<Judgement>,
    pub threads: Vec<Placed<'r>>,
}

impl SessionReview<'_> {
    /// Returns the threads for programs.
    pub fn thread_rows(&self, context: &Context<'_>) -> Result<Vec<ThreadRow>> {
        let sent = prompt::sent(context, self.listed)?;
        let rows = self.threads.iter();
        Ok(rows.map(|placed| row(self.listed, placed, &sent)).collect())
    }

    /// Returns the verdicts for programs.
    pub fn verdict_rows(&self) -> Vec<VerdictRow> {
        let row = |judgement: &Judgement| VerdictRow {
            session: self.listed.session.sid.to_string(),
            name: self.listed.session.name.clone(),
            judgement: judgement.clone(),
        };
        self.verdicts.iter().map(row).collect()
    }
}

/// The reader of a list.
pub trait ListReporter {
    /// A note cannot be read.
    fn unreadable(&mut self, problem: &Problem);

    /// The review of a session comes next.
    fn session(&mut self, review: &SessionReview<'_>) -> Result<()>;
}

/// Lists the reviews of sessions: of those that were asked for, of the current one, or of all.
pub fn list(
    context: &Context<'_>,
    selection: &Selection,
    filter: Filter,
    reporter: &mut dyn ListReporter,
) -> Result<Total> {
    let reviews = records::load(context)?;
    for problem in reviews.problems.iter().take(PROBLEMS) {
        reporter.unreadable(problem);
    }
    let mut total = Total::default();
    let (chosen, all) = chosen(context, selection)?;
    for listed in &chosen {
        let Some(review) = reviews.sessions.get(&listed.session.sid) else {
            continue;
        };
        let work = work::look(context, listed, Keep::Nothing).ok();
        let verdicts = if filter.wants_verdicts(listed, all) {
            judgements(context, listed, review, work.as_ref())
        } else {
            Vec::new()
        };
        let mut threads = placed(context, work.as_ref(), review)?;
        let many = threads.len();
        threads.retain(|placed| filter.wants(placed));
        total.verdicts += verdicts.len();
        total.shown += threads.len();
        total.others += many - threads.len();
        reporter.session(&SessionReview {
            listed,
            verdicts,
            threads,
        })?;
    }
    Ok(total)
}

/// Returns the sessions that are meant, and whether that is all of them.
fn chosen(context: &Context<'_>, selection: &Selection) -> Result<(Vec<Listed>, bool)> {
    if !selection.is_empty() && !selection.all {
        return Ok((selection::select(context, selection)?, false));
    }
    if !selection.all
        && let Ok(here) = selection::select(context, selection)
    {
        return Ok((here, false));
    }
    Ok((selection::list(context, Scope::All)?.sessions, true))
}

/// Finds where the threads of a session hang; where its work is not here, everything on code is outdated.
fn placed<'r>(
    context: &Context<'_>,
    work: Option<&Work>,
    review: &'r Review,
) -> Result<Vec<Placed<'r>>> {
    match work {
        Some(work) => anchors::place_all(context, work, review),
        None => Ok(review
            .threads
            .iter()
            .filter(|thread| thread.is_visible())
            .map(|thread| Placed {
                thread,
                spot: match &thread.at {
                    None => Spot::Session,
                    Some(CommentPlace::Event { event, .. }) => Spot::Event(*event),
                    Some(CommentPlace::Code(_)) => Spot::Outdated,
                },
            })
            .collect()),
    }
}

/// Returns the verdicts on a session, seen from its work where that is here.
fn judgements(
    context: &Context<'_>,
    listed: &Listed,
    review: &Review,
    work: Option<&Work>,
) -> Vec<Judgement> {
    let session = &listed.session;
    let files = work.map(|work| state::files_of(context.repo, session, review, work));
    let files = files
        .as_ref()
        .map(|(tip, tree)| (tip.as_str(), tree.as_str()));
    verdicts::on(review, listed, files)
}

/// A comment thread, for programs.
#[derive(Debug, Serialize)]
pub struct ThreadRow {
    /// The comment that opens it.
    pub id: String,
    /// The session's id.
    pub session: String,
    /// The session's name.
    pub name: String,
    /// `open`, `outdated` or `resolved`.
    pub state: &'static str,
    /// The file, as it is now; of outdated ones, as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `old` or `new`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// The first line, as it is now; absent for whole files and outdated threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The last line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<u32>,
    /// The event of the transcript it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The turn of that event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The commit that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The code it was about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub code: Vec<String>,
    /// The turn it was sent in; 0 while that waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_turn: Option<u32>,
    /// Who resolved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    /// The comments, the first opening the thread.
    pub comments: Vec<CommentRow>,
}

/// One comment, for programs.
#[derive(Debug, Serialize)]
pub struct CommentRow {
    pub id: String,
    /// Who, as claimed.
    pub author: String,
    /// `claimed` or `verified`; absent for records of this clone.
    #[serde(rename = "standing", skip_serializing_if = "Option::is_none")]
    pub claim: Option<Authorship>,
    /// Whose ref it came from.
    pub writer: String,
    /// When.
    pub time: String,
    pub text: String,
    /// How much it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<&'static str>,
    /// Whether it was edited.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
}

/// A verdict, for programs.
#[derive(Debug, Serialize)]
pub struct VerdictRow {
    /// The session's id.
    pub session: String,
    /// The session's name.
    pub name: String,
    #[serde(flatten)]
    pub judgement: Judgement,
}

/// Returns a thread for programs.
fn row(listed: &Listed, placed: &Placed<'_>, sent: &BTreeMap<Ulid, Sent>) -> ThreadRow {
    let thread = placed.thread;
    let first = thread.comments.first();
    let mut row = ThreadRow {
        id: first
            .map(|comment| comment.id.to_string())
            .unwrap_or_default(),
        session: listed.session.sid.to_string(),
        name: listed.session.name.clone(),
        state: placed.state(),
        path: None,
        side: None,
        line: None,
        end: None,
        event: None,
        turn: None,
        commit: None,
        code: Vec::new(),
        sent_turn: first
            .and_then(|comment| sent.get(&comment.id))
            .map(|sent| sent.turn),
        resolved_by: thread.resolved_by.as_ref().map(ToString::to_string),
        comments: thread
            .comments
            .iter()
            .filter(|comment| !comment.deleted)
            .map(|comment| CommentRow {
                id: comment.id.to_string(),
                author: comment.who.name.clone(),
                claim: comment.claim,
                writer: comment.writer.to_string(),
                time: timestamp(comment.ts),
                text: comment.body.clone(),
                severity: comment.severity.map(|severity| severity.as_str()),
                edited: comment.edited.is_some(),
            })
            .collect(),
    };
    if let Some(CommentPlace::Code(code)) = &thread.at {
        row.path.clone_from(&code.path);
        row.side = Some(code.side);
        row.commit = Some(code.commit.clone());
        row.code.clone_from(&code.text);
    }
    if let Some(CommentPlace::Event { turn, .. }) = &thread.at {
        row.turn = *turn;
    }
    match &placed.spot {
        Spot::Event(event) => row.event = Some(event.to_string()),
        Spot::File { path, .. } => row.path = Some(to_text(path)),
        Spot::Lines {
            path, first, last, ..
        } => {
            row.path = Some(to_text(path));
            row.line = Some(*first);
            row.end = (first != last).then_some(*last);
        }
        Spot::Session | Spot::Outdated => {}
    }
    row
}
