//! Writes the prompt for the agent that resolves a conflict: the intents of both sides, from tasks, commits and
//! transcripts.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::context::Context;
use crate::error::Result;
use crate::git::ObjectId;
use crate::merge::resolve::Case;
use crate::model::event::{Body, is_unfinished};
use crate::model::session::{Session, SessionId};
use crate::session::events;

/// Maximum number of commits listed for each side.
const COMMITS: usize = 20;
/// Maximum number of sessions listed for the other side.
const SESSIONS: usize = 5;
/// Maximum number of characters of a quoted text.
const WORDS: usize = 1200;
/// Number of events searched for the agent's last message.
const EVENTS: usize = 400;

/// Returns the prompt: both sides with their intents, the conflicting files and lines, and the task.
pub fn prompt(context: &Context<'_>, case: &Case, test: Option<&str>) -> Result<String> {
    let (name, target) = (&case.session.name, &case.target);
    let repo = context.repo;
    let mut text = format!(
        "Merging {target} into {name}: both changed the same places, and git left conflict markers in this worktree.\n\
         The changes of {name} and the later changes of {target} are described below. Keep both.\n\n"
    );
    writeln!(text, "## Changes of {name}\n").ok();
    tell_session(context, &case.session, &mut text);
    tell_commits(context, case.theirs, case.place.tip, &mut text)?;
    writeln!(text, "\n## Later changes of {target}\n").ok();
    tell_commits(context, case.place.tip, case.theirs, &mut text)?;
    for sid in sessions_of(context, case)? {
        if let Ok(Some(session)) = context.store.session(sid) {
            writeln!(text, "\nSession {} made a part of them.", session.name).ok();
            tell_session(context, &session, &mut text);
        }
    }
    writeln!(text, "\n## Conflicting files\n").ok();
    for conflict in &case.conflicts {
        let path = String::from_utf8_lossy(&conflict.path);
        write!(text, "- {path}").ok();
        if !conflict.kinds.is_empty() {
            write!(text, " ({})", conflict.kinds.join(", ")).ok();
        }
        let places: Vec<String> = repo
            .clashes(conflict)
            .iter()
            .take(8)
            .map(|clash| {
                format!(
                    "{name} {}..{}, {target} {}..{}",
                    clash.ours.start,
                    clash.ours.end.saturating_sub(1),
                    clash.theirs.start,
                    clash.theirs.end.saturating_sub(1)
                )
            })
            .collect();
        if !places.is_empty() {
            write!(text, ": lines {}", places.join("; ")).ok();
        }
        text.push('\n');
    }
    text.push_str(
        "\n## Your task\n\n\
         Edit these files so that they fulfil the intents of both sides. The text between `<<<<<<<` and `|||||||` \
         is one side, the text between `=======` and `>>>>>>>` is the other, and the text between them is the common base. \
         Do not simply choose one side. Remove every conflict marker. Change other code only where both sides need it to \
         work together. Do not commit.\n",
    );
    if let Some(test) = test {
        writeln!(text, "The result must pass: {test}").ok();
    }
    Ok(text)
}

/// Returns the prompt after a resolution was not accepted.
pub fn again(complaints: &[String]) -> String {
    let mut text = String::from("The conflict is not resolved yet:\n\n");
    for complaint in complaints {
        writeln!(text, "- {complaint}").ok();
    }
    text.push_str("\nThe result must keep the changes of both sides. Fix this; do not commit.\n");
    text
}

fn tell_session(context: &Context<'_>, session: &Session, text: &mut String) {
    if !session.task.trim().is_empty() {
        writeln!(text, "Its task: {}", shorten(&session.task)).ok();
    }
    // If the transcript cannot be read, the task and the commits remain.
    let events = events::tail(context, session.sid, EVENTS).unwrap_or_default();
    let mut last: Option<String> = None;
    for event in events {
        match (last.as_mut(), event.body) {
            (Some(last), Body::Assistant { text }) if is_unfinished(last) => last.push_str(&text),
            (_, Body::Assistant { text }) if !text.trim().is_empty() => last = Some(text),
            _ => {}
        }
    }
    if let Some(last) = last {
        writeln!(text, "Last message of its agent: {}", shorten(&last)).ok();
    }
}

/// Lists the commits that one side has and the other lacks.
fn tell_commits(
    context: &Context<'_>,
    hidden: ObjectId,
    tip: ObjectId,
    text: &mut String,
) -> Result<()> {
    let commits = context.repo.commits_between(hidden, tip)?;
    let told: Vec<_> = commits
        .iter()
        .rev()
        .filter(|commit| commit.parents.len() < 2)
        .take(COMMITS)
        .collect();
    if !told.is_empty() {
        text.push_str("Its commits:\n");
    }
    for commit in told.iter().rev() {
        let title = commit.message.lines().next().unwrap_or_default();
        writeln!(text, "- {title}").ok();
    }
    Ok(())
}

/// Returns the sessions whose work the other side has gained.
fn sessions_of(context: &Context<'_>, case: &Case) -> Result<Vec<SessionId>> {
    let commits = context.repo.commits_between(case.place.tip, case.theirs)?;
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for commit in commits.iter().rev() {
        for line in commit.message.lines() {
            let sid = line.trim().strip_prefix("Agent-Session:");
            if let Some(sid) = sid.and_then(|sid| sid.trim().parse::<SessionId>().ok())
                && sid != case.session.sid
                && seen.insert(sid)
            {
                found.push(sid);
            }
        }
    }
    found.truncate(SESSIONS);
    Ok(found)
}

fn shorten(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(WORDS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
