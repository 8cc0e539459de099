//! The user's stashes and reflogs around a turn: saved before it, and restored after it if the agent removed entries.
//!
//! The text of the logs is in a file of the session, and a ref keeps the commits that nothing else holds, so that the
//! next command can do this for a supervisor that died. The file is removed last.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::context::Context;
use crate::error::{Context as _, Result, shell_word};
use crate::file::{self, Durability};
use crate::git::ObjectId;
use crate::git::object::Signature;
use crate::git::refs::reflog::{PutBack, ReflogEntry, Reflogs, STASH, missing};
use crate::git::refs::{Expected, RefChange};
use crate::guard;
use crate::guard::policy::{Own, short};
use crate::model::event::Body;
use crate::model::event_words::ErrorKind;
use crate::model::session::{Session, SessionId};
use crate::store::refname;

/// The directory of each session's file, which the guard uses too.
const DIRECTORY: &str = "guard";
const FILE: &str = "reflogs";
/// git expires entries that are older than this; their loss is not reported.
const RECENT_SECONDS: i64 = 30 * 24 * 60 * 60;
/// How many stashes are named.
const NAMED: usize = 10;

/// Keeps the reflogs before a turn, all but those of the refs that the session may move.
pub fn keep(context: &Context<'_>, session: &Session, own: &Own) -> Result<()> {
    let dir = context
        .store
        .require_dir(&format!("{DIRECTORY}/{}", session.sid))?;
    let path = dir.join(FILE);
    if path.exists() {
        // Entries that could not be restored the last time are kept.
        return Ok(());
    }
    remove(&guard::environment::trace(&dir))?;
    let mut logs = context.repo.reflogs()?;
    logs.retain(|name| !own.owns(name) && !refname::is_ours(name));
    if logs.is_empty() {
        return Ok(());
    }
    let held = context.repo.unreached(&logs.ids())?;
    hold(context, session.sid, &held)?;
    file::replace(&path, logs.to_text(), Durability::Synced)
}

/// Compares the reflogs with those that [`keep`] recorded before the turn, and restores the lines that the agent
/// removed. Does nothing if that was done already. Returns the events for the transcript; an error becomes one of them,
/// and the next call tries again.
pub fn settle(context: &Context<'_>, sid: SessionId) -> Vec<Body> {
    try_settle(context, sid).unwrap_or_else(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        vec![guarded(format!(
            "cannot restore the entries dropped from stashes and reflogs: {}{}",
            error.message(),
            cause.unwrap_or_default()
        ))]
    })
}

fn try_settle(context: &Context<'_>, sid: SessionId) -> Result<Vec<Body>> {
    let dir = context.store.dir().join(DIRECTORY).join(sid.as_str());
    let path = dir.join(FILE);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.context(|| format!("cannot read '{}'", path.display()))?,
    };
    let before = Reflogs::parse(&text);
    let trace = guard::environment::trace(&dir);
    let told = if guard::command_log::dropped_entries(&trace)? {
        put_back(context, &before)?
    } else {
        name_missing(context, &before)?
    };
    hold(context, sid, &[])?;
    remove(&path)?;
    remove(&trace)?;
    Ok(told)
}

fn put_back(context: &Context<'_>, before: &Reflogs) -> Result<Vec<Body>> {
    let now = context.repo.reflogs()?;
    let mut told = Vec::new();
    let mut say = |text| told.push(guarded(text));
    for (name, entries) in before.iter() {
        if missing(entries, now.of(name)).is_empty() {
            continue;
        }
        let (lost, is_back) = match context.repo.put_reflog_back(name, entries)? {
            PutBack::Nothing => continue,
            PutBack::Done(lost) => (lost, true),
            PutBack::Unable(lost) => (lost, false),
        };
        if name == STASH {
            for entry in lost.iter().take(NAMED) {
                say(format!(
                    "the agent dropped the stash '{}': it was restored",
                    entry.message()
                ));
            }
            if lost.len() > NAMED {
                say(format!("{} more stashes were restored", lost.len() - NAMED));
            }
            continue;
        }
        let mut text = format!(
            "the agent removed {} from the reflog of '{}'",
            entries_in_words(lost.len()),
            short(name)
        );
        text.push_str(&match (is_back, newest(&lost)) {
            (true, _) => ": restored".to_owned(),
            (false, Some(id)) => {
                // Their order is all that is lost: the commits stay.
                let kept = keep_all(context, name, &lost)?;
                format!("; the newest was {id}; the commits are kept under '{kept}'")
            }
            (false, None) => String::new(),
        });
        say(text);
    }
    Ok(told)
}

/// Reports missing entries that no known command of the agent removed: the user may have done it.
fn name_missing(context: &Context<'_>, before: &Reflogs) -> Result<Vec<Body>> {
    let now = context.repo.reflogs()?;
    let old = context.env.now().seconds() - RECENT_SECONDS;
    let mut told = Vec::new();
    for (name, entries) in before.iter() {
        let mut lost = missing(entries, now.of(name));
        if name != STASH {
            lost.retain(|entry| entry.seconds().is_some_and(|at| at > old));
        }
        if lost.is_empty() || name != STASH && context.repo.find_ref(name)?.is_none() {
            continue;
        }
        keep_all(context, name, &lost)?;
        let notice = |text| Body::Notice { text };
        if name != STASH {
            told.push(notice(format!(
                "{} of the reflog of '{}' vanished during the turn",
                entries_in_words(lost.len()),
                short(name)
            )));
            continue;
        }
        for (entry, id) in lost
            .iter()
            .take(NAMED)
            .filter_map(|entry| Some((entry, entry.id()?)))
        {
            let message = entry.message();
            told.push(notice(format!(
                "the stash '{message}' was dropped during the turn, apparently not by the agent; to restore it: \
                 git stash store -m {} {id}",
                shell_word(&message)
            )));
        }
    }
    Ok(told)
}

fn guarded(text: String) -> Body {
    Body::Error {
        kind: ErrorKind::Guard,
        text,
    }
}

fn entries_in_words(count: usize) -> String {
    match count {
        1 => "1 entry".to_owned(),
        count => format!("{count} entries"),
    }
}

fn newest(entries: &[ReflogEntry]) -> Option<ObjectId> {
    entries.iter().rev().find_map(ReflogEntry::id)
}

/// Keeps the commits of entries for as long as anything lost is kept, and returns the ref.
fn keep_all(context: &Context<'_>, name: &str, lost: &[ReflogEntry]) -> Result<String> {
    let ids: Vec<ObjectId> = lost.iter().filter_map(ReflogEntry::id).collect();
    let commit = bundle(context, &ids)?;
    context.store.keep_lost(name, commit)
}

/// Lets a session's own ref keep these commits; none lets go of all.
fn hold(context: &Context<'_>, sid: SessionId, ids: &[ObjectId]) -> Result<()> {
    let name = refname::reflogs(sid);
    let now = context.repo.find_ref(&name)?;
    let new = match ids {
        [] => None,
        ids => Some(bundle(context, ids)?),
    };
    if now == new {
        return Ok(());
    }
    let expected = now.map_or(Expected::Absent, Expected::At);
    let change = RefChange {
        name,
        expected,
        new,
    };
    // Only the holder of the session comes here.
    let _ = context.repo.swap_ref(&change)?;
    Ok(())
}

/// Returns a commit that keeps others.
fn bundle(context: &Context<'_>, ids: &[ObjectId]) -> Result<ObjectId> {
    let mut parents: Vec<ObjectId> = Vec::new();
    for id in ids.iter().collect::<BTreeSet<_>>() {
        if context.repo.object_header(*id)?.is_some() {
            parents.push(*id);
        }
    }
    let mut batch = context.repo.batch();
    let tree = batch.tree([]);
    // Without a time, so that the same entries make the same commit.
    let signature = Signature {
        seconds: 0,
        ..context.store.signature()
    };
    let commit = batch.commit(tree, &parents, &signature, "values of reflogs\n");
    context.repo.write_batch(&batch)?;
    Ok(commit)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context(|| format!("cannot remove '{}'", path.display()))
        }
        _ => Ok(()),
    }
}
