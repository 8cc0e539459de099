//! The folder and the admin directory of a worktree under construction, and how to remove exactly the created files.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::error::{Context, Error, Result};
use crate::file::jitter;
use crate::git::Repo;
use crate::git::worktree::finish::INITIALIZING;

/// Resolves `.` and `..` without the file system, for paths whose end does not exist.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Everything created so far. Dropped without [`Undo::keep`], it removes exactly that.
#[derive(Debug, Default)]
pub(super) struct Undo {
    parents: Vec<PathBuf>,
    folder: Option<Folder>,
    admin_dir: Option<PathBuf>,
    kept: bool,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    existed: bool,
}

impl Undo {
    /// Marks the work as done.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }

    /// Records an admin directory that git created.
    pub(super) fn adopt_admin_dir(&mut self, path: PathBuf) {
        self.admin_dir = Some(path);
    }

    /// Creates the folder of a worktree, or takes an empty one, and returns its real path.
    pub(super) fn make_folder(&mut self, wanted: &Path) -> Result<PathBuf> {
        let cannot = || format!("cannot create '{}'", wanted.display());
        let absolute = std::path::absolute(wanted).context(cannot)?;
        let Some(name) = absolute.file_name() else {
            return Err(Error::fatal(format!(
                "'{}' is not a valid path for a worktree",
                wanted.display()
            )));
        };
        let parent = absolute.parent().unwrap_or(Path::new("/"));
        // Another process that gives up may remove a parent directory that it created, between our check and our use.
        for _ in 0..16 {
            self.make_parents(parent).context(cannot)?;
            let real = match fs::canonicalize(parent) {
                Ok(real) => real.join(name),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::fatal(cannot()).because(error)),
            };
            match fs::create_dir(&real) {
                Ok(()) => {
                    self.folder = Some(Folder {
                        path: real.clone(),
                        existed: false,
                    });
                    return Ok(real);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !is_empty_directory(&real) {
                        return Err(Error::fatal(format!("'{}' already exists", real.display())));
                    }
                    self.folder = Some(Folder {
                        path: real.clone(),
                        existed: true,
                    });
                    return Ok(real);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::fatal(cannot()).because(error)),
            }
        }
        Err(Error::fatal(cannot()))
    }

    fn make_parents(&mut self, path: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        let mut next = Some(path);
        while let Some(current) = next {
            match fs::metadata(current) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(current),
                Err(error) => return Err(error),
            }
            next = current.parent();
        }
        for directory in missing.into_iter().rev() {
            match fs::create_dir(directory) {
                Ok(()) => self.parents.push(directory.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Creates an admin directory with a unique name, locked while the worktree is prepared.
    ///
    /// `write` fills it elsewhere first: git's own `fsck` reports one without HEAD, so it must appear complete.
    pub(super) fn make_admin_dir(
        &mut self,
        repo: &Repo,
        hint: &OsStr,
        write: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<PathBuf> {
        let base = repo.common_dir().join("worktrees");
        let cannot = || format!("cannot create a worktree in '{}'", base.display());
        let staged = staging_place(repo.common_dir()).context(cannot)?;
        fs::create_dir(&staged).context(cannot)?;
        self.admin_dir = Some(staged.clone());
        fs::write(staged.join("locked"), format!("{INITIALIZING}\n"))
            .and_then(|()| write(&staged))
            .context(cannot)?;
        let name = admin_name(hint);
        for counter in 0u32..100_000 {
            let path = match counter {
                0 => base.join(&name),
                n => base.join(format!("{name}{n}")),
            };
            // git removes an empty `worktrees` with its last entry.
            match fs::create_dir(&base) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::fatal(cannot()).because(error));
                }
                _ => {}
            }
            match rename_to_free(&staged, &path) {
                Ok(()) => {
                    self.admin_dir = Some(path.clone());
                    return Ok(path);
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                    ) => {}
                Err(error) => return Err(Error::fatal(cannot()).because(error)),
            }
        }
        Err(Error::fatal(cannot()))
    }

    /// Empties the folder except `.git`, and drops the index, so that it can be filled in another way.
    pub(super) fn clear(&self) -> Result<()> {
        if let Some(folder) = &self.folder {
            empty(&folder.path, true)
                .context(|| format!("cannot empty '{}'", folder.path.display()))?;
        }
        if let Some(admin_dir) = &self.admin_dir {
            for name in ["index", "index.lock"] {
                let _ = fs::remove_file(admin_dir.join(name));
            }
        }
        Ok(())
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        if let Some(folder) = &self.folder {
            if folder.existed {
                let _ = fs::create_dir(&folder.path);
                let _ = empty(&folder.path, false);
            } else {
                let _ = fs::remove_dir_all(&folder.path);
            }
        }
        for parent in self.parents.iter().rev() {
            let _ = fs::remove_dir(parent);
        }
        if let Some(admin_dir) = &self.admin_dir {
            let _ = remove_record(admin_dir);
        }
    }
}

/// Renames a path to one that does not exist.
pub(super) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(CWD, from, CWD, to, flags) {
        // A file system without this operation.
        Err(Errno::INVAL | Errno::NOSYS) => match fs::symlink_metadata(to) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        renamed => Ok(renamed?),
    }
}

/// Removes the record of a worktree in one step: git must not find a part of it.
pub(super) fn remove_record(admin_dir: &Path) -> io::Result<()> {
    let base = admin_dir.parent().unwrap_or(admin_dir);
    let staged = if base.file_name() == Some(OsStr::new("worktrees")) {
        base.parent().and_then(|common| staging_place(common).ok())
    } else {
        None
    };
    match staged {
        Some(staged) if fs::rename(admin_dir, &staged).is_ok() => fs::remove_dir_all(staged)?,
        _ => fs::remove_dir_all(admin_dir)?,
    }
    // git keeps no empty `worktrees` directory; one in use is not empty.
    let _ = fs::remove_dir(base);
    Ok(())
}

/// Returns a fresh path for a record that git must not see yet, or not any more.
pub(super) fn staging_place(common_dir: &Path) -> io::Result<PathBuf> {
    let dir = common_dir.join("agents").join("tmp");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)?;
    let name = format!("worktree-{}-{:x}", std::process::id(), jitter());
    Ok(dir.join(name))
}

/// Removes the content of a directory, never following a symlink.
pub(super) fn empty(directory: &Path, keep_link: bool) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if keep_link && entry.file_name() == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_empty_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
        && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Turns any text into a name that git accepts for an admin directory.
fn admin_name(hint: &OsStr) -> String {
    let text = String::from_utf8_lossy(hint.as_bytes());
    let mut name = String::new();
    for character in text.chars() {
        let plain = character.is_alphanumeric() || matches!(character, '-' | '_' | '.' | '+' | '=');
        let character = if plain { character } else { '-' };
        if character == '.' && (name.is_empty() || name.ends_with('.')) {
            continue;
        }
        name.push(character);
    }
    // Leaves room for a counter within the 255 bytes of a file name.
    while name.len() > 200 {
        name.pop();
    }
    while name.ends_with('.') || name.ends_with(".lock") {
        name.pop();
    }
    if name.is_empty() {
        name.push_str("worktree");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_names_are_plain() {
        for (hint, name) in [
            ("fix it", "fix-it"),
            ("..a..b", "a.b"),
            ("x.lock", "x.loc"),
            ("", "worktree"),
            (".", "worktree"),
            ("é\n\"'", "é---"),
            ("a/b:c~", "a-b-c-"),
        ] {
            assert_eq!(admin_name(OsStr::new(hint)), name, "{hint:?}");
        }
        assert_eq!(admin_name(OsStr::from_bytes(b"a\xffb")), "a-b");
        assert!(admin_name(OsStr::new(&"ü".repeat(400))).len() <= 200);
    }

    #[test]
    fn paths_are_normalized() {
        assert_eq!(normalize(Path::new("/a/b/../../c/./d")), Path::new("/c/d"));
    }
}
