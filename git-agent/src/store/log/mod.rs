//! Session logs in git: a chain of commits, each with its new events and the state after them.

pub(crate) mod flush;
pub mod spool;
pub mod writer;

use std::collections::VecDeque;

use crate::error::{Context, Error, Result};
use crate::git::object::{Commit, TreeEntry};
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::model::event::Event;
use crate::model::session::{Local, Record, Session, SessionId};
use crate::store::list::Listed;
use crate::store::refname::RefName;
use crate::store::sync::authorship::Own;
use crate::store::{Store, limits};

/// The name of the tree entry that marks the format.
pub const VERSION: &str = "v1";
/// The name of the tree entry with the new events.
pub const EVENTS: &str = "events.jsonl";
/// The name of the tree entry with the state.
pub const STATE: &str = "state.json";
/// The name of the tree entry with attachments.
pub const ATTACHMENTS: &str = "att";

/// The trailer that names the other commit where two versions of one log or archive were joined.
pub const JOINED: &str = "Agent-Joined";

/// The newest commit of a session's log, and its state.
#[derive(Debug, Clone)]
pub struct Tip {
    /// The newest commit.
    pub id: ObjectId,
    /// The state at that commit.
    pub session: Session,
    /// Whether it is in an archive, without a ref.
    pub archived: bool,
    /// Whether this clone wrote the state.
    pub own: bool,
}

/// The parts of one log commit.
#[derive(Debug)]
struct LogCommit {
    previous: Option<ObjectId>,
    events: Option<ObjectId>,
    state: Option<ObjectId>,
    attachments: Option<ObjectId>,
}

impl Store<'_> {
    /// Returns the newest commit of a session of this clone, if it is in git yet. Finds an archived one in its archive.
    pub fn log_tip(&self, sid: SessionId) -> Result<Option<Tip>> {
        let Some(id) = self.repo.find_ref(&RefName::Session(sid).to_string())? else {
            return self.find_archived(sid);
        };
        self.tip_at(id, sid).map(Some)
    }

    /// Returns the state at the newest commit of a session of this clone. If others wrote on top, returns this clone's
    /// last state with their news.
    pub(super) fn tip_at(&self, id: ObjectId, sid: SessionId) -> Result<Tip> {
        self.tip_by(&self.own(), id, sid)
    }

    /// The same for a caller that has already loaded this clone's marks.
    pub(super) fn tip_by(&self, own: &Own<'_, '_>, id: ObjectId, sid: SessionId) -> Result<Tip> {
        let mut tip = Tip {
            id,
            session: read_state(self.repo, id, sid)?.into(),
            archived: false,
            own: true,
        };
        if own.key.is_some() && !own.wrote_at(id)? {
            match own.view(id, &tip.session)? {
                Some(view) => tip.session = view.record.into(),
                None => tip.own = false,
            }
        }
        if tip.own {
            self.locals().attach(&mut tip.session);
        } else {
            tip.session.local = Local::default();
        }
        Ok(tip)
    }

    /// Returns the state at a commit of a session's log, after checking that it belongs to that session.
    pub fn state_at(&self, id: ObjectId, sid: SessionId) -> Result<Record> {
        read_state(self.repo, id, sid)
    }

    /// Returns the previous commit of a session's log.
    pub fn log_before(&self, id: ObjectId) -> Result<Option<ObjectId>> {
        Ok(read_log_commit(self.repo, id)?.previous)
    }

    /// Returns the newest code commit among the parents of a log.
    pub fn submitted(&self, tip: ObjectId) -> Result<Option<ObjectId>> {
        let mut next = Some(tip);
        for _ in 0..limits::CHAIN {
            let Some(id) = next else { break };
            let commit = self.repo.read_commit(id)?;
            let code = commit.trailers("Agent-Code").last();
            if let Some(code) = code.and_then(|hex| self.repo.parse_id(hex).ok()) {
                return Ok(Some(code));
            }
            next = commit.parents.first().copied();
        }
        Ok(None)
    }

    /// Returns the events of a log in git, oldest first.
    pub fn transcript(&self, tip: ObjectId) -> Result<Transcript<'_>> {
        let mut commits = VecDeque::new();
        let mut next = Some(tip);
        while let Some(id) = next {
            if commits.len() == limits::CHAIN {
                return Err(Error::fatal(format!(
                    "log {tip} has more than the {} commits allowed",
                    limits::CHAIN
                )));
            }
            next = read_log_commit(self.repo, id)?.previous;
            commits.push_front(id);
        }
        Ok(Transcript {
            repo: self.repo,
            commits,
            events: VecDeque::new(),
            left: limits::SESSION,
        })
    }

    /// Returns at least the last `count` events of a log in git, if it has as many, oldest first.
    pub fn transcript_tail(&self, tip: ObjectId, count: usize) -> Result<Vec<Event>> {
        let mut chunks = Vec::new();
        let (mut found, mut next, mut left) = (0, Some(tip), limits::SESSION);
        while let Some(id) = next.take_if(|_| found < count && chunks.len() < limits::CHAIN) {
            let commit = read_log_commit(self.repo, id)?;
            let events = read_events(self.repo, &commit, &mut left)?;
            found += events.len();
            chunks.push(events);
            next = commit.previous;
        }
        Ok(chunks.into_iter().rev().flatten().collect())
    }

    /// Returns an attachment of a session, whether it is in git yet or not.
    pub fn attached(&self, listed: &Listed, sha256: &str) -> Result<Option<Vec<u8>>> {
        let is_name = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        if listed.is_mine() && is_name {
            let spooled = self.spool_dir(listed.session.sid).join(ATTACHMENTS);
            if let Ok(bytes) = std::fs::read(spooled.join(sha256)) {
                return Ok(Some(bytes));
            }
        }
        match listed.tip {
            Some(tip) => self.attachment(tip, sha256),
            None => Ok(None),
        }
    }

    /// Returns an attachment by its SHA-256, searching from the tip backwards.
    pub fn attachment(&self, tip: ObjectId, sha256: &str) -> Result<Option<Vec<u8>>> {
        let limit = limits::ATTACHMENT as u64;
        self.find_attachment(tip, sha256)?
            .map(|id| self.repo.read_object(id, ObjectKind::Blob, limit))
            .transpose()
    }

    /// Returns the blob of an attachment, searching from the tip backwards.
    pub(super) fn find_attachment(&self, tip: ObjectId, sha256: &str) -> Result<Option<ObjectId>> {
        let mut next = Some(tip);
        for _ in 0..limits::CHAIN {
            let Some(id) = next else { break };
            let commit = read_log_commit(self.repo, id)?;
            if let Some(tree) = commit.attachments {
                let entries = self.repo.read_tree(tree, limits::TREE)?;
                if let Some(entry) = entries.iter().find(|entry| entry.name == sha256.as_bytes()) {
                    return Ok(Some(entry.id));
                }
            }
            next = commit.previous;
        }
        Ok(None)
    }
}

/// Reads the state at a log commit, and checks that it belongs to this session.
pub(crate) fn read_state(repo: &Repo, id: ObjectId, sid: SessionId) -> Result<Record> {
    parse_state(&read_state_bytes(repo, id)?.0, id, sid)
}

/// Reads the state at a log commit as it was written, and the commit.
pub(super) fn read_state_bytes(repo: &Repo, id: ObjectId) -> Result<(Vec<u8>, Commit)> {
    let commit = repo.read_commit(id)?;
    let state = log_commit(repo, id, &commit)?
        .state
        .ok_or_else(|| Error::fatal(format!("log commit {id} has no {STATE}")))?;
    let bytes = repo.read_object(state, ObjectKind::Blob, limits::STATE)?;
    Ok((bytes, commit))
}

/// Parses the state at a log commit, and checks that it belongs to this session.
pub(super) fn parse_state(bytes: &[u8], id: ObjectId, sid: SessionId) -> Result<Record> {
    let session: Record =
        serde_json::from_slice(bytes).context(|| format!("{STATE} of {id} is malformed"))?;
    if session.v != 1 {
        return Err(newer(&format!("v{}", session.v)));
    }
    if session.sid != sid {
        return Err(Error::fatal(format!(
            "{STATE} of {id} belongs to another session"
        )));
    }
    Ok(session)
}

fn newer(version: &str) -> Error {
    Error::fatal(format!("written by a newer git-agent (format {version})"))
        .hint("install a newer git-agent to read it")
}

/// Checks that a tree has the format of this program. The error is empty if it has no format at all.
pub(super) fn require_version(entries: &[TreeEntry]) -> std::result::Result<(), Option<Error>> {
    if entries.iter().any(|entry| entry.name == VERSION.as_bytes()) {
        return Ok(());
    }
    let is_version = |name: &[u8]| {
        (2..=12).contains(&name.len())
            && name[0] == b'v'
            && name[1..].iter().all(u8::is_ascii_digit)
    };
    let other = entries.iter().find(|entry| is_version(&entry.name));
    Err(other.map(|entry| newer(&String::from_utf8_lossy(&entry.name))))
}

fn read_log_commit(repo: &Repo, id: ObjectId) -> Result<LogCommit> {
    log_commit(repo, id, &repo.read_commit(id)?)
}

fn log_commit(repo: &Repo, id: ObjectId, commit: &Commit) -> Result<LogCommit> {
    let entries = repo.read_tree(commit.tree, limits::TREE)?;
    let find = |name: &str| {
        entries
            .iter()
            .find(|entry| entry.name == name.as_bytes())
            .map(|entry: &TreeEntry| entry.id)
    };
    require_version(&entries).map_err(|newer| {
        newer.unwrap_or_else(|| Error::fatal(format!("commit {id} is not a session log")))
    })?;
    // The code commits that a log names are further parents. The first parent is the chain, unless that is code too.
    let code: Vec<&str> = commit.trailers("Agent-Code").collect();
    let previous = commit
        .parents
        .first()
        .filter(|parent| !code.contains(&parent.to_string().as_str()));
    Ok(LogCommit {
        previous: previous.copied(),
        events: find(EVENTS),
        state: find(STATE),
        attachments: find(ATTACHMENTS),
    })
}

fn read_events(repo: &Repo, commit: &LogCommit, left: &mut u64) -> Result<Vec<Event>> {
    let Some(blob) = commit.events else {
        return Ok(Vec::new());
    };
    let bytes = repo.read_object(blob, ObjectKind::Blob, limits::EVENTS.min(*left))?;
    *left -= bytes.len() as u64;
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            if line.len() > limits::EVENT {
                return Err(Error::fatal(format!("an event in {blob} is too large")));
            }
            Event::from_line(line).context(|| format!("an event in {blob} is malformed"))
        })
        .collect()
}

/// The events of a log, read commit by commit.
#[derive(Debug)]
pub struct Transcript<'a> {
    repo: &'a Repo,
    commits: VecDeque<ObjectId>,
    events: VecDeque<Event>,
    left: u64,
}

impl Iterator for Transcript<'_> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Ok(event));
            }
            let id = self.commits.pop_front()?;
            let events = read_log_commit(self.repo, id)
                .and_then(|commit| read_events(self.repo, &commit, &mut self.left));
            match events {
                Ok(events) => self.events = events.into(),
                Err(error) => {
                    self.commits.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}
