//! The part of a session's work that a diff shows: all, staged, unstaged or new changes, or those of one turn.

use crate::context::Context;
use crate::env::Millis;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::model::event::Body;
use crate::review::last_seen;
use crate::session::checks::turn::BEFORE_TURN;
use crate::session::events;
use crate::session::worktree::work::Work;
use crate::store::list::Listed;
use crate::store::snapshot::Kept;

/// A part of a session's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Everything since it left its parent, committed or not.
    #[default]
    Branch,
    /// Staged changes.
    Staged,
    /// Unstaged changes, including untracked files.
    Unstaged,
    /// Everything that is not committed.
    Uncommitted,
    /// Changes since the user last looked.
    SinceReview,
    /// The changes of one turn.
    Turn(u64),
}

/// Two trees to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// Before.
    pub old: ObjectId,
    /// After.
    pub new: ObjectId,
    /// Something to say about it.
    pub note: Option<String>,
}

/// Returns the trees to compare for a part of a session's work.
pub fn compared(
    context: &Context<'_>,
    listed: &Listed,
    work: &Work,
    scope: Scope,
) -> Result<Compared> {
    let name = &listed.session.name;
    let mut note = None;
    let (old, new) = match scope {
        Scope::Branch => (context.repo.tree_of(work.base)?, work.tree),
        Scope::Staged | Scope::Unstaged if work.checkout.is_none() => {
            return Err(Error::fatal(format!(
                "session '{name}' has no worktree here, so nothing is staged in it"
            )));
        }
        Scope::Staged => (work.committed, work.staged),
        Scope::Unstaged => (work.staged, work.tree),
        Scope::Uncommitted => (work.committed, work.tree),
        Scope::SinceReview => match last_seen::last(context, listed.session.sid)? {
            Some(seen) => {
                let since = last_seen::since(context, &seen, work)?;
                note = since.mixed.then(|| {
                    "the work was rebased and cannot be told apart from its new base".to_owned()
                });
                (since.tree, work.tree)
            }
            None => {
                note = Some(format!(
                    "you have not seen session '{name}' before: all of its changes are shown"
                ));
                (context.repo.tree_of(work.base)?, work.tree)
            }
        },
        Scope::Turn(turn) => of_turn(context, listed, work, turn)?,
    };
    Ok(Compared { old, new, note })
}

/// Returns the files before and after a turn.
fn of_turn(
    context: &Context<'_>,
    listed: &Listed,
    work: &Work,
    turn: u64,
) -> Result<(ObjectId, ObjectId)> {
    let session = &listed.session;
    if turn == 0 || turn > u64::from(session.turns) {
        return Err(Error::fatal(format!(
            "session '{}' has no turn {turn}: it has had {}",
            session.name, session.turns
        )));
    }
    // The base that a teammate recorded may hide a part of the work.
    let recorded = session.base.as_deref().filter(|_| listed.is_mine());
    let start = match recorded.and_then(|hex| context.repo.parse_id(hex).ok()) {
        Some(base) => context.repo.tree_of(base)?,
        None => context.repo.tree_of(work.base)?,
    };
    // The record of each turn's end tells its files; a turn that is not over ends with the files as they are.
    let mut ends: Vec<(u64, ObjectId)> = Vec::new();
    let mut begun = None;
    for event in events::all(context, listed)? {
        let event = event?;
        if u64::from(event.turn) == turn {
            begun.get_or_insert(event.ts);
        }
        if let Body::Snapshot { tree, head, .. } = event.body {
            let files = context.repo.parse_id(&tree).ok();
            let files = files.filter(|id| matches!(context.repo.object_header(*id), Ok(Some(_))));
            let commit = head.and_then(|hex| context.repo.parse_id(&hex).ok());
            let committed = commit.and_then(|id| context.repo.tree_of(id).ok());
            if let Some(tree) = files.or(committed) {
                ends.push((event.turn.into(), tree));
            }
        }
    }
    let end_of = |turn: u64| {
        ends.iter()
            .rfind(|(of, _)| *of == turn)
            .map(|(_, tree)| *tree)
    };
    let before = begin_of(context, listed, (turn, begun), end_of(turn))
        .or_else(|| (1..turn).rev().find_map(end_of))
        .unwrap_or(start);
    let after = end_of(turn).or((turn == u64::from(session.turns)).then_some(work.tree));
    let after = after.ok_or_else(|| {
        Error::fatal(format!(
            "session '{}' has no snapshot of turn {turn}",
            session.name
        ))
    })?;
    Ok((before, after))
}

/// Returns the files at the beginning of a turn, from its snapshots: changes by a person, a setup or an update since
/// the previous turn do not belong to it. `end` are the files at its end, if it has ended.
fn begin_of(
    context: &Context<'_>,
    listed: &Listed,
    (turn, begun): (u64, Option<Millis>),
    end: Option<ObjectId>,
) -> Option<ObjectId> {
    if !listed.is_mine() {
        return None;
    }
    // The newest comes first.
    let chain = context.store.snapshots(listed.session.sid).ok()?;
    let older = match (chain.iter().position(|kept| kept.turn == Some(turn)), end) {
        (Some(at), _) => &chain[at + 1..],
        // It changed nothing, so no snapshot was needed.
        (None, Some(end)) if !chain.is_empty() => return Some(end),
        (None, _) => &chain[..],
    };
    // A snapshot that a review kept may be the one that the turn began with.
    let earlier = |kept: &Kept| {
        let time = u64::try_from(kept.snapshot.time).unwrap_or(0) * 1000;
        begun.is_some_and(|begun| time + 1000 <= begun.0)
    };
    let begins = |kept: &&Kept| kept.turn.is_some() || kept.reason == BEFORE_TURN || earlier(kept);
    older.iter().find(begins).map(|kept| kept.snapshot.tree)
}
