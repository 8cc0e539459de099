//! Bringing a session up to date: the newest state of the branch it goes to becomes part of the session's own branch.

use std::str::FromStr;

use crate::config::settings;
use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::ObjectId;
use crate::git::merge::{Merged, NewCommit};
use crate::git::snapshot::rebase_dirty::Taken;
use crate::merge::landing::move_session::{self, Place};
use crate::model::event::Body;
use crate::model::session::Session;
use crate::session::worktree::hold::while_still;
use crate::store::log::writer::SessionWriter;

/// How a session is brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum How {
    /// By a merge commit on the session's branch.
    #[default]
    Merge,
    /// By making the session's commits again on top.
    Rebase,
}

impl How {
    /// The words of `agent.updateStyle`.
    pub const WORDS: [&'static str; 2] = ["merge", "rebase"];

    /// Returns what is configured.
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

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing new.
    Current,
    /// The session has it all.
    Updated {
        /// Where its branch was.
        before: ObjectId,
        /// Where it is now.
        after: ObjectId,
        /// How many commits of the other branch it lacked.
        commits: u64,
    },
    /// Its commits conflict with the branch at these paths. Nothing was changed.
    Conflict(Vec<String>),
    /// What it has not committed conflicts with the branch at these paths. Nothing was changed.
    Uncommitted(Vec<String>),
}

/// Brings a session up to date with a branch. Uncommitted work stays as it is; nothing happens while a turn runs.
pub fn update(context: &Context<'_>, session: &Session, from: &str, how: How) -> Result<Outcome> {
    while_still(context, session, || {
        let place = move_session::place(context, session)?;
        let outcome = update_still(context, session, &place, from, how)?;
        if let Outcome::Updated { before, after, .. } = &outcome {
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

/// Returns the branch that a session is brought up to date with unless another is named.
pub fn parent_of(session: &Session) -> Result<&str> {
    session.parent.as_deref().ok_or_else(|| {
        Error::fatal(format!(
            "session '{}' was made from no branch",
            session.name
        ))
        .hint(format!(
            "git agent update --from BRANCH {}",
            shell_word(&session.name)
        ))
    })
}

fn update_still(
    context: &Context<'_>,
    session: &Session,
    place: &Place,
    from: &str,
    how: How,
) -> Result<Outcome> {
    let repo = context.repo;
    let theirs = require_branch(context, from)?;
    if repo.is_ancestor(theirs, place.tip)? {
        return Ok(Outcome::Current);
    }
    let after = match how {
        // What has no commits of its own simply moves on.
        _ if repo.is_ancestor(place.tip, theirs)? => theirs,
        How::Merge => match repo.merge_commits(place.tip, theirs)? {
            Merged::Clean(tree) => repo.make_commit(&NewCommit {
                tree,
                parents: &[place.tip, theirs],
                message: &message(session, from, place),
                author: None,
                sign: true,
            })?,
            Merged::Conflict(paths) => return Ok(Outcome::Conflict(paths)),
        },
        How::Rebase => match rebase(context, place.tip, theirs)? {
            Ok(after) => after,
            Err(paths) => return Ok(Outcome::Conflict(paths)),
        },
    };
    let (_, commits) = repo.ahead_behind(place.tip, theirs)?;
    match move_session::advance(context, session, place, after, "before update")? {
        Taken::Done => Ok(Outcome::Updated {
            before: place.tip,
            after,
            commits,
        }),
        Taken::Conflict(paths) => Ok(Outcome::Uncommitted(paths)),
    }
}

/// Returns the tip of a branch, or says that there is none.
pub fn require_branch(context: &Context<'_>, name: &str) -> Result<ObjectId> {
    context.repo.branch_tip(name)?.ok_or_else(|| {
        Error::fatal(format!("there is no branch '{name}'")).hint("git branch --list")
    })
}

/// Returns what the commit that brings a branch into a session's says, as git would.
pub fn message(session: &Session, from: &str, place: &Place) -> String {
    let branch = place
        .branch
        .strip_prefix("refs/heads/")
        .unwrap_or(&place.branch);
    format!(
        "Merge branch '{from}' into {branch}\n\nAgent-Session: {}\n",
        session.sid
    )
}

/// Makes the commits that another one lacks again on top of it. Merges are left out, and so is what is there already.
fn rebase(
    context: &Context<'_>,
    tip: ObjectId,
    onto: ObjectId,
) -> Result<std::result::Result<ObjectId, Vec<String>>> {
    let repo = context.repo;
    let mut now = onto;
    for picked in repo.commits_between(onto, tip)? {
        let [parent] = picked.parents.as_slice() else {
            continue;
        };
        let tree = match repo.merge_with_base(*parent, now, picked.id)? {
            Merged::Clean(tree) => tree,
            Merged::Conflict(paths) => return Ok(Err(paths)),
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
    Ok(Ok(now))
}

/// Records that a session's branch took another one over: from there on, what that one had is not the session's work.
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
