//! Archives: closed sessions in one ref per month and writer, so that old work needs no refs of its own.
//!
//! An archive is a chain of commits. Each holds `sessions.jsonl`, one line per session (its last state and the `tip` of
//! its log), and has those tips as parents, so that every log stays reachable; its first parent is the previous
//! archive. Lines never change: a resumed session gets its ref back, and a newer line when it is archived again.

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
use crate::model::session::{Record, Session, SessionId, WriterId};
use crate::process::lock::Lock;
use crate::redact::{Redacted, Redactor};
use crate::store::list::{Listed, Listing, Scope, Unreadable};
use crate::store::log::{ATTACHMENTS, Tip, VERSION, require_version, spool};
use crate::store::refname::{self, Month, RefName};
use crate::store::{Store, limits};

/// The name of the tree entry with the archived sessions.
pub const SESSIONS: &str = "sessions.jsonl";
/// The key of a line that names the newest commit of the session's log.
pub(super) const TIP: &str = "tip";
/// The most parents of one archive commit: the previous archive, and the logs. git's own octopus merges have far fewer.
pub(super) const PARENTS: usize = 200;
/// How often a lost race is retried.
const ATTEMPTS: u32 = 8;

/// The result of archiving.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Folded {
    /// The sessions that are now in an archive and no longer have a ref.
    pub sessions: Vec<SessionId>,
    /// The archives that were written.
    pub archives: Vec<String>,
}

/// A session in an archive.
#[derive(Debug, Clone)]
pub struct Archived {
    /// The newest commit of its log.
    pub tip: ObjectId,
    /// Its last state.
    pub session: Record,
}

/// Selects the closed sessions to archive.
pub struct Rule<'a> {
    /// The candidates.
    pub may: &'a dyn Fn(&Session) -> bool,
    /// Archives all candidates that were closed before this time.
    pub before: Millis,
    /// Archives the oldest of the rest, so that at most this many remain.
    pub most: usize,
}

impl Store<'_> {
    /// Archives all of this clone's closed sessions that are `wanted`.
    pub fn fold(&self, redactor: &Redactor, wanted: &dyn Fn(&Session) -> bool) -> Result<Folded> {
        let rule = Rule {
            may: wanted,
            before: Millis(u64::MAX),
            most: 0,
        };
        self.fold_by(redactor, &rule)
    }

    /// Archives this clone's closed sessions by a rule. Skips sessions that are being written or have a damaged spool.
    /// Archive and session refs change together or not at all.
    pub fn fold_by(&self, redactor: &Redactor, rule: &Rule<'_>) -> Result<Folded> {
        let lock = self.require_dir("locks")?.join("archive.lock");
        let mut folded = Folded::default();
        // Another process is archiving, which is as good.
        let Some(_lock) = Lock::try_acquire(self.env, lock)? else {
            return Ok(folded);
        };
        let mut months: BTreeMap<String, Vec<SessionId>> = BTreeMap::new();
        let writer = self.require_writer()?;
        let mut closed: Vec<(Millis, SessionId)> = Vec::new();
        for listed in self.list(Scope::Mine)?.sessions {
            let session = &listed.session;
            // An archive holds only sessions of its own writer: other clones would refuse it otherwise.
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
                .ok_or_else(|| Error::fatal(format!("'{month}' is not a month")))?;
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
        // Held until the refs have changed: another writer waits, and then finds the session in the archive.
        let mut held = Vec::new();
        for sid in group {
            if let Some(lock) = Lock::try_acquire(self.env, self.write_lock(*sid))? {
                held.push((*sid, lock));
            }
        }
        for _ in 0..ATTEMPTS {
            // Read once, because on reftable every read is a process.
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
                    // Archived sessions have no lock file. The lock itself ends here in any case.
                    let _ = lock.remove();
                }
                return Ok(tips.iter().map(|tip| tip.session.sid).collect());
            }
        }
        Err(
            Error::fatal(format!("ref '{name}' moved {ATTEMPTS} times in a row"))
                .hint("git agent doctor"),
        )
    }

    /// Returns the tip of a session if all of it is in git and its spool is empty.
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
        let rest = spool::read_tail(&dir, tip.session.seq, None, u64::MAX)?;
        if !rest.events.is_empty() || rest.damaged > 0 || rest.torn > 0 {
            return Ok(None);
        }
        spool::remove(&dir)?;
        // Attachments are in git with their events. An empty directory does not matter.
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
            self.keep_local(&tip.session)?;
            let mut line = serde_json::to_value(&tip.session.record).context(cannot)?;
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

    /// Restores the ref of an archived session of this clone. Returns whether it was archived. The caller holds the
    /// session's write lock.
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
        // A faster process has done the same.
        match self.repo.swap_ref(&change)? {
            Swap::Done | Swap::Stale => Ok(true),
        }
    }

    /// Returns the newest commit of an archived session of this clone. Returns one that others wrote only if this clone
    /// wrote none.
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

    /// Adds the archived sessions to a listing: this clone's first, then those of remotes.
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
                    // A remote still has the ref that was archived here. It is this clone's own session nevertheless.
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

    /// Returns the sessions of one archive that were not seen yet, and reports unreadable parts. In this clone's own
    /// archive, sessions that others put there come last, and only if it has no session of its own with that id.
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
                session: archived.session.into(),
                remote: remote.clone(),
                by_hand: false,
                archived: true,
            };
            if last.is_none_or(|(known, _)| known != id) {
                last = Some((id, !judged || own.wrote(id, commit)));
            }
            if last.is_some_and(|(_, wrote)| !wrote) {
                // If two archives were joined, the merge commit has neither's mark. Then the log decides.
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

/// A session and its writer. A writer cannot hide another's session with one of the same id.
type Seen = (SessionId, WriterId);

/// Calls `each` with the sessions of an archive, newest commit first, until it returns `false`. A session that was
/// archived several times comes several times; the first one counts.
pub(crate) fn read_archive(
    repo: &Repo,
    tip: ObjectId,
    month: &Month,
    each: &mut dyn FnMut(Archived) -> bool,
) -> Result<()> {
    read_archive_commits(repo, tip, month, &mut |archived, _, _| each(archived))
}

/// The same, with the commit that contains each of them.
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
            newer.unwrap_or_else(|| Error::fatal(format!("commit {id} is not an archive")))
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
                    "{SESSIONS} of {id} names a session that it does not contain"
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
    let mut value: Value = serde_json::from_slice(line).context(|| "not a JSON object".into())?;
    let tip = value
        .as_object_mut()
        .and_then(|fields| fields.remove(TIP))
        .and_then(|tip| tip.as_str().map(str::to_owned))
        .ok_or_else(|| Error::fatal("the log is missing"))?;
    Ok(Archived {
        tip: repo.parse_id(&tip)?,
        session: serde_json::from_value(value).context(|| "not a session".into())?,
    })
}
