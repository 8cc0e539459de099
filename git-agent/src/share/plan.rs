//! Finds the refs that a remote lacks, by comparing this clone's refs with its copies of the remote's refs. There is
//! nothing queued that could be lost, doubled or stuck.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::model::session::{SessionId, WriterId};
use crate::selection::{self, Selection};
use crate::share::fetch::{Copies, own_refs};
use crate::share::outcome::{Cause, Refusal};
use crate::store::archive;
use crate::store::refname::RefName;

/// Returns the sessions of this clone with these names, which have a ref that can be pushed.
pub fn sessions_named(context: &Context<'_>, names: &[String]) -> Result<BTreeSet<SessionId>> {
    let selection = Selection {
        names: names.to_vec(),
        ..Selection::default()
    };
    let own = context.store.own_writers()?;
    let mut sids = BTreeSet::new();
    for listed in selection::select(context, &selection)? {
        let name = &listed.session.name;
        // A remote may still have a session of this clone that has no ref here any more.
        if own.contains(&listed.session.writer) && (listed.archived || !listed.is_mine()) {
            return Err(Error::fatal(format!(
                "session '{name}' has no ref of its own any more: it was folded or deleted"
            ))
            .hint("git agent push    shares archives and deletions, too"));
        }
        if let Some(remote) = &listed.remote {
            return Err(Error::fatal(format!(
                "session '{name}' belongs to a teammate (from '{remote}')"
            )));
        }
        sids.insert(listed.session.sid);
    }
    Ok(sids)
}

/// One ref that a remote has in another version, or not at all.
#[derive(Debug, Clone)]
pub struct Item {
    /// The ref's name.
    pub name: RefName,
    /// The version to push; `None` to delete the ref.
    pub new: Option<ObjectId>,
    /// The last known version at the remote.
    pub copy: Option<ObjectId>,
    /// The version that may be overwritten there: one that is deleted or was purged.
    pub over: Option<ObjectId>,
    /// Whether the ref is deleted because the session was archived.
    pub folded: bool,
    /// Why it may not be pushed.
    pub refused: Option<Refusal>,
    /// The name of the session, once the ref was checked.
    pub title: Option<String>,
}

impl Item {
    /// Returns an item that pushes the version here.
    fn given(name: &RefName, id: ObjectId, copies: &Copies) -> Self {
        Item {
            name: name.clone(),
            new: Some(id),
            copy: copies.get(name).copied(),
            over: None,
            folded: false,
            refused: None,
            title: None,
        }
    }
}

/// Returns the refs that a remote with these copies lacks: all, or only these sessions and all notes.
pub(super) fn unpushed(
    context: &Context<'_>,
    copies: &Copies,
    only: Option<&BTreeSet<SessionId>>,
) -> Result<Vec<Item>> {
    let own = own_refs(context.repo)?;
    let wanted = |name: &RefName| is_wanted(name, only);
    let mut items: Vec<Item> = own
        .iter()
        .filter(|(name, id)| wanted(name) && copies.get(name) != Some(id))
        .map(|(name, id)| Item::given(name, *id, copies))
        .collect();
    drop_folded(context, copies, &mut items)?;
    refuse_others(context, &mut items)?;
    let absent = |name: &RefName| !own.contains_key(name);
    let dropped: Vec<(&RefName, &ObjectId)> = copies
        .iter()
        .filter(|(name, _)| matches!(name, RefName::Session(_)) && absent(name) && wanted(name))
        .collect();
    if !dropped.is_empty() {
        let gone = gone(context, &own)?;
        let writers = context.store.own_writers()?;
        for (name, id) in dropped {
            let RefName::Session(sid) = name else {
                continue;
            };
            let folded = match gone.get(sid) {
                Some(Gone::Forgotten) => false,
                // Events that a copy of this clone pushed after the archiving are not in the archive.
                Some(Gone::Folded(tip))
                    if context.repo.is_ancestor(*id, *tip).unwrap_or(false)
                        || context.store.is_replaced(*tip, *id).unwrap_or(false) =>
                {
                    true
                }
                _ => continue,
            };
            // Only its owner may delete a ref, even if it was fetched by hand and archived or forgotten here.
            if !is_by(context, &writers, name, *id) {
                continue;
            }
            items.push(Item {
                name: name.clone(),
                new: None,
                copy: Some(*id),
                over: Some(*id),
                folded,
                refused: None,
                title: None,
            });
        }
    }
    Ok(items)
}

/// Leaves out sessions that are in one of this clone's archives at the remote: a copy of this clone has archived them.
fn drop_folded(context: &Context<'_>, copies: &Copies, items: &mut Vec<Item>) -> Result<()> {
    let is_new = |item: &Item| matches!(item.name, RefName::Session(_)) && item.copy.is_none();
    if !items.iter().any(is_new) {
        return Ok(());
    }
    let writers = context.store.own_writers()?;
    let mut folded: BTreeMap<SessionId, ObjectId> = BTreeMap::new();
    for (name, id) in copies {
        if let RefName::Archive { month, writer } = name
            && writers.contains(writer)
        {
            archive::read_archive(context.repo, *id, month, &mut |archived| {
                folded.entry(archived.session.sid).or_insert(archived.tip);
                true
            })?;
        }
    }
    items.retain(|item| {
        let (RefName::Session(sid), Some(new), None) = (&item.name, item.new, item.copy) else {
            return true;
        };
        let Some(tip) = folded.get(sid) else {
            return true;
        };
        // Events added here since are not in the archive.
        let inside = context.repo.is_ancestor(new, *tip).unwrap_or(false);
        !inside && !context.store.is_replaced(*tip, new).unwrap_or(false)
    });
    Ok(())
}

/// Returns refs that the remote has in an unknown version although it has everything from here; pushing them joins the
/// two. Refs that other writers may write too are left to a fetch.
pub(super) fn unseen(
    context: &Context<'_>,
    copies: &Copies,
    only: Option<&BTreeSet<SessionId>>,
    names: &BTreeSet<RefName>,
) -> Result<Vec<Item>> {
    let writers = context.store.own_writers()?;
    let mut items: Vec<Item> = own_refs(context.repo)?
        .iter()
        .filter(|(name, id)| names.contains(name) && copies.get(name) == Some(id))
        .filter(|(name, id)| is_wanted(name, only) && is_by(context, &writers, name, **id))
        .map(|(name, id)| Item::given(name, *id, copies))
        .collect();
    refuse_others(context, &mut items)?;
    items.retain(|item| item.refused.is_none());
    Ok(items)
}

/// Returns whether one of these writers wrote a version of a ref. A session records its writer; other refs have it in
/// their names.
pub(super) fn is_by(
    context: &Context<'_>,
    writers: &[WriterId],
    name: &RefName,
    id: ObjectId,
) -> bool {
    match (name, name.writer()) {
        (RefName::Session(sid), _) => {
            let state = context.store.state_at(id, *sid);
            state.is_ok_and(|state| writers.contains(&state.writer))
        }
        (_, Some(writer)) => writers.contains(writer),
        (_, None) => false,
    }
}

/// Returns whether a ref is selected for the push.
fn is_wanted(name: &RefName, only: Option<&BTreeSet<SessionId>>) -> bool {
    match (only, name) {
        (Some(only), RefName::Session(sid)) => only.contains(sid),
        (Some(_), RefName::Archive { .. }) => false,
        _ => true,
    }
}

/// Refuses refs of other writers that were fetched by hand into this clone's own names, and sessions that a copy of
/// this clone has deleted, which no clone would show.
pub(super) fn refuse_others(context: &Context<'_>, items: &mut [Item]) -> Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    let own = context.store.own_writers()?;
    let is_session = |item: &Item| matches!(item.name, RefName::Session(_));
    let forgotten = if items.iter().any(is_session) {
        context.store.forgotten()?
    } else {
        BTreeMap::new()
    };
    for item in items {
        let deleted = |sid: &SessionId| {
            let by = forgotten.get(sid);
            by.is_some_and(|by| own.iter().any(|writer| by.contains(writer)))
        };
        item.refused = match (&item.name, item.name.writer()) {
            (RefName::Session(sid), _) if deleted(sid) => Some(Refusal::from(format!(
                "it was deleted by a copy of this clone; delete it here with git agent forget {sid}"
            ))),
            (_, Some(writer)) if !own.contains(writer) => {
                Some(Refusal::of(Cause::OtherWriter, not_own(writer)))
            }
            _ => None,
        };
    }
    Ok(())
}

/// Returns the reason for refusing a ref of another clone.
pub(super) fn not_own(writer: &WriterId) -> String {
    format!("its writer is {writer}, not this clone")
}

enum Gone {
    Folded(ObjectId),
    Forgotten,
}

/// Returns this clone's sessions without a ref, and why they have none.
fn gone(
    context: &Context<'_>,
    own: &BTreeMap<RefName, ObjectId>,
) -> Result<BTreeMap<SessionId, Gone>> {
    let mut gone = BTreeMap::new();
    for (name, id) in own {
        if let RefName::Archive { month, .. } = name {
            archive::read_archive(context.repo, *id, month, &mut |archived| {
                gone.entry(archived.session.sid)
                    .or_insert(Gone::Folded(archived.tip));
                true
            })?;
        }
    }
    let writer = context.store.require_writer()?;
    for (sid, writers) in context.store.forgotten()? {
        if writers.contains(&writer) {
            gone.insert(sid, Gone::Forgotten);
        }
    }
    Ok(gone)
}
