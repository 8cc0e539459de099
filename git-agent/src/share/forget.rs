//! Deleting a session: here, and at remotes when asked to. What is deleted here is kept for 30 days.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::change::Change;
use super::fetch::copies;
use super::push::{self, Options};
use super::remote::Remote;
use crate::error::{Error, Result};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::talk::Audience;
use crate::process::lock::Lock;
use crate::session::context::Context;
use crate::session::{SessionId, ignored};
use crate::store::list::Listed;
use crate::store::refname::{self, RefName};

/// What was forgotten.
#[derive(Debug, Default)]
pub struct Forgotten {
    /// Where it is kept for a while.
    pub kept: Vec<String>,
    /// What was done at remotes.
    pub pushed: Vec<(String, Vec<Change>)>,
    /// Remotes that still have it.
    pub left: Vec<String>,
}

/// Forgets a session. `everywhere` deletes it at the remotes too; that is for its owner alone.
pub fn forget(
    context: &Context<'_>,
    listed: &Listed,
    everywhere: bool,
    audience: &mut Audience<'_>,
) -> Result<Forgotten> {
    let sid = listed.session.sid;
    let mut forgotten = Forgotten::default();
    if !listed.is_mine() {
        if everywhere {
            return Err(Error::fatal(format!(
                "session '{}' belongs to somebody else: only its owner can delete it at a remote",
                listed.session.name
            )));
        }
        forgotten.kept = drop_copies(context, sid)?;
        return Ok(forgotten);
    }
    let remotes = remotes_with(context, sid)?;
    forgotten.kept = drop_own(context, listed)?;
    if listed.archived || everywhere {
        context.store.record_forgotten(sid, &context.redactor())?;
    }
    if listed.archived {
        drop_from_archive(context, sid)?;
    }
    if !everywhere {
        forgotten.left = remotes.into_iter().map(|remote| remote.name).collect();
        return Ok(forgotten);
    }
    let options = Options {
        sessions: Some(BTreeSet::from([sid])),
        ..Options::default()
    };
    for remote in remotes {
        let changes = push::push(context, &remote, &options, audience)?;
        forgotten.pushed.push((remote.name, changes));
    }
    Ok(forgotten)
}

/// Returns the remotes that have a session, as far as is known here.
fn remotes_with(context: &Context<'_>, sid: SessionId) -> Result<Vec<Remote>> {
    let mut found = Vec::new();
    for name in context.repo.remote_names() {
        if copies(context.repo, &name)?.contains_key(&RefName::Session(sid)) {
            found.push(Remote::choose(context, Some(&name))?);
        }
    }
    Ok(found)
}

fn drop_copies(context: &Context<'_>, sid: SessionId) -> Result<Vec<String>> {
    let mut changes = Vec::new();
    let mut kept = Vec::new();
    for found in context.repo.refs_under(refname::REMOTES)?.refs {
        let Some((_, RefName::Session(one))) = RefName::parse_at_remote(&found.name) else {
            continue;
        };
        if one == sid {
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
                .hint(format!("git agent stop {}", session.name)),
        );
    };
    let worktree = session.worktree.as_deref().map(Path::new);
    if worktree.is_some_and(Path::exists) && !listed.archived {
        return Err(
            Error::fatal(format!("session '{}' still has a worktree", session.name))
                .hint(format!("git agent clean {}", session.name)),
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
    for name in ["spool", "scratch", "inbox", ignored::PLACE] {
        // What is not there need not go; what cannot go is found by the doctor.
        let _ = fs::remove_dir_all(store.dir().join(name).join(session.sid.as_str()));
    }
    let _ = fs::remove_file(store.run_file(session.sid));
    let _ = lock.remove();
    Ok(kept)
}

/// Writes this clone's archive of the session's month again without it.
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
        let elsewhere = super::purge::versions_elsewhere(context, &name)?;
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
        Swap::Stale => Err(Error::fatal("a ref changed meanwhile").hint("try again")),
    }
}
