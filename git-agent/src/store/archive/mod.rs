//! Archives: closed sessions folded into one ref a month and writer, so that old work costs no ref of its own.
//!
//! An archive is a chain of commits. Each holds `sessions.jsonl`, one line a session (its last state and its log's `tip`),
//! and has those tips as parents, so that every log stays reachable; its first parent is the archive before it. Lines are
//! never changed: a session that is taken up again gets its ref back, and a newer line when it is folded again.

#[cfg(test)]
mod tests;
pub(crate) mod tombstones;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::env::Millis;
use crate::error::{Context, Error, Result};
use crate::fault;
use crate::git::object::{self, Commit, Signature, TreeEntry};
use crate::git::refs::{Expected, Ref, RefChange, Swap};
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::model::session::{Session, SessionId, WriterId};
use crate::process::lock::Lock;
use crate::redact::{Redacted, Redactor};
use crate::store::list::{Listed, Listing, Scope, Unreadable};
use crate::store::log::{ATTACHMENTS, Tip, VERSION, require_version, spool};
use crate::store::refname::{self, Month, RefName};
use crate::store::{Store, limits};

/// The name of the tree entry with the folded sessions.
pub const SESSIONS: &str = "sessions.jsonl";
/// The key of a line that names the newest commit of the session's log.
pub(super) const TIP: &str = "tip";
/// Parents of one archive commit: the archive before it, and the logs. git's own octopus merges stay far below.
pub(super) const PARENTS: usize = 200;
/// How often a lost race is run again.
const ATTEMPTS: u32 = 8;

/// What a fold did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Folded {
    /// The sessions that are in an archive now and have no ref of their own any more.
    pub sessions: Vec<SessionId>,
    /// The archives that were written.
    pub archives: Vec<String>,
}

/// A session as an archive holds it.
#[derive(Debug, Clone)]
pub struct Archived {
    /// The newest commit of its log.
    pub tip: ObjectId,
    /// Its last state.
    pub session: Session,
}

/// Which closed sessions are folded.
pub struct Rule<'a> {
    /// Those that may be, and no others.
    pub may: &'a dyn Fn(&Session) -> bool,
    /// Of these, all that are closed since before then.
    pub before: Millis,
    /// Of the rest, the ones closed longest ago, so that no more than this many are left.
    pub most: usize,
}

impl Store<'_> {
    /// Folds all of this clone's closed sessions that are `wanted` into archives.
    pub fn fold(&self, redactor: &Redactor, wanted: &dyn Fn(&Session) -> bool) -> Result<Folded> {
        let rule = Rule {
            may: wanted,
            before: Millis(u64::MAX),
            most: 0,
        };
        self.fold_by(redactor, &rule)
    }

    /// Folds this clone's closed sessions into archives by a rule. One that is being written is left alone, and so is one
    /// whose spool is damaged. Archive and session refs change together or not at all.
    pub fn fold_by(&self, redactor: &Redactor, rule: &Rule<'_>) -> Result<Folded> {
        let lock = self.require_dir("locks")?.join("archive.lock");
        let mut folded = Folded::default();
        // Somebody else folds: that is as good.
        let Some(_lock) = Lock::try_acquire(self.env, lock)? else {
            return Ok(folded);
        };
        let mut months: BTreeMap<String, Vec<SessionId>> = BTreeMap::new();
        let writer = self.require_writer()?;
        let mut closed: Vec<(Millis, SessionId)> = Vec::new();
        for listed in self.list(Scope::Mine)?.sessions {
            let session = &listed.session;
            // An archive holds sessions of its own writer alone: nobody would take in another one.
            let own = session.writer == writer;
            if own && listed.tip.is_some() && session.status.is_closed() && (rule.may)(session) {
                closed.push((session.updated, session.sid));
            }
        }
        let mut by_age = closed.clone();
        by_age.sort_unstable_by(|one, other| other.cmp(one));
        let too_many: BTreeSet<_> = by_age.into_iter().skip(rule.most).collect();
        for one in closed {
            if one.0 < rule.before || too_many.contains(&one) {
                months.entry(one.1.month()).or_default().push(one.1);
            }
        }
        for (month, sids) in months {
            let month = Month::parse(&month)
                .ok_or_else(|| Error::fatal(format!("'{month}' is no month")))?;
            let name = RefName::Archive {
                month,
                writer: writer.clone(),
            }
            .to_string();
            for group in sids.chunks(PARENTS - 1) {
                let done = self.fold_group(&name, group, redactor, rule.may)?;
                if !done.is_empty() && !folded.archives.contains(&name) {
                    folded.archives.push(name.clone());
                }
                folded.sessions.extend(done);
            }
        }
        Ok(folded)
    }

    fn fold_group(
        &self,
        name: &str,
        group: &[SessionId],
        redactor: &Redactor,
        wanted: &dyn Fn(&Session) -> bool,
    ) -> Result<Vec<SessionId>> {
        // Held until the refs are changed: whoever wants to write one of them waits, and then finds it in the archive.
        let mut held = Vec::new();
        for sid in group {
            if let Some(lock) = Lock::try_acquire(self.env, self.write_lock(*sid))? {
                held.push((*sid, lock));
            }
        }
        for _ in 0..ATTEMPTS {
            // Asked for once: on reftable every question is a process.
            let refs: BTreeMap<String, ObjectId> = self
                .repo
                .refs_under(refname::SESSIONS)?
                .refs
                .into_iter()
                .map(|found| (found.name, found.id))
                .collect();
            let mut tips = Vec::new();
            for (sid, _) in &held {
                if let Some(id) = refs.get(&RefName::Session(*sid).to_string()) {
                    let tip = self.settled(*sid, *id, redactor)?;
                    tips.extend(
                        tip.filter(|tip| tip.session.status.is_closed() && wanted(&tip.session)),
                    );
                }
            }
            if tips.is_empty() {
                return Ok(Vec::new());
            }
            if self.write_archive(name, &tips, redactor)? == Swap::Done {
                for (_, lock) in held {
                    // Sessions in an archive have no lock file either; the lock itself ends here in any case.
                    let _ = lock.remove();
                }
                return Ok(tips.iter().map(|tip| tip.session.sid).collect());
            }
        }
        Err(Error::fatal(format!("ref '{name}' keeps moving")).hint("git agent doctor"))
    }

    /// Returns the tip of a session once all of it is in git and nothing is left in its spool.
    pub(super) fn settled(
        &self,
        sid: SessionId,
        id: ObjectId,
        redactor: &Redactor,
    ) -> Result<Option<Tip>> {
        let dir = self.spool_dir(sid);
        if !dir.join(spool::FILE).exists() {
            return self.tip_at(id, sid).map(Some);
        }
        let Some(tip) = self.flush_spool(sid, redactor)? else {
            return Ok(None);
        };
        let rest = spool::read_tail(&dir, tip.session.seq, 0, u64::MAX)?;
        if !rest.events.is_empty() || rest.damaged > 0 || rest.torn > 0 {
            return Ok(None);
        }
        spool::remove(&dir)?;
        // Attachments are in git with the events that name them; an empty directory is nothing.
        let _ = fs::remove_dir_all(dir.join(ATTACHMENTS));
        let _ = fs::remove_dir(&dir);
        Ok(Some(tip))
    }

    fn write_archive(&self, name: &str, tips: &[Tip], redactor: &Redactor) -> Result<Swap> {
        let cannot = || format!("cannot write archive '{name}'");
        let previous = self.repo.find_ref(name)?;
        let newline = Redacted::trusted("\n");
        let mut lines = Vec::new();
        let mut newest = 0;
        for tip in tips {
            let mut line = serde_json::to_value(&tip.session).context(cannot)?;
            if let Value::Object(fields) = &mut line {
                fields.insert(TIP.to_owned(), tip.id.to_string().into());
            }
            lines.push(redactor.json(line).to_line());
            newest = newest.max(tip.session.updated.seconds());
        }
        let text = Redacted::concat(lines.iter().flat_map(|line| [line, &newline]));
        let mut batch = self.repo.batch();
        let entry = |name: &str, id| TreeEntry {
            name: name.into(),
            kind: object::BLOB,
            id,
        };
        let version = batch.blob(Vec::new());
        let sessions = batch.blob(text.into_bytes().into_inner());
        let tree = batch.tree([entry(VERSION, version), entry(SESSIONS, sessions)]);
        let parents: Vec<ObjectId> = previous
            .into_iter()
            .chain(tips.iter().map(|tip| tip.id))
            .collect();
        let (author, email) = self.repo.committer().unwrap_or_default();
        let signature = Signature {
            name: author,
            email,
            seconds: newest,
        };
        let mut message = format!("agent-archive v1\n\n{} closed sessions\n\n", tips.len());
        if tips.iter().all(|tip| tip.own) {
            message = self.marked(tree, &parents, &message)?;
        }
        let id = batch.commit(tree, &parents, &signature, &message);
        self.repo.write_batch(&batch)?;
        fault::point("fold.written").context(cannot)?;
        let mut changes = vec![RefChange {
            name: name.to_owned(),
            expected: previous.map_or(Expected::Absent, Expected::At),
            new: Some(id),
        }];
        changes.extend(tips.iter().map(|tip| RefChange {
            name: RefName::Session(tip.session.sid).to_string(),
            expected: Expected::At(tip.id),
            new: None,
        }));
        let swap = self.repo.swap_refs(&changes)?;
        fault::point("fold.done").context(cannot)?;
        Ok(swap)
    }

    /// Gives a session of this clone that is in an archive its ref back. Returns whether it was in one. The caller holds
    /// the session's write lock.
    pub fn unfold(&self, sid: SessionId) -> Result<bool> {
        let name = RefName::Session(sid).to_string();
        if self.repo.find_ref(&name)?.is_some() {
            return Ok(false);
        }
        let Some(archived) = self.find_archived(sid)? else {
            return Ok(false);
        };
        let change = RefChange {
            name,
            expected: Expected::Absent,
            new: Some(archived.id),
        };
        // Somebody who was faster has done the same.
        match self.repo.swap_ref(&change)? {
            Swap::Done | Swap::Stale => Ok(true),
        }
    }

    /// Returns the newest commit of one of this clone's folded sessions; one that others wrote only where this clone wrote
    /// none.
    pub(super) fn find_archived(&self, sid: SessionId) -> Result<Option<Tip>> {
        let known = self.own();
        let (mut own, mut theirs) = (Ok(None), None);
        for archive in self
            .repo
            .refs_under(&refname::archives_of(&sid.month()))?
            .refs
        {
            let Some(RefName::Archive { month, .. }) = RefName::parse(&archive.name) else {
                continue;
            };
            read_archive(self.repo, archive.id, &month, &mut |archived| {
                if archived.session.sid == sid {
                    match self.tip_by(&known, archived.tip, sid) {
                        Ok(tip) if !tip.own => theirs = theirs.take().or(Some(tip)),
                        found => own = found.map(Some),
                    }
                }
                matches!(own, Ok(None))
            })?;
            if !matches!(own, Ok(None)) {
                break;
            }
        }
        let folded = |tip| Tip {
            archived: true,
            ..tip
        };
        Ok(own?.or(theirs).map(folded))
    }

    /// Adds the folded sessions to a listing: this clone's first, then those of remotes.
    pub(super) fn take_in_archives(&self, listing: &mut Listing) -> Result<()> {
        let key = |listed: &Listed| (listed.session.sid, listed.session.writer.clone());
        let mine = listing.sessions.iter().filter(|listed| listed.is_mine());
        let mut seen: BTreeSet<Seen> = mine.map(key).collect();
        let theirs: BTreeMap<Seen, usize> = listing
            .sessions
            .iter()
            .enumerate()
            .filter(|(_, listed)| !listed.is_mine())
            .map(|(at, listed)| (key(listed), at))
            .collect();
        for archive in self.repo.refs_under(refname::ARCHIVES)?.refs {
            if let Some(RefName::Archive { month, .. }) = RefName::parse(&archive.name) {
                let place = (&archive, &month, None);
                for listed in self.take_in(place, &mut seen, listing) {
                    // A remote still has the ref that was folded here: it is one's own session all the same.
                    match theirs.get(&key(&listed)) {
                        Some(at) => listing.sessions[*at] = listed,
                        None => listing.sessions.push(listed),
                    }
                }
            }
        }
        seen.extend(theirs.into_keys());
        for archive in self.repo.refs_under(refname::REMOTES)?.refs {
            if let Some((remote, RefName::Archive { month, .. })) =
                RefName::parse_at_remote(&archive.name)
            {
                let place = (&archive, &month, Some(remote));
                let found = self.take_in(place, &mut seen, listing);
                listing.sessions.extend(found);
            }
        }
        Ok(())
    }

    /// Returns one archive's sessions that were not seen yet; what cannot be read of it is reported. Of this clone's own
    /// archive those that others put there come last, and only where it has none of that id itself.
    fn take_in(
        &self,
        (archive, month, remote): (&Ref, &Month, Option<String>),
        seen: &mut BTreeSet<Seen>,
        listing: &mut Listing,
    ) -> Vec<Listed> {
        let own = self.own();
        let judged = remote.is_none() && own.key.is_some();
        let (mut found, mut others) = (Vec::new(), Vec::new());
        let mut last = None;
        let room = limits::SESSIONS.saturating_sub(listing.sessions.len());
        let each = &mut |archived: Archived, id: ObjectId, commit: &Commit| {
            let key = (archived.session.sid, archived.session.writer.clone());
            if seen.contains(&key) {
                return true;
            }
            let mut listed = Listed {
                tip: Some(archived.tip),
                session: archived.session,
                remote: remote.clone(),
                by_hand: false,
                archived: true,
            };
            if last.is_none_or(|(known, _)| known != id) {
                last = Some((id, !judged || own.wrote(id, commit)));
            }
            if last.is_some_and(|(_, wrote)| !wrote) {
                // Two archives that were joined have what each wrote in a commit of neither: then the log tells.
                match self.tip_by(&own, archived.tip, listed.session.sid) {
                    Ok(tip) if tip.own => listed.session = tip.session,
                    _ => {
                        listed.by_hand = true;
                        others.push((key, listed));
                        return true;
                    }
                }
            }
            seen.insert(key);
            found.push(listed);
            found.len() < room
        };
        if let Err(error) = read_archive_commits(self.repo, archive.id, month, each) {
            listing.unreadable.push(Unreadable {
                name: archive.name.clone(),
                reason: error.message().to_owned(),
            });
        }
        for (key, listed) in others {
            if seen.insert(key) {
                found.push(listed);
            }
        }
        found
    }
}

/// A session that was seen, and whose. Nobody can hide somebody else's by giving one of their own the same id.
type Seen = (SessionId, WriterId);

/// Calls `each` with the sessions of an archive, newest commit first, until it returns `false`. A session that was folded
/// more than once comes more than once: the first is the one that counts.
pub(crate) fn read_archive(
    repo: &Repo,
    tip: ObjectId,
    month: &Month,
    each: &mut dyn FnMut(Archived) -> bool,
) -> Result<()> {
    read_archive_commits(repo, tip, month, &mut |archived, _, _| each(archived))
}

/// The same, with the commit that each of them is in.
fn read_archive_commits(
    repo: &Repo,
    tip: ObjectId,
    month: &Month,
    each: &mut dyn FnMut(Archived, ObjectId, &Commit) -> bool,
) -> Result<()> {
    let mut next = Some(tip);
    for _ in 0..limits::ARCHIVE_CHAIN {
        let Some(id) = next else { return Ok(()) };
        let commit = repo.read_commit(id)?;
        let entries = repo.read_tree(commit.tree, limits::TREE)?;
        require_version(&entries).map_err(|newer| {
            newer.unwrap_or_else(|| Error::fatal(format!("commit {id} is no archive")))
        })?;
        let blob = entries
            .iter()
            .find(|entry| entry.name == SESSIONS.as_bytes())
            .ok_or_else(|| Error::fatal(format!("archive {id} has no {SESSIONS}")))?;
        let bytes = repo.read_object(blob.id, ObjectKind::Blob, limits::ARCHIVE)?;
        let mut tips = BTreeSet::new();
        for line in bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let archived = read_line(repo, line)
                .context(|| format!("a line of {SESSIONS} of {id} is malformed"))?;
            let known = commit.parents.contains(&archived.tip);
            if !known || archived.session.sid.month() != month.as_str() {
                return Err(Error::fatal(format!(
                    "{SESSIONS} of {id} speaks of a session that is not in it"
                )));
            }
            tips.insert(archived.tip);
            if !each(archived, id, &commit) {
                return Ok(());
            }
        }
        // The first archive of a chain has only logs as parents.
        next = commit
            .parents
            .first()
            .copied()
            .filter(|first| !tips.contains(first));
    }
    Err(Error::fatal(format!(
        "archive {tip} has more than the {} commits allowed",
        limits::ARCHIVE_CHAIN
    )))
}

pub(super) fn read_line(repo: &Repo, line: &[u8]) -> Result<Archived> {
    let mut value: Value =
        serde_json::from_slice(line).context(|| "it is no JSON object".into())?;
    let tip = value
        .as_object_mut()
        .and_then(|fields| fields.remove(TIP))
        .and_then(|tip| tip.as_str().map(str::to_owned))
        .ok_or_else(|| Error::fatal("it names no log"))?;
    Ok(Archived {
        tip: repo.parse_id(&tip)?,
        session: serde_json::from_value(value).context(|| "it is no session".into())?,
    })
}
