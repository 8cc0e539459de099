//! Updates a session: merges or rebases the newest state of its parent branch into the session's branch.

use std::str::FromStr;

use crate::config::settings;
use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::ObjectId;
use crate::git::merge::{Merged, NewCommit};
use crate::git::snapshot::rebase_dirty::Taken;
use crate::merge::landing::move_session::{self, SessionPlace};
use crate::model::event::Body;
use crate::model::session::Session;
use crate::session::worktree::hold::while_still;
use crate::store::log::writer::SessionWriter;

/// How to update a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum How {
    /// With a merge commit on the session's branch.
    #[default]
    Merge,
    /// By a rebase of the session's commits.
    Rebase,
}

impl How {
    /// The values of `agent.updateStyle`.
    pub const WORDS: [&'static str; 2] = ["merge", "rebase"];

    /// Returns the configured way.
    pub fn configured(context: &Context<'_>) -> Result<Self> {
        context.config.require(&settings::UPDATE_STYLE)?.parse()
    }
}

impl FromStr for How {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "merge" => Ok(How::Merge),
            "rebase" => Ok(How::Rebase),
            _ => Err(Error::usage(format!(
                "'{text}' is not one of {}",
                How::WORDS.join(", ")
            ))),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The session was up to date.
    Current,
    /// The session now contains the branch.
    Updated {
        /// The tip of its branch before.
        before: ObjectId,
        /// The tip of its branch now.
        after: ObjectId,
        /// How many commits of the other branch it lacked.
        commits: u64,
    },
    /// Its commits conflict with the branch at these paths. Nothing was changed.
    Conflict(Vec<String>),
    /// Its uncommitted changes conflict with the branch at these paths. Nothing was changed.
    Uncommitted(Vec<String>),
}

/// Updates a session from a branch. Uncommitted work stays as it is. Refuses while a turn runs.
pub fn update(
    context: &Context<'_>,
    session: &Session,
    from: &str,
    how: How,
) -> Result<UpdateOutcome> {
    while_still(context, session, || {
        let place = move_session::place(context, session)?;
        let outcome = update_still(context, session, &place, from, how)?;
        if let UpdateOutcome::Updated { before, after, .. } = &outcome {
            let text = format!("brought up to date with '{from}': {before} is now {after}");
            record(
                context,
                session,
                text,
                require_branch(context, from)?,
                *after,
            )?;
        }
        Ok(outcome)
    })
}

/// Returns the branch that a session is updated from by default.
pub fn parent_of(session: &Session) -> Result<&str> {
    session.parent.as_deref().ok_or_else(|| {
        Error::fatal(format!("session '{}' has no parent branch", session.name)).hint(format!(
            "git agent update --from BRANCH {}",
            shell_word(&session.name)
        ))
    })
}

fn update_still(
    context: &Context<'_>,
    session: &Session,
    place: &SessionPlace,
    from: &str,
    how: How,
) -> Result<UpdateOutcome> {
    let repo = context.repo;
    let theirs = require_branch(context, from)?;
    if repo.is_ancestor(theirs, place.tip)? {
        return Ok(UpdateOutcome::Current);
    }
    let after = match how {
        // A branch without commits of its own is fast-forwarded.
        _ if repo.is_ancestor(place.tip, theirs)? => theirs,
        How::Merge => match repo.merge_commits(place.tip, theirs)? {
            Merged::Clean(tree) => repo.make_commit(&NewCommit {
                tree,
                parents: &[place.tip, theirs],
                message: &message(session, from, place),
                author: None,
                sign: true,
            })?,
            Merged::Conflict(paths) => return Ok(UpdateOutcome::Conflict(paths)),
        },
        How::Rebase => match rebase(context, place.tip, theirs)? {
            Merged::Clean(after) => after,
            Merged::Conflict(paths) => return Ok(UpdateOutcome::Conflict(paths)),
        },
    };
    let (_, commits) = repo.ahead_behind(place.tip, theirs)?;
    match move_session::advance(context, session, place, after, "before update")? {
        Taken::Done => Ok(UpdateOutcome::Updated {
            before: place.tip,
            after,
            commits,
        }),
        Taken::Conflict(paths) => Ok(UpdateOutcome::Uncommitted(paths)),
    }
}

/// Returns the tip of a branch, or an error if it does not exist.
pub fn require_branch(context: &Context<'_>, name: &str) -> Result<ObjectId> {
    context.repo.branch_tip(name)?.ok_or_else(|| {
        Error::fatal(format!("branch '{name}' does not exist")).hint("git branch --list")
    })
}

/// Returns the message of the merge commit, in git's form.
pub fn message(session: &Session, from: &str, place: &SessionPlace) -> String {
    let branch = place
        .branch
        .strip_prefix("refs/heads/")
        .unwrap_or(&place.branch);
    format!(
        "Merge branch '{from}' into {branch}\n\nAgent-Session: {}\n",
        session.sid
    )
}

/// Rebases the commits that `onto` lacks, and returns the new tip. Merges and changes that are there already are left out.
fn rebase(context: &Context<'_>, tip: ObjectId, onto: ObjectId) -> Result<Merged> {
    let repo = context.repo;
    let mut now = onto;
    for picked in repo.commits_between(onto, tip)? {
        let [parent] = picked.parents.as_slice() else {
            continue;
        };
        let tree = match repo.merge_with_base(*parent, now, picked.id)? {
            Merged::Clean(tree) => tree,
            Merged::Conflict(paths) => return Ok(Merged::Conflict(paths)),
        };
        if tree == repo.tree_of(now)? {
            continue;
        }
        now = repo.make_commit(&NewCommit {
            tree,
            parents: &[now],
            message: &picked.message,
            author: Some(&picked.author),
            sign: true,
        })?;
    }
    Ok(Merged::Clean(now))
}

/// Records that a session's branch contains the other branch, so that its commits do not count as the session's work.
pub fn record(
    context: &Context<'_>,
    session: &Session,
    text: String,
    theirs: ObjectId,
    after: ObjectId,
) -> Result<()> {
    let mut writer = SessionWriter::open(&context.store, session.sid, context.redactor())?;
    if context.repo.is_ancestor(theirs, after)? {
        writer.append(Body::Set {
            key: "base".to_owned(),
            value: theirs.to_string().into(),
        })?;
    }
    writer.append(Body::Notice { text })?;
    writer.close()?;
    Ok(())
}
