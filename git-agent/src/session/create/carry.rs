//! Moves the uncommitted changes of the current checkout into a new session's worktree.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::object::Signature;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::move_changes::Carried;
use crate::model::session::Session;
use crate::session::create::{self, Created, Options};
use crate::session::worktree::work;
use crate::store::refname;

/// Makes a session and moves the uncommitted changes of the current checkout into it. When anything fails the checkout is
/// as it was, byte for byte, and no session is left.
pub fn create(context: &Context<'_>, options: &Options) -> Result<Created> {
    let source = context.repo.checkout()?;
    let mut created = create::create(context, options)?;
    let session = &created.session;
    let carried =
        destination(context, session).and_then(|destination| carry(context, &source, &destination));
    match carried {
        Ok(Some(carried)) => {
            for left in carried.left_out {
                created.notices.push(format!("not carried over: {left}"));
            }
        }
        Ok(None) => created.notices.push("no changes to carry over".to_owned()),
        Err(error) => {
            create::undo(context, session)?;
            return Err(error);
        }
    }
    Ok(created)
}

/// Moves the changes of a session that never ran back into the current checkout.
pub fn take_back(context: &Context<'_>, session: &Session) -> Result<()> {
    let source = context.repo.checkout()?;
    carry(context, &destination(context, session)?, &source)?;
    Ok(())
}

fn destination(context: &Context<'_>, session: &Session) -> Result<Checkout> {
    work::checkout(context, session)?.ok_or_else(|| Error::fatal("the new worktree is gone"))
}

fn carry(context: &Context<'_>, from: &Checkout, to: &Checkout) -> Result<Option<Carried>> {
    let (name, email) = context.repo.committer()?;
    let who = Signature {
        name,
        email,
        seconds: context.env.now().seconds(),
    };
    let nonce: String = context
        .env
        .random::<4>()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let keep = refname::lost(context.env.now().seconds(), &nonce, "carried");
    context.repo.carry(from, to, &keep, &who)
}
