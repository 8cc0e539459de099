//! Finds refs of ours that git cannot use. A ref with an invalid value makes the user's own `git gc` and `git fetch`
//! fail, so it is moved away; a session's ref goes back to the newest commit of its log that still exists.

use std::fs;

use crate::context::Context;
use crate::doctor::{Severity, Visit, lost_file, objects};
use crate::error::{Context as _, Error, Result};
use crate::git::object::damage::RawRef;
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::{ObjectId, ObjectKind};
use crate::store::refname::{self, RefName};

/// Returns all of our refs, readable or not.
pub(super) fn all(context: &Context<'_>) -> Result<Vec<RawRef>> {
    let mut found = Vec::new();
    for root in refname::ROOTS {
        found.extend(context.repo.raw_refs(root)?);
    }
    if let Some(id) = context.repo.find_ref(refname::DISPLAY_NOTES)? {
        found.push(RawRef {
            name: refname::DISPLAY_NOTES.to_owned(),
            target: Ok(id),
        });
    }
    found.retain(|raw| refname::is_ours(&raw.name));
    Ok(found)
}

pub(super) fn broken(visit: &mut Visit<'_, '_>) -> Result<()> {
    for raw in all(visit.context)? {
        let reason = match &raw.target {
            Err(reason) => reason.clone(),
            Ok(id) => match visit.context.repo.object_header(*id) {
                Ok(Some((ObjectKind::Commit, _))) => continue,
                Ok(Some((kind, _))) => format!("it points at a {kind}, not at a commit"),
                Ok(None) => format!("it points at {id}, which does not exist"),
                Err(_) => format!("it points at {id}, which cannot be read"),
            },
        };
        let survivor = survivor(visit.context, &raw)?;
        let how = match survivor {
            Some(id) => format!("move it back to {id}, and keep its old value in agents/lost"),
            None => "move it to agents/lost".to_owned(),
        };
        visit.repair(
            ("refs", Severity::Error),
            &raw.name,
            format!("a broken ref: {reason}"),
            how,
            |context| {
                put_aside(context, &raw, survivor)?;
                match raw.target {
                    Ok(id) if objects::is_torn(context, id) => {
                        objects::put_object_aside(context, id)
                    }
                    _ => Ok(()),
                }
            },
        );
    }
    Ok(())
}

/// Returns the newest intact commit of a session's log that no ref leads to.
fn survivor(context: &Context<'_>, raw: &RawRef) -> Result<Option<ObjectId>> {
    let Some(RefName::Session(sid)) = RefName::parse(&raw.name) else {
        return Ok(None);
    };
    let mut best: Option<(u64, ObjectId)> = None;
    for id in context.repo.unreachable_commits()? {
        let Ok(session) = context.store.state_at(id, sid) else {
            continue;
        };
        let whole = objects::first_damage(context, &raw.name, id).is_none();
        if whole && best.is_none_or(|(seq, _)| session.seq > seq) {
            best = Some((session.seq, id));
        }
    }
    Ok(best.map(|(_, id)| id))
}

/// Removes a broken ref, or moves it to an intact commit. Its old value is written to a file.
pub(super) fn put_aside(
    context: &Context<'_>,
    raw: &RawRef,
    instead: Option<ObjectId>,
) -> Result<()> {
    let repo = context.repo;
    let place = lost_file(context, &raw.name)?;
    let change = match &raw.target {
        Ok(id) => {
            fs::write(&place, format!("{id} {}\n", raw.name))
                .context(|| format!("cannot write '{}'", place.display()))?;
            RefChange {
                name: raw.name.clone(),
                expected: Expected::At(*id),
                new: instead,
            }
        }
        Err(_) => {
            repo.set_ref_file_aside(&raw.name, &place)?;
            // A packed value of the same name may appear now; the next run checks it.
            let (Some(new), None) = (instead, repo.find_ref(&raw.name)?) else {
                return Ok(());
            };
            RefChange {
                name: raw.name.clone(),
                expected: Expected::Absent,
                new: Some(new),
            }
        }
    };
    match repo.swap_refs(std::slice::from_ref(&change))? {
        Swap::Done => Ok(()),
        Swap::Stale => Err(Error::fatal("it moved meanwhile")),
    }
}
