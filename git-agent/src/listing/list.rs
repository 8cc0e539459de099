//! The sessions that a listing shows.

use crate::context::Context;
use crate::env::Env;
use crate::error::Result;
use crate::git::Repo;
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
    /// Whether this clone has no sessions.
    pub is_empty: bool,
    /// How many sessions of teammates there are, counted only where there is no row.
    pub others: usize,
}

/// Lists the selected sessions, and records crashes in passing.
pub fn list(context: &Context<'_>, selection: &Selection) -> Result<Rows> {
    let selection = &selection.spelled_out(context)?;
    let listing = read(context, selection)?;
    let troubles = recover::heal(context, &listing);
    let chosen = choose(&listing, selection)?;
    let others = if chosen.is_empty() && selection.is_empty() {
        count_others(context)?
    } else {
        0
    };
    let unreadable = listing.unreadable.iter();
    Ok(Rows {
        rows: row::summarize(context, &chosen),
        unreadable: unreadable
            .map(|bad| (bad.name.clone(), bad.reason.clone()))
            .collect(),
        troubles,
        is_empty: listing.sessions.is_empty(),
        others,
    })
}

/// Counts the sessions of teammates.
fn count_others(context: &Context<'_>) -> Result<usize> {
    let mut all = sessions::list(context, Scope::All)?;
    hide_forgotten(context, &mut all);
    let others = all.sessions.iter().filter(|listed| !listed.is_mine());
    Ok(others.count())
}

/// Leaves out the copies that remotes still have of sessions that this clone deleted.
pub fn hide_forgotten(context: &Context<'_>, listing: &mut Listing) {
    let hidden = context.store.hidden_here();
    if !hidden.is_empty() {
        let is_copy = |listed: &Listed| !listed.is_mine() && hidden.contains(&listed.session.sid);
        listing.sessions.retain(|listed| !is_copy(listed));
    }
}

/// Returns whether this is a repository with sessions. Whatever prevents an answer is a no.
pub fn has_sessions(env: &Env) -> bool {
    let listed = || -> Result<bool> {
        let repo = Repo::discover(env)?;
        let context = Context::new(env, &repo)?;
        Ok(!sessions::list(&context, Scope::Mine)?.sessions.is_empty())
    };
    listed().unwrap_or(false)
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
    hide_forgotten(context, &mut listing);
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
