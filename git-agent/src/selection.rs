//! Selects sessions: by name, end of an id, group or state, all of them, or the session of the current worktree.

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::session::State;
use crate::review::state;
pub use crate::session::list::list;
use crate::session::{caller, recent};
use crate::store::list::{Listed, Listing, Scope, find_in};

/// The user's choice of sessions.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Names, beginnings of names, ids, ends of ids, `-` for the session named last, `@3` for a row of the last list.
    pub names: Vec<String>,
    /// Whether every session is selected.
    pub all: bool,
    /// Select the sessions of this group.
    pub group: Option<String>,
    /// Select the sessions in one of these states.
    pub states: Vec<State>,
}

impl Selection {
    /// Returns whether only a group, or nothing, was selected.
    pub fn is_plain(&self) -> bool {
        self.names.is_empty() && !self.all && self.states.is_empty()
    }

    /// Returns whether nothing was selected.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.all && self.group.is_none() && self.states.is_empty()
    }

    /// Returns the selection with ids in place of `-` and `@3`.
    pub fn spelled_out(&self, context: &Context<'_>) -> Result<Self> {
        let names = self.names.iter();
        let names = names.map(|name| recent::spelled_out(context, name));
        Ok(Selection {
            names: names.collect::<Result<_>>()?,
            ..self.clone()
        })
    }
}

/// Lists sessions. Reads archives only if one of the names is not found elsewhere.
pub fn list_for(context: &Context<'_>, names: &[String]) -> Result<Listing> {
    let listing = list(context, Scope::All)?;
    let known = |name: &String| context.store.is_known(&listing, name);
    if names.iter().all(known) {
        return Ok(listing);
    }
    list(context, Scope::Archived)
}

/// Returns the selected sessions, or else the session of the current worktree.
pub fn select(context: &Context<'_>, selection: &Selection) -> Result<Vec<Listed>> {
    let selection = &selection.spelled_out(context)?;
    let mut listing = list_for(context, &selection.names)?;
    if !selection.states.is_empty() {
        state::settle(context, &mut listing.sessions);
    }
    if selection.is_empty() {
        return here(context, &listing)
            .map(|listed| vec![listed.clone()])
            .ok_or_else(|| {
                Error::usage("no session given, and this is not the worktree of a session")
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
    if let [one] = chosen.as_slice() {
        recent::note(context, one.session.sid);
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
                Error::fatal(format!("group '{group}' has no sessions")).hint("git agent list")
            );
        }
    }
    Ok(chosen)
}

/// Selected sessions.
#[derive(Debug)]
pub struct Chosen {
    /// The sessions.
    pub sessions: Vec<Listed>,
    /// Whether every session is meant, including those created later.
    pub all: bool,
}

/// Returns the selected sessions; or else the session of the current worktree; or else every open session of this
/// clone.
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

/// Returns exactly one session of this clone.
pub fn select_mine(context: &Context<'_>, name: Option<&str>) -> Result<Listed> {
    let listed = select_one(context, name)?;
    require_mine(&listed)?;
    Ok(listed)
}

/// Returns the selected sessions. Fails if one belongs to a teammate.
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
    Err(
        Error::fatal(format!("session '{name}' belongs to a teammate ({from})"))
            .hint(format!("git agent fork {}", shell_word(name))),
    )
}

/// Returns the session whose worktree the command runs in; the newest, if several share it.
fn here<'l>(context: &Context<'_>, listing: &'l Listing) -> Option<&'l Listed> {
    let top = context
        .repo
        .work_tree()
        .filter(|_| context.repo.is_linked_worktree())?;
    let works_here = |listed: &&Listed| {
        let path = listed
            .session
            .local
            .worktree
            .as_deref()
            .map(std::path::Path::new);
        listed.is_mine() && path.is_some_and(|path| path == top)
    };
    let own = context.env.var(caller::MARK);
    let is_own = |listed: &&Listed| own == Some(listed.session.sid.as_str());
    let sessions = || listing.sessions.iter().filter(works_here);
    sessions().find(is_own).or_else(|| sessions().next_back())
}
