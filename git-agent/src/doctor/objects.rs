//! Finds damaged objects under our refs. Every object that our refs bring in is read and compared with its id. A ref
//! that leads to damage is moved back to its last intact commit, and the readable rest is saved to files.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;

use crate::context::Context;
use crate::doctor::{Severity, Visit, lost_file, refs};
use crate::error::{Context as _, Error, Result};
use crate::git::object::TREE;
use crate::git::object::damage::RawRef;
use crate::git::{ObjectId, ObjectKind};
use crate::store::limits;
use crate::store::log::{ATTACHMENTS, EVENTS};
use crate::store::refname::{self, RefName};

/// The content of larger blobs is not read; our own records are smaller.
const WHOLE: u64 = 64 << 20;
/// Trees of snapshots can be as large as the user's own.
const TREE_BYTES: u64 = 256 << 20;

/// A damaged object and the commit that contains it.
#[derive(Debug, Clone)]
pub(super) struct Damage {
    object: ObjectId,
    commit: ObjectId,
    reason: String,
}

pub(super) fn damaged(visit: &mut Visit<'_, '_>) -> Result<()> {
    let mut bad = BTreeSet::new();
    for raw in refs::all(visit.context)? {
        let Ok(tip) = raw.target else { continue };
        // A broken ref has been reported already.
        if !matches!(
            visit.context.repo.object_header(tip),
            Ok(Some((ObjectKind::Commit, _)))
        ) {
            bad.insert(tip);
            continue;
        }
        let Some(damage) = first_damage(visit.context, &raw.name, tip) else {
            continue;
        };
        bad.insert(damage.object);
        let good = last_whole(visit.context, &raw.name, tip);
        let how = match good {
            Some(id) => {
                format!("move the ref back to {id}, and save the readable rest to agents/lost")
            }
            None => "move the ref to agents/lost".to_owned(),
        };
        visit.repair(
            ("objects", Severity::Error),
            &raw.name,
            format!(
                "commit {} contains a damaged object: {}",
                damage.commit, damage.reason
            ),
            how,
            |context| {
                save_rest(context, &raw, tip, good)?;
                refs::put_aside(context, &raw, good)
            },
        );
    }
    for id in empty_or_torn(visit.context, &bad) {
        let Some(path) = visit.context.repo.loose_object(id) else {
            continue;
        };
        visit.repair(
            ("objects", Severity::Error),
            path.display(),
            format!("object {id} is damaged"),
            "move the file to agents/lost, if only our refs use it",
            |context| put_object_aside(context, id),
        );
    }
    Ok(())
}

/// Moves the file of a damaged object away from git, unless refs of the user need it.
pub(super) fn put_object_aside(context: &Context<'_>, id: ObjectId) -> Result<()> {
    let others = context
        .repo
        .reached_by_others(&BTreeSet::from([id]), &refname::is_ours)?;
    if others.is_none_or(|reached| reached.contains(&id)) {
        return Err(Error::fatal("refs of yours may need it"));
    }
    let place = lost_file(context, &format!("object-{id}"))?;
    context.repo.set_object_aside(id, &place)
}

/// Returns whether an object has an unreadable loose file.
pub(super) fn is_torn(context: &Context<'_>, id: ObjectId) -> bool {
    context.repo.loose_object(id).is_some() && context.repo.verify_object(id, WHOLE).is_err()
}

fn empty_or_torn(context: &Context<'_>, bad: &BTreeSet<ObjectId>) -> Vec<ObjectId> {
    let broken = |id: &&ObjectId| context.repo.verify_object(**id, WHOLE).is_err();
    bad.iter().filter(broken).copied().collect()
}

/// Walks the commits of one of our refs, newest first, and returns the first damage.
pub(super) fn first_damage(context: &Context<'_>, name: &str, tip: ObjectId) -> Option<Damage> {
    let mut seen = BTreeSet::new();
    let mut next = vec![tip];
    while let Some(id) = next.pop() {
        if !seen.insert(id) || seen.len() > limits::CHAIN * 4 {
            continue;
        }
        let damage = |object, reason| {
            Some(Damage {
                object,
                commit: id,
                reason,
            })
        };
        if let Err((object, reason)) = check_commit(context, id, &mut seen) {
            return damage(object, reason);
        }
        match chain(context, name, id) {
            Ok(before) => next.extend(before),
            Err(reason) => return damage(id, reason),
        }
    }
    None
}

/// Returns the newest commit of a ref whose whole history is intact.
fn last_whole(context: &Context<'_>, name: &str, tip: ObjectId) -> Option<ObjectId> {
    let mut next = Some(tip);
    let mut candidate = None;
    let mut seen = BTreeSet::new();
    for _ in 0..limits::CHAIN {
        let Some(id) = next else { break };
        match check_commit(context, id, &mut seen) {
            Ok(()) => candidate = candidate.or(Some(id)),
            Err(_) => candidate = None,
        }
        next = chain(context, name, id).ok()?.into_iter().next();
    }
    candidate
}

/// Returns our commits before one; the first of them is the one to go back to.
fn chain(context: &Context<'_>, name: &str, id: ObjectId) -> Result<Vec<ObjectId>, String> {
    let store = &context.store;
    let told = |error: crate::error::Error| error.message().to_owned();
    if name.starts_with(refname::SNAPSHOTS) {
        let snapshot = context.repo.read_snapshot(id).map_err(told)?;
        return Ok(snapshot.previous.into_iter().collect());
    }
    let shared =
        RefName::parse(name).or_else(|| RefName::parse_at_remote(name).map(|(_, shared)| shared));
    match shared {
        // A log of a newer format counts as intact.
        Some(RefName::Session(_)) => Ok(store
            .log_before(id)
            .unwrap_or_default()
            .into_iter()
            .collect()),
        Some(_) => Ok(context.repo.read_commit(id).map_err(told)?.parents),
        // A ref under `lost` may hold the user's own history, so only its tip is checked.
        None => Ok(Vec::new()),
    }
}

/// Reads a commit and everything in its tree.
fn check_commit(
    context: &Context<'_>,
    id: ObjectId,
    seen: &mut BTreeSet<ObjectId>,
) -> std::result::Result<(), (ObjectId, String)> {
    let told = |id: ObjectId| move |error: crate::error::Error| (id, error.message().to_owned());
    context.repo.verify_object(id, WHOLE).map_err(told(id))?;
    let commit = context.repo.read_commit(id).map_err(told(id))?;
    for parent in &commit.parents {
        match context.repo.object_header(*parent) {
            Ok(Some((ObjectKind::Commit, _))) => {}
            Ok(_) => return Err((*parent, format!("parent {parent} is missing"))),
            Err(error) => return Err((*parent, error.message().to_owned())),
        }
    }
    let mut trees = vec![commit.tree];
    while let Some(tree) = trees.pop() {
        if !seen.insert(tree) {
            continue;
        }
        context
            .repo
            .verify_object(tree, TREE_BYTES)
            .map_err(told(tree))?;
        for entry in context
            .repo
            .read_tree(tree, TREE_BYTES)
            .map_err(told(tree))?
        {
            if entry.kind == TREE {
                trees.push(entry.id);
            } else if entry.kind != crate::git::object::EntryKind::Commit && seen.insert(entry.id) {
                context
                    .repo
                    .verify_object(entry.id, WHOLE)
                    .map_err(told(entry.id))?;
            }
        }
    }
    Ok(())
}

/// Saves the readable parts of a session's dropped commits to a file, newest first.
fn save_rest(
    context: &Context<'_>,
    raw: &RawRef,
    tip: ObjectId,
    good: Option<ObjectId>,
) -> Result<()> {
    let Some(RefName::Session(sid)) = RefName::parse(&raw.name) else {
        return Ok(());
    };
    let mut saved = Vec::new();
    let mut next = Some(tip);
    while let Some(id) = next.take_if(|id| Some(*id) != good && saved.len() < WHOLE as usize) {
        let Ok(commit) = context.repo.read_commit(id) else {
            break;
        };
        for entry in context
            .repo
            .read_tree(commit.tree, limits::TREE)
            .unwrap_or_default()
        {
            if entry.name == EVENTS.as_bytes() {
                let events = context
                    .repo
                    .read_object(entry.id, ObjectKind::Blob, limits::EVENTS);
                saved.extend(events.unwrap_or_default());
            } else if entry.name == ATTACHMENTS.as_bytes() {
                saved.extend(format!("# attachments of {id}: {}\n", entry.id).into_bytes());
            }
        }
        next = context.store.log_before(id).ok().flatten();
    }
    if saved.is_empty() {
        return Ok(());
    }
    let place = lost_file(context, &format!("{sid}.events.jsonl"))?;
    fs::File::create(&place)
        .and_then(|mut file| {
            file.write_all(&saved)?;
            file.sync_all()
        })
        .context(|| format!("cannot write '{}'", place.display()))
}
