//! Deletes a session here and, if asked, at remotes. The deleted records are kept in the trash for 30 days.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::remote::transfer::Audience;
use crate::guard::room;
use crate::model::session::SessionId;
use crate::process::lock::Lock;
use crate::session::caller::{self, Act};
use crate::session::worktree::ignored_files;
use crate::share::fetch::copies;
use crate::share::outcome::Change;
use crate::share::push::{self, Options};
use crate::share::remote_refs;
use crate::store::list::Listed;
use crate::store::refname::{self, RefName};

/// The directories with files of one session each, named by its id.
const PLACES: [&str; 13] = [
    "cells",
    "doors",
    "guard",
    "inbox",
    "kept-cells",
    "local",
    "locks",
    "run",
    "scratch",
    "spool",
    "turns",
    "worktrees",
    ignored_files::PLACE,
];

/// Result of forgetting a session.
#[derive(Debug, Default)]
pub struct Forgotten {
    /// The refs that keep it in the trash.
    pub kept: Vec<String>,
    /// The changes at remotes.
    pub pushed: Vec<(String, Vec<Change>)>,
    /// Remotes that still have it.
    pub left: Vec<String>,
    /// Remotes that could not be reached or refused, and why.
    pub unreached: Vec<(String, String)>,
}

/// Forgets a session. `everywhere` deletes it at the remotes too, which only its owner may do.
pub fn forget(
    context: &Context<'_>,
    listed: &Listed,
    everywhere: bool,
    audience: &mut Audience<'_>,
) -> Result<Forgotten> {
    caller::permit(context, Act::Forget, [])?;
    let sid = listed.session.sid;
    let mut forgotten = Forgotten::default();
    // Ownership does not depend on local refs: a session deleted only here is still this clone's, and one fetched by
    // hand is not.
    let own = context
        .store
        .own_writers()?
        .contains(&listed.session.writer);
    if everywhere && !own {
        return Err(Error::fatal(format!(
            "session '{}' belongs to a teammate: only its owner can delete it on a remote",
            listed.session.name
        )));
    }
    if !listed.is_mine() && !everywhere {
        forgotten.kept = drop_copies(context, sid, listed.by_hand)?;
        return Ok(forgotten);
    }
    let names = names_with(context, listed)?;
    let places = remote_refs::places(context)?;
    if everywhere {
        for remote in &places.remotes {
            audience.hear(&remote.name);
            if let Err(error) = remote_refs::ask_alone(context, &remote.name, &names) {
                let reason = error.message().to_owned();
                forgotten.unreached.push((remote.name.clone(), reason));
            }
        }
    }
    forgotten.kept = if listed.is_mine() {
        drop_own(context, listed)?
    } else {
        keep_copies(context, sid)?
    };
    context.store.hide_here(sid)?;
    if listed.archived || everywhere {
        context.store.record_forgotten(sid, &context.redactor())?;
    }
    if listed.archived {
        drop_from_archive(context, sid)?;
    }
    for remote in places.remotes {
        let mut there = copies(context.repo, &remote.name)?;
        there.retain(|name, _| names.contains(name));
        let failed = |(name, _): &(String, String)| *name == remote.name;
        if there.is_empty() || forgotten.unreached.iter().any(failed) {
            continue;
        }
        if !everywhere {
            forgotten.left.push(remote.name);
            continue;
        }
        let mut refs: BTreeSet<RefName> = there.into_keys().collect();
        refs.insert(RefName::ReviewNotes(context.store.require_writer()?));
        let options = Options {
            refs: Some(refs),
            ..Options::default()
        };
        match push::push(context, &remote, &options, audience) {
            Ok(changes) => forgotten.pushed.push((remote.name, changes)),
            Err(error) => {
                let reason = error.message().to_owned();
                forgotten.unreached.push((remote.name, reason));
            }
        }
    }
    Ok(forgotten)
}

/// Returns the refs that contain a session of this clone: its own, and the archives written here for its month.
fn names_with(context: &Context<'_>, listed: &Listed) -> Result<BTreeSet<RefName>> {
    let sid = listed.session.sid;
    let mut names = BTreeSet::from([RefName::Session(sid)]);
    if listed.archived && listed.is_mine() {
        let archives = context
            .repo
            .refs_under(&refname::archives_of(&sid.month()))?;
        let parsed = archives
            .refs
            .iter()
            .map(|found| RefName::parse(&found.name));
        names.extend(parsed.flatten());
    }
    Ok(names)
}

fn keep_copies(context: &Context<'_>, sid: SessionId) -> Result<Vec<String>> {
    let copies = context.repo.refs_under(refname::REMOTES)?.refs;
    let is_of = |name: &str| {
        RefName::parse_at_remote(name).is_some_and(|(_, name)| name == RefName::Session(sid))
    };
    copies
        .iter()
        .filter(|found| is_of(&found.name))
        .map(|found| context.store.keep_lost(&found.name, found.id))
        .collect()
}

/// Deletes the copies of a teammate's session, and the copy that was fetched by hand.
fn drop_copies(context: &Context<'_>, sid: SessionId, by_hand: bool) -> Result<Vec<String>> {
    let mut changes = Vec::new();
    let mut kept = Vec::new();
    let mut refs = context.repo.refs_under(refname::REMOTES)?.refs;
    if by_hand {
        refs.extend(context.repo.refs_under(refname::SESSIONS)?.refs);
    }
    for found in refs {
        let copied = RefName::parse_at_remote(&found.name).map(|(_, name)| name);
        if copied.or_else(|| RefName::parse(&found.name)) == Some(RefName::Session(sid)) {
            let lost = context.store.lost_name(&found.name);
            changes.push(created(&lost, found.id));
            changes.push(RefChange {
                name: found.name,
                expected: Expected::At(found.id),
                new: None,
            });
            kept.push(lost);
        }
    }
    swap(context, &changes)?;
    Ok(kept)
}

fn drop_own(context: &Context<'_>, listed: &Listed) -> Result<Vec<String>> {
    let session = &listed.session;
    let store = &context.store;
    let Some(lock) = Lock::try_acquire(context.env, store.write_lock(session.sid))? else {
        return Err(
            Error::fatal(format!("session '{}' is at work", session.name))
                .hint(format!("git agent stop {}", shell_word(&session.name))),
        );
    };
    let worktree = session.local.worktree.as_deref().map(Path::new);
    if worktree.is_some_and(Path::exists) && !listed.archived {
        return Err(
            Error::fatal(format!("session '{}' still has a worktree", session.name))
                .hint(format!("git agent clean {}", shell_word(&session.name))),
        );
    }
    let mut changes = Vec::new();
    let mut kept = Vec::new();
    let names = [
        RefName::Session(session.sid).to_string(),
        refname::snapshots(session.sid),
    ];
    for name in names {
        if let Some(id) = context.repo.find_ref(&name)? {
            let lost = store.lost_name(&name);
            changes.push(created(&lost, id));
            changes.push(RefChange {
                name,
                expected: Expected::At(id),
                new: None,
            });
            kept.push(lost);
        }
    }
    swap(context, &changes)?;
    remove_files(context, session.sid);
    let _ = lock.remove();
    Ok(kept)
}

/// Removes every file of a session from our own directory. The lock of its record goes last, by its holder.
fn remove_files(context: &Context<'_>, sid: SessionId) {
    let store = &context.store;
    let held = store.write_lock(sid);
    room::let_go(context, sid);
    for place in PLACES {
        let entries = fs::read_dir(store.dir().join(place));
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_own = name.as_encoded_bytes().starts_with(sid.as_str().as_bytes());
            if !is_own || entry.path() == held {
                continue;
            }
            // 'git agent doctor' finds what cannot be removed.
            let _ = if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                fs::remove_dir_all(entry.path())
            } else {
                fs::remove_file(entry.path())
            };
        }
    }
}

/// Rewrites this clone's archive of the session's month without the session.
fn drop_from_archive(context: &Context<'_>, sid: SessionId) -> Result<()> {
    let drop = BTreeSet::from([sid]);
    let redactor = context.redactor();
    for found in context
        .repo
        .refs_under(&refname::archives_of(&sid.month()))?
        .refs
    {
        let Some(name) = RefName::parse(&found.name) else {
            continue;
        };
        context.store.keep_lost(&found.name, found.id)?;
        let elsewhere = crate::share::purge::versions_elsewhere(context, &name)?;
        context.store.rewrite(&name, &redactor, &drop, &elsewhere)?;
    }
    Ok(())
}

fn created(name: &str, id: crate::git::ObjectId) -> RefChange {
    RefChange {
        name: name.to_owned(),
        expected: Expected::Absent,
        new: Some(id),
    }
}

fn swap(context: &Context<'_>, changes: &[RefChange]) -> Result<()> {
    match context.repo.swap_refs(changes)? {
        Swap::Done => Ok(()),
        Swap::Stale => Err(Error::fatal("a ref changed meanwhile").hint("run the command again")),
    }
}
