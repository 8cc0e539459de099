//! The sessions that a listing shows.

use crate::context::Context;
use crate::error::Result;
use crate::listing::row::{self, Summary};
use crate::review::state;
use crate::selection::{Selection, list_for};
use crate::session::control::recover::{self, Trouble};
use crate::session::list as sessions;
use crate::store::list::{Listed, Listing, Scope, find_in};

/// The rows of the selected sessions.
#[derive(Debug)]
pub struct Rows {
    /// One row a session.
    pub rows: Vec<Summary>,
    /// The names of records that cannot be read, each with the reason.
    pub unreadable: Vec<(String, String)>,
    /// Traces of a crash that could not be put right.
    pub troubles: Vec<Trouble>,
    /// Whether the repository has no sessions.
    pub is_empty: bool,
}

/// Lists the selected sessions, and records crashes in passing.
pub fn list(context: &Context<'_>, selection: &Selection) -> Result<Rows> {
    let listing = read(context, selection)?;
    let troubles = recover::heal(context, &listing);
    let chosen = choose(&listing, selection)?;
    let unreadable = listing.unreadable.iter();
    Ok(Rows {
        rows: row::summarize(context, &chosen),
        unreadable: unreadable
            .map(|bad| (bad.name.clone(), bad.reason.clone()))
            .collect(),
        troubles,
        is_empty: listing.sessions.is_empty(),
    })
}

/// Reads the sessions that a choice may be about.
pub fn read(context: &Context<'_>, selection: &Selection) -> Result<Listing> {
    if !selection.names.is_empty() {
        return list_for(context, &selection.names);
    }
    let scope = if selection.all {
        Scope::Archived
    } else {
        Scope::Mine
    };
    let mut listing = sessions::list(context, scope)?;
    if !selection.states.is_empty() {
        state::settle(context, &mut listing.sessions);
    }
    Ok(listing)
}

/// Returns the chosen ones. Without a choice closed sessions are left out; asked for by state or name they are shown.
pub fn choose(listing: &Listing, selection: &Selection) -> Result<Vec<Listed>> {
    if !selection.names.is_empty() {
        let found = selection.names.iter().map(|name| find_in(listing, name));
        return found.map(|found| found.cloned()).collect();
    }
    let fits = |listed: &&Listed| {
        let session = &listed.session;
        let grouped = selection.group.is_none() || session.group == selection.group;
        let stated = match selection.states.as_slice() {
            [] => selection.all || !session.status.is_closed(),
            states => states.contains(&session.status),
        };
        grouped && stated
    };
    Ok(listing.sessions.iter().filter(fits).cloned().collect())
}
