//! Restores a session's worktree: after a clean, after an accident, or to an earlier turn.

use std::path::Path;

use crate::context::Context;
use crate::error::{Error, Result, shell_path, shell_word};
use crate::git::ObjectId;
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::snapshot::Snapshot;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::restore_mark::Way;
use crate::git::worktree::{self, Again, Finding, Worktree};
use crate::model::event::Body;
use crate::model::session::{Session, SessionId, State};
use crate::session::caller::{self, Act};
use crate::session::control::state;
use crate::session::create::worktreeinclude;
use crate::session::worktree::hold::while_still;
use crate::session::worktree::ignored_files::{self, Ignored};
use crate::session::worktree::presence::{self, Alone};
use crate::session::worktree::{clean, finish_restore, work};
use crate::store::log::writer::SessionWriter;
use crate::store::snapshot::Kept;

/// Which state of the worktree is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The newest snapshot.
    Last,
    /// The one at the end of a turn; 0 is before the first.
    Turn(u64),
    /// A snapshot by its id or the beginning of it.
    Snapshot(String),
}

/// Finds a snapshot of a session.
pub fn find(context: &Context<'_>, session: &Session, which: &Which) -> Result<Kept> {
    let name = &session.name;
    let missing = |what: String| {
        Error::fatal(what).hint(format!("git agent snapshot --list {}", shell_word(name)))
    };
    match which {
        Which::Last => context
            .store
            .last_snapshot(session.sid)?
            .ok_or_else(|| missing(format!("session '{name}' has no snapshot"))),
        Which::Turn(0) => context
            .store
            .snapshots(session.sid)?
            .pop()
            .ok_or_else(|| missing(format!("session '{name}' has no snapshot"))),
        Which::Turn(turn) => context
            .store
            .snapshot_of_turn(session.sid, *turn)?
            .ok_or_else(|| missing(format!("session '{name}' has no snapshot of turn {turn}"))),
        Which::Snapshot(id) => {
            let mut found = context.store.snapshots(session.sid)?;
            found.retain(|kept| {
                id.len() >= 4 && kept.snapshot.id.to_string().starts_with(id.as_str())
            });
            match found.len() {
                1 => Ok(found.remove(0)),
                0 => Err(missing(format!("session '{name}' has no snapshot '{id}'"))),
                _ => Err(Error::fatal(format!(
                    "'{id}' names several snapshots of '{name}'"
                ))),
            }
        }
    }
}

/// Brings a worktree that is gone back as it was, for the user, uncommitted and untracked files included.
pub fn restore(context: &Context<'_>, session: &Session, which: &Which) -> Result<Checkout> {
    caller::permit(context, Act::Restore, [session])?;
    restore_for_command(context, session, which)
}

/// Does the same for another command, which has asked whether the caller may give it.
pub fn restore_for_command(
    context: &Context<'_>,
    session: &Session,
    which: &Which,
) -> Result<Checkout> {
    let session = &placed(context, session)?;
    let (checkout, notices) =
        while_still(context, session, || bring_back(context, session, which))?;
    for text in notices {
        note(context, session.sid, text)?;
    }
    // A restored session is not given up.
    if session.status == State::Discarded {
        state::set_state(context, session.sid, State::Ready, "brought back")?;
    }
    Ok(checkout)
}

/// The same, for a caller that holds the session and writes to it: also returns the events for its transcript.
pub fn bring_back(
    context: &Context<'_>,
    session: &Session,
    which: &Which,
) -> Result<(Checkout, Vec<String>)> {
    put_back(context, session)?;
    let finished = finish_restore::sweep(context, session)?;
    if let Some(checkout) = work::checkout(context, session)? {
        if finished {
            let text = "the worktree was half made, and is finished now".to_owned();
            return Ok((checkout, vec![text]));
        }
        return Err(Error::fatal(format!(
            "session '{}' already has its worktree",
            session.name
        ))
        .hint(format!(
            "git agent rewind {} --turn N    go back to an earlier turn",
            shell_word(&session.name)
        )));
    }
    work::require_started(context, session)?;
    let kept = find(context, session, which)?;
    let snapshot = &kept.snapshot;
    let again = make_again(context, session, snapshot.head, Some(snapshot))?;
    let brought = ignored_files::bring_back(context, session.sid, &again.checkout().top)?;
    let mut notices = worktreeinclude::copy(context, again.checkout());
    let checkout = again.put_in_place()?;
    ignored_files::let_go(context, session.sid, &brought);
    notices.push(format!("the worktree was restored from {}", snapshot.id));
    Ok((checkout, notices))
}

/// Makes a session's worktree again beside its place, on its branch; a branch that is gone is made again at `head`, and
/// one that is not where the snapshot's was moves there.
fn make_again(
    context: &Context<'_>,
    session: &Session,
    head: Option<ObjectId>,
    snapshot: Option<&Snapshot>,
) -> Result<Again> {
    let repo = context.repo;
    let nowhere = || Error::fatal(format!("session '{}' never had a worktree", session.name));
    let path = session.local.worktree.as_deref().ok_or_else(nowhere)?;
    let branch = session.branch.as_deref().ok_or_else(nowhere)?;
    if repo.branch_tip(branch)?.is_none() {
        let head = head.ok_or_else(|| Error::fatal(format!("branch '{branch}' is gone")))?;
        let name = format!("refs/heads/{branch}");
        let change = RefChange {
            name,
            expected: Expected::Absent,
            new: Some(head),
        };
        if repo.swap_refs(&[change])? == Swap::Stale {
            return Err(Error::fatal(format!(
                "another process just created branch '{branch}'"
            )));
        }
    }
    // git's own record of a folder that is gone stands in the way of a new one, there and on this branch.
    let full = format!("refs/heads/{branch}");
    let concerns =
        |known: &Worktree| known.path == Path::new(path) || known.branch.as_deref() == Some(&full);
    for known in worktree::list(repo)?.iter().filter(|known| concerns(known)) {
        let near: Vec<_> = known.path.parent().map(Into::into).into_iter().collect();
        if worktree::inspect(known) == Finding::Missing
            && let Some(moved) = worktree::search_moved(known, &near)
        {
            let word = shell_path(&moved);
            let moved = moved.display();
            return Err(Error::fatal(format!("the worktree was moved to '{moved}'"))
                .hint(format!("git worktree repair {word}")));
        }
    }
    worktree::prune_missing(repo, concerns)?;
    if let Some(other) = worktree::list(repo)?.iter().find(|known| concerns(known)) {
        let (place, word) = (other.path.display(), shell_path(&other.path));
        let error = match &other.locked {
            Some(_) => Error::fatal(format!("worktree '{place}' is locked"))
                .hint(format!("git worktree unlock {word}")),
            None if other.path == Path::new(path) => Error::fatal(format!(
                "'{place}' exists, but is not the worktree that git registered"
            ))
            .hint("git agent doctor"),
            None => Error::fatal(format!("branch '{branch}' is checked out in '{place}'"))
                .hint(format!("git -C {word} switch --detach")),
        };
        return Err(error);
    }
    if std::fs::symlink_metadata(path).is_ok() && std::fs::remove_dir(path).is_err() {
        return Err(Error::fatal(format!(
            "'{path}' already exists and is not the session's worktree"
        ))
        .hint("move it away, then try again"));
    }
    if let Some(snapshot) = snapshot {
        move_branch(context, branch, snapshot.head)?;
    }
    Again::make(repo, Path::new(path), branch, snapshot)
}

/// Returns an existing worktree to an earlier state, after a snapshot of its current files.
pub fn rewind(context: &Context<'_>, session: &Session, which: &Which) -> Result<Kept> {
    caller::permit(context, Act::Restore, [session])?;
    while_still(context, session, || rewind_still(context, session, which))
}

fn rewind_still(context: &Context<'_>, session: &Session, which: &Which) -> Result<Kept> {
    let (repo, store) = (context.repo, &context.store);
    let checkout = work::require_checkout(context, session)?;
    let kept = find(context, session, which)?;
    let taken = store.take_snapshot(session.sid, None, "before rewind", &checkout)?;
    let now = repo.read_snapshot(taken.id)?;
    go_to(context, session, &checkout, (&kept.snapshot, &now))?;
    let text = format!(
        "rewound to {} ({}); before that it was {}",
        kept.snapshot.id, kept.reason, taken.id
    );
    note(context, session.sid, text)?;
    Ok(kept)
}

/// Moves a worktree and its branch from `now` to another snapshot. After a crash the next command finishes it.
fn go_to(
    context: &Context<'_>,
    session: &Session,
    checkout: &Checkout,
    (to, now): (&Snapshot, &Snapshot),
) -> Result<()> {
    if now.head != to.head {
        require_on_branch(context, session, now.head)?;
    }
    let way = Way {
        to: to.id,
        done_at: None,
    };
    let branch = session.branch.as_deref().unwrap_or_default();
    let mark = context.repo.begin_restoring(checkout, way)?;
    let moved = if now.head == to.head {
        Ok(())
    } else {
        move_branch(context, branch, to.head)
    };
    let gone = moved.and_then(|()| context.repo.restore(checkout, to, Some(now)));
    match gone {
        Ok(_) => mark.end(),
        Err(error) => {
            // Most often something is in the way, and nothing was touched.
            if now.head != to.head {
                move_branch(context, branch, now.head)?;
            }
            finish_restore::give_up(context, checkout, mark, now)?;
            Err(error)
        }
    }
}

/// Undoes the changes in a worktree since a snapshot. `now` is a snapshot of its current state. The commits of another
/// session in the same worktree stay.
pub(crate) fn undo(
    context: &Context<'_>,
    session: &Session,
    checkout: &Checkout,
    (start, now): (&Snapshot, &Snapshot),
) -> Result<()> {
    if start.head != now.head && session.settings.shares.is_some() {
        return Err(Error::fatal(
            "the worktree has a commit that apparently is not from this session",
        ));
    }
    go_to(context, session, checkout, (start, now))
}

/// Makes sure that a worktree with this HEAD is on its session's branch: only then the branch may move with it.
pub(crate) fn require_on_branch(
    context: &Context<'_>,
    session: &Session,
    head: Option<ObjectId>,
) -> Result<()> {
    let branch = session.branch.as_deref().unwrap_or_default();
    if context.repo.branch_tip(branch)? == head {
        return Ok(());
    }
    Err(
        Error::fatal(format!("the worktree is not on branch '{branch}'"))
            .hint(format!("git -C <worktree> switch {}", shell_word(branch))),
    )
}

/// Moves a session's branch to where it was; its tip is kept.
pub(crate) fn move_branch(
    context: &Context<'_>,
    branch: &str,
    wanted: Option<ObjectId>,
) -> Result<()> {
    let current = context.repo.branch_tip(branch)?;
    if current == wanted {
        return Ok(());
    }
    let (Some(current), Some(wanted)) = (current, wanted) else {
        return Err(Error::fatal("the snapshot is from before the first commit"));
    };
    let name = format!("refs/heads/{branch}");
    context.store.keep_lost(&name, current)?;
    let change = RefChange {
        name,
        expected: Expected::At(current),
        new: Some(wanted),
    };
    match context.repo.swap_refs(&[change])? {
        Swap::Done => Ok(()),
        Swap::Stale => Err(Error::fatal(format!("branch '{branch}' moved just now"))),
    }
}

/// A worktree that was made anew.
#[derive(Debug)]
pub struct Recreated {
    pub checkout: Checkout,
    /// The ignored files of the old worktree.
    pub ignored: Ignored,
}

/// Creates a session's worktree again from its branch, after a snapshot of the old one. Refused if that would delete
/// ignored files, unless the user allowed it.
pub fn recreate(context: &Context<'_>, session: &Session, drop_ignored: bool) -> Result<Recreated> {
    caller::permit(context, Act::Restore, [session])?;
    work::require_started(context, session)?;
    clean::from_outside(context, |context| {
        while_still(context, session, || {
            recreate_still(context, session, drop_ignored)
        })
    })
}

fn recreate_still(
    context: &Context<'_>,
    session: &Session,
    drop_ignored: bool,
) -> Result<Recreated> {
    let session = &placed(context, session)?;
    let name = &session.name;
    put_back(context, session)?;
    finish_restore::sweep(context, session)?;
    let mut head = None;
    let mut ignored = Ignored::default();
    if let Some(checkout) = work::checkout(context, session)? {
        if Some(checkout.top.as_path()) != session.local.worktree.as_deref().map(Path::new) {
            let place = checkout.top.display();
            return Err(Error::fatal(format!(
                "the worktree of session '{name}' was moved to '{place}'"
            ))
            .hint("record that first: git agent doctor --fix"));
        }
        let Some(_alone) = Alone::take(context, &checkout.admin_dir)? else {
            return Err(Error::fatal(format!(
                "session '{name}': {}",
                presence::who(session.sid)
            )));
        };
        ignored = Ignored::find(context, &checkout)?;
        let own = ignored.own(context, &checkout);
        if !own.is_empty() && !drop_ignored {
            return Err(Error::fatal(format!(
                "the worktree holds ignored files that no snapshot keeps: {}",
                ignored_files::name_some(&own)
            ))
            .hint(format!(
                "git agent recreate --yes {}    delete them",
                shell_word(name)
            ))
            .hint(format!(
                "git agent path {}    where they are",
                shell_word(name)
            )));
        }
        head = context.repo.head_of(&checkout)?;
        let all = worktree::list(context.repo)?;
        let found = all.into_iter().find(|known| known.path == checkout.top);
        if let Some(known) = found {
            let nothing = Ignored::default();
            clean::take_away(context, session, &known, ("before recreate", &nothing))?;
        }
    }
    let again = make_again(context, session, head, None)?;
    let copied = worktreeinclude::copy(context, again.checkout());
    let checkout = again.put_in_place()?;
    ignored.forget_present(&checkout);
    let mut writer = SessionWriter::open(&context.store, session.sid, context.redactor())?;
    writer.set_local(|local| local.set_up = false)?;
    writer.append(Body::Notice {
        text: "the worktree was created again".to_owned(),
    })?;
    for text in copied {
        writer.append(Body::Notice { text })?;
    }
    writer.close()?;
    Ok(Recreated { checkout, ignored })
}

/// Returns a session that has a place in this clone. If its place is lost, the usual one is chosen.
fn placed(context: &Context<'_>, session: &Session) -> Result<Session> {
    if session.local.worktree.is_some() {
        return Ok(session.clone());
    }
    let mut writer = SessionWriter::open(&context.store, session.sid, context.redactor())?;
    work::choose_place(context, &mut writer)?;
    let mut placed = session.clone();
    placed.local = writer.session().local.clone();
    writer.close()?;
    Ok(placed)
}

/// Gives a session its folder back that an interrupted removal had set aside.
fn put_back(context: &Context<'_>, session: &Session) -> Result<()> {
    let path = session.local.worktree.as_deref().map(Path::new);
    for known in worktree::list(context.repo)? {
        if Some(known.path.as_path()) == path {
            worktree::put_back(&known)?;
        }
    }
    Ok(())
}

pub(crate) fn note(context: &Context<'_>, sid: SessionId, text: String) -> Result<()> {
    let mut writer = SessionWriter::open(&context.store, sid, context.redactor())?;
    writer.append(Body::Notice { text })?;
    writer.close()?;
    Ok(())
}
