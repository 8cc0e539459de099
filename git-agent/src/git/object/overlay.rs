//! Objects beside a repository that cannot be written: what is looked at there is written elsewhere, for a moment.
//!
//! Somebody else's repository, or one on a read-only file system, is for reading. To show what is not committed in it,
//! trees must be made all the same: they go to a directory of this process that refers to the repository's objects and
//! disappears with it. No ref may ever point at them, so that refs are not moved meanwhile.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::env::Env;
use crate::git::object::jitter;

/// A directory for what cannot be written where it belongs. It disappears with the value.
#[derive(Debug)]
pub(in crate::git) struct Aside {
    dir: PathBuf,
}

impl Aside {
    /// Makes one for a repository in which nothing can be written; `None` for any other.
    pub(in crate::git) fn needed(env: &Env, common_dir: &Path) -> Option<Self> {
        // One place that can be written is enough for a ref to appear, and then everything must go where it belongs.
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
        // Not one that somebody else has put there, which would be removed with the value.
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

    /// Returns where objects go.
    pub(in crate::git) fn objects(&self) -> PathBuf {
        self.dir.join("objects")
    }

    /// Returns where private files go.
    pub(in crate::git) fn agents(&self) -> PathBuf {
        self.dir.join("agents")
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns whether something that is there cannot be used in a way, by this user or in this file system; what is not
/// there cannot be used by anybody.
pub(in crate::git) fn is_closed(path: &Path, way: Access) -> bool {
    matches!(
        access(path, way),
        Err(Errno::ACCESS | Errno::ROFS | Errno::PERM | Errno::NOENT)
    )
}
