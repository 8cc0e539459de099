//! Creates the branch of a new worktree exactly once, and deletes it again if the worktree fails.
//!
//! On the files backend this happens here under git's own lock file, and the ref's existence is checked under that
//! lock, so that only one of several processes gets the name. git does it where more than a file must be written.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use gix::bstr::ByteSlice;

use crate::error::{Context, Error, Result};
use crate::git::refs::{Expected, RefChange, lock_path};
use crate::git::worktree::hook;
use crate::git::{ObjectId, RefBackend, Repo};

/// How long to wait for another holder of the lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// A branch that this process created.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) full_name: String,
    start: ObjectId,
    /// The reason why git must handle refs here.
    pub(super) by_git: Option<&'static str>,
    /// The reflog line of its creation without the message, if refs are logged.
    pub(super) log_line: Option<String>,
}

impl Branch {
    /// Creates the branch; the name must be free.
    pub(super) fn create(
        repo: &Repo,
        name: &str,
        start: ObjectId,
        start_name: Option<&str>,
    ) -> Result<Self> {
        let full_name = full_name(name)?;
        let message = match start_name {
            Some(start_name) => format!("branch: Created from {}", one_line(start_name)),
            None => format!("branch: Created from {start}"),
        };
        let log_line = log_line(repo, repo.null_id(), start);
        let by_git = if repo.ref_backend() == RefBackend::Reftable {
            Some("reftable")
        } else if hook::exists(repo, "reference-transaction") {
            Some("a reference-transaction hook")
        } else if log_line.is_none() && logs_refs(repo) {
            Some("an unknown committer")
        } else {
            None
        };
        let branch = Branch {
            full_name,
            start,
            by_git,
            log_line: log_line.filter(|_| logs_refs(repo)),
        };
        match by_git {
            Some(_) => branch.create_by_git(repo, name, &message)?,
            None => branch.create_file(repo, name, &message)?,
        }
        // Recorded only now: a branch that already existed is not a move of ours.
        repo.note_moves(&[RefChange {
            name: branch.full_name.clone(),
            expected: Expected::Absent,
            new: Some(branch.start),
        }]);
        Ok(branch)
    }

    /// Deletes the branch unless it has moved.
    pub(super) fn release(&self, repo: &Repo) {
        let _ = repo
            .git_common()
            .with_hooks()
            .args(["update-ref", "-d", &self.full_name])
            .arg(self.start.to_string())
            .run();
    }

    fn create_by_git(&self, repo: &Repo, name: &str, message: &str) -> Result<()> {
        let created = repo
            .git_common()
            .with_hooks()
            .args(["update-ref", "-m", message, &self.full_name])
            .arg(self.start.to_string())
            .arg(repo.null_id().to_string())
            .run();
        match created {
            Ok(_) => Ok(()),
            Err(_) if repo.find_ref(&self.full_name)?.is_some() => Err(already_exists(name)),
            Err(error) => Err(error),
        }
    }

    fn create_file(&self, repo: &Repo, name: &str, message: &str) -> Result<()> {
        refuse_conflicts(repo, &self.full_name)?;
        let path = repo.common_dir().join(&self.full_name);
        let lock = lock_path(&path);
        let cannot = || format!("cannot create branch '{name}'");
        let mut file = take_lock(&lock).context(cannot)?;
        let result = (|| {
            if repo.find_ref(&self.full_name)?.is_some() {
                return Err(already_exists(name));
            }
            refuse_conflicts(repo, &self.full_name)?;
            // Empty directories of deleted refs may be in the way.
            remove_empty_directories(&path).context(cannot)?;
            file.write_all(format!("{}\n", self.start).as_bytes())
                .and_then(|()| file.sync_data())
                .context(cannot)?;
            if let Some(line) = &self.log_line {
                let log = repo.common_dir().join("logs").join(&self.full_name);
                remove_empty_directories(&log).context(cannot)?;
                append_log(&log, line, message).context(cannot)?;
            }
            fs::rename(&lock, &path).context(cannot)
        })();
        if result.is_err() {
            let _ = fs::remove_file(&lock);
            // Also the directories created for the lock; those in use are not empty.
            let heads = repo.common_dir().join("refs/heads");
            for above in lock.ancestors().skip(1).take_while(|above| *above != heads) {
                if fs::remove_dir(above).is_err() {
                    break;
                }
            }
        }
        result
    }
}

/// Returns the full name of a branch if git accepts it.
pub(super) fn full_name(branch: &str) -> Result<String> {
    let full_name = format!("refs/heads/{branch}");
    let invalid = branch.starts_with('-')
        || branch == "HEAD"
        || gix::validate::reference::name(full_name.as_bytes().as_bstr()).is_err();
    if invalid {
        return Err(Error::fatal(format!(
            "'{branch}' is not a valid branch name"
        )));
    }
    Ok(full_name)
}

/// Returns the error for an existing branch.
pub(super) fn already_exists(branch: &str) -> Error {
    Error::fatal(format!("a branch named '{branch}' already exists"))
}

/// Refuses a name that needs a directory in the place of a branch, or the reverse. The file system detects this for
/// loose refs, but not for packed ones.
fn refuse_conflicts(repo: &Repo, full_name: &str) -> Result<()> {
    let conflict = |other: &str| {
        let short = |name: &str| name.strip_prefix("refs/heads/").unwrap_or(name).to_owned();
        Error::fatal(format!(
            "cannot create branch '{}': branch '{}' exists",
            short(full_name),
            short(other)
        ))
    };
    for (slash, _) in full_name.match_indices('/').skip(2) {
        let above = &full_name[..slash];
        if repo.find_ref(above)?.is_some() {
            return Err(conflict(above));
        }
    }
    let below = repo.refs_under(&format!("{full_name}/"))?;
    match below.refs.first() {
        Some(first) => Err(conflict(&first.name)),
        None => Ok(()),
    }
}

fn take_lock(lock: &Path) -> io::Result<fs::File> {
    let since = Instant::now();
    loop {
        let taken = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(lock);
        match taken {
            // git removes empty directories of refs at any time.
            Err(error) if error.kind() == io::ErrorKind::NotFound && since.elapsed() < PATIENCE => {
                if let Some(parent) = lock.parent() {
                    fs::create_dir_all(parent)?;
                }
            }
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && since.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

fn remove_empty_directories(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()) {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        remove_empty_directories(&entry?.path())?;
    }
    fs::remove_dir(path)
}

/// Appends one line to a reflog, and creates it if it is missing.
pub(super) fn append_log(path: &Path, line: &str, message: &str) -> io::Result<()> {
    let open = || fs::OpenOptions::new().append(true).create(true).open(path);
    let mut file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            open()?
        }
        other => other?,
    };
    let tab = if message.is_empty() { "" } else { "\t" };
    file.write_all(format!("{line}{tab}{message}\n").as_bytes())
}

/// Returns a reflog line without its message; `None` if the committer is unknown.
pub(super) fn log_line(repo: &Repo, old: ObjectId, new: ObjectId) -> Option<String> {
    let signature = repo.gix().committer()?.ok()?;
    let mut who = Vec::new();
    signature.write_to(&mut who).ok()?;
    let who = String::from_utf8(who).ok()?;
    Some(format!("{old} {new} {who}"))
}

/// Returns whether branches are logged in this repository.
pub(super) fn logs_refs(repo: &Repo) -> bool {
    match log_setting(repo) {
        Some(setting) => setting,
        None => repo.gix().config_snapshot().boolean("core.bare") != Some(true),
    }
}

/// Returns the value of `core.logAllRefUpdates`, if it is set.
pub(super) fn log_setting(repo: &Repo) -> Option<bool> {
    let config = repo.gix().config_snapshot();
    let value = config.string("core.logAllRefUpdates")?;
    Some(
        value.eq_ignore_ascii_case(b"always")
            || config.boolean("core.logAllRefUpdates") == Some(true),
    )
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
