//! Temporary objects for a repository that cannot be written.
//!
//! Another user's repository, or one on a read-only file system, is only read. To show its uncommitted files, trees
//! must be created nevertheless: they go to a directory of this process that refers to the repository's objects and is
//! removed at the end. No ref may ever point at them, so refs are not moved meanwhile.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::env::Env;
use crate::git::object::jitter;

/// A temporary directory in place of one that cannot be written, removed on drop.
#[derive(Debug)]
pub(in crate::git) struct Aside {
    dir: PathBuf,
}

impl Aside {
    /// Creates one for a repository that cannot be written at all; returns `None` for any other.
    pub(in crate::git) fn needed(env: &Env, common_dir: &Path) -> Option<Self> {
        // If one of these can be written, a ref could appear, and then all objects must go to their normal place.
        let places = ["objects", "", "refs", "refs/heads", "reftable"];
        let is_closed = |place: &&str| is_closed(&common_dir.join(place), Access::WRITE_OK);
        places
            .iter()
            .all(is_closed)
            .then(|| Aside::new(env, common_dir).ok())
            .flatten()
    }

    fn new(env: &Env, common_dir: &Path) -> io::Result<Self> {
        let parent = env.var_os("TMPDIR").filter(|dir| !dir.is_empty());
        let parent = parent.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let name = format!("git-agent-{}-{:x}", std::process::id(), jitter());
        let dir = parent.join(name);
        let mut private = fs::DirBuilder::new();
        private.mode(0o700);
        // Fails if the directory exists: another user's directory would be removed on drop.
        private.create(&dir)?;
        let aside = Aside { dir };
        private.create(aside.agents())?;
        private.create(aside.objects())?;
        private.create(aside.objects().join("info"))?;
        let mut alternate = common_dir.join("objects").as_os_str().as_bytes().to_vec();
        alternate.push(b'\n');
        fs::write(aside.objects().join("info/alternates"), alternate)?;
        Ok(aside)
    }

    /// Returns the directory for objects.
    pub(in crate::git) fn objects(&self) -> PathBuf {
        self.dir.join("objects")
    }

    /// Returns the directory for private files.
    pub(in crate::git) fn agents(&self) -> PathBuf {
        self.dir.join("agents")
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns whether this user cannot access a path in a mode, also because of the file system or because it does not
/// exist.
pub(in crate::git) fn is_closed(path: &Path, way: Access) -> bool {
    matches!(
        access(path, way),
        Err(Errno::ACCESS | Errno::ROFS | Errno::PERM | Errno::NOENT)
    )
}
