//! Fetches the refs that teammates share: lists, fetches, checks, then names them. Each ref is judged by itself.
//!
//! 1. The remote lists its refs. Refs that equal their copies here are skipped.
//! 2. The objects of the others are fetched, and git checks them. One ref of our own holds them all against gc; they
//!    have no names of their own yet.
//! 3. The content of each ref is checked against its name, on all cores.
//! 4. One transaction names the good refs, moves replaced or deleted versions to the trash for 30 days, and releases
//!    the rest.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::remote::list_refs::{Advertisement, Interest};
use crate::git::remote::transfer::Audience;
use crate::git::{ObjectId, Repo};
use crate::process::lock::Lock;
use crate::review::git_notes;
use crate::share::accept::{Wanted, take};
use crate::share::outcome::Change;
use crate::share::quarantine::Quarantine;
use crate::share::remote_refs;
use crate::store::limits;
use crate::store::refname::{self, RefName};

pub use crate::store::refname::Month;

/// How long a fetch or push waits for another one with the same remote.
const PATIENCE: Duration = Duration::from_secs(120);
/// Number of loose refs that are left unpacked.
const LOOSE: usize = 20;
/// From this number of copies on, git is told to ignore them in other fetches: it would read the tip of each one, every
/// time, to find common commits.
const MANY: usize = 20;
/// The setting that does so. Fetched refs are checked all the same.
const HIDE: &str = "fetch.hideRefs";

/// Options of a fetch.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Delete copies of refs that the remote no longer has.
    pub prune: bool,
    /// Only sessions and archives of this month, and all notes.
    pub month: Option<Month>,
    /// Only these sessions, by id or end of an id, and all notes.
    pub sessions: Vec<String>,
}

#[derive(Debug, Default)]
pub struct Fetched {
    /// The refs that changed.
    pub changes: Vec<Change>,
    /// The number of unchanged refs.
    pub unchanged: usize,
    /// The number of remote refs with names that are not ours, and the first of them.
    pub foreign: (usize, Vec<String>),
    /// Removed or renamed remotes, with the number of their copies that were moved to the trash.
    pub orphaned: Vec<(String, usize)>,
}

/// Packs the shared refs of this clone: as loose files they would slow down every `git fetch` and `git push` of the
/// user.
pub(super) fn tidy(context: &Context<'_>, remote: &str) {
    let copies = refname::copies_of(remote);
    let mut prefixes = vec![copies.as_str()];
    prefixes.extend(refname::SHARED);
    // This and the rest only matter for speed.
    let repo = context.repo;
    let _ = repo.pack_refs_below(&prefixes, LOOSE);
    let hidden = refname::REMOTES.trim_end_matches('/');
    let is_hidden = || {
        repo.config_strings(HIDE)
            .iter()
            .any(|one| one.trim_end_matches('/') == hidden)
    };
    let many = || {
        repo.refs_under(refname::REMOTES)
            .map(|list| list.refs.len() > MANY)
    };
    if !is_hidden() && many().unwrap_or(false) {
        let _ = repo.add_config(HIDE, hidden);
    }
}

/// Takes the lock for all operations of this clone with a remote.
pub(super) fn lock(context: &Context<'_>, remote: &str) -> Result<Lock> {
    let hash = crate::git::sha256(remote.as_bytes());
    let path = context.store.require_dir("locks")?;
    let path = path.join(format!("remote-{}.lock", &hash[..16]));
    Lock::acquire(context.env, path, PATIENCE)
}

/// Copies of a remote's refs, by their names at the remote.
pub(super) type Copies = BTreeMap<RefName, ObjectId>;

/// Returns this clone's copies of a remote's refs.
pub(super) fn copies(repo: &Repo, remote: &str) -> Result<Copies> {
    let found = repo.refs_under(&refname::copies_of(remote))?.refs;
    Ok(found
        .into_iter()
        .filter_map(|found| Some((RefName::parse_at_remote(&found.name)?.1, found.id)))
        .collect())
}

/// Returns this clone's own shared refs.
pub(super) fn own_refs(repo: &Repo) -> Result<BTreeMap<RefName, ObjectId>> {
    let mut own = BTreeMap::new();
    for prefix in refname::SHARED {
        for found in repo.refs_under(prefix)?.refs {
            if let Some(name) = RefName::parse(&found.name) {
                own.insert(name, found.id);
            }
        }
    }
    Ok(own)
}

/// Fetches from a remote, given by name or address. `audience` gets the progress.
pub fn fetch(
    context: &Context<'_>,
    remote: &str,
    options: &Options,
    audience: &mut Audience<'_>,
) -> Result<Fetched> {
    let fetched = fetch_refs(context, remote, options, audience)?;
    if !fetched.changes.is_empty() {
        // The reviews of teammates show up where plain git shows reviews.
        git_notes::refresh(context)?;
    }
    Ok(fetched)
}

fn fetch_refs(
    context: &Context<'_>,
    remote: &str,
    options: &Options,
    audience: &mut Audience<'_>,
) -> Result<Fetched> {
    let repo = context.repo;
    // Lock before asking the remote, or refs pushed meanwhile would look deleted or rewritten.
    let _lock = lock(context, remote)?;
    let asking = repo.ask_remote(remote)?;
    // Read the copies while the remote prepares its answer.
    let copies = copies(repo, remote)?;
    let left_behind = Quarantine::left_behind(repo, remote)?;
    let advertised = asking.finish(&interest(options), limits::REMOTE_REFS)?;
    if advertised.cut {
        return Err(Error::fatal(format!(
            "'{}' has more than {} refs of sessions",
            remote,
            limits::REMOTE_REFS
        ))
        .hint("git agent fetch --month YYYY-MM"));
    }
    let mut fetched = Fetched {
        foreign: (advertised.other_count, advertised.others.clone()),
        ..Fetched::default()
    };
    let there = in_scope(&advertised);
    for end in &options.sessions {
        let is_it = |name: &RefName| match name {
            RefName::Session(sid) => sid.as_str().ends_with(end),
            _ => false,
        };
        if !there.keys().chain(copies.keys()).any(is_it) {
            return Err(Error::fatal(format!("'{remote}' has no session '{end}'"))
                .hint("git agent fetch --month YYYY-MM    if it was archived"));
        }
    }
    let mut wanted = Vec::new();
    for (name, id) in &there {
        let copy = copies.get(name).copied();
        if copy == Some(*id) {
            fetched.unchanged += 1;
            continue;
        }
        wanted.push(Wanted::new(name, *id, copy));
    }
    let gone: Vec<(RefName, ObjectId)> = copies
        .iter()
        .filter(|(name, _)| is_wanted(name, options) && !there.contains_key(name))
        .map(|(name, id)| (name.clone(), *id))
        .collect();
    if options.prune && options.month.is_none() && options.sessions.is_empty() {
        fetched.orphaned = drop_orphaned(context, remote)?;
    }
    if wanted.is_empty() && gone.is_empty() {
        left_behind.let_go(context);
        return Ok(fetched);
    }
    let gone = (gone.as_slice(), options.prune);
    fetched.changes = take(
        left_behind,
        context,
        remote,
        &copies,
        wanted,
        gone,
        audience,
    )?;
    tidy(context, remote);
    context.store.expire_lost()?;
    Ok(fetched)
}

/// Accepts these versions of refs that a remote has listed, like a fetch. Refused refs stay at the remote. The caller
/// holds the remote's lock.
pub(super) fn take_in(
    context: &Context<'_>,
    remote: &str,
    versions: &BTreeMap<RefName, ObjectId>,
    audience: &mut Audience<'_>,
) -> Result<()> {
    if versions.is_empty() {
        return Ok(());
    }
    let copies = copies(context.repo, remote)?;
    let wanted = versions
        .iter()
        .map(|(name, id)| Wanted::new(name, *id, copies.get(name).copied()));
    let quarantine = Quarantine::left_behind(context.repo, remote)?;
    let nothing = (&[] as &[_], false);
    take(
        quarantine,
        context,
        remote,
        &copies,
        wanted.collect(),
        nothing,
        audience,
    )?;
    Ok(())
}

/// Moves copies of removed or renamed remotes to the trash for 30 days: no fetch updates them any more.
fn drop_orphaned(context: &Context<'_>, remote: &str) -> Result<Vec<(String, usize)>> {
    let mut orphaned = Vec::new();
    // A remote given by address may only be unreachable for now.
    let is_name = |name: &String| name != remote && !name.contains(['/', ':']);
    for name in remote_refs::places(context)?
        .unknown
        .into_iter()
        .filter(is_name)
    {
        let _lock = lock(context, &name)?;
        let held = copies(context.repo, &name)?;
        let mut changes = Vec::new();
        for (copied, id) in &held {
            let copy = copied.at_remote(&name);
            changes.push(RefChange {
                name: context.store.lost_name(&copy),
                expected: Expected::Absent,
                new: Some(*id),
            });
            changes.push(RefChange {
                name: copy,
                expected: Expected::At(*id),
                new: None,
            });
        }
        // If another process deletes one at the same moment, nothing is left to do.
        if context.repo.swap_many(&changes)? == Swap::Done && !held.is_empty() {
            orphaned.push((name, held.len()));
        }
    }
    Ok(orphaned)
}

/// Returns how a fetch treats the names that the remote lists.
fn interest(options: &Options) -> impl Fn(&str) -> Interest + '_ {
    |name| match RefName::parse(name) {
        Some(name) if is_wanted(&name, options) => Interest::Wanted,
        None if refname::is_shared_place(name) => Interest::Beside,
        _ => Interest::None,
    }
}

fn in_scope(advertised: &Advertisement) -> BTreeMap<RefName, ObjectId> {
    advertised
        .refs
        .iter()
        .filter_map(|found| Some((RefName::parse(&found.name)?, found.id)))
        .collect()
}

fn is_wanted(name: &RefName, options: &Options) -> bool {
    let in_month = match (&options.month, name) {
        (Some(month), RefName::Session(sid)) => sid.is_of(month.as_str()),
        (Some(wanted), RefName::Archive { month, .. }) => month == wanted,
        _ => true,
    };
    let named = match (options.sessions.as_slice(), name) {
        ([], _) => true,
        (ends, RefName::Session(sid)) => ends.iter().any(|end| sid.as_str().ends_with(end)),
        (_, RefName::Archive { .. }) => false,
        _ => true,
    };
    in_month && named
}
