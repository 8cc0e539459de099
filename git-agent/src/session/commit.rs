//! Committing a session's work on its branch.

use super::Session;
use super::context::Context;
use super::work;
use crate::error::Result;
use crate::git::ObjectId;

/// Commits everything in a session's worktree, with hooks and identity as `git commit` there would. `None` when there is
/// nothing to commit.
pub fn commit(
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
    git().args(["add", "--all"]).run()?;
    let staged = git()
        .args(["diff", "--cached", "--quiet", "--ignore-submodules=dirty"])
        .answer()?;
    if staged.code == Some(0) {
        return Ok(None);
    }
    let subject = message.map_or_else(|| work::subject(session), str::to_owned);
    let message = format!("{subject}\n\nAgent-Session: {}\n", session.sid);
    git()
        .with_hooks()
        .durable()
        .args(["commit", "--quiet", "-F", "-"])
        .input(message)
        .run()?;
    let tip = git().args(["rev-parse", "HEAD"]).run()?.text();
    context.repo.parse_id(&tip).map(Some)
}
