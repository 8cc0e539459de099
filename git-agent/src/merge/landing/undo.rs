//! Undoes the last merge: moves the target back or, if there are commits on top of the merge, reverts it.

use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::fault;
use crate::git::ObjectId;
use crate::git::merge::move_branch::{Landed, Landing};
use crate::git::merge::{Merged, NewCommit};
use crate::git::refs::{Expected, RefChange};
use crate::git::snapshot::capture::Checkout;
use crate::merge::landing::journal::{Journal, JournalPlace, MergeLock, Move, Part};
use crate::merge::landing::recover;
use crate::merge::{apply, hooks};
use crate::model::merge::Style;
use crate::model::session::settings::set;
use crate::model::session::{State, Ulid};
use crate::session::worktree::work;
use crate::store::log::writer::SessionWriter;

/// How the last merge can be undone.
#[derive(Debug)]
pub enum Undoable {
    /// The target can move back.
    Back(Journal),
    /// There are commits on top of the merge, so only a revert is possible.
    Revert(Journal),
    /// Applied changes can be removed from the files.
    Applied(Journal),
}

impl Undoable {
    /// Describes the undo in words.
    pub fn describe(&self) -> String {
        match self {
            Undoable::Back(journal) | Undoable::Revert(journal) => {
                let Some(landing) = &journal.landing else {
                    return String::new();
                };
                let names: Vec<&str> = landing
                    .parts
                    .iter()
                    .map(|part| part.name.as_str())
                    .collect();
                let names = names.join(", ");
                let (branch, before) = (&landing.branch, &landing.before[..10]);
                match self {
                    Undoable::Back(_) => {
                        format!("move '{branch}' back to {before}, without {names}")
                    }
                    _ => format!("revert {names} on '{branch}', which has newer commits"),
                }
            }
            Undoable::Applied(journal) => {
                let name = journal
                    .applying
                    .as_ref()
                    .map_or("", |applied| applied.name.as_str());
                format!("remove the changes of '{name}' from the files here")
            }
        }
    }
}

/// Returns how the last merge can be undone.
pub fn last(context: &Context<'_>, right: &MergeLock) -> Result<Undoable> {
    let Some(journal) = right.finished()?.pop() else {
        return Err(Error::fatal("no merge to undo"));
    };
    let Some(landing) = &journal.landing else {
        return Ok(Undoable::Applied(journal));
    };
    let repo = context.repo;
    let after = repo.parse_id(&landing.after)?;
    let gone = || {
        Error::fatal(format!(
            "'{}' no longer contains the last merge",
            landing.branch
        ))
    };
    let tip = repo.branch_tip(&landing.branch)?.ok_or_else(gone)?;
    if tip == after {
        return Ok(Undoable::Back(journal));
    }
    if !repo.is_ancestor(after, tip)? {
        return Err(gone());
    }
    Ok(Undoable::Revert(journal))
}

/// Undoes a merge. Returns the new tip of the target.
pub fn undo(context: &Context<'_>, right: &MergeLock, what: &Undoable) -> Result<Option<ObjectId>> {
    match what {
        Undoable::Applied(journal) => {
            if let Some(applied) = &journal.applying {
                let at = context.repo.checkout()?;
                if at.top != applied.top {
                    return Err(Error::fatal(format!(
                        "the changes of '{}' were applied in '{}'",
                        applied.name,
                        applied.top.display()
                    )));
                }
                let head = context.repo.head_of(&at)?.map(|head| head.to_string());
                if head.as_deref() != Some(applied.before.as_str()) {
                    return Err(Error::fatal(format!(
                        "'{}' has moved since the changes of '{}' were applied",
                        applied.top.display(),
                        applied.name
                    ))
                    .hint("nothing was changed"));
                }
                apply::take_back(context, applied)?;
            }
            right.drop_done(journal.id)?;
            Ok(None)
        }
        Undoable::Back(journal) => {
            let landing = landing_of(journal)?;
            let back = Move {
                before: landing.after.clone(),
                after: landing.before.clone(),
                ..landing.clone()
            };
            let before = context.repo.parse_id(&landing.before)?;
            let after = context.repo.parse_id(&landing.after)?;
            let name = format!("refs/heads/{}", landing.branch);
            let checkouts = clear(context, &landing.branch, &name, after, before)?;
            note(context, right, journal, back.clone(), &checkouts)?;
            let moved = go_back(context, right, landing, &checkouts);
            conclude(context, right, journal, &back, moved)?;
            Ok(Some(before))
        }
        Undoable::Revert(journal) => {
            let landing = landing_of(journal)?;
            let (name, tip, new) = revert(context, landing)?;
            let mut forward = Move {
                before: tip.to_string(),
                after: new.to_string(),
                ..landing.clone()
            };
            for part in &mut forward.parts {
                // The branches of the sessions stay where they are.
                part.state = State::Ready;
                part.before.clone_from(&part.work);
            }
            let checkouts = clear(context, &landing.branch, &name, tip, new)?;
            note(context, right, journal, forward.clone(), &checkouts)?;
            let landed = context.repo.land(&Landing {
                branch: &name,
                old: tip,
                new,
                reflog: "agent merge: revert",
                also: &[],
                checkouts: &checkouts,
            });
            let moved = landed.and_then(|landed| refuse(right, landed, &landing.branch));
            conclude(context, right, journal, &forward, moved)?;
            hooks::after(context.repo, &checkouts, Style::NoFf);
            Ok(Some(new))
        }
    }
}

/// Writes the journal of the undo before it happens.
fn note(
    context: &Context<'_>,
    right: &MergeLock,
    undone: &Journal,
    mut landing: Move,
    checkouts: &[Checkout],
) -> Result<()> {
    let mut journal = Journal::begin(context, undone.asked.clone());
    landing.places = JournalPlace::of(checkouts);
    journal.landing = Some(landing);
    journal.undoes = Some(undone.id);
    right.note(&journal)
}

/// Records an undo after the target moved, or removes the journal of a refused one.
fn conclude(
    context: &Context<'_>,
    right: &MergeLock,
    undone: &Journal,
    landing: &Move,
    moved: Result<()>,
) -> Result<()> {
    match moved {
        Ok(()) => finish(context, right, undone.id, landing),
        Err(error) => {
            // The failure may have come after the target moved.
            let after = context.repo.parse_id(&landing.after)?;
            if context.repo.branch_tip(&landing.branch)? == Some(after) {
                finish(context, right, undone.id, landing)?
            } else {
                // A refused undo has no journal any more; a failed one is rolled back now or by the next merge.
                drop(recover::recover(context, right))
            }
            Err(error)
        }
    }
}

/// Records an undo: restores the states of the sessions and drops the journal. Idempotent.
pub fn finish(
    context: &Context<'_>,
    right: &MergeLock,
    undone: Ulid,
    landing: &Move,
) -> Result<()> {
    fault::point("undo.moved").context(|| "cannot undo".into())?;
    for part in &landing.parts {
        settle_index(context, part)?;
        set_state(context, part)?;
        fault::point("undo.session.recorded").context(|| "cannot undo".into())?;
    }
    right.drop_done(undone)?;
    fault::point("undo.dropped").context(|| "cannot undo".into())?;
    right.forget()
}

fn landing_of(journal: &Journal) -> Result<&Move> {
    journal
        .landing
        .as_ref()
        .ok_or_else(|| Error::fatal("the journal of the last merge is incomplete"))
}

/// Moves the target and the branches of the sessions back.
fn go_back(
    context: &Context<'_>,
    right: &MergeLock,
    landing: &Move,
    checkouts: &[Checkout],
) -> Result<()> {
    let repo = context.repo;
    let name = format!("refs/heads/{}", landing.branch);
    let mut also = Vec::new();
    for part in &landing.parts {
        let Some(branch) = part.branch.as_deref().filter(|_| part.work != part.before) else {
            continue;
        };
        let work = repo.parse_id(&part.work)?;
        if repo.branch_tip(branch)? == Some(work) {
            also.push(RefChange {
                name: format!("refs/heads/{branch}"),
                expected: Expected::At(work),
                new: Some(repo.parse_id(&part.before)?),
            });
        }
    }
    let landed = repo.land(&Landing {
        branch: &name,
        old: repo.parse_id(&landing.after)?,
        new: repo.parse_id(&landing.before)?,
        reflog: "agent merge: undo",
        also: &also,
        checkouts,
    })?;
    refuse(right, landed, &landing.branch)
}

/// Returns the checkouts of a branch, or an error if one of them prevents its move.
fn clear(
    context: &Context<'_>,
    branch: &str,
    name: &str,
    from: ObjectId,
    to: ObjectId,
) -> Result<Vec<Checkout>> {
    let checkouts = context.repo.checkouts_of(name)?;
    match context.repo.obstacle_to_landing(&checkouts, from, to)? {
        Some(said) => Err(not_moved(branch, &said)),
        None => Ok(checkouts),
    }
}

fn not_moved(branch: &str, said: &str) -> Error {
    Error::fatal(format!("'{branch}' was not moved: {said}"))
        .hint("nothing was changed; fix this, then run the undo again")
}

/// Turns a refused move into an error. Nothing has changed then, so the journal is removed.
fn refuse(right: &MergeLock, landed: Landed, branch: &str) -> Result<()> {
    if landed != Landed::Done {
        right.forget()?;
    }
    match landed {
        Landed::Done => Ok(()),
        Landed::Moved => Err(Error::fatal(format!("'{branch}' moved just now"))),
        Landed::Refused(said) => Err(not_moved(branch, &said)),
    }
}

/// Restores the index of a session's worktree to the state before its work was committed.
fn settle_index(context: &Context<'_>, part: &Part) -> Result<()> {
    if part.work == part.before {
        return Ok(());
    }
    let Some(session) = context.store.session(part.sid)? else {
        return Ok(());
    };
    let Some(at) = work::checkout(context, &session)? else {
        return Ok(());
    };
    let before = context.repo.parse_id(&part.before)?;
    if context.repo.head_of(&at)? != Some(before) {
        return Ok(());
    }
    let tree = context.repo.tree_of(context.repo.parse_id(&part.work)?)?;
    let snapshots = context.store.snapshots(part.sid)?;
    let kept = snapshots
        .into_iter()
        .find(|kept| kept.snapshot.head == Some(before) && kept.snapshot.tree == tree);
    let staged = kept.map_or(before, |kept| kept.snapshot.index_tree);
    let git = || {
        context
            .repo
            .git_at(&at.admin_dir, &at.top)
            .env_remove("GIT_OPTIONAL_LOCKS")
    };
    let read = || git().args(["read-tree", &staged.to_string()]);
    context.repo.run_at_index(&at, None, read)?;
    git()
        .args(["update-index", "-q", "--refresh"])
        .answer()
        .map(|_| ())
}

fn set_state(context: &Context<'_>, part: &Part) -> Result<()> {
    let Ok(mut writer) = SessionWriter::open(&context.store, part.sid, context.redactor()) else {
        // The session was archived meanwhile; archives are not rewritten.
        return Ok(());
    };
    if writer.session().status == State::Merged {
        writer.append(set::merged(None))?;
        writer.set_status(part.state, "the merge was undone")?;
    }
    writer.close()?;
    Ok(())
}

/// Makes the commit that reverts a merge. Returns the target's full name, its tip and the commit.
fn revert(context: &Context<'_>, landing: &Move) -> Result<(String, ObjectId, ObjectId)> {
    let repo = context.repo;
    let name = format!("refs/heads/{}", landing.branch);
    let (before, after) = (
        repo.parse_id(&landing.before)?,
        repo.parse_id(&landing.after)?,
    );
    let tip = repo
        .find_ref(&name)?
        .ok_or_else(|| Error::fatal(format!("branch '{}' is gone", landing.branch)))?;
    let tree = match repo.merge_with_base(after, tip, before)? {
        Merged::Clean(tree) => tree,
        Merged::Conflict(paths) => {
            let first = paths.first().map(String::as_str).unwrap_or_default();
            return Err(Error::fatal(format!(
                "cannot revert the merge: it conflicts with later changes in '{first}'"
            ))
            .hint("nothing was changed"));
        }
    };
    let names: Vec<&str> = landing
        .parts
        .iter()
        .map(|part| part.name.as_str())
        .collect();
    let message = format!(
        "Revert the merge of {}\n\nThis takes {}..{} out again.\n",
        names.join(", "),
        landing.before,
        landing.after
    );
    let new = repo.make_commit(&NewCommit {
        tree,
        parents: &[tip],
        message: &message,
        author: None,
        sign: true,
    })?;
    Ok((name, tip, new))
}
