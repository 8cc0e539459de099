//! The journal of a merge on disk, so that an interrupted merge is finished or rolled back and a finished one can be
//! undone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::env::Millis;
use crate::error::{Context as _, Error, Result};
use crate::fault;
use crate::file::{self, Durability};
use crate::git::snapshot::capture::Checkout;
use crate::model::merge::{Style, Tested};
use crate::model::session::{SessionId, Ulid};
use crate::process::lock::{self, Lock};
use crate::session::caller::{self, Act};

/// How long to wait for another merge of this repository to end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many finished merges are kept for undo.
const KEPT: usize = 50;

/// The request, so that `--continue` can repeat it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Asked {
    /// The branch to merge into.
    pub into: String,
    /// The ids of the sessions.
    pub sessions: Vec<SessionId>,
    /// The merge style.
    pub style: Style,
    /// The test command, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Whether tests were skipped.
    #[serde(default)]
    pub no_test: bool,
    /// Whether sessions that break the tests go back to their agents.
    #[serde(default)]
    pub give_back: bool,
}

/// One session's part of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The session's id.
    pub sid: SessionId,
    /// The session's name.
    pub name: String,
    /// The session's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The tip of its branch before the merge.
    pub before: String,
    /// The tip of its branch after the merge, with all of its work committed.
    pub work: String,
    /// The commit on the target that contains it.
    pub commit: String,
    /// The commits that were made for it on the target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<String>,
    /// Its state before the merge.
    pub state: crate::model::session::State,
}

/// The move of the target branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The target's short name.
    pub branch: String,
    /// The target's tip before.
    pub before: String,
    /// The target's tip after.
    pub after: String,
    /// The merged sessions.
    pub parts: Vec<Part>,
    /// Whether the result was tested.
    pub tested: Tested,
    /// The worktrees that have the target checked out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<JournalPlace>,
}

/// A worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalPlace {
    /// The top directory.
    #[serde(with = "crate::model::review::path::as_text")]
    pub top: PathBuf,
    /// The worktree's own git directory.
    #[serde(with = "crate::model::review::path::as_text")]
    pub admin_dir: PathBuf,
}

impl JournalPlace {
    /// Converts checkouts for the journal.
    pub fn of(checkouts: &[Checkout]) -> Vec<Self> {
        let place = |at: &Checkout| JournalPlace {
            top: at.top.clone(),
            admin_dir: at.admin_dir.clone(),
        };
        checkouts.iter().map(place).collect()
    }

    /// Converts back to a checkout.
    pub fn checkout(&self) -> Checkout {
        Checkout {
            admin_dir: self.admin_dir.clone(),
            top: self.top.clone(),
        }
    }
}

/// The changes that `--apply` made to a checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The top directory of the checkout.
    #[serde(with = "crate::model::review::path::as_text")]
    pub top: PathBuf,
    /// The checkout's own git directory.
    #[serde(with = "crate::model::review::path::as_text")]
    pub admin_dir: PathBuf,
    /// The commit that was checked out.
    pub before: String,
    /// The tree that was applied.
    pub after: String,
    /// The index of the files as they were written.
    #[serde(with = "crate::model::review::path::as_text")]
    pub index: PathBuf,
    /// The session's name.
    pub name: String,
}

/// One merge from start to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Version of the format.
    pub v: u32,
    /// Identifies the merge.
    pub id: Ulid,
    /// When it began.
    pub at: Millis,
    /// The request.
    #[serde(default)]
    pub asked: Asked,
    /// The planned move of the target, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landing: Option<Move>,
    /// The planned changes to a checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applying: Option<Applied>,
    /// The earlier merge that this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<Ulid>,
}

/// The lock on merging in this repository: while it is held, no other process merges.
#[derive(Debug)]
pub struct MergeLock {
    _lock: Lock,
    dir: PathBuf,
}

impl MergeLock {
    /// Takes the lock, or names the process that holds it.
    pub fn take(context: &Context<'_>) -> Result<Self> {
        caller::permit(context, Act::Land, [])?;
        let dir = context.store.require_dir("merge")?;
        let path = context.store.require_dir("locks")?.join("merge");
        let lock = match Lock::acquire(context.env, &path, PATIENCE) {
            Ok(lock) => lock,
            // The lock file itself failed: full disk, missing permission.
            Err(error) if std::error::Error::source(&error).is_some() => return Err(error),
            Err(error) => {
                let holder = lock::holder(&path).ok().flatten();
                let who =
                    holder.map_or_else(String::new, |holder| format!(" (pid {})", holder.pid));
                return Err(Error::fatal(format!("another merge is under way{who}"))
                    .because(error)
                    .hint("git agent merge queue list"));
            }
        };
        Ok(MergeLock { _lock: lock, dir })
    }

    /// Returns the interrupted merge, if there is one.
    pub fn unfinished(&self) -> Result<Option<Journal>> {
        read(&self.now())
    }

    /// Writes the journal before the next step.
    pub fn note(&self, journal: &Journal) -> Result<()> {
        write_durably(&self.now(), journal)?;
        fault::point("merge.noted").context(|| "cannot write the journal".into())
    }

    /// Removes the journal of a merge that changed nothing.
    pub fn forget(&self) -> Result<()> {
        match fs::remove_file(self.now()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::fatal("cannot remove the journal of a merge").because(error))
            }
            _ => Ok(()),
        }
    }

    /// Keeps the journal of a finished merge for undo.
    pub fn keep(&self, journal: &Journal) -> Result<()> {
        let done = self.done();
        fs::create_dir_all(&done).context(|| format!("cannot make '{}'", done.display()))?;
        write_durably(&done.join(format!("{}.json", journal.id)), journal)?;
        fault::point("merge.kept").context(|| "cannot write the journal".into())?;
        self.forget()?;
        let mut old = self.finished()?;
        old.truncate(old.len().saturating_sub(KEPT));
        for journal in old {
            self.drop_done(journal.id)?;
        }
        Ok(())
    }

    /// Returns the merges that can be undone, oldest first.
    pub fn finished(&self) -> Result<Vec<Journal>> {
        let mut found = Vec::new();
        let Ok(entries) = fs::read_dir(self.done()) else {
            return Ok(found);
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "json") {
                found.extend(read(&path)?);
            }
        }
        found.sort_by_key(|journal: &Journal| journal.id);
        Ok(found)
    }

    /// Forgets a finished merge. Succeeds if it is forgotten already.
    pub fn drop_done(&self, id: Ulid) -> Result<()> {
        let path = self.done().join(format!("{id}.json"));
        if let Some(applied) = read(&path)?.and_then(|journal| journal.applying) {
            let _ = fs::remove_file(&applied.index);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::fatal(format!("cannot remove '{}'", path.display())).because(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the directory of the merge files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn now(&self) -> PathBuf {
        self.dir.join("now.json")
    }

    fn done(&self) -> PathBuf {
        self.dir.join("done")
    }
}

impl Journal {
    pub fn begin(context: &Context<'_>, asked: Asked) -> Self {
        Journal {
            v: 1,
            id: Ulid::new(context.env),
            at: context.env.now(),
            asked,
            landing: None,
            applying: None,
            undoes: None,
        }
    }
}

fn read(path: &Path) -> Result<Option<Journal>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Error::fatal(format!("cannot read '{}'", path.display())).because(error));
        }
    };
    match serde_json::from_slice::<Journal>(&bytes) {
        Ok(journal) if journal.v == 1 => Ok(Some(journal)),
        Ok(_) => Err(Error::fatal(format!(
            "'{}' was written by a newer git-agent",
            path.display()
        ))),
        Err(error) => Err(Error::fatal(format!("cannot parse '{}'", path.display()))
            .because(error)
            .hint("move the file away, then check the target: git log")),
    }
}

/// Replaces a file atomically and durably: after a power cut it is complete or absent.
pub fn write_durably(path: &Path, value: &impl Serialize) -> Result<()> {
    let cannot = || format!("cannot write '{}'", path.display());
    let bytes = serde_json::to_vec_pretty(value).context(cannot)?;
    file::replace(path, bytes, Durability::Synced)
}
