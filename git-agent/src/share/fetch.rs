//! Taking in what others share: listed, fetched, checked, and only then named. Each ref is judged by itself.
//!
//! 1. The remote is asked for its refs; those that are the same as their copies here cost nothing more.
//! 2. The objects of the others are fetched and checked by git. No ref of theirs exists here yet: one ref of our own holds
//!    all of it together, so that nothing is cleaned away meanwhile.
//! 3. Each is checked to be what its name promises, on all cores.
//! 4. One transaction names the good ones, moves what was rewritten or deleted to where it is kept for 30 days, and lets
//!    go of the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::change::{Change, What};
use super::reach;
use super::sign::{self, Standing};
use crate::cores;
use crate::error::{Error, Result};
use crate::git::asking::{Advertisement, Interest};
use crate::git::object::Signature;
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::remote::without_password;
use crate::git::talk::Audience;
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::process::lock::Lock;
use crate::review::claim;
use crate::session::context::Context;
use crate::session::{Session, SessionId, WriterId};
use crate::store::refname::{self, Month, RefName};
use crate::store::{archive, check, limits};

/// How long a fetch or a push waits for another one with the same remote.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many attempts are made to tell good refs from those that git refuses.
const ATTEMPTS: usize = 400;
/// What git says when there is no room here.
const FULL: [&str; 3] = [
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
];
/// What it says when a remote stops in the middle.
const CUT: [&str; 5] = [
    "early EOF",
    "unexpected disconnect",
    "hung up unexpectedly",
    "RPC failed",
    "bytes of body are still expected",
];
/// What is said of that.
const UNFINISHED: &str = "it did not come whole";
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

/// A ref that the remote has in another version than its copy here.
struct Wanted {
    name: RefName,
    id: ObjectId,
    /// Its copy here.
    copy: Option<ObjectId>,
    /// This clone's own ref of that name.
    own: Option<ObjectId>,
    /// Who wrote the sessions of that name that are in archives here.
    folded_by: Vec<WriterId>,
    /// Why it is not taken.
    refused: Option<String>,
    session: Option<Session>,
    standing: Option<Standing>,
}

impl Wanted {
    fn new(name: &RefName, id: ObjectId, copy: Option<ObjectId>) -> Self {
        Wanted {
            name: name.clone(),
            id,
            copy,
            own: None,
            folded_by: Vec::new(),
            refused: None,
            session: None,
            standing: None,
        }
    }

    fn change(&self, what: What) -> Change {
        let author = self
            .session
            .as_ref()
            .map(|session| claim::person(&session.author));
        Change {
            session: self.session.as_ref().map(|session| session.name.clone()),
            author,
            signature: self.standing.clone().filter(|one| *one != Standing::None),
            reason: self.refused.clone(),
            ..Change::new(&self.name, what)
        }
    }
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
    let repo = context.repo;
    // Before the remote is asked: what a push of this clone puts there meanwhile would look deleted or rewritten.
    let _lock = lock(context, remote)?;
    let asking = repo.ask_remote(remote, &refname::SHARED)?;
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
    fetched.changes = left_behind.take(context, remote, &copies, wanted, gone, audience)?;
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
    quarantine.take(
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
    for name in reach::places(context)?.unknown.into_iter().filter(is_name) {
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

fn wanted_tips(wanted: &mut [Wanted]) -> Vec<sign::Tip<'_>> {
    wanted
        .iter_mut()
        .filter(|wanted| wanted.refused.is_none())
        .map(|wanted| sign::Tip {
            id: wanted.id,
            claimed: wanted
                .session
                .as_ref()
                .map(|session| session.author.email.clone()),
            refused: &mut wanted.refused,
            standing: &mut wanted.standing,
        })
        .collect()
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

/// What was fetched and is not checked yet, held by one ref.
struct Quarantine {
    held: Vec<RefChange>,
}

impl Quarantine {
    /// Returns what is still held. Only a process that died can have left it: the remote's lock is held.
    fn left_behind(repo: &Repo, remote: &str) -> Result<Self> {
        let left = repo.refs_under(&refname::incoming_of(remote))?.refs;
        let held = left.into_iter().map(|left| RefChange {
            name: left.name,
            expected: Expected::At(left.id),
            new: None,
        });
        Ok(Quarantine {
            held: held.collect(),
        })
    }

    /// Fetches what is wanted, checks it and names what is good. Nothing is held any more afterwards.
    fn take(
        self,
        context: &Context<'_>,
        remote: &str,
        copies: &Copies,
        mut wanted: Vec<Wanted>,
        gone: (&[(RefName, ObjectId)], bool),
        audience: &mut Audience<'_>,
    ) -> Result<Vec<Change>> {
        let own = own_refs(context.repo)?;
        for one in &mut wanted {
            one.own = own.get(&one.name).copied();
        }
        note_folded(context.repo, &own, copies, &mut wanted);
        let filled = self.fill(context, remote, &mut wanted, audience)?;
        audience.hear("checking");
        check_all(context.repo, &mut wanted);
        sign::judge_all(context, &mut wanted_tips(&mut wanted))?;
        let promoted = promote(context, remote, copies, &wanted, gone);
        filled.let_go(context);
        promoted
    }

    /// Fetches what is not here yet. What git refuses is marked as refused, and costs no other ref anything.
    fn fill(
        mut self,
        context: &Context<'_>,
        remote: &str,
        wanted: &mut [Wanted],
        audience: &mut Audience<'_>,
    ) -> Result<Self> {
        let repo = context.repo;
        let missing: BTreeSet<ObjectId> = wanted
            .iter()
            .filter(|wanted| wanted.own != Some(wanted.id))
            .map(|wanted| wanted.id)
            .collect();
        let missing: Vec<ObjectId> = missing.into_iter().collect();
        let mut refused = BTreeMap::new();
        let mut attempts = ATTEMPTS;
        get(
            repo,
            remote,
            &missing,
            (&mut attempts, &mut refused),
            audience,
        )?;
        // Where nothing came at all, it was not for what is there.
        let unfinished = |id| refused.get(id).filter(|why| why.starts_with(UNFINISHED));
        if let Some(why) = missing.first().and_then(unfinished)
            && missing.iter().all(|id| unfinished(id).is_some())
        {
            let remote = without_password(remote);
            return Err(Error::fatal(format!("cannot fetch from '{remote}': {why}"))
                .hint("git agent fetch"));
        }
        let mut parents = BTreeSet::new();
        for one in wanted.iter_mut() {
            one.refused = match refused.get(&one.id) {
                Some(reason) => Some(reason.clone()),
                None => match repo.object_header(one.id) {
                    Ok(Some((ObjectKind::Commit, _))) => {
                        parents.insert(one.id);
                        None
                    }
                    Ok(Some((kind, _))) => Some(format!("it points at a {kind}, not at a commit")),
                    Ok(None) => Some("it changed while it was fetched".to_owned()),
                    Err(error) => Some(error.message().to_owned()),
                },
            };
        }
        if !parents.is_empty() {
            let parents: Vec<ObjectId> = parents.into_iter().collect();
            self.held.push(hold(context, remote, &parents)?);
        }
        Ok(self)
    }

    /// Lets go of everything: what is good has a name by now. Failing to leaves it to the next fetch.
    fn let_go(&self, context: &Context<'_>) {
        let _ = context.repo.swap_refs(&self.held);
    }
}

/// Makes one commit that all the others are parents of, so that nobody's gc takes them away, and returns how to let go.
fn hold(context: &Context<'_>, remote: &str, parents: &[ObjectId]) -> Result<RefChange> {
    let repo = context.repo;
    let nonce: String = context
        .env
        .random::<6>()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let name = refname::incoming(remote, &nonce);
    let mut batch = repo.batch();
    let tree = batch.tree([]);
    let signature = Signature {
        name: "git-agent".to_owned(),
        email: "fetch@git-agent.invalid".to_owned(),
        seconds: context.env.now().seconds(),
    };
    let id = batch.commit(tree, parents, &signature, "Fetched, and not checked yet\n");
    repo.write_batch(&batch)?;
    let change = RefChange {
        name: name.clone(),
        expected: Expected::Absent,
        new: Some(id),
    };
    match repo.swap_ref(&change)? {
        Swap::Done => Ok(RefChange {
            name,
            expected: Expected::At(id),
            new: None,
        }),
        Swap::Stale => Err(Error::fatal(format!("ref '{name}' exists already"))),
    }
}

/// Fetches objects. When git refuses, what it finds faults in is left out; where that cannot be told, because the remote
/// cannot even give it, halves are tried until it is known.
fn get(
    repo: &Repo,
    remote: &str,
    ids: &[ObjectId],
    (attempts, refused): (&mut usize, &mut BTreeMap<ObjectId, String>),
    audience: &mut Audience<'_>,
) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let Some(left) = attempts.checked_sub(1) else {
        for id in ids {
            refused.insert(*id, "too many broken refs came with it".to_owned());
        }
        return Ok(());
    };
    *attempts = left;
    let Err(error) = repo.fetch_objects(remote, ids, audience) else {
        return Ok(());
    };
    // A remote that cannot be reached at all refuses nothing in particular.
    repo.ask_remote(remote, &refname::SHARED)?
        .finish(&|_| Interest::None, 0)?;
    let said = error.message();
    // Nor does one that there is no room for.
    if FULL.iter().any(|words| said.contains(words)) {
        return Err(error);
    }
    if let [only] = ids {
        let reason = said.split_once("': ").map_or(said, |(_, reason)| reason);
        let what = match CUT.iter().any(|words| said.contains(words)) {
            true => UNFINISHED,
            false => "git refuses it",
        };
        refused.insert(*only, format!("{what}: {reason}"));
        return Ok(());
    }
    // Most of what git refuses it can name, also where there is much of it.
    if let Ok(faulty) = repo.faulty(remote, ids, audience)
        && !faulty.is_empty()
    {
        let rest: Vec<ObjectId> = (ids.iter().copied())
            .filter(|id| !faulty.contains_key(id))
            .collect();
        let reason = |what| format!("git refuses it: {what}");
        refused.extend(faulty.into_iter().map(|(id, what)| (id, reason(what))));
        return get(repo, remote, &rest, (attempts, refused), audience);
    }
    let (one, other) = ids.split_at(ids.len() / 2);
    get(repo, remote, one, (attempts, refused), audience)?;
    get(repo, remote, other, (attempts, refused), audience)
}

/// Notes who wrote the sessions that have no ref because they were folded: in this clone's own archives, or else in those of
/// the same remote.
fn note_folded(
    repo: &Repo,
    own: &BTreeMap<RefName, ObjectId>,
    copies: &Copies,
    wanted: &mut [Wanted],
) {
    let is_new = |one: &&mut Wanted| one.copy.is_none() && one.own.is_none();
    let mut sessions: BTreeMap<SessionId, &mut Wanted> = wanted
        .iter_mut()
        .filter(is_new)
        .filter_map(|one| match one.name {
            RefName::Session(sid) => Some((sid, one)),
            _ => None,
        })
        .collect();
    let months: BTreeSet<String> = sessions.keys().map(|sid| sid.month()).collect();
    for archives in [own, copies] {
        for (name, id) in archives {
            let RefName::Archive { month, .. } = name else {
                continue;
            };
            if !months.contains(month.as_str()) {
                continue;
            }
            // One that cannot be read tells nothing.
            let _ = archive::read_archive(repo, *id, month, &mut |archived| {
                if let Some(one) = sessions.get_mut(&archived.session.sid) {
                    one.folded_by.push(archived.session.writer);
                }
                true
            });
        }
        sessions.retain(|_, one| one.folded_by.is_empty());
    }
}

/// Checks everything that came, on all cores.
fn check_all(repo: &Repo, wanted: &mut [Wanted]) {
    let own = || repo.clone();
    let checked = cores::each(wanted, own, |repo, one| match one.refused {
        None => check_one(repo, one),
        Some(_) => Ok(None),
    });
    for (one, found) in wanted.iter_mut().zip(checked) {
        match found {
            Ok(session) => one.session = session,
            Err(error) => one.refused = Some(error.message().to_owned()),
        }
    }
}

/// Checks one ref, and returns the session that it is of.
fn check_one(repo: &Repo, wanted: &Wanted) -> Result<Option<Session>> {
    let known: Vec<ObjectId> = wanted.copy.into_iter().chain(wanted.own).collect();
    check::check(repo, &wanted.name, wanted.id, &known)?;
    let RefName::Session(sid) = &wanted.name else {
        return Ok(None);
    };
    let session = crate::store::log::read_state(repo, wanted.id, *sid)?;
    let writer_at = |id| {
        let state = crate::store::log::read_state(repo, id, *sid);
        state.ok().map(|before| before.writer)
    };
    let before = wanted.own.and_then(writer_at);
    let before = before.or_else(|| wanted.copy.and_then(writer_at));
    let known = before.map_or(wanted.folded_by.clone(), |writer| vec![writer]);
    if !known.is_empty() && !known.contains(&session.writer) {
        return Err(Error::fatal("somebody else wrote it before"));
    }
    Ok(Some(session))
}

/// Names what is good, and keeps what was rewritten or deleted: all together or not at all.
fn promote(
    context: &Context<'_>,
    remote: &str,
    copies: &Copies,
    wanted: &[Wanted],
    (gone, prune): (&[(RefName, ObjectId)], bool),
) -> Result<Vec<Change>> {
    let repo = context.repo;
    let mut transaction = Vec::new();
    let mut changes = Vec::new();
    let keep = |name: &str, id: ObjectId, transaction: &mut Vec<RefChange>| {
        let kept = context.store.lost_name(name);
        transaction.push(RefChange {
            name: kept.clone(),
            expected: Expected::Absent,
            new: Some(id),
        });
        kept
    };
    for one in wanted {
        if one.refused.is_some() {
            changes.push(one.change(What::Refused));
            continue;
        }
        let name = one.name.at_remote(remote);
        let mut change = one.change(What::New);
        if let Some(copy) = one.copy {
            change.what = What::Updated;
            if !repo.is_ancestor(copy, one.id)? {
                change.what = What::Rewritten;
                change.kept = Some(keep(&name, copy, &mut transaction));
            }
        }
        transaction.push(RefChange {
            name,
            expected: one.copy.map_or(Expected::Absent, Expected::At),
            new: Some(one.id),
        });
        changes.push(change);
    }
    let folded = folded_tips(repo, copies, wanted, gone)?;
    for (ref_name, id) in gone {
        let name = ref_name.at_remote(remote);
        let in_archive = match ref_name {
            RefName::Session(sid) => folded.get(sid),
            _ => None,
        };
        let mut change = Change::new(ref_name, What::Gone);
        // What its owner folded is in the archive, so that nothing is let go of but a name that costs every command.
        if in_archive.is_some_and(|tip| repo.is_ancestor(*id, *tip).unwrap_or(false)) {
            change.what = What::Folded;
        } else if prune {
            change.what = What::Deleted;
            change.kept = Some(keep(&name, *id, &mut transaction));
        }
        if change.what != What::Gone {
            transaction.push(RefChange {
                name,
                expected: Expected::At(*id),
                new: None,
            });
        }
        changes.push(change);
    }
    match repo.swap_many(&transaction)? {
        Swap::Done => Ok(changes),
        Swap::Stale => Err(Error::fatal(format!(
            "copies of refs of '{}' changed during the fetch",
            remote
        ))
        .hint("git agent fetch")),
    }
}

/// Returns the tips of the sessions in a remote's archives, those that just came included, as far as it matters to what is
/// gone.
fn folded_tips(
    repo: &Repo,
    copies: &Copies,
    wanted: &[Wanted],
    gone: &[(RefName, ObjectId)],
) -> Result<BTreeMap<SessionId, ObjectId>> {
    let mut tips = BTreeMap::new();
    let months: BTreeSet<String> = gone.iter().filter_map(|(name, _)| name.month()).collect();
    if months.is_empty() {
        return Ok(tips);
    }
    let came = wanted
        .iter()
        .filter(|one| one.refused.is_none())
        .map(|one| (one.name.clone(), one.id));
    let known = copies.iter().map(|(name, id)| (name.clone(), *id));
    for (name, id) in came.chain(known) {
        let RefName::Archive { month, .. } = &name else {
            continue;
        };
        if months.contains(month.as_str()) {
            // One that cannot be read tells nothing: then what is deleted is kept.
            let _ = archive::read_archive(repo, id, month, &mut |archived| {
                tips.entry(archived.session.sid).or_insert(archived.tip);
                true
            });
        }
    }
    Ok(tips)
}
