//! Asks remotes which refs of this clone they have now.
//!
//! Copies of refs only tell what a remote had at the last contact. A remote that was renamed, moved or cleaned up since
//! has other refs. So forget and purge ask, and so does a push with nothing to push.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::remote::list_refs::Interest;
use crate::share::fetch::{copies, lock, own_refs};
use crate::share::remote::Remote;
use crate::store::limits;
use crate::store::refname::{self, RefName};

/// The remotes that may have refs of this clone.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The remotes that can be asked.
    pub remotes: Vec<Remote>,
    /// Names of removed or renamed remotes that still have copies here.
    pub unknown: Vec<String>,
}

/// Returns the remotes with the user's consent, and those with copies here.
pub(super) fn places(context: &Context<'_>) -> Result<Places> {
    let copied = copied_from(context)?;
    let mut names: BTreeSet<String> = context.repo.remote_names().into_iter().collect();
    names.extend(copied.iter().cloned());
    let mut places = Places::default();
    for name in names {
        match Remote::recall(context, &name) {
            Ok(remote) if remote.agreed || copied.contains(&name) => places.remotes.push(remote),
            Ok(_) => {}
            Err(_) => places.unknown.push(name),
        }
    }
    Ok(places)
}

fn copied_from(context: &Context<'_>) -> Result<BTreeSet<String>> {
    let refs = context.repo.refs_under(refname::REMOTES)?.refs;
    let remote = |name: &str| RefName::parse_at_remote(name).map(|(remote, _)| remote);
    Ok(refs
        .iter()
        .filter_map(|found| remote(&found.name))
        .collect())
}

/// A remote's answer about some of this clone's refs.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The refs it has, in any version.
    pub there: BTreeSet<RefName>,
    /// Those it has in a version that is unknown here.
    pub unseen: BTreeSet<RefName>,
    /// This clone's review notes in an unknown version, asked for or not: they tell which sessions a copy of this clone
    /// deleted.
    pub notes: BTreeMap<RefName, ObjectId>,
}

/// Calls [`ask`] while no push or fetch of this clone is running there, because refs that are being pushed would be
/// missed.
pub(super) fn ask_alone(
    context: &Context<'_>,
    remote: &str,
    names: &BTreeSet<RefName>,
) -> Result<Answer> {
    let _lock = lock(context, remote)?;
    ask(context, remote, names)
}

/// Asks a remote for some of this clone's refs, and updates the copies whose new version is known here. Fetches
/// nothing. The caller holds the remote's lock.
pub(super) fn ask(
    context: &Context<'_>,
    remote: &str,
    names: &BTreeSet<RefName>,
) -> Result<Answer> {
    let repo = context.repo;
    let writers = context.store.own_writers()?;
    let own_archive = |name: &RefName| match name {
        RefName::Archive { writer, .. } => writers.contains(writer),
        _ => false,
    };
    let own_notes = |name: &RefName| match name {
        RefName::ReviewNotes(writer) => writers.contains(writer),
        _ => false,
    };
    let interest = |name: &str| match RefName::parse(name) {
        Some(name) if names.contains(&name) || own_archive(&name) || own_notes(&name) => {
            Interest::Wanted
        }
        _ => Interest::None,
    };
    let asking = repo.ask_remote(remote)?;
    let advertised = asking.finish(&interest, limits::REMOTE_REFS)?;
    let there: BTreeMap<RefName, ObjectId> = advertised
        .refs
        .iter()
        .filter_map(|found| Some((RefName::parse(&found.name)?, found.id)))
        .collect();
    let own = own_refs(repo)?;
    let before = copies(repo, remote)?;
    let mut changes = Vec::new();
    let known = |name: &RefName, id: ObjectId| {
        let versions = own.get(name).into_iter().chain(before.get(name));
        versions
            .copied()
            .any(|of| of == id || repo.is_ancestor(id, of).unwrap_or(false))
    };
    let mut answer = Answer::default();
    for (name, id) in there.iter().filter(|(name, _)| own_notes(name)) {
        if !known(name, *id) {
            answer.notes.insert(name.clone(), *id);
        }
    }
    for name in names {
        let (copy, now) = (before.get(name).copied(), there.get(name).copied());
        if copy == now {
            continue;
        }
        // An unknown version is left to a fetch, or joined by a push.
        if now.is_some_and(|now| !known(name, now)) {
            answer.unseen.insert(name.clone());
            continue;
        }
        // A copy of this clone may have archived it into an archive that is not here.
        let may_hold = |(archive, id): (&RefName, &ObjectId)| {
            own_archive(archive) && archive.month() == name.month() && own.get(archive) != Some(id)
        };
        let is_session = matches!(name, RefName::Session(_));
        if is_session && now.is_none() && there.iter().any(may_hold) {
            continue;
        }
        // Keep a version that only the copy has.
        let own = own.get(name).copied();
        let kept = |copy: ObjectId| {
            let whole = |id| repo.is_ancestor(copy, id).unwrap_or(false);
            own.is_some_and(whole)
        };
        if let Some(copy) = copy.filter(|copy| !kept(*copy)) {
            changes.push(RefChange {
                name: context.store.lost_name(&name.at_remote(remote)),
                expected: Expected::Absent,
                new: Some(copy),
            });
        }
        changes.push(RefChange {
            name: name.at_remote(remote),
            expected: copy.map_or(Expected::Absent, Expected::At),
            new: now,
        });
    }
    match repo.swap_many(&changes)? {
        Swap::Done => {
            let names = there.into_keys().filter(|name| names.contains(name));
            answer.there = names.collect();
            Ok(answer)
        }
        Swap::Stale => Err(
            Error::fatal(format!("copies of refs of '{remote}' changed meanwhile"))
                .hint("run the command again"),
        ),
    }
}
