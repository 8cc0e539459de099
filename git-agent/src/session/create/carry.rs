//! Continuing in a worktree: the uncommitted changes of the current checkout move into a new session's.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::object::Signature;
use crate::session::create::{self, Created, Options};
use crate::session::worktree::work;
use crate::store::refname;

/// Makes a session and moves the uncommitted changes of the current checkout into it. When anything fails the checkout is
/// as it was, byte for byte, and no session is left.
pub fn create(context: &Context<'_>, options: &Options) -> Result<Created> {
    let source = context.repo.checkout()?;
    let mut created = create::create(context, options)?;
    let session = &created.session;
    let (name, email) = context.repo.committer()?;
    let who = Signature {
        name,
        email,
        seconds: context.env.now().seconds(),
    };
    let carried = work::checkout(context, session).and_then(|destination| {
        let destination = destination.ok_or_else(|| Error::fatal("the new worktree is gone"))?;
        let nonce: String = context
            .env
            .random::<4>()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let keep = refname::lost(context.env.now().seconds(), &nonce, "carried");
        context.repo.carry(&source, &destination, &keep, &who)
    });
    match carried {
        Ok(Some(carried)) => {
            for left in carried.left_out {
                created.notices.push(format!("not carried over: {left}"));
            }
        }
        Ok(None) => created
            .notices
            .push("there were no changes to carry over".to_owned()),
        Err(error) => {
            create::undo(context, session)?;
            return Err(error);
        }
    }
    Ok(created)
}
