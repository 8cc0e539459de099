//! Removes worktrees without loss: only merged or saved work is removed, and everything can be restored.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::merge::Merged;
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::scan::{Hidden, LeftOut};
use crate::git::worktree::unfinished::unfinished;
use crate::git::worktree::{self, Finding, ProvenSafe, Worktree};
use crate::git::{ObjectId, Repo};
use crate::model::event::Body;
use crate::model::session::{Session, State};
use crate::session::caller::{self, Act};
use crate::session::control::{archive, discard, state};
use crate::session::worktree::hold::while_all_still;
use crate::session::worktree::ignored_files::Ignored;
use crate::session::worktree::presence::{self, Alone};
use crate::session::worktree::{finish_restore, work};
use crate::session::{control, list};
use crate::store::list::{Listed, Scope};
use crate::store::log::writer::SessionWriter;

/// How often a worktree is looked at until two looks see the same.
const LOOKS: usize = 4;
/// The reason of the last snapshots.
const BEFORE: &str = "before clean";
const AT_WORK: &str = "it is at work";

/// The options of a clean.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Whether the sessions were named: then also those that are not merged go, once they are saved.
    pub named: bool,
    /// Whether sessions that failed stay whatever else holds.
    pub keep_failed: bool,
    /// Whether this is a dry run.
    pub dry_run: bool,
    /// Whether the sessions are given up: a branch goes whose tip the last snapshot has.
    pub discard: bool,
}

/// The result for one session's worktree and branch.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Cleaned {
    /// The session's name.
    pub name: String,
    /// The worktree that is gone, or would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// The branch that is gone, or would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The ignored files of the worktree, which snapshots do not contain.
    #[serde(skip_serializing_if = "Ignored::is_empty")]
    pub ignored: Ignored,
    /// Why something was kept, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

impl Cleaned {
    /// Returns the result for a session of which everything is still there.
    pub fn of(session: &Session) -> Self {
        Cleaned {
            name: session.name.clone(),
            worktree: None,
            branch: None,
            ignored: Ignored::default(),
            kept: Vec::new(),
        }
    }
}

/// Cleans up after sessions for the user, and archives sessions closed long ago if none was named. Returns also how
/// many were archived.
pub fn clean(
    context: &Context<'_>,
    chosen: &[Listed],
    options: Options,
) -> Result<(Vec<Cleaned>, usize)> {
    if !options.dry_run {
        caller::permit(context, Act::Clean, [])?;
    }
    // The worktree that this was started in may be gone before all is done.
    from_outside(context, |context| {
        let cleaned = put_away(context, chosen, options)?;
        let archived = if options.named || options.dry_run {
            0
        } else {
            archive::fold_old(context)?.sessions.len()
        };
        Ok((cleaned, archived))
    })
}

/// Removes the worktrees of sessions. Each is looked at by itself; trouble with one is said and stops no other.
pub fn put_away(
    context: &Context<'_>,
    chosen: &[Listed],
    options: Options,
) -> Result<Vec<Cleaned>> {
    from_outside(context, |context| clean_all(context, chosen, options))
}

/// Removes worktrees with the repository opened at its common directory: inside a worktree that is about to be removed,
/// git and we would look for its own git directory afterwards.
pub fn from_outside<T>(
    context: &Context<'_>,
    act: impl FnOnce(&Context<'_>) -> Result<T>,
) -> Result<T> {
    if !context.repo.is_linked_worktree() {
        return act(context);
    }
    let repo = Repo::open(context.env, context.repo.common_dir())?;
    act(&Context::new(context.env, &repo)?)
}

/// The state of one call.
struct Call<'c> {
    options: Options,
    chosen: Vec<&'c Session>,
    everyone: &'c [Listed],
    /// The worktrees that are gone, or would be.
    gone: Vec<String>,
}

fn clean_all(context: &Context<'_>, chosen: &[Listed], options: Options) -> Result<Vec<Cleaned>> {
    let everyone = list::list(context, Scope::Mine)?.sessions;
    let mine = chosen.iter().filter(|listed| listed.is_mine());
    let mut mine: Vec<&Session> = mine.map(|listed| &listed.session).collect();
    // A session that resolves a conflict of another one goes with it.
    let goes_too = |session: &&Session| {
        let chosen = |sid| mine.iter().any(|one| one.sid == sid);
        session.resolves().is_some_and(chosen) && !chosen(session.sid)
    };
    let resolvers: Vec<&Session> = (everyone.iter().map(|listed| &listed.session))
        .filter(|session| !session.status.is_closed())
        .filter(goes_too)
        .collect();
    mine.extend(resolvers);
    // Whose branch it is comes before those that only work in the worktree.
    mine.sort_by_key(|session| !is_own_branch(session));
    let mut call = Call {
        options,
        chosen: mine.clone(),
        everyone: &everyone,
        gone: Vec::new(),
    };
    let mut cleaned = Vec::new();
    for session in mine {
        let mut one = Cleaned::of(session);
        if let Err(error) = clean_one(context, session, &call, &mut one) {
            one.kept.push(error.message().to_owned());
        }
        call.gone.extend(one.worktree.clone());
        if one.worktree.is_some() || one.branch.is_some() || !one.kept.is_empty() {
            cleaned.push(one);
        }
    }
    if !options.dry_run {
        remove_empty_home(context);
    }
    Ok(cleaned)
}

/// Whether a session stays.
#[derive(Debug, PartialEq, Eq)]
enum Stay {
    /// It may go.
    No,
    /// It was not asked for, and is still of use: nothing to say about it.
    Silently,
    /// Something holds it, in words.
    Because(String),
}

fn stays(
    context: &Context<'_>,
    session: &Session,
    options: Options,
    integrated: bool,
) -> Result<Stay> {
    if !control::idle::is_idle(context, session)? {
        return Ok(Stay::Because(AT_WORK.to_owned()));
    }
    if options.keep_failed && matches!(session.status, State::Failed | State::Interrupted) {
        return Ok(Stay::Because(format!("it is {}", session.status)));
    }
    let wanted = options.named
        || session.status.is_closed()
        || match resolved(context, session)? {
            // The next try to resolve the conflict goes on with it.
            Some(resolved) => is_over(context, &resolved)?,
            None => integrated || discard::left_nothing(context, session)?,
        };
    Ok(if wanted { Stay::No } else { Stay::Silently })
}

impl<'c> Call<'c> {
    /// Returns the other sessions that work in a session's worktree.
    fn sharers(&self, session: &Session) -> Vec<&'c Session> {
        let others = self.everyone.iter().map(|listed| &listed.session);
        others
            .filter(|other| {
                other.sid != session.sid && other.local.worktree == session.local.worktree
            })
            .filter(|other| !other.status.is_closed())
            .collect()
    }

    /// Returns whether this call takes a session away, too.
    fn takes(&self, context: &Context<'_>, session: &Session) -> Result<bool> {
        let Some(chosen) = self.chosen.iter().find(|one| one.sid == session.sid) else {
            return Ok(false);
        };
        let tip = branch_tip(context.repo, chosen)?;
        let integrated = is_integrated(context.repo, chosen, tip)?;
        Ok(stays(context, chosen, self.options, integrated)? == Stay::No)
    }
}

fn clean_one(
    context: &Context<'_>,
    session: &Session,
    call: &Call<'_>,
    one: &mut Cleaned,
) -> Result<()> {
    let options = call.options;
    if let Some(path) = session.local.worktree.as_ref()
        && !is_own_branch(session)
        && call.gone.contains(path)
    {
        one.worktree = Some(path.clone());
        return note_removal(context, session, options);
    }
    if !options.dry_run && finish_restore::is_left(context, session)? {
        while_all_still(context, session, &[], || {
            finish_restore::sweep(context, session)
        })?;
    }
    let found = worktree_of(context.repo, session)?;
    let tip = branch_tip(context.repo, session)?;
    if found.is_none() && tip.is_none() {
        return Ok(());
    }
    if found.is_none()
        && let Some(moved) = work::moved(context, session)?
    {
        // The user may have taken it over: `doctor --fix` must record the move first.
        one.kept.push(format!(
            "its worktree was moved to '{}'; 'git agent doctor --fix' records that",
            moved.path.display()
        ));
        return Ok(());
    }
    let integrated = is_integrated(context.repo, session, tip)?;
    match stays(context, session, options, integrated)? {
        Stay::No => {}
        Stay::Silently => return Ok(()),
        Stay::Because(why) => {
            one.kept.push(why);
            return Ok(());
        }
    }
    let sharers = call.sharers(session);
    let mut left = Vec::new();
    for other in &sharers {
        if !call.takes(context, other)? {
            left.push(format!("'{}'", other.name));
        }
    }
    if !left.is_empty() {
        let names = left.join(", ");
        one.kept
            .push(format!("it shares its worktree with {names}"));
        return Ok(());
    }
    if !options.dry_run && control::idle::require_idle(context, session).is_err() {
        one.kept.push(AT_WORK.to_owned());
        return Ok(());
    }
    if let Some(found) = found
        && !remove_worktree(context, (session, &sharers), &found, options, one)?
    {
        return Ok(());
    }
    match (session.branch.as_deref(), tip) {
        (Some(branch), Some(tip))
            if is_own_branch(session)
                && (integrated
                    || adds_nothing(context, session, Some(tip))?
                    || discard::is_spare(context, session, tip, options.discard)?) =>
        {
            remove_branch(context, session, branch, tip, options, one)?;
        }
        (Some(branch), Some(_)) if one.worktree.is_some() => {
            one.kept.push(format!("branch '{branch}' is not merged"));
        }
        _ => {}
    }
    let with = call
        .chosen
        .iter()
        .find(|other| session.resolves() == Some(other.sid));
    if let Some(with) = with
        && !session.status.is_closed()
        && !options.dry_run
    {
        let reason = format!("cleaned with '{}'", with.name);
        state::set_state(context, session.sid, State::Discarded, &reason)?;
    }
    Ok(())
}

/// Returns the session whose conflict a session resolves.
fn resolved(context: &Context<'_>, session: &Session) -> Result<Option<Session>> {
    match session.resolves() {
        Some(sid) => context.store.session(sid),
        None => Ok(None),
    }
}

fn is_over(context: &Context<'_>, session: &Session) -> Result<bool> {
    let tip = branch_tip(context.repo, session)?;
    Ok(session.status.is_closed() || is_integrated(context.repo, session, tip)?)
}

/// Returns whether the branch of a session that resolves a conflict has no commit besides those of the session it
/// resolves for.
fn adds_nothing(context: &Context<'_>, session: &Session, tip: Option<ObjectId>) -> Result<bool> {
    let base = crate::session::worktree::base::recorded(context.repo, session.base.as_deref());
    Ok(session.resolves().is_some() && tip.is_some() && tip == base)
}

fn note_removal(context: &Context<'_>, session: &Session, options: Options) -> Result<()> {
    if options.dry_run {
        return Ok(());
    }
    let mut writer = SessionWriter::open(&context.store, session.sid, context.redactor())?;
    writer.append(Body::Notice {
        text: "the worktree was removed; it can be restored".to_owned(),
    })?;
    writer.close()?;
    Ok(())
}

/// A session in another's worktree has no branch of its own to lose.
fn is_own_branch(session: &Session) -> bool {
    session.settings.shares.is_none()
}

fn worktree_of(repo: &Repo, session: &Session) -> Result<Option<Worktree>> {
    let Some(path) = session.local.worktree.as_deref() else {
        return Ok(None);
    };
    let all = worktree::list(repo)?;
    Ok(all
        .into_iter()
        .find(|known| !known.is_main() && known.path == std::path::Path::new(path))
        .filter(|known| !known.is_initializing()))
}

fn branch_tip(repo: &Repo, session: &Session) -> Result<Option<ObjectId>> {
    session
        .branch
        .as_deref()
        .map_or(Ok(None), |branch| repo.branch_tip(branch))
}

/// Returns whether everything on a session's branch is in its parent already, as commits or as their content.
pub fn is_integrated(repo: &Repo, session: &Session, tip: Option<ObjectId>) -> Result<bool> {
    let (Some(tip), Some(parent)) = (tip, session.parent.as_deref()) else {
        return Ok(false);
    };
    if session.branch.as_deref() == Some(parent) {
        return Ok(false);
    }
    let Some(target) = repo.branch_tip(parent)? else {
        return Ok(false);
    };
    if repo.is_ancestor(tip, target)? {
        // A branch that never got a commit of its own has nothing to be merged.
        return Ok(session.base.as_deref() != Some(tip.to_string().as_str())
            || session.status == State::Merged);
    }
    // Squashed or rebased: merging it once more would change nothing.
    let target_tree = repo.tree_of(target)?;
    Ok(matches!(repo.merge_commits(target, tip), Ok(Merged::Clean(tree)) if tree == target_tree))
}

fn remove_worktree(
    context: &Context<'_>,
    (session, sharers): (&Session, &[&Session]),
    found: &Worktree,
    options: Options,
    one: &mut Cleaned,
) -> Result<bool> {
    if let Some(reason) = &found.locked {
        let why = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        one.kept.push(format!("its worktree is locked{why}"));
        return Ok(false);
    }
    // A removal that was interrupted begins again with all there was.
    worktree::put_back(found)?;
    match worktree::inspect(found) {
        Finding::Foreign => {
            one.kept.push(format!(
                "'{}' is not its worktree any more; 'git agent doctor' has details",
                found.path.display()
            ));
            return Ok(false);
        }
        Finding::Missing => {
            let near: Vec<_> = found.path.parent().map(Into::into).into_iter().collect();
            if let Some(moved) = worktree::search_moved(found, &near) {
                one.kept
                    .push(format!("its worktree was moved to '{}'", moved.display()));
                return Ok(false);
            }
            one.worktree = Some(found.path.display().to_string());
            if !options.dry_run {
                let own = found.admin_dir.clone();
                worktree::prune_missing(context.repo, |known| known.admin_dir == own)?;
            }
            return Ok(true);
        }
        Finding::InPlace => {}
    }
    let checkout = Checkout {
        admin_dir: found.admin_dir.clone(),
        top: found.path.clone(),
    };
    // Before the branch: a rebase is on none.
    if let Some(what) = operation(session, &checkout) {
        one.kept.push(in_progress(what));
        return Ok(false);
    }
    let own = session.branch.as_deref().unwrap_or_default();
    if found.branch.as_deref() != Some(format!("refs/heads/{own}").as_str()) {
        let other = found.branch.as_deref().map_or_else(
            || "no branch".to_owned(),
            |full| {
                format!(
                    "branch '{}'",
                    full.strip_prefix("refs/heads/").unwrap_or(full)
                )
            },
        );
        one.kept
            .push(format!("its worktree is on {other}, not on branch '{own}'"));
        return Ok(false);
    }
    let Some(_alone) = Alone::take(context, &found.admin_dir)? else {
        one.kept.push(presence::who(session.sid));
        return Ok(false);
    };
    if !options.dry_run {
        finish_restore::finish(context, session, &checkout)?;
    }
    let ignored = Ignored::find(context, &checkout)?;
    if options.dry_run {
        let seen = context.repo.capture(&checkout, Hidden::Look)?;
        refuse_unsaved(context, &checkout, seen.left_out)?;
        one.ignored = ignored;
        one.worktree = Some(found.path.display().to_string());
        return Ok(true);
    }
    while_all_still(context, session, sharers, || {
        // Each finds its work in its own snapshots.
        for other in sharers {
            let store = &context.store;
            store.take_snapshot(other.sid, None, BEFORE, &checkout)?;
        }
        take_away(context, session, found, (BEFORE, &ignored))
    })?;
    one.ignored = ignored;
    one.worktree = Some(found.path.display().to_string());
    note_removal(context, session, options)?;
    Ok(true)
}

/// Removes a session's worktree once all of it is in a snapshot, and the small ignored files beside it.
///
/// The caller holds the session and is alone in the worktree. A process that writes there anyway is noticed: the last
/// snapshot is taken after the folder was renamed.
pub(crate) fn take_away(
    context: &Context<'_>,
    session: &Session,
    found: &Worktree,
    (reason, ignored): (&str, &Ignored),
) -> Result<()> {
    let snapshot = |at: &Checkout| -> Result<bool> {
        let taken = context.store.take_snapshot(session.sid, None, reason, at)?;
        refuse_unsaved(context, at, taken.left_out)?;
        let whole = context.repo.read_snapshot(taken.id)?;
        let proven = context.repo.prove_restorable(at, &whole);
        proven.map_err(|error| {
            let message = error.message();
            Error::fatal(format!("its worktree could not be restored: {message}"))
        })?;
        Ok(taken.is_new)
    };
    let here = Checkout {
        admin_dir: found.admin_dir.clone(),
        top: found.path.clone(),
    };
    snapshot(&here)?;
    // The user may have begun one just now.
    if let Some(what) = operation(session, &here) {
        return Err(
            Error::fatal(in_progress(what)).hint(format!("finish or abort the {what} first"))
        );
    }
    let id = found.id.clone().unwrap_or_default();
    worktree::remove_after(context.repo, &id, ProvenSafe::at(found.head), |aside| {
        ignored.keep(context, session.sid, aside)?;
        for _ in 0..LOOKS {
            if !snapshot(aside)? {
                return Ok(());
            }
        }
        Err(Error::fatal("another process still writes to its worktree"))
    })?;
    Ok(())
}

/// Returns the unfinished operation of the user or the agent in a worktree. The merge in the worktree of a session that
/// resolves a conflict is ours: the next try opens it again.
fn operation(session: &Session, at: &Checkout) -> Option<&'static str> {
    unfinished(at).filter(|_| session.resolves().is_none())
}

fn in_progress(what: &str) -> String {
    format!("a {what} is in progress in its worktree, which a snapshot cannot keep")
}

/// Fails if something is in a worktree that no snapshot holds, and names it.
fn refuse_unsaved(context: &Context<'_>, at: &Checkout, mut left_out: Vec<LeftOut>) -> Result<()> {
    left_out.extend(context.repo.git_names_in(at)?);
    match left_out.first() {
        Some(first) => Err(Error::fatal(format!(
            "its worktree has files that a snapshot cannot keep: {first}"
        ))),
        None => Ok(()),
    }
}

fn remove_branch(
    context: &Context<'_>,
    session: &Session,
    branch: &str,
    tip: ObjectId,
    options: Options,
    one: &mut Cleaned,
) -> Result<()> {
    let full = format!("refs/heads/{branch}");
    let elsewhere = worktree::list(context.repo)?.into_iter().find(|known| {
        known.branch.as_deref() == Some(full.as_str())
            && session.local.worktree.as_deref().map(std::path::Path::new)
                != Some(known.path.as_path())
    });
    if let Some(elsewhere) = elsewhere {
        let place = elsewhere.path.display();
        one.kept
            .push(format!("branch '{branch}' is checked out in '{place}'"));
        return Ok(());
    }
    if !options.dry_run {
        context.store.keep_lost(&full, tip)?;
        let change = RefChange {
            name: full,
            expected: Expected::At(tip),
            new: None,
        };
        if context.repo.swap_refs(&[change])? == Swap::Stale {
            one.kept.push(format!("branch '{branch}' moved just now"));
            return Ok(());
        }
    }
    one.branch = Some(branch.to_owned());
    Ok(())
}

/// Removes the directory of worktrees once it is empty.
fn remove_empty_home(context: &Context<'_>) {
    if let Ok(dir) = crate::session::create::location::worktree_dir(context) {
        // Fails when something is in it, which is the point.
        let _ = std::fs::remove_dir(dir);
    }
}
