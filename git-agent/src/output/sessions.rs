//! Prints sessions: the table for users and the record for scripts.

use std::time::Duration;

use crate::env::Millis;
use crate::listing::row::Summary;
use crate::listing::verdicts::Judgement;
use crate::model::known::Finding;
use crate::model::review::Verdict;
use crate::model::review::authorship::{Authorship, shown};
use crate::model::session::State;
use crate::output::human;
use crate::output::moment::Clock;
use crate::output::table::{Cell, Column, Table};
use crate::output::terminal::sanitize::one_line;
use crate::output::terminal::style::Slot;

/// How to show the time of the last activity.
#[derive(Debug, Clone)]
pub enum When {
    /// As an age at this time.
    Ago(Millis),
    /// As the time of day, which stays true on a screen that is not repainted.
    At(Clock),
}

/// Returns a table of sessions.
pub fn table(rows: &[Summary], when: &When) -> Table {
    let mut table = Table::new([
        Column::new("NAME").shrinks_to(10).keeps_end(),
        Column::new("STATE"),
        Column::new("AGENT").shrinks_to(7).goes(1),
        Column::new("DONE").right().goes(5),
        Column::new("TIME").right().goes(2),
        Column::new("CHANGES").shrinks_to(7).goes(7),
        Column::new("COMMITS").goes(4),
        Column::new("CONFLICTS").shrinks_to(9).goes(9),
        Column::new("AUTHOR").shrinks_to(6).goes(6),
        Column::new("LAST").right().goes(3),
        Column::new("ACTIVITY").shrinks_to(8).goes(8),
    ]);
    for row in rows {
        table.row([
            Cell::new(&row.name),
            Cell::new(row.state.as_str()).in_color(Slot::of_state(row.state)),
            Cell::new(agent(row)),
            Cell::new(progress(row)),
            Cell::new(elapsed(row)),
            Cell::new(changes(row)),
            Cell::new(commits(row)),
            Cell::new(conflicts(row)).in_color(Slot::Bad),
            Cell::new(author(row)),
            Cell::new(last(row, when)).in_color(Slot::Dim),
            Cell::new(activity(row)),
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
    match &row.model {
        Some(model) => format!("{}/{model}", row.agent),
        None => row.agent.clone(),
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

/// Returns added and deleted lines; `*` marks uncommitted changes.
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
                words.push(format!("-{}", changes.deleted));
            }
            if words.is_empty() && changes.files > 0 {
                words.push(human::count(changes.files, "file"));
            }
            let is_loose = changes.uncommitted > 0 || row.unshared.is_some();
            let mark = if is_loose { "*" } else { "" };
            format!("{}{mark}", words.join(" "))
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

/// Returns the author, and whether the name is verified; empty for the user's own sessions.
pub fn author(row: &Summary) -> String {
    let name = match row.session.author.name.as_str() {
        "" => row.session.author.email.as_str(),
        name => name,
    };
    if row.mine {
        String::new()
    } else {
        shown(name, row.claim.or(Some(Authorship::Claimed)))
    }
}

fn last(row: &Summary, when: &When) -> String {
    match when {
        When::Ago(now) => age(now.0.saturating_sub(row.updated.0)),
        When::At(clock) => clock.time(row.updated),
    }
}

/// Returns an age in its largest unit: `8s`, `3m`, `2h`, `5d`.
fn age(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// Returns the session's last activity, or the reason for its state if that says more.
pub fn activity(row: &Summary) -> &str {
    if row.unshared.is_some() {
        return UNSHARED;
    }
    let reason = row.exit.as_ref().map_or("", |exit| exit.reason.as_str());
    let says_more = matches!(
        row.state,
        State::Failed | State::Stopped | State::Interrupted | State::Stuck | State::Rejected
    );
    if (says_more || row.session.activity.is_empty()) && !reason.is_empty() {
        return reason;
    }
    match row.session.activity.trim_end() {
        "" => &row.task,
        activity => activity,
    }
}

/// The activity shown for a teammate's session with uncommitted work.
pub const UNSHARED: &str = "has uncommitted work that was not shared";

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
