//! Resolves the conflicts of a session with its target branch. The result is a merge of that branch into the session's
//! own branch, so that the session merges cleanly afterwards. An earlier approval becomes stale, because the work has
//! changed.

pub mod auto;
pub mod check;
pub mod hand;
mod intent;

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::merge::NewCommit;
use crate::git::merge::batch::Conflict;
use crate::git::object::Batch;
use crate::git::snapshot::rebase_dirty::Taken;
use crate::git::{ObjectId, Repo};
use crate::merge::conflicts::{Look, Side};
use crate::merge::landing::move_session::{self, SessionPlace};
use crate::merge::update;
use crate::model::session::Session;
use crate::session::worktree::commit;
use crate::session::worktree::hold::while_still;

/// The end of a resolution by an agent.
#[derive(Debug)]
pub enum ByAgent {
    /// The session merges cleanly.
    NoConflict,
    /// The user did not accept the resolution.
    Refused,
    /// The session is now at this commit.
    Taken(ObjectId),
}

/// Lets an agent resolve the conflict of a session with a branch, for the user.
pub fn by_agent(
    context: &Context<'_>,
    session: &Session,
    target: &str,
    options: &auto::Options,
    mut consent: auto::Consent<'_>,
    tell: &mut dyn FnMut(String),
) -> Result<ByAgent> {
    hand::require_none_open(context, session)?;
    consent.require_possible()?;
    let Some(case) = Case::open(context, session, target)? else {
        return Ok(ByAgent::NoConflict);
    };
    let taken = auto::resolve(context, &case, options, &mut consent, tell)?;
    Ok(taken.map_or(ByAgent::Refused, |resolution| {
        ByAgent::Taken(resolution.commit)
    }))
}

/// A session that conflicts with a branch.
#[derive(Debug)]
pub struct Case {
    pub session: Session,
    /// The session's branch and worktree.
    pub place: SessionPlace,
    /// The branch it conflicts with.
    pub target: String,
    /// The tip of that branch.
    pub theirs: ObjectId,
    /// The conflicting paths.
    pub conflicts: Vec<Conflict>,
}

impl Case {
    /// Returns the conflict between a session and a branch; `None` if they merge cleanly. Commits the session's
    /// uncommitted work, because a merge commit needs commits on both sides.
    pub fn open(context: &Context<'_>, session: &Session, target: &str) -> Result<Option<Self>> {
        let theirs = update::require_branch(context, target)?;
        let repo = context.repo;
        let found = while_still(context, session, || {
            let mut place = move_session::place(context, session)?;
            if repo.merge_base(place.tip, theirs)?.is_none() {
                return Err(Error::fatal(format!(
                    "session '{}' and branch '{target}' share no history",
                    session.name
                )));
            }
            if let Some(at) = &place.checkout {
                let store = &context.store;
                store.take_snapshot(session.sid, None, "before resolve", at)?;
            }
            // Check for conflicts, and that we can resolve them, before anything is committed.
            let side = Side::of_session(context, session, Look::Live)?
                .ok_or_else(|| Error::fatal(format!("session '{}' has no commit", session.name)))?;
            let also: Vec<_> = side.missing(repo)?.into_iter().collect();
            let Some(mut conflicts) = conflicts(repo, side.commit, theirs, &also)? else {
                return Ok(None);
            };
            refuse_submodules(&conflicts)?;
            if place.checkout.is_some() && commit::commit_all(context, session, None)?.is_some() {
                place = move_session::place(context, session)?;
                // Hooks may have changed the commit.
                match self::conflicts(repo, place.tip, theirs, &[])? {
                    Some(now) => conflicts = now,
                    None => return Ok(None),
                }
            }
            Ok(Some((place, conflicts)))
        })?;
        Ok(found.map(|(place, conflicts)| Case {
            session: session.clone(),
            place,
            target: target.to_owned(),
            theirs,
            conflicts,
        }))
    }

    /// Returns the conflicting paths as text.
    pub fn paths(&self) -> Vec<String> {
        self.conflicts
            .iter()
            .map(|conflict| String::from_utf8_lossy(&conflict.path).into_owned())
            .collect()
    }

    /// Makes the merge commit of a resolution. No ref points at it yet.
    pub fn commit(&self, repo: &Repo, tree: ObjectId, trailers: &[String]) -> Result<ObjectId> {
        let mut message = update::message(&self.session, &self.target, &self.place);
        for trailer in trailers {
            message.push_str(&format!("{trailer}\n"));
        }
        repo.make_commit(&NewCommit {
            tree,
            parents: &[self.place.tip, self.theirs],
            message: &message,
            author: None,
            sign: true,
        })
    }

    /// Moves the session's branch and worktree to a resolution.
    pub fn land(&self, context: &Context<'_>, commit: ObjectId) -> Result<()> {
        let sides = [self.place.tip, self.theirs];
        land(context, &self.session, sides, commit, &self.target)
    }
}

/// Moves a session's branch and worktree to a merge, if the session has not moved.
fn land(
    context: &Context<'_>,
    session: &Session,
    [expected, theirs]: [ObjectId; 2],
    commit: ObjectId,
    target: &str,
) -> Result<()> {
    let name = &session.name;
    while_still(context, session, || {
        let place = move_session::place(context, session)?;
        if place.tip != expected {
            return Err(Error::fatal(format!(
                "session '{name}' has changed since the resolution began"
            ))
            .hint(format!(
                "git agent merge resolve --abort {}",
                shell_word(name)
            ))
            .hint(format!("git agent merge resolve {}", shell_word(name))));
        }
        match move_session::advance(context, session, &place, commit, "before resolve")? {
            Taken::Done => {}
            Taken::Conflict(paths) => {
                let first = paths.first().map(String::as_str).unwrap_or_default();
                return Err(
                    Error::fatal(format!("uncommitted work in '{first}' is in the way"))
                        .hint(format!("git agent commit {}", shell_word(name))),
                );
            }
        }
        let text = format!("conflicts with '{target}' were resolved: {commit}");
        update::record(context, session, text, theirs, commit)
    })
}

/// Returns the conflicts of two commits; `None` if they merge cleanly.
fn conflicts(
    repo: &Repo,
    ours: ObjectId,
    theirs: ObjectId,
    also: &[Batch],
) -> Result<Option<Vec<Conflict>>> {
    let mut previews = repo.preview_merges(&[(ours, theirs)], Some(ours), also)?;
    let preview = previews
        .pop()
        .ok_or_else(|| Error::fatal("git merge-tree reported no result"))?;
    Ok((!preview.clean).then_some(preview.conflicts))
}

/// Refuses conflicts in submodules: only the user can choose the right commit.
fn refuse_submodules(conflicts: &[Conflict]) -> Result<()> {
    let is_link = |conflict: &&Conflict| {
        [&conflict.base, &conflict.ours, &conflict.theirs]
            .into_iter()
            .flatten()
            .any(|stage| stage.mode == 0o160_000)
    };
    match conflicts.iter().find(is_link) {
        None => Ok(()),
        Some(conflict) => {
            let path = String::from_utf8_lossy(&conflict.path).into_owned();
            Err(Error::fatal(format!("submodule '{path}' is in conflict"))
                .hint("choose its commit yourself: run git merge in the session's worktree"))
        }
    }
}
