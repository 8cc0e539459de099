//! The facts of this clone about its sessions: `agents/local/<sid>.json`, replaced as a whole and durable before the call
//! returns. They are never in git.
//!
//! The file is written before the first log commit of a session, so a recorded session has one. If it is missing (it was
//! lost, or an earlier version made the session), its facts come from the record of that version, or else from the
//! worktree that git has for the session's branch. The next log commit writes it again.

use std::cell::OnceCell;
use std::fs;
use std::path::PathBuf;

use crate::error::{Context, Result};
use crate::file::{self, Durability};
use crate::git::worktree::{self, Worktree};
use crate::model::session::{Local, Record, Session, SessionId};
use crate::store::Store;

/// The directory of the files.
const DIR: &str = "local";
/// The largest file that is read.
const LARGEST: u64 = 64 << 10;

/// Finds the facts of several sessions; lists the worktrees at most once.
pub(crate) struct Locals<'s, 'a> {
    store: &'s Store<'a>,
    worktrees: OnceCell<Vec<Worktree>>,
}

impl Locals<'_, '_> {
    /// Gives one of this clone's sessions the facts of this clone.
    pub(crate) fn attach(&self, session: &mut Session) {
        if let Some(local) = self.store.local(session.sid) {
            session.local = local;
        } else if session.local.is_empty() {
            session.local = self.derive(&session.record);
        }
    }

    fn derive(&self, record: &Record) -> Local {
        let Some(branch) = record.branch.as_deref() else {
            return Local::default();
        };
        let full = format!("refs/heads/{branch}");
        // Without a readable list, nothing is known about the worktree.
        let list = || worktree::list(self.store.repo).unwrap_or_default();
        let all = self.worktrees.get_or_init(list).iter();
        let mut linked = all.filter(|known| !known.is_main());
        let found = linked.find(|known| known.branch.as_deref() == Some(full.as_str()));
        let path = found.and_then(|known| known.path.to_str());
        Local::derive(record, path.map(str::to_owned))
    }
}

impl<'a> Store<'a> {
    /// Returns the path of a session's file.
    pub fn local_file(&self, sid: SessionId) -> PathBuf {
        self.dir().join(DIR).join(format!("{sid}.json"))
    }

    /// Returns the facts of a session's file; `None` if it is missing or damaged.
    pub fn local(&self, sid: SessionId) -> Option<Local> {
        let path = self.local_file(sid);
        let bytes = fs::read(&path).ok()?;
        (bytes.len() as u64 <= LARGEST)
            .then(|| serde_json::from_slice(&bytes).ok())
            .flatten()
    }

    /// Writes a session's file. The caller holds the session's write lock.
    pub(crate) fn write_local(&self, sid: SessionId, local: &Local) -> Result<()> {
        self.require_dir(DIR)?;
        let cannot = || format!("cannot encode the facts of session {sid}");
        let mut bytes = serde_json::to_vec(local).context(cannot)?;
        bytes.push(b'\n');
        file::replace(&self.local_file(sid), bytes, Durability::Synced)
    }

    /// Writes a session's file if it is missing, before a log commit without these facts replaces the record of an earlier
    /// version. The caller holds the session's write lock.
    pub(crate) fn keep_local(&self, session: &Session) -> Result<()> {
        if session.local.is_empty() || self.local(session.sid).is_some() {
            return Ok(());
        }
        self.write_local(session.sid, &session.local)
    }

    /// Removes the file of a session that is gone.
    pub fn remove_local(&self, sid: SessionId) {
        // A file that stays is harmless, and 'git agent doctor' finds it.
        let _ = fs::remove_file(self.local_file(sid));
    }

    /// Returns the sessions that have a file.
    pub fn local_sessions(&self) -> Vec<SessionId> {
        let entries = fs::read_dir(self.dir().join(DIR)).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names
            .filter_map(|name| name.strip_suffix(".json")?.parse().ok())
            .collect()
    }

    pub(crate) fn locals(&self) -> Locals<'_, 'a> {
        Locals {
            store: self,
            worktrees: OnceCell::new(),
        }
    }
}
