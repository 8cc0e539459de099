//! The next step of each session, and the order, words and counts that every listing shares: sessions that need the
//! user first, then those at work, the queue, and the rest.

use std::borrow::Cow;
use std::cmp::Reverse;

use crate::error::shell_word;
use crate::listing::row::Summary;
use crate::model::known::Finding;
use crate::model::session::State;
use crate::model::turn_outcome;

/// The next step of a session, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextStep {
    /// The user answers its question.
    Answer,
    /// The user looks at a failure.
    Repair,
    /// The user sends the comments of the review.
    Send,
    /// The user merges the approved work.
    Merge,
    /// The user reviews the work.
    Review,
    /// The agent continues.
    Work,
    /// Its turn comes.
    Queue,
    /// The user starts it.
    Start,
    /// None: it is finished, stopped, or has changed nothing.
    Nothing,
}

/// A section of a listing, in the order of the listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Sessions that cannot continue without the user.
    Attention,
    /// Sessions with an agent at work.
    Working,
    /// Sessions whose turn comes later.
    Queued,
    /// All other sessions.
    Done,
}

impl Section {
    /// Every section, in order.
    pub const ALL: [Section; 4] = [
        Section::Attention,
        Section::Working,
        Section::Queued,
        Section::Done,
    ];

    /// Returns a number of sessions with the words of the section.
    fn count(self, number: usize) -> String {
        match self {
            Section::Attention if number == 1 => "1 needs attention".to_owned(),
            Section::Attention => format!("{number} need attention"),
            Section::Working => format!("{number} working"),
            Section::Queued => format!("{number} queued"),
            Section::Done => format!("{number} done"),
        }
    }
}

impl NextStep {
    /// Returns the next step of a session.
    pub fn of(row: &Summary) -> Self {
        match row.state {
            State::Waiting => NextStep::Answer,
            State::Failed | State::Blocked | State::Interrupted | State::Stuck => NextStep::Repair,
            State::ChangesRequested => NextStep::Send,
            State::Approved => NextStep::Merge,
            State::Ready if has_changes(row) && row.session.resolves().is_none() => {
                NextStep::Review
            }
            State::Preparing | State::Running => NextStep::Work,
            State::Queued => NextStep::Queue,
            State::Draft => NextStep::Start,
            State::Ready
            | State::Merged
            | State::Stopped
            | State::Rejected
            | State::Discarded
            | State::Unknown => NextStep::Nothing,
        }
    }

    /// Returns the section of a session with this next step.
    pub fn section(self) -> Section {
        match self {
            NextStep::Answer
            | NextStep::Repair
            | NextStep::Send
            | NextStep::Merge
            | NextStep::Review => Section::Attention,
            NextStep::Work => Section::Working,
            NextStep::Queue | NextStep::Start => Section::Queued,
            NextStep::Nothing => Section::Done,
        }
    }
}

/// Returns whether a session has changed something, or may have.
pub fn has_changes(row: &Summary) -> bool {
    let untouched = match &row.changes {
        Finding::Known(changes) => changes.files + changes.uncommitted == 0,
        Finding::Nothing => true,
        Finding::Unknown => false,
    };
    !untouched || row.ahead.known().is_some_and(|count| *count > 0)
}

/// Sorts rows by urgency. Within a section, the session that has waited longest is first; among the finished ones it
/// is last.
pub fn sort(rows: &mut [Summary]) {
    rows.sort_by_cached_key(|row| {
        let step = NextStep::of(row);
        // The queue in its own order; a session without a place in it comes after the others.
        let place = match step {
            NextStep::Queue => row.ahead_in_queue.unwrap_or(usize::MAX),
            _ => 0,
        };
        let age = match step {
            NextStep::Nothing => Err(Reverse(row.updated)),
            _ => Ok(row.updated),
        };
        (step, !row.mine, place, age, row.id.clone())
    });
}

/// Returns the current activity of a session in one line: its question, why it waits or ended, or what its agent said
/// last. Empty if there is nothing to say.
pub fn activity(row: &Summary) -> Cow<'_, str> {
    if row.unshared.is_some() {
        return UNSHARED.into();
    }
    let reason = row.exit.as_ref().map_or("", |exit| exit.reason.as_str());
    let last = row.session.activity.trim_end();
    match row.state {
        State::Waiting => match row.session.asks.first() {
            Some(asked) => format!("asks: {}", asked.title).into(),
            None => last.into(),
        },
        State::Queued => match &row.waits {
            Some(waits) => waits.as_str().into(),
            None => last.into(),
        },
        State::Draft => "not started".into(),
        State::Failed
        | State::Stopped
        | State::Interrupted
        | State::Stuck
        | State::Rejected
        | State::Merged
            if !reason.is_empty() =>
        {
            reason.into()
        }
        _ if last.is_empty() => reason.into(),
        _ => last.into(),
    }
}

/// The activity of a teammate's session with uncommitted work.
pub const UNSHARED: &str = "has uncommitted work that was not shared";

/// Returns the counts of the sections and the cost of all sessions: `2 need attention, 1 working, $1.84`.
pub fn counts(rows: &[Summary]) -> String {
    let mut words: Vec<String> = Vec::new();
    for section in Section::ALL {
        let inside = |row: &&Summary| NextStep::of(row).section() == section;
        match rows.iter().filter(inside).count() {
            0 => {}
            number => words.push(section.count(number)),
        }
    }
    let costs: Vec<f64> = rows.iter().filter_map(|row| row.usage.cost_usd).collect();
    if !costs.is_empty() {
        words.push(cost(costs.iter().sum()));
    }
    if words.is_empty() {
        "no sessions".to_owned()
    } else {
        words.join(", ")
    }
}

/// Returns a cost in dollars; small ones with more digits, so that they are not zero.
pub fn cost(dollars: f64) -> String {
    match dollars {
        small if small > 0.0 && small < 0.1 => format!("${small:.3}"),
        dollars => format!("${dollars:.2}"),
    }
}

/// Returns the commands that come next, one for each kind of step, the most urgent first.
pub fn commands(rows: &[Summary]) -> Vec<String> {
    let mut found: Vec<(NextStep, String)> = Vec::new();
    for row in rows.iter().filter(|row| row.mine) {
        let step = NextStep::of(row);
        if found.iter().any(|(known, _)| *known == step) {
            continue;
        }
        if let Some(command) = command(row, step) {
            found.push((step, command));
        }
    }
    found.sort_by_key(|(step, _)| *step);
    found.into_iter().map(|(_, command)| command).collect()
}

/// Returns the command for the next step of a session.
fn command(row: &Summary, step: NextStep) -> Option<String> {
    let name = shell_word(&row.name);
    let conflicts = row.conflicts.known().is_some_and(|paths| !paths.is_empty());
    Some(match step {
        NextStep::Answer => format!("git agent answer {name}"),
        NextStep::Repair if needs_login(row) => {
            let agent = shell_word(&row.agent);
            format!("log in with '{agent}', then: git agent restart {name}")
        }
        NextStep::Repair if row.state == State::Stuck => format!("git agent log {name}"),
        NextStep::Repair => format!("git agent restart {name}"),
        NextStep::Send => format!("git agent review send {name}"),
        NextStep::Merge if conflicts => format!("git agent merge resolve {name}"),
        NextStep::Merge => format!("git agent merge {name}"),
        NextStep::Review => format!("git agent review diff {name}"),
        NextStep::Start => format!("git agent restart {name}"),
        NextStep::Work | NextStep::Queue | NextStep::Nothing => return None,
    })
}

/// Returns whether a session failed because its agent is not logged in.
fn needs_login(row: &Summary) -> bool {
    let reason = row.exit.as_ref().map_or("", |exit| exit.reason.as_str());
    row.state == State::Failed && turn_outcome::is_about_login(reason)
}

/// Returns the command that merges approved sessions into a branch. Many names are left out, because without names all
/// approved sessions of the branch are merged.
pub fn merge_command(into: &str, names: &[String]) -> String {
    let command = format!("git agent merge --into {}", shell_word(into));
    let names: Vec<String> = names.iter().map(shell_word).collect();
    let long = format!("{command} {}", names.join(" "));
    if long.len() <= LONGEST { long } else { command }
}

/// Maximum length of a command in a hint, so that the line has at most 80 columns.
const LONGEST: usize = 74;
