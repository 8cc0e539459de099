//! Applies a session's changes to the current checkout without committing them.
//!
//! The changes are merged with HEAD and never overwrite uncommitted files. They are written through a copy of the
//! index, so that git's own checks apply and the user's index does not change. The copy is kept: undo compares the
//! files with it.

use std::fs;

use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::fault;
use crate::git::command::Git;
use crate::git::merge::Merged;
use crate::git::snapshot::capture::Checkout;
use crate::merge::candidates;
use crate::merge::landing::journal::{Applied, Asked, Journal, MergeLock};
use crate::model::merge::{Attempt, message};
use crate::session::control;
use crate::session::task_text::task_text;
use crate::store::list::Listed;

/// Applies a session's changes to the checkout that the command runs in. Returns the changed paths.
pub fn apply(context: &Context<'_>, right: &MergeLock, listed: &Listed) -> Result<Vec<String>> {
    let (repo, session) = (context.repo, &listed.session);
    control::idle::require_idle(context, session)?;
    let at = repo.checkout()?;
    let head = repo
        .head_of(&at)?
        .ok_or_else(|| Error::fatal("this branch has no commits yet"))?;
    let name = &session.name;
    let work = match candidates::look(context, listed, false)? {
        Attempt::Made(work) => work,
        Attempt::Refused(why) => {
            return Err(Error::fatal(format!("cannot apply '{name}': {why}")));
        }
    };
    if work.checkout.as_ref().is_some_and(|own| own.top == at.top) {
        return Err(Error::fatal(format!(
            "cannot apply '{name}' to its own worktree"
        )));
    }
    if repo.merge_base(head, work.tip)?.is_none() {
        return Err(Error::fatal(format!(
            "'{name}' shares no history with HEAD"
        )));
    }
    let commit = if work.is_committed() {
        work.tip
    } else {
        let message = message::of_work(session, task_text(context)?);
        repo.commit_tree(work.tree, &[work.tip], &message)?
    };
    let tree = match repo.merge_commits(head, commit)? {
        Merged::Clean(tree) => tree,
        Merged::Conflict(paths) => {
            let shown: Vec<String> = paths.iter().map(|path| format!("'{path}'")).collect();
            return Err(Error::fatal(format!(
                "'{name}' conflicts with HEAD: {}",
                shown.join(", ")
            ))
            .hint("nothing was changed"));
        }
    };
    if tree == repo.tree_of(head)? {
        return Err(Error::negative(format!(
            "HEAD already has all changes of '{name}'"
        )));
    }
    if let Some(what) = repo.obstacle(&at, head, tree)? {
        return Err(Error::fatal(format!("cannot apply '{name}': {what}"))
            .hint("nothing was changed; commit or stash these changes, then apply again"));
    }
    let mut journal = Journal::begin(context, Asked::default());
    let index = right.dir().join(format!("{}.index", journal.id));
    let applied = Applied {
        top: at.top.clone(),
        admin_dir: at.admin_dir.clone(),
        before: head.to_string(),
        after: tree.to_string(),
        index: index.clone(),
        name: name.clone(),
    };
    journal.applying = Some(applied.clone());
    right.note(&journal)?;
    copy_index(&applied)?;
    fault::point("apply.index.copied").context(|| "cannot apply".into())?;
    let answer = git(context, &applied)
        .args(["read-tree", "-m", "-u", &applied.before, &applied.after])
        .run();
    if let Err(error) = answer {
        // If restoring the files fails too, the journal stays for the next try.
        put_back(context, &applied).map_err(|then| {
            Error::fatal(format!("{}; and then: {}", error.message(), then.message()))
                .hint("git agent merge --abort    once there is room again")
        })?;
        right.forget()?;
        let _ = fs::remove_file(&index);
        return Err(error.hint("nothing was changed"));
    }
    fault::point("apply.written").context(|| "cannot apply".into())?;
    right.keep(&journal)?;
    let changed = repo
        .git_common()
        .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames"])
        .args([&applied.before, &applied.after])
        .run()?;
    let text = String::from_utf8_lossy(&changed.stdout).into_owned();
    Ok(text.split_terminator('\0').map(str::to_owned).collect())
}

fn copy_index(applied: &Applied) -> Result<()> {
    let from = applied.admin_dir.join("index");
    fs::copy(&from, &applied.index)
        .map(|_| ())
        .context(|| format!("cannot copy '{}'", from.display()))
}

/// Returns a call of git on the checkout with the kept copy of its index.
fn git(context: &Context<'_>, applied: &Applied) -> Git {
    context
        .repo
        .git_at(&applied.admin_dir, &applied.top)
        .env_remove("GIT_OPTIONAL_LOCKS")
        .index_file(&applied.index)
}

/// Restores the files that a failed or killed apply has changed. Returns the files that have been edited since; they
/// stay as they are.
pub fn put_back(context: &Context<'_>, applied: &Applied) -> Result<Vec<String>> {
    let repo = context.repo;
    let _ = fs::remove_file(applied.index.with_extension("index.lock"));
    let at = Checkout {
        admin_dir: applied.admin_dir.clone(),
        top: applied.top.clone(),
    };
    let (before, after) = (
        repo.parse_id(&applied.before)?,
        repo.parse_id(&applied.after)?,
    );
    repo.take_back(&at, &applied.index, before, after)
}

/// Undoes applied changes. Refuses, and changes nothing, if one of the files has been edited since.
pub fn take_back(context: &Context<'_>, applied: &Applied) -> Result<()> {
    let _ = fs::remove_file(applied.index.with_extension("index.lock"));
    let repo = context.repo;
    let (before, after) = (
        repo.parse_id(&applied.before)?,
        repo.parse_id(&applied.after)?,
    );
    // git would overwrite an ignored file without asking.
    if let Some(path) = repo.anything_new_at(&applied.top, after, before)? {
        return Err(Error::fatal(format!(
            "cannot undo the changes of '{}': they deleted '{path}', and it exists again",
            applied.name
        ))
        .hint("nothing was changed; move the file away, then undo again"));
    }
    git(context, applied)
        .args(["read-tree", "-m", "-u", &applied.after, &applied.before])
        .run()
        .map(|_| ())
        .map_err(|error| {
            Error::fatal(format!(
                "cannot undo the changes of '{}': {}",
                applied.name,
                error.message()
            ))
            .hint("nothing was changed")
        })
}
