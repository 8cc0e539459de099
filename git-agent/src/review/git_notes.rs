//! Reviews as plain git shows them: readable notes on commits, under a ref that may be removed at any time.

use std::collections::BTreeMap;

use crate::config::settings;
use crate::context::Context;
use crate::env::Millis;
use crate::error::Result;
use crate::git::{ObjectId, ObjectKind};
use crate::model::review::authorship::shown;
use crate::model::review::{Comment, CommentPlace, Side, Thread, Verdict};
use crate::review::prompt::{path_shown, plain};
use crate::review::records;
use crate::session::worktree::work;
use crate::store::refname;

/// The setting that asks for it.
pub const KEY: &str = "agent.displayNotes";

/// Renders all reviews anew, if that is asked for.
pub fn refresh(context: &Context<'_>) -> Result<()> {
    if context.config.require(&settings::DISPLAY_NOTES)? {
        render(context)
    } else {
        Ok(())
    }
}

/// Renders all reviews.
pub fn render(context: &Context<'_>) -> Result<()> {
    let reviews = records::load(context)?;
    let sessions: BTreeMap<_, _> = context
        .store
        .list(crate::store::list::Scope::All)?
        .sessions
        .into_iter()
        .map(|listed| (listed.session.sid, listed))
        .collect();
    let mut notes: BTreeMap<ObjectId, String> = BTreeMap::new();
    let mut last = Millis(0);
    let repo = context.repo;
    let known = |hex: &str| {
        let id = repo.parse_id(hex).ok()?;
        matches!(repo.object_header(id), Ok(Some((ObjectKind::Commit, _)))).then_some(id)
    };
    for (sid, review) in &reviews.sessions {
        let listed = sessions.get(sid);
        let name = listed.map_or_else(|| sid.to_string(), |listed| line(&listed.session.name));
        for thread in review.threads.iter().filter(|thread| thread.is_visible()) {
            let commit = match &thread.at {
                Some(CommentPlace::Code(code)) => known(&code.commit),
                // A comment without a commit is shown on the session's tip.
                Some(CommentPlace::Event { .. }) | None => {
                    listed.and_then(|listed| work::tip(context, listed).ok())
                }
            };
            let Some(commit) = commit else {
                continue;
            };
            let note = notes.entry(commit).or_default();
            note.push_str(&rendered(thread, &name));
            last = thread
                .comments
                .iter()
                .fold(last, |last, comment| last.max(comment.ts));
        }
        for given in review.verdicts.values() {
            if let Some(commit) = known(&given.commit) {
                let word = match given.verdict {
                    Verdict::Approve => "approved",
                    Verdict::RequestChanges => "changes requested",
                    Verdict::Reject => "rejected",
                };
                let note = notes.entry(commit).or_default();
                note.push_str(&format!(
                    "{name}: {word} by {}\n",
                    line(&shown(&given.who.name, given.claim))
                ));
                note.push_str(&indented(&given.body));
                last = last.max(given.ts);
            }
        }
    }
    let notes: Vec<(ObjectId, String)> = notes.into_iter().collect();
    repo.replace_notes(refname::DISPLAY_NOTES, &notes, last.seconds())
}

fn rendered(thread: &Thread, session: &str) -> String {
    let state = if thread.is_open() { "open" } else { "resolved" };
    let (place, before) = place(thread);
    let mut text = format!("{session}: {place} ({state}{before})\n");
    let stands = |comment: &&Comment| !comment.deleted;
    for comment in thread.comments.iter().filter(stands) {
        text += &format!("  {}:\n", line(&shown(&comment.who.name, comment.claim)));
        text += &indented(&comment.body);
    }
    text
}

/// Returns the place of a thread, and an addition to its state.
fn place(thread: &Thread) -> (String, &'static str) {
    let code = match &thread.at {
        Some(CommentPlace::Code(code)) => code,
        Some(CommentPlace::Event { turn, .. }) => {
            let turn = turn.map_or_else(String::new, |turn| format!("turn {turn} of "));
            return (format!("{turn}the conversation"), "");
        }
        None => return ("the session as a whole".to_owned(), ""),
    };
    let path = line(&path_shown(code.path.as_deref().unwrap_or_default()));
    let lines = match (code.line, code.end) {
        (Some(first), Some(last)) => format!(":{first}-{last}"),
        (Some(first), None) => format!(":{first}"),
        _ => String::new(),
    };
    let before = match code.side {
        Side::Old => ", before the change",
        Side::New => "",
    };
    (format!("{path}{lines}"), before)
}

/// Returns text that stays on one line.
fn line(text: &str) -> String {
    plain(text).replace('\t', " ")
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {}\n", plain(line)))
        .collect()
}
