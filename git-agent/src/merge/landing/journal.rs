//! What a merge is doing and has done, on disk: so that one that dies is finished or taken back, and any can be undone.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::env::Millis;
use crate::error::{Context as _, Error, Result};
use crate::fault;
use crate::git::snapshot::capture::Checkout;
use crate::model::merge::{Style, Tested};
use crate::model::session::{SessionId, Ulid};
use crate::process::lock::{self, Lock};

/// How long to wait for another merge of this repository that is about to end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many finished merges are kept for undoing.
const KEPT: usize = 50;

/// What was asked for, so that it can be asked again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Asked {
    /// The branch to merge into.
    pub into: String,
    /// The sessions, by id.
    pub sessions: Vec<SessionId>,
    /// How.
    pub style: Style,
    /// The test command, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Whether no tests were wanted.
    #[serde(default)]
    pub no_test: bool,
    /// Whether culprits go back to their agents.
    #[serde(default)]
    pub give_back: bool,
}

/// One session's part of a landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The session.
    pub sid: SessionId,
    /// Its name.
    pub name: String,
    /// Its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The tip of its branch before.
    pub before: String,
    /// The tip of its branch afterwards: all of its work is committed.
    pub work: String,
    /// The commit that has it on the target.
    pub commit: String,
    /// The commits that were made for it on the target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<String>,
    /// Its state before.
    pub state: crate::model::session::State,
}

/// What happened to the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The target's short name.
    pub branch: String,
    /// Where it was.
    pub before: String,
    /// Where it goes.
    pub after: String,
    /// The sessions that come in.
    pub parts: Vec<Part>,
    /// Whether it was tested.
    pub tested: Tested,
    /// The working trees that had it checked out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Place>,
}

/// A working tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its top.
    #[serde(with = "crate::model::review::path::as_text")]
    pub top: PathBuf,
    /// Its own git directory.
    #[serde(with = "crate::model::review::path::as_text")]
    pub admin_dir: PathBuf,
}

impl Place {
    /// Notes working trees.
    pub fn of(checkouts: &[Checkout]) -> Vec<Self> {
        let place = |at: &Checkout| Place {
            top: at.top.clone(),
            admin_dir: at.admin_dir.clone(),
        };
        checkouts.iter().map(place).collect()
    }

    /// Returns the working tree.
    pub fn checkout(&self) -> Checkout {
        Checkout {
            admin_dir: self.admin_dir.clone(),
            top: self.top.clone(),
        }
    }
}

/// What happened to a checkout that changes were applied to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The top of the checkout.
    #[serde(with = "crate::model::review::path::as_text")]
    pub top: PathBuf,
    /// Its own git directory.
    #[serde(with = "crate::model::review::path::as_text")]
    pub admin_dir: PathBuf,
    /// The commit it was at.
    pub before: String,
    /// The tree that was put over it.
    pub after: String,
    /// The index of the files as they were written.
    #[serde(with = "crate::model::review::path::as_text")]
    pub index: PathBuf,
    /// The session.
    pub name: String,
}

/// One merge, from its beginning to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Format.
    pub v: u32,
    /// Which.
    pub id: Ulid,
    /// When.
    pub at: Millis,
    /// What was asked for.
    #[serde(default)]
    pub asked: Asked,
    /// What is about to happen to the target, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landing: Option<Move>,
    /// What is about to happen to a checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applying: Option<Applied>,
    /// The earlier merge that this one takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<Ulid>,
}

/// The right to merge in this repository: nobody else does as long as this lives.
#[derive(Debug)]
pub struct Right {
    _lock: Lock,
    dir: PathBuf,
}

impl Right {
    /// Takes it, or says who has it.
    pub fn take(context: &Context<'_>) -> Result<Self> {
        let dir = context.store.require_dir("merge")?;
        let path = context.store.require_dir("locks")?.join("merge");
        let lock = match Lock::acquire(context.env, &path, PATIENCE) {
            Ok(lock) => lock,
            // The lock itself is in trouble: a full disk, missing rights.
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
        Ok(Right { _lock: lock, dir })
    }

    /// Returns the merge that did not end, if there is one.
    pub fn unfinished(&self) -> Result<Option<Journal>> {
        read(&self.now())
    }

    /// Writes down what is being done.
    pub fn note(&self, journal: &Journal) -> Result<()> {
        write_durably(&self.now(), journal)?;
        fault::point("merge.noted").context(|| "cannot write the journal".into())
    }

    /// Forgets what was being done: nothing came of it.
    pub fn forget(&self) -> Result<()> {
        match fs::remove_file(self.now()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::fatal("cannot remove the journal of a merge").because(error))
            }
            _ => Ok(()),
        }
    }

    /// Keeps what was done, for undoing.
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

    /// Forgets a finished merge; one that is forgotten already is no error.
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

    /// Returns the directory of what belongs to merges.
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
    /// Begins one.
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
        Err(error) => Err(
            Error::fatal(format!("cannot understand '{}'", path.display()))
                .because(error)
                .hint("move it away, then look at the target: git log"),
        ),
    }
}

/// Writes a file so that it is whole or not there, also after a power cut.
pub fn write_durably(path: &Path, value: &impl Serialize) -> Result<()> {
    let cannot = || format!("cannot write '{}'", path.display());
    let bytes = serde_json::to_vec_pretty(value).context(cannot)?;
    let temporary = path.with_extension("tmp");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .context(cannot)?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_all())
        .context(cannot)?;
    fs::rename(&temporary, path).context(cannot)?;
    let parent = path.parent().unwrap_or(path);
    fs::File::open(parent)
        .and_then(|dir| dir.sync_all())
        .context(cannot)
}
