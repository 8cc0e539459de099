//! Jobs of the review screen.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use git_agent::error::{Error, Result};
use git_agent::merge::candidates;
use git_agent::model::review::{Side, Verdict};
use git_agent::model::session::Session;
use git_agent::output::human;
use git_agent::review::comment::{self as commenting, CommentTarget};
use git_agent::review::diff_scope::Scope;
use git_agent::review::send::{self as sending, SendOptions, Sending};
use git_agent::review::shown::{self, Shown, Since};
use git_agent::review::verdict::{self, Cases, Decision, VerdictReporter, Waiting};
use git_agent::selection;

use crate::app::Tone;
use crate::app::effect::{Message, Target};
use crate::effects::{Work, words};
use crate::text;

fn read(work: &Work<'_, '_>, id: &str, scope: Scope) -> Result<Shown> {
    let listed = selection::select_one(work.context, Some(id))?;
    let listed = candidates::towards(work.context, listed, None)?;
    shown::load(work.context, listed, scope)
}

pub fn load(work: &Work<'_, '_>, id: &str, scope: Scope) -> Result<Message> {
    let shown = read(work, id, scope)?;
    Ok(Message::Loaded(work.number, Box::new(shown)))
}

pub fn peek(work: &Work<'_, '_>, id: String) -> Result<Message> {
    // A session without a worktree and without commits has nothing to show.
    let shown = read(work, &id, Scope::Branch).ok().map(Box::new);
    Ok(Message::Peeked(id, shown))
}

pub fn check(work: &Work<'_, '_>, shown: &Shown) -> Result<Message> {
    let id = shown.id.clone();
    Ok(match shown::since(work.context, shown)? {
        Since::Nothing => Message::Quiet(work.number),
        Since::Comments => Message::Commented(id),
        Since::Work => Message::Outdated(id),
    })
}

pub fn seen(work: &Work<'_, '_>, shown: &Shown) -> Result<Message> {
    shown::seen(work.context, shown)?;
    Ok(Message::Quiet(work.number))
}

pub fn lines(work: &Work<'_, '_>, shown: &Shown, file: usize) -> Result<Message> {
    let path = &shown.files[file].path;
    let lines = shown::file_lines(work.context, shown, path)?;
    Ok(Message::Lines(shown.id.clone(), file, lines))
}

pub fn comment(work: &Work<'_, '_>, id: &str, target: &Target, body: &str) -> Result<Message> {
    let listed = selection::select_one(work.context, Some(id))?;
    let (place, side) = match target {
        Target::Session => (None, Side::New),
        Target::File(path, side) => (Some(path.clone()), *side),
        Target::Lines(path, side, first, last) => {
            let mut place = path.clone();
            place.extend(if first == last {
                format!(":{first}").into_bytes()
            } else {
                format!(":{first}-{last}").into_bytes()
            });
            (Some(place), *side)
        }
    };
    let place = place.map(OsString::from_vec);
    let target = match &place {
        Some(place) => CommentTarget::Code(place, side),
        None => CommentTarget::Session,
    };
    commenting::add(work.context, &listed, target, body, None)?;
    Ok(changed(work, id, "commented: s sends it to the agent"))
}

fn changed(work: &Work<'_, '_>, id: &str, words: impl Into<String>) -> Message {
    Message::ReviewChanged(work.number, id.to_owned(), Tone::Good, words.into())
}

pub fn reply(work: &Work<'_, '_>, comment: &str, body: &str) -> Result<Message> {
    commenting::reply(work.context, comment, body, false)?;
    Ok(changed(work, "", "replied"))
}

pub fn close(work: &Work<'_, '_>, comment: String, resolved: bool) -> Result<Message> {
    commenting::close(work.context, &[comment], resolved, &mut |_, _| {})?;
    let words = if resolved { "resolved" } else { "open again" };
    Ok(changed(work, "", words))
}

pub fn send(work: &Work<'_, '_>, id: &str) -> Result<Message> {
    let listed = selection::select_mine(work.context, Some(id))?;
    let sent = sending::send(work.context, &listed, &SendOptions::default())?;
    let name = &listed.session.name;
    Ok(match sent {
        Sending::Review(outgoing) => {
            let many = outgoing.comments.len() + outgoing.requests.len();
            let what = human::count(many as u64, "comment");
            changed(work, id, format!("sent {what} to '{name}'"))
        }
        Sending::StartedEarlier => {
            changed(work, id, format!("'{name}' goes on with an earlier prompt"))
        }
    })
}

/// Keeps the failure of a verdict.
#[derive(Default)]
struct Quiet {
    failed: Option<String>,
}

impl VerdictReporter for Quiet {
    fn left_out(&mut self, _: &Session, why: &Error) {
        self.failed = Some(words(why));
    }

    fn show(&mut self, _: &Waiting) -> Result<()> {
        Ok(())
    }

    fn agrees(&mut self, _: usize) -> Result<bool> {
        Ok(true)
    }

    fn decided(&mut self, _: &Decision) {}

    fn failed(&mut self, error: &Error) {
        self.failed = Some(words(error));
    }
}

fn decide(work: &Work<'_, '_>, shown: &Shown, verdict: Verdict, why: &str) -> Result<()> {
    let mut quiet = Quiet::default();
    let decided = verdict::decide(
        work.context,
        Cases::of_shown(shown)?,
        verdict,
        why,
        &mut quiet,
    )?;
    if let Some(words) = quiet.failed {
        return Err(Error::fatal(words));
    }
    match (decided.unheard, decided.failure) {
        (_, Some(error)) => Err(error),
        (Some(who), None) => Err(Error::fatal(format!(
            "the verdict of {who} does not count for a merge"
        ))),
        (None, None) => Ok(()),
    }
}

pub fn judge(work: &Work<'_, '_>, shown: &Shown, verdict: Verdict, why: &str) -> Result<Message> {
    if let Err(error) = decide(work, shown, verdict, why) {
        // Work that changed meanwhile is shown, so that the reviewer decides again.
        if shown::since(work.context, shown).is_ok_and(|since| since == Since::Work) {
            work.out.send(Message::Outdated(shown.id.clone()));
        }
        return Err(error);
    }
    let name = &shown.name;
    let words = match verdict {
        Verdict::Approve => format!("approved '{name}': L merges it"),
        Verdict::RequestChanges => format!("changes requested: s sends it to '{name}'"),
        Verdict::Reject => format!("rejected '{name}'"),
    };
    Ok(changed(work, &shown.id, words))
}

/// Approves sessions from the board: each is shown with its size, and approved exactly as it was shown.
pub fn approve(work: &Work<'_, '_>, ids: &[String]) -> Result<Message> {
    let mut all = Vec::new();
    let mut lines = Vec::new();
    for id in ids {
        let shown = read(work, id, Scope::Branch)?;
        let (added, deleted) = shown.counts();
        let name = text::line(&shown.name);
        let open = shown
            .threads
            .iter()
            .filter(|thread| thread.thread.is_open())
            .count();
        let files = human::count(shown.files.len() as u64, "file");
        lines.push((Tone::Plain, format!("{name}  {files}  +{added} −{deleted}")));
        let paths = shown.files.iter().take(12);
        lines.extend(paths.map(|file| {
            let path = text::line(&file.path);
            let words = format!(
                "  {} {path}  +{} −{}",
                file.change.letter(),
                file.added,
                file.deleted
            );
            (Tone::Plain, words)
        }));
        if open > 0 {
            let comments = human::count(open as u64, "open comment");
            lines.push((Tone::Bad, format!("  {comments}")));
        }
        all.push(shown);
    }
    let title = match all.as_slice() {
        [one] => format!("approve '{}' exactly like this?", text::line(&one.name)),
        many => format!("approve {} sessions exactly like this?", many.len()),
    };
    if !work.out.ask(title, lines, "approve") {
        return Ok(work.plain("nothing was approved"));
    }
    for shown in &all {
        decide(work, shown, Verdict::Approve, "")?;
    }
    Ok(work.done(match all.as_slice() {
        [one] => format!("approved '{}': m merges it", one.name),
        many => format!("approved {} sessions", many.len()),
    }))
}

pub fn revert(
    work: &Work<'_, '_>,
    shown: &Shown,
    file: usize,
    hunk: Option<usize>,
) -> Result<Message> {
    shown::revert::revert(work.context, shown, file, hunk)?;
    let path = text::line(&shown.files[file].path);
    let words = match hunk {
        Some(_) => format!("reverted a hunk of '{path}'"),
        None => format!("reverted '{path}'"),
    };
    Ok(changed(work, &shown.id, words))
}

pub fn compare(work: &Work<'_, '_>, ids: &[String]) -> Result<Message> {
    let versions = ids.iter().map(|id| read(work, id, Scope::Branch));
    Ok(Message::Compared(
        work.number,
        versions.collect::<Result<_>>()?,
    ))
}
