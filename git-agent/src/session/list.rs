//! The sessions of this clone and of teammates, each in its real state.

use crate::context::Context;
use crate::error::Result;
use crate::model::session::{Session, SessionId};
use crate::session::supervisor::launch;

pub use crate::store::list::{Listed, Listing, Scope, find_in};

/// Lists sessions with the states they are really in.
pub fn list(context: &Context<'_>, scope: Scope) -> Result<Listing> {
    let mut listing = context.store.list(scope)?;
    for listed in &mut listing.sessions {
        if listed.is_mine() {
            launch::settle_state(&context.store, &mut listed.session)?;
        }
    }
    Ok(listing)
}

/// Returns one of this clone's sessions as it is now; `None` when it is gone.
pub fn current(context: &Context<'_>, sid: SessionId) -> Result<Option<Session>> {
    launch::current(&context.store, sid)
}
