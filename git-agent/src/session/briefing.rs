//! What an agent is told besides the task, and the conversation so far for those that cannot remember it.

use std::fmt::Write;
use std::path::PathBuf;

use super::Session;
use super::context::Context;
use crate::agent::spec::{AgentSpec, Family};
use crate::error::{Context as _, Result};
use crate::transcript::Body;

/// The longest conversation handed over as text; the beginning is cut first.
const HISTORY: usize = 256 << 10;

/// Returns the prompt as the agent gets it. The first one says where it is and what it must not do; a plain command gets
/// the words as they are.
pub fn prompt(spec: &AgentSpec, session: &Session, text: &str) -> String {
    if spec.family == Family::Command || session.turns > 1 {
        return text.to_owned();
    }
    let branch = session.branch.as_deref().unwrap_or("(none)");
    let parent = session.parent.as_deref().unwrap_or("(none)");
    let read_only = super::setup::is_read_only(session);
    let rules = if read_only {
        "This is a read-only session: look and report, change nothing."
    } else {
        "Other agents work in other worktrees of the same repository at the same time. Stay in this one. \
         Do not use git stash, do not switch or move other branches, do not push; commit work in progress on your branch instead."
    };
    format!(
        "{text}\n\n---\nYou work in a git worktree of your own, on branch '{branch}' (from '{parent}'). {rules} \
         Review comments may follow; answer them with `git agent review reply`."
    )
}

/// Writes the conversation so far to a file, if there is any, and returns where it is.
pub fn history(context: &Context<'_>, session: &Session) -> Result<Option<PathBuf>> {
    if session.turns <= 1 {
        return Ok(None);
    }
    let Some(tip) = context.store.log_tip(session.sid)? else {
        return Ok(None);
    };
    let mut text = String::new();
    for event in context.store.transcript(tip.id)? {
        let event = event?;
        // The prompt of this very turn is given as the prompt.
        if event.turn >= session.turns {
            break;
        }
        let _ = match event.body {
            Body::Prompt { text: said, .. } => {
                write!(text, "\n# prompt {}\n\n{said}\n\n# answer\n\n", event.turn)
            }
            Body::Assistant { text: said } | Body::Output { text: said, .. } => {
                writeln!(text, "{said}")
            }
            Body::ToolCall { name, .. } => writeln!(text, "[{name}]"),
            _ => Ok(()),
        };
        if text.len() > 2 * HISTORY {
            text = tail(&text).to_owned();
        }
    }
    let dir = context
        .store
        .require_dir(&format!("scratch/{}", session.sid))?;
    let path = dir.join("history.txt");
    std::fs::write(&path, tail(&text)).context(|| format!("cannot write '{}'", path.display()))?;
    Ok(Some(path))
}

/// Returns the last part of a text, from a character's beginning on.
fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(HISTORY);
    let start = (start..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    &text[start..]
}
