//! Taking in what others share: listed, fetched, checked, and only then named. Each ref is judged by itself.
//!
//! 1. The remote is asked for its refs; those that are the same as their copies here cost nothing more.
//! 2. The objects of the others are fetched and checked by git. No ref of theirs exists here yet: one ref of our own holds
//!    all of it together, so that nothing is cleaned away meanwhile.
//! 3. Each is checked to be what its name promises, on all cores.
//! 4. One transaction names the good ones, moves what was rewritten or deleted to where it is kept for 30 days, and lets
//!    go of the rest.

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

/// How long a fetch or a push waits for another one with the same remote.
const PATIENCE: Duration = Duration::from_secs(120);
/// So many refs may be files of their own before they are put together.
const LOOSE: usize = 20;
/// From so many copies on git is told not to look at them when it fetches something else: it would read the newest commit
/// of each, every time, to learn what is here already.
const MANY: usize = 20;
/// How it is told. What a fetch brings is checked all the same.
const HIDE: &str = "fetch.hideRefs";

/// What to fetch.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Lets go of copies of refs that the remote no longer has.
    pub prune: bool,
    /// Only sessions and archives of this month, and all notes.
    pub month: Option<Month>,
    /// Only these sessions: ids or ends of ids, and all notes.
    pub sessions: Vec<String>,
}

/// What a fetch did.
#[derive(Debug, Default)]
pub struct Fetched {
    /// The refs that are not as they were.
    pub changes: Vec<Change>,
    /// How many are as they were.
    pub unchanged: usize,
    /// How many refs of the remote have names that are not ours, and the first of them.
    pub foreign: (usize, Vec<String>),
    /// Names that are no remotes any more, with how many copies were let go of: these are kept for a while.
    pub orphaned: Vec<(String, usize)>,
}

/// Keeps this clone's names of what is shared together in one file: as files of their own they would slow down every
/// `git fetch` and `git push` of the user.
pub(super) fn tidy(context: &Context<'_>, remote: &str) {
    let copies = refname::copies_of(remote);
    let mut prefixes = vec![copies.as_str()];
    prefixes.extend(refname::SHARED);
    // Only a matter of speed, as is the rest.
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

/// Takes the lock over everything that this clone does with a remote.
pub(super) fn lock(context: &Context<'_>, remote: &str) -> Result<Lock> {
    let hash = crate::git::sha256(remote.as_bytes());
    let path = context.store.require_dir("locks")?;
    let path = path.join(format!("remote-{}.lock", &hash[..16]));
    Lock::acquire(context.env, path, PATIENCE)
}

/// Copies of a remote's refs, by the names they have there.
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

/// Fetches from a remote: a name or an address. `audience` hears how far it is.
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
    // Before the remote is asked: what a push of this clone puts there meanwhile would look deleted or rewritten.
    let _lock = lock(context, remote)?;
    let asking = repo.ask_remote(remote)?;
    // Read while the remote thinks about its answer.
    let copies = copies(repo, remote)?;
    let left_behind = Quarantine::left_behind(repo, remote)?;
    let advertised = asking.finish(&interest(options), limits::REMOTE_REFS)?;
    if advertised.cut {
        return Err(Error::fatal(format!(
            "'{}' has more than the {} refs of sessions that are looked at",
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
            return Err(
                Error::fatal(format!("'{remote}' has no ref of a session '{end}'"))
                    .hint("git agent fetch --month YYYY-MM    when it was folded into an archive"),
            );
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

/// Takes in these versions of refs that a remote said it has, as a fetch would. What is refused stays there. The caller
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

/// Lets go of copies under names that are no remotes any more, because they were renamed or removed: nothing brings them up
/// to date. They are kept for 30 days.
fn drop_orphaned(context: &Context<'_>, remote: &str) -> Result<Vec<(String, usize)>> {
    let mut orphaned = Vec::new();
    // An address may only be out of reach for now.
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
        // What somebody else lets go of at the same moment is let go of.
        if context.repo.swap_many(&changes)? == Swap::Done && !held.is_empty() {
            orphaned.push((name, held.len()));
        }
    }
    Ok(orphaned)
}

/// Returns what names of the remote are to a fetch.
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
