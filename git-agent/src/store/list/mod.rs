//! Lists the states of all sessions, this clone's and fetched ones, from the ref tips alone, on all cores.

pub(crate) mod tip_cache;

use std::collections::HashMap;

use crate::cores;
use crate::error::{Error, Result};
use crate::git::refs::Ref;
use crate::git::{ObjectId, Repo};
use crate::model::session::{Local, Session, SessionId};
use crate::model::similar;
use crate::store::Store;
use crate::store::list::tip_cache::{Kept, States};
use crate::store::log::{Tip, parse_state, read_state_bytes};
use crate::store::refname::{self, RefName};
use crate::store::sync::authorship::Key;

/// One thread reads fewer sessions than this: starting another costs more.
const PER_THREAD: usize = 64;

/// A session in a listing.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The newest commit of its log; `None` while everything is still in the spool.
    pub tip: Option<ObjectId>,
    /// Its state, including events in the spool.
    pub session: Session,
    /// The remote it was fetched from; `None` for sessions among this clone's refs.
    pub remote: Option<String>,
    /// Whether it is among this clone's refs but was written elsewhere: fetched by hand, or part of an archive.
    pub by_hand: bool,
    /// Whether it is in an archive, without a ref.
    pub archived: bool,
}

impl Listed {
    /// Returns a session of this clone.
    pub fn own(session: Session) -> Self {
        Listed {
            tip: None,
            session,
            remote: None,
            by_hand: false,
            archived: false,
        }
    }

    /// Returns whether this clone writes the session. The place of its ref does not matter: a session of another clone
    /// names that clone's commands, worktrees and branches.
    pub fn is_mine(&self) -> bool {
        self.remote.is_none() && !self.by_hand
    }
}

/// A session with an unreadable log.
#[derive(Debug, Clone)]
pub struct Unreadable {
    /// The full name of its ref.
    pub name: String,
    /// The reason, in one line.
    pub reason: String,
}

#[derive(Debug, Default)]
pub struct Listing {
    /// The sessions, oldest first.
    pub sessions: Vec<Listed>,
    /// Our refs without a readable session.
    pub unreadable: Vec<Unreadable>,
}

/// The sessions to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This clone's sessions.
    Mine,
    /// This clone's and those fetched from remotes.
    All,
    /// All of these, and the closed ones in archives.
    Archived,
}

impl Store<'_> {
    /// Lists sessions, oldest first. An unreadable one is reported and does not disturb others.
    pub fn list(&self, scope: Scope) -> Result<Listing> {
        let mut wanted = Vec::new();
        let mut listing = Listing::default();
        let mine = self.repo.refs_under(refname::SESSIONS)?;
        for (name, reason) in mine.broken {
            // The doctor reads the files and judges names that gix cannot return.
            if RefName::parse(&name).is_some() {
                listing.unreadable.push(Unreadable { name, reason });
            }
        }
        for found in mine.refs {
            if let Some(RefName::Session(sid)) = RefName::parse(&found.name) {
                wanted.push(Wanted {
                    sid,
                    found,
                    remote: None,
                });
            }
        }
        if scope != Scope::Mine {
            for found in self.repo.refs_under(refname::REMOTES)?.refs {
                if let Some((remote, RefName::Session(sid))) = RefName::parse_at_remote(&found.name)
                {
                    wanted.push(Wanted {
                        sid,
                        found,
                        remote: Some(remote),
                    });
                }
            }
        }
        // This clone's own session comes back from every remote it was pushed to, but stays one session.
        wanted.sort_by_key(|wanted| (wanted.sid, wanted.remote.is_some()));
        wanted.dedup_by(|next, kept| {
            let same = next.sid == kept.sid;
            // The newest of several remotes' copies counts: that of a renamed remote never grows.
            if same && kept.remote.is_some() && next.found.id != kept.found.id {
                let newer = self.repo.is_ancestor(kept.found.id, next.found.id);
                if newer.unwrap_or(false) {
                    std::mem::swap(kept, next);
                }
            }
            same
        });
        if wanted.len() > crate::store::limits::SESSIONS {
            let surplus = wanted.len() - crate::store::limits::SESSIONS;
            wanted.drain(..surplus);
        }
        self.read_all(wanted, &mut listing);
        self.tell_own(&mut listing)?;
        if scope == Scope::Archived {
            self.take_in_archives(&mut listing)?;
            self.tell_own(&mut listing)?;
        }
        if scope == Scope::Mine {
            listing.sessions.retain(Listed::is_mine);
        }
        self.take_in_spools(&mut listing)?;
        self.attach_locals(&mut listing);
        if scope != Scope::Mine {
            self.hide_forgotten(&mut listing)?;
        }
        listing.sessions.sort_by_key(|listed| listed.session.sid);
        Ok(listing)
    }

    /// Separates sessions that this clone wrote from those fetched by hand to the same place.
    fn tell_own(&self, listing: &mut Listing) -> Result<()> {
        let own = self.own();
        if own.key.is_some() {
            let unmarked = listing.sessions.iter_mut().filter(|listed| listed.by_hand);
            for listed in unmarked.filter(|listed| !listed.archived) {
                // A session without a readable history does not count as own.
                let tip = listed.tip.filter(|tip| !own.had(&tip.to_string()));
                let view = |tip| own.view(tip, &listed.session);
                match tip.map(view).transpose().ok() {
                    Some(None) => listed.by_hand = false,
                    Some(Some(Some(view))) => {
                        listed.session = view.record.into();
                        listed.by_hand = false;
                    }
                    Some(Some(None)) | None => {}
                }
            }
            return Ok(());
        }
        // A clone whose id is lost or unreadable still has its own snapshots.
        let writers = self.own_writers().unwrap_or_default();
        for listed in &mut listing.sessions {
            let session = &listed.session;
            if listed.remote.is_some() || writers.contains(&session.writer) {
                continue;
            }
            let made_here = self
                .repo
                .find_ref(&refname::snapshots(session.sid))?
                .is_some();
            // Snapshots of an archived session do not prove that a ref of the same name is its own.
            let apart = listed.archived || matches!(self.find_archived(session.sid), Ok(None));
            listed.by_hand = !made_here || !apart;
        }
        Ok(())
    }

    /// Adds the facts of this clone to its own sessions, and takes those of other clones away.
    fn attach_locals(&self, listing: &mut Listing) {
        let locals = self.locals();
        for listed in &mut listing.sessions {
            if listed.is_mine() {
                locals.attach(&mut listed.session);
            } else {
                listed.session.local = Local::default();
            }
        }
    }

    fn take_in_spools(&self, listing: &mut Listing) -> Result<()> {
        for sid in self.spooled_sessions()? {
            let unreadable = RefName::Session(sid).to_string();
            if listing.unreadable.iter().any(|bad| bad.name == unreadable) {
                continue;
            }
            let known = listing
                .sessions
                .iter_mut()
                .find(|listed| listed.remote.is_none() && listed.session.sid == sid);
            match known {
                Some(listed) => {
                    let tail = crate::store::log::spool::read_tail(
                        &self.spool_dir(sid),
                        listed.session.seq,
                        None,
                        u64::MAX,
                    )?;
                    tail.events
                        .iter()
                        .for_each(|event| listed.session.apply(event));
                }
                None => {
                    if let Some(session) = self.session(sid)? {
                        listing.sessions.push(Listed::own(session));
                    }
                }
            }
        }
        Ok(())
    }

    /// Finds the session that the user names: by name, id, or end of an id. This clone's come first, and archives are
    /// read only without another match.
    pub fn find_session(&self, wanted: &str) -> Result<Listed> {
        let listing = self.list(Scope::All)?;
        if self.is_known(&listing, wanted) {
            find_in(&listing, wanted).cloned()
        } else {
            find_in(&self.list(Scope::Archived)?, wanted).cloned()
        }
    }

    /// Returns whether a listing without archives is enough to find the session that the user names. Another writer's
    /// session does not replace an archived one of this clone with the same id.
    pub fn is_known(&self, listing: &Listing, wanted: &str) -> bool {
        let found = candidates(listing, wanted);
        let stands_in = |listed: &&Listed| {
            let folded = || self.find_archived(listed.session.sid);
            let is_other = |tip: Tip| tip.session.writer != listed.session.writer;
            !listed.is_mine() && folded().ok().flatten().is_some_and(is_other)
        };
        !found.is_empty() && !found.iter().any(stands_in)
    }
}

/// Returns the sessions of a listing that match a name or an id.
pub fn candidates<'l>(listing: &'l Listing, wanted: &str) -> Vec<&'l Listed> {
    let by = |test: &dyn Fn(&Listed) -> bool| -> Vec<&'l Listed> {
        let all = || listing.sessions.iter().filter(|listed| test(listed));
        let mine: Vec<_> = all().filter(|listed| listed.is_mine()).collect();
        if mine.is_empty() {
            all().collect()
        } else {
            mine
        }
    };
    let mut found = by(&|listed| listed.session.sid.as_str() == wanted);
    if found.is_empty() {
        found = by(&|listed| listed.session.name == wanted);
        // A name can be reused once its session is closed: the open one is meant.
        if found.len() > 1 {
            let open: Vec<_> = found
                .iter()
                .copied()
                .filter(|l| !l.session.status.is_closed())
                .collect();
            if open.len() == 1 {
                found = open;
            }
        }
    }
    if found.is_empty() && wanted.len() >= 4 {
        found = by(&|listed| listed.session.sid.as_str().ends_with(wanted));
    }
    found
}

/// Returns the sessions whose name begins as given, in capitals or not: open ones of this clone before closed ones and
/// those of teammates.
fn beginning_with<'l>(listing: &'l Listing, wanted: &str) -> Vec<&'l Listed> {
    let wanted = wanted.to_lowercase();
    if wanted.is_empty() {
        return Vec::new();
    }
    let begins = |listed: &&Listed| listed.session.name.to_lowercase().starts_with(&wanted);
    let found: Vec<&Listed> = listing.sessions.iter().filter(begins).collect();
    let tests: [&dyn Fn(&Listed) -> bool; 3] = [
        &|listed| listed.is_mine() && listed.session.name.to_lowercase() == wanted,
        &|listed| listed.is_mine() && !listed.session.status.is_closed(),
        &Listed::is_mine,
    ];
    let nearest = tests.iter().find_map(|test| {
        let near: Vec<&Listed> = found
            .iter()
            .copied()
            .filter(|listed| test(listed))
            .collect();
        (!near.is_empty()).then_some(near)
    });
    nearest.unwrap_or(found)
}

/// Finds the session that the user names in a listing: by name, id, end of an id, or the beginning of one name.
pub fn find_in<'l>(listing: &'l Listing, wanted: &str) -> Result<&'l Listed> {
    let mut found = candidates(listing, wanted);
    let by_beginning = found.is_empty();
    if by_beginning {
        found = beginning_with(listing, wanted);
    }
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(missing(listing, wanted)),
        several => {
            let mut error = Error::fatal(format!("'{wanted}' names {} sessions", several.len()));
            for listed in several.iter().take(5) {
                let session = &listed.session;
                let name = if by_beginning {
                    session.name.as_str()
                } else {
                    session.sid.as_str()
                };
                error = error.hint(format!("{name} ({})", session.status));
            }
            Err(error)
        }
    }
}

/// Explains why no session was found: it does not exist, or it cannot be read.
fn missing(listing: &Listing, wanted: &str) -> Error {
    let bad = listing
        .unreadable
        .iter()
        .find(|bad| wanted.len() >= 4 && bad.name.ends_with(wanted));
    match bad {
        Some(bad) => Error::fatal(format!("cannot read session '{wanted}': {}", bad.reason))
            .hint("git agent doctor"),
        None => {
            let names: Vec<String> = (listing.sessions.iter())
                .map(|listed| listed.session.name.clone())
                .collect();
            let error = Error::fatal(format!("no session '{wanted}'"));
            match similar::did_you_mean(&wanted.to_lowercase(), &names) {
                Some(meant) => error.hint(meant),
                None => error.hint("git agent list --all"),
            }
        }
    }
}

/// A ref to be read.
#[derive(Debug)]
struct Wanted {
    sid: SessionId,
    found: Ref,
    remote: Option<String>,
}

/// The sessions that one thread read.
#[derive(Debug, Default)]
struct Part {
    sessions: Vec<Listed>,
    unreadable: Vec<Unreadable>,
    /// The states that the cache did not contain.
    read: HashMap<ObjectId, Kept>,
}

impl Store<'_> {
    fn read_all(&self, wanted: Vec<Wanted>, listing: &mut Listing) {
        let tips: Vec<ObjectId> = wanted.iter().map(|wanted| wanted.found.id).collect();
        let states = States::load(self, tips.len());
        let own = || self.repo.clone();
        let key = self.key();
        let parts = cores::parts(&wanted, PER_THREAD, own, |repo, part| {
            read_part(&repo, part, &states, key.as_ref())
        });
        let mut read = HashMap::new();
        for part in parts {
            listing.sessions.extend(part.sessions);
            listing.unreadable.extend(part.unreadable);
            read.extend(part.read);
        }
        states.keep(self, &tips, &read);
    }
}

fn read_part(repo: &Repo, wanted: &[Wanted], states: &States, key: Option<&Key>) -> Part {
    let mut part = Part::default();
    for Wanted { sid, found, remote } in wanted {
        let session = match states.state_at(found.id) {
            Some((state, marked)) => {
                parse_state(state, found.id, *sid).map(|session| (session, marked))
            }
            None => read_state_bytes(repo, found.id).and_then(|(state, commit)| {
                let session = parse_state(&state, found.id, *sid)?;
                let marked = key.is_some_and(|key| key.is_on(&commit));
                part.read.insert(found.id, Kept { state, marked });
                Ok((session, marked))
            }),
        };
        match session {
            Ok((session, marked)) => part.sessions.push(Listed {
                tip: Some(found.id),
                session: session.into(),
                remote: remote.clone(),
                // A session without a mark is examined more closely.
                by_hand: remote.is_none() && key.is_some() && !marked,
                archived: false,
            }),
            Err(error) => part.unreadable.push(Unreadable {
                name: found.name.clone(),
                reason: error.message().to_owned(),
            }),
        }
    }
    part
}
