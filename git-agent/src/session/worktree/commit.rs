//! Commits a session's work on its branch.

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::ObjectId;
use crate::model::merge::message;
use crate::model::session::Session;
use crate::session::caller::{self, Act};
use crate::session::control::idle;
use crate::session::supervisor::launch;
use crate::session::task_text::task_text;
use crate::session::worktree::work;

/// How to commit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'m> {
    /// The message; made from the task otherwise.
    pub message: Option<&'m str>,
    /// Whether to commit even while the agent works.
    pub force: bool,
}

/// Commits a session's work for the user. `None` when there is nothing to commit.
pub fn commit(
    context: &Context<'_>,
    session: &Session,
    options: Options<'_>,
) -> Result<Option<ObjectId>> {
    caller::permit(context, Act::Commit, [session])?;
    let commit = || commit_all(context, session, options.message);
    if options.force {
        return commit();
    }
    let name = &session.name;
    idle::require_idle(context, session).map_err(|error| {
        error.hint(format!(
            "or commit the current files: git agent commit --force {}",
            shell_word(name)
        ))
    })?;
    // An update or a rewind at the same time would take the branch back to before the commit.
    launch::without_supervisor(context, session.sid, commit)?.ok_or_else(|| {
        Error::fatal(format!("another command is changing session '{name}'"))
            .hint(format!("git agent commit {}", shell_word(name)))
    })
}

/// Commits everything in a session's worktree, with hooks and identity as `git commit` there would. `None` when there is
/// nothing to commit.
pub fn commit_all(
    context: &Context<'_>,
    session: &Session,
    message: Option<&str>,
) -> Result<Option<ObjectId>> {
    let checkout = work::require_checkout(context, session)?;
    let git = || {
        context
            .repo
            .git_at(&checkout.admin_dir, &checkout.top)
            .env_remove("GIT_OPTIONAL_LOCKS")
    };
    let repo = context.repo;
    repo.clear_recorded_locks()?;
    let branch = session.branch.as_deref().unwrap_or_default();
    let locks = repo.locks_of_refs([format!("refs/heads/{branch}").as_str()]);
    let own = repo.locks_of_checkout(&checkout);
    let _record = repo.record_locks(locks.into_iter().chain(own))?.durable()?;
    git().args(["add", "--all"]).run()?;
    let staged = git()
        .args(["diff", "--cached", "--quiet", "--ignore-submodules=dirty"])
        .answer()?;
    if staged.code == Some(0) {
        return Ok(None);
    }
    let tree = repo.parse_id(&git().arg("write-tree").run()?.text())?;
    let head = repo.head_of(&checkout)?;
    repo.refuse_bad_paths(head.as_slice(), tree)?;
    let message = match message {
        Some(text) => message::with_trailer(text, session),
        None => message::of_work(session, task_text(context)?),
    };
    git()
        .with_hooks()
        .durable()
        .args(["commit", "--quiet", "-F", "-"])
        .input(message)
        .run()?;
    let tip = git().args(["rev-parse", "HEAD"]).run()?.text();
    context.repo.parse_id(&tip).map(Some)
}
