//! Prints sessions: the table for users and the record for scripts.

use std::borrow::Cow;
use std::time::Duration;

use crate::env::Millis;
use crate::listing::review::verdicts::Judgement;
use crate::listing::row::Summary;
use crate::listing::urgency::{self, NextStep};
use crate::model::known::Finding;
use crate::model::review::Verdict;
use crate::model::review::authorship::{Authorship, in_column, shown};
use crate::model::session::{Session, State};
use crate::output::human;
use crate::output::table::{Cell, Column, Table};
use crate::output::terminal::sanitize::one_line;
use crate::output::terminal::style::Slot;

/// The narrowest screen that has room for the task beside the activity.
const ROOM_FOR_TASK: usize = 110;

/// Returns a table of sessions with ages at `now`. On a screen of this width, or without a limit, the tasks have a
/// column of their own if there is room.
pub fn table(rows: &[Summary], now: Millis, width: Option<usize>) -> Table {
    let tasks = width.is_none_or(|width| width >= ROOM_FOR_TASK);
    let mut table = Table::new([
        Column::new("NAME").keeps_end(),
        Column::new("STATE"),
        Column::new("AGENT").shrinks_to(7).goes(3),
        Column::new("DONE").right().goes(5),
        Column::new("WORKED").right().goes(2),
        Column::new("CHANGES").shrinks_to(7).goes(7),
        Column::new("COMMITS").goes(1),
        Column::new("CONFLICTS").shrinks_to(9).goes(9),
        Column::new("AUTHOR").shrinks_to(6).goes(6),
        Column::new("UPDATED").goes(4),
        Column::new("ACTIVITY").shrinks_to(26).goes(8),
        Column::new("TASK").shrinks_to(16).goes(0),
    ]);
    for row in rows {
        let slot = match NextStep::of(row) {
            // A session without changes is done, in whatever state.
            NextStep::Nothing if row.state == State::Ready => Slot::Dim,
            _ => Slot::of_state(row.state),
        };
        let activity = urgency::activity(row);
        let activity = if activity.is_empty() && !tasks {
            Cow::from(&row.task)
        } else {
            activity
        };
        table.row([
            Cell::new(&row.name),
            Cell::new(row.state.as_str()).in_color(slot),
            Cell::new(agent(row)).in_color(Slot::Dim),
            Cell::new(progress(row)),
            Cell::new(elapsed(row)).in_color(Slot::Dim),
            Cell::new(changes(row)),
            Cell::new(commits(row)).in_color(Slot::Dim),
            Cell::new(conflicts(row)).in_color(Slot::Bad),
            Cell::new(author(row)),
            Cell::new(human::age(now, row.updated)).in_color(Slot::Dim),
            Cell::new(activity.as_bytes()),
            Cell::new(if tasks { &row.task } else { "" }).in_color(Slot::Dim),
        ]);
    }
    table
}

/// Returns the fields of a session's record. An empty field has no value; `?` could not be determined.
pub fn record(row: &Summary) -> Vec<String> {
    let number = |found: &Finding<u64>| match found {
        Finding::Nothing => String::new(),
        Finding::Unknown => "?".to_owned(),
        Finding::Known(number) => number.to_string(),
    };
    let of_changes = |part: fn(&crate::listing::row::Changes) -> u64| match &row.changes {
        Finding::Nothing => String::new(),
        Finding::Unknown => "?".to_owned(),
        Finding::Known(changes) => part(changes).to_string(),
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    vec![
        row.id.clone(),
        row.state.as_str().to_owned(),
        row.name.clone(),
        row.agent.clone(),
        text(&row.model),
        text(&row.group),
        if row.mine { "mine" } else { "theirs" }.to_owned(),
        row.turns.to_string(),
        row.progress
            .map(|progress| format!("{}/{}", progress.done, progress.total))
            .unwrap_or_default(),
        row.elapsed_seconds
            .map(|seconds| seconds.to_string())
            .unwrap_or_default(),
        row.updated.seconds().to_string(),
        number(&row.ahead),
        number(&row.behind),
        of_changes(|changes| changes.files),
        of_changes(|changes| changes.added),
        of_changes(|changes| changes.deleted),
        of_changes(|changes| changes.uncommitted),
        text(&row.parent),
        text(&row.branch),
        text(&row.worktree),
    ]
}

/// Returns agent and model as one word.
pub fn agent(row: &Summary) -> String {
    agent_of(&row.session)
}

/// Returns agent and model of a session as one word.
pub fn agent_of(session: &Session) -> String {
    match &session.model {
        Some(model) => format!("{}/{model}", session.agent),
        None => session.agent.clone(),
    }
}

/// Returns the progress of the agent's own plan.
pub fn progress(row: &Summary) -> String {
    row.progress
        .map(|progress| format!("{}/{}", progress.done, progress.total))
        .unwrap_or_default()
}

/// Returns how long the agent has worked.
pub fn elapsed(row: &Summary) -> String {
    row.elapsed_seconds
        .map(|seconds| human::duration(Duration::from_secs(seconds)))
        .unwrap_or_default()
}

/// Returns added and deleted lines.
pub fn changes(row: &Summary) -> String {
    match &row.changes {
        Finding::Nothing => String::new(),
        Finding::Unknown => "?".to_owned(),
        Finding::Known(changes) => {
            let mut words = Vec::new();
            if changes.added > 0 {
                words.push(format!("+{}", changes.added));
            }
            if changes.deleted > 0 {
                words.push(format!("−{}", changes.deleted));
            }
            if words.is_empty() && changes.files > 0 {
                words.push(human::count(changes.files, "file"));
            }
            words.join(" ")
        }
    }
}

/// Returns how many commits the session is ahead of and behind its parent.
pub fn commits(row: &Summary) -> String {
    let side = |found: &Finding<u64>, arrow: &str| match found {
        Finding::Nothing | Finding::Known(0) => None,
        Finding::Unknown => Some(format!("{arrow}?")),
        Finding::Known(count) => Some(format!("{arrow}{count}")),
    };
    [side(&row.ahead, "↑"), side(&row.behind, "↓")]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the file that conflicts with the parent, or the number of such files.
pub fn conflicts(row: &Summary) -> String {
    match &row.conflicts {
        Finding::Nothing => String::new(),
        Finding::Unknown => "?".to_owned(),
        Finding::Known(paths) => match paths.as_slice() {
            [one] if !one.is_empty() => one.clone(),
            paths => human::count(paths.len().max(1) as u64, "file"),
        },
    }
}

/// Returns the author, marked if the name is verified; empty for the user's own sessions.
pub fn author(row: &Summary) -> String {
    let name = match row.session.author.name.as_str() {
        "" => row.session.author.email.as_str(),
        name => name,
    };
    if row.mine {
        String::new()
    } else {
        in_column(name, row.claim.unwrap_or(Authorship::Claimed))
    }
}

/// Length of a commit id shown with a verdict.
const TIP_SHOWN: usize = 10;

/// Returns one line with the reviewer, the verdict, the commit and the time.
pub fn verdict(judgement: &Judgement, now: Millis) -> String {
    let does = match judgement.verdict {
        Verdict::Approve => "approves",
        Verdict::RequestChanges => "requests changes",
        Verdict::Reject => "rejects",
    };
    let tip: String = judgement.tip.chars().take(TIP_SHOWN).collect();
    let who = shown(&judgement.who, judgement.claim);
    let (who, tip) = (one_line(&who), one_line(&tip));
    let ago = human::ago(now, judgement.at);
    let stale = match judgement.stale {
        Some(true) => ", stale",
        _ => "",
    };
    let ignored = match judgement.ignored {
        Some(why) => format!(", does not count: {why}"),
        None => String::new(),
    };
    format!("{who} {does} at {tip}, {ago}{stale}{ignored}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_one_line_without_tricks() {
        let mut judgement = Judgement {
            id: String::new(),
            verdict: Verdict::RequestChanges,
            message: String::new(),
            who: "Ada\n\x1b[2J".into(),
            claim: None,
            writer: "ada-1a2b".into(),
            at: Millis(5),
            tip: "0123456789abcdef".into(),
            base: None,
            stale: Some(false),
            ignored: None,
        };
        let words = verdict(&judgement, Millis(5));
        let end = " requests changes at 0123456789, 0 seconds ago";
        assert!(words.ends_with(end), "{words}");
        assert!(!words.contains(['\x1b', '\n']), "{words}");
        judgement.stale = Some(true);
        assert!(verdict(&judgement, Millis(5)).ends_with(", stale"));
    }
}
