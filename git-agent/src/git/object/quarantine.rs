//! A directory for untrusted objects: objects that git refuses leave no trace in the repository.
//!
//! git writes fetched objects into a separate directory beside the repository's objects, and only good ones are moved
//! over. Otherwise a failed fetch would leave its pack behind until the next gc.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Context, Result};
use crate::file::{jitter, sync_dir};
use crate::git::{Git, Repo};

/// The prefix of these directories.
const PREFIX: &str = "fetch-";
/// A directory without activity for this long is certainly abandoned.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// A directory of objects, removed on drop.
#[derive(Debug)]
pub(in crate::git) struct Quarantine {
    objects: PathBuf,
    main: PathBuf,
}

impl Quarantine {
    /// Creates an empty one.
    pub(in crate::git) fn new(repo: &Repo) -> Result<Self> {
        let name = format!("{PREFIX}{}-{:x}", std::process::id(), jitter());
        let scratch = repo.scratch_dir();
        sweep(&scratch);
        let objects = scratch.join(name);
        for part in ["pack", "info"] {
            fs::create_dir_all(objects.join(part))
                .context(|| format!("cannot create '{}'", objects.display()))?;
        }
        Ok(Quarantine {
            objects,
            main: repo.objects_dir(),
        })
    }

    /// Returns its object directory.
    pub(in crate::git) fn objects(&self) -> &Path {
        &self.objects
    }

    /// Makes a call of git write its objects here and still find those of the repository.
    pub(in crate::git) fn enter(&self, git: Git) -> Git {
        git.env("GIT_OBJECT_DIRECTORY", &self.objects).env(
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            quoted(self.main.as_os_str()),
        )
    }

    /// Moves all objects to the repository, durably. git has synced the files; this syncs their new names.
    pub(in crate::git) fn release(self) -> Result<()> {
        self.move_all()
            .context(|| "cannot move fetched objects".into())
    }

    fn move_all(&self) -> io::Result<()> {
        let mut packs = Vec::new();
        for entry in fs::read_dir(&self.objects)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_fan = name.len() == 2;
            if name == "pack" {
                for file in fs::read_dir(entry.path())? {
                    packs.push(file?.path());
                }
            } else if is_fan {
                let target = self.main.join(&name);
                fs::create_dir_all(&target)?;
                for file in fs::read_dir(entry.path())? {
                    let file = file?;
                    fs::rename(file.path(), target.join(file.file_name()))?;
                }
                sync_dir(&target)?;
            }
        }
        // An index makes its pack visible, so it comes last.
        packs.retain(|path| {
            !path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("tmp_"))
        });
        packs.sort_by_key(|path| path.extension().is_some_and(|extension| extension == "idx"));
        let target = self.main.join("pack");
        fs::create_dir_all(&target)?;
        for path in &packs {
            if let Some(name) = path.file_name() {
                fs::rename(path, target.join(name))?;
            }
        }
        sync_dir(&target)?;
        sync_dir(&self.main)
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.objects);
    }
}

/// Removes directories of dead processes. These may have run in another container, so only their age shows it.
fn sweep(scratch: &Path) {
    let is_stale = |path: &Path| {
        let changed = fs::metadata(path.join("pack")).and_then(|meta| meta.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > STALE))
    };
    for entry in fs::read_dir(scratch).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if ours && is_stale(&entry.path()) {
            // The next fetch tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns a path in git's form for a list of alternates.
pub(in crate::git) fn quoted(path: &OsStr) -> OsString {
    let bytes = path.as_bytes();
    if !bytes.starts_with(b"\"") && !bytes.contains(&b':') {
        return path.to_owned();
    }
    let mut quoted = vec![b'"'];
    for byte in bytes {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}
