//! Which sessions a person means: names, ends of ids, a group, states, all; and in a session's worktree, that session.

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::session::State;
use crate::review::state;
use crate::session::caller;
pub use crate::session::list::list;
use crate::store::list::{Listed, Listing, Scope, find_in};

/// What a person said about which sessions.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Names, ids, ends of ids.
    pub names: Vec<String>,
    /// Every session.
    pub all: bool,
    /// Those of a group.
    pub group: Option<String>,
    /// Those in one of these states.
    pub states: Vec<State>,
}

impl Selection {
    /// Returns whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.all && self.group.is_none() && self.states.is_empty()
    }
}

/// Lists sessions, and reads archives only when one of the names is nowhere else.
pub fn list_for(context: &Context<'_>, names: &[String]) -> Result<Listing> {
    let listing = list(context, Scope::All)?;
    let known = |name: &String| context.store.is_known(&listing, name);
    if names.iter().all(known) {
        return Ok(listing);
    }
    list(context, Scope::Archived)
}

/// Returns the selected sessions. Without a selection it is the session of the current worktree, if that is one.
pub fn select(context: &Context<'_>, selection: &Selection) -> Result<Vec<Listed>> {
    let mut listing = list_for(context, &selection.names)?;
    if !selection.states.is_empty() {
        state::settle(context, &mut listing.sessions);
    }
    if selection.is_empty() {
        return here(context, &listing)
            .map(|listed| vec![listed.clone()])
            .ok_or_else(|| {
                Error::usage("no session given, and this is no session's worktree")
                    .hint("git agent list")
            });
    }
    let mut chosen: Vec<Listed> = Vec::new();
    for name in &selection.names {
        let found = find_in(&listing, name)?;
        if !chosen
            .iter()
            .any(|known| known.session.sid == found.session.sid)
        {
            chosen.push(found.clone());
        }
    }
    if selection.names.is_empty() {
        let fits = |listed: &&Listed| {
            let session = &listed.session;
            let grouped = selection.group.is_none() || session.group == selection.group;
            let stated = selection.states.is_empty() || selection.states.contains(&session.status);
            listed.is_mine() && grouped && stated
        };
        chosen = listing.sessions.iter().filter(fits).cloned().collect();
        if let Some(group) = selection.group.as_deref().filter(|_| chosen.is_empty()) {
            return Err(
                Error::fatal(format!("no session in group '{group}'")).hint("git agent list")
            );
        }
    }
    Ok(chosen)
}

/// Sessions that were chosen, and how.
#[derive(Debug)]
pub struct Chosen {
    /// The sessions.
    pub sessions: Vec<Listed>,
    /// Whether every session was meant, those that are made later included.
    pub all: bool,
}

/// Returns the selected sessions. Without a selection it is the session of the current worktree, if that is one, and
/// otherwise every session of this clone that is not closed.
pub fn select_or_open(context: &Context<'_>, selection: &Selection) -> Result<Chosen> {
    if !selection.is_empty() {
        return Ok(Chosen {
            sessions: select(context, selection)?,
            all: selection.all,
        });
    }
    let listing = list(context, Scope::Mine)?;
    if let Some(listed) = here(context, &listing) {
        return Ok(Chosen {
            sessions: vec![listed.clone()],
            all: false,
        });
    }
    let mut sessions = listing.sessions;
    sessions.retain(|listed| !listed.session.status.is_closed());
    Ok(Chosen {
        sessions,
        all: true,
    })
}

/// Returns exactly one session.
pub fn select_one(context: &Context<'_>, name: Option<&str>) -> Result<Listed> {
    let names = name.map(str::to_owned).into_iter().collect();
    let selection = Selection {
        names,
        ..Selection::default()
    };
    select(context, &selection)?
        .pop()
        .ok_or_else(|| Error::fatal("no such session"))
}

/// Returns exactly one session that this clone writes.
pub fn select_mine(context: &Context<'_>, name: Option<&str>) -> Result<Listed> {
    let listed = select_one(context, name)?;
    require_mine(&listed)?;
    Ok(listed)
}

/// Returns the selected sessions, all of which this clone writes.
pub fn select_all_mine(context: &Context<'_>, selection: &Selection) -> Result<Vec<Listed>> {
    let chosen = select(context, selection)?;
    chosen.iter().try_for_each(require_mine)?;
    Ok(chosen)
}

fn require_mine(listed: &Listed) -> Result<()> {
    if listed.is_mine() {
        return Ok(());
    }
    let name = &listed.session.name;
    let from = match &listed.remote {
        Some(remote) => format!("from '{remote}'"),
        None => format!("written elsewhere by {}", listed.session.writer),
    };
    Err(Error::fatal(format!(
        "session '{name}' belongs to somebody else ({from})"
    ))
    .hint(format!("git agent fork {}", shell_word(name))))
}

/// Returns the session whose worktree the command was started in: the newest, where several share it.
fn here<'l>(context: &Context<'_>, listing: &'l Listing) -> Option<&'l Listed> {
    let top = context
        .repo
        .work_tree()
        .filter(|_| context.repo.is_linked_worktree())?;
    let works_here = |listed: &&Listed| {
        let path = listed.session.worktree.as_deref().map(std::path::Path::new);
        listed.is_mine() && path.is_some_and(|path| path == top)
    };
    let own = context.env.var(caller::MARK);
    let is_own = |listed: &&Listed| own == Some(listed.session.sid.as_str());
    let sessions = || listing.sessions.iter().filter(works_here);
    sessions().find(is_own).or_else(|| sessions().next_back())
}
