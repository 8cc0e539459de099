//! Finds the files that processes have open, to tell an abandoned file from one in use.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// A file pinned by its inode: while this value lives, no other file can get the same identity.
///
/// Searching the holders of a lock takes a while, and the lock may be released and taken again meanwhile. Only the file
/// that was checked may be removed.
#[derive(Debug)]
pub struct Pinned {
    path: PathBuf,
    meta: Metadata,
    /// Opened only as a path, so that a search for holders ignores it.
    _file: File,
}

impl Pinned {
    /// Pins a regular file; returns `None` if there is none at this path.
    pub fn at(path: &Path) -> Option<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::PATH | OFlags::NOFOLLOW).bits().cast_signed())
            .open(path)
            .ok()?;
        let meta = file.metadata().ok().filter(Metadata::is_file)?;
        Some(Pinned {
            path: path.to_owned(),
            meta,
            _file: file,
        })
    }

    /// Returns the path under which it was pinned.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its metadata at that time.
    pub fn meta(&self) -> &Metadata {
        &self.meta
    }

    /// Returns whether it belongs to this user.
    pub fn is_own(&self) -> bool {
        self.meta.uid() == rustix::process::geteuid().as_raw()
    }

    /// Returns whether the path still leads to it.
    pub fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|now| is_same(&now, &self.meta))
    }

    /// Removes it, unless another file now has its path. Returns whether it did.
    pub fn remove(&self) -> io::Result<bool> {
        if !self.is_there() {
            return Ok(false);
        }
        fs::remove_file(&self.path).map(|()| true)
    }

    /// Returns whether a process has it open, given the process's directory in `/proc`.
    pub fn is_open_in(&self, process: &Path) -> bool {
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten();
        descriptors.flatten().any(|descriptor| {
            // Compares the inode, not the path: our lock is a second name of a file created elsewhere.
            fs::metadata(descriptor.path()).is_ok_and(|open| is_same(&open, &self.meta))
                && !only_names(process, &descriptor.file_name())
        })
    }

    /// Returns whether any process has it open; `None` if unknown.
    fn is_open(&self) -> Option<bool> {
        let mut processes = fs::read_dir("/proc").ok()?.flatten();
        Some(processes.any(|process| self.is_open_in(&process.path())))
    }

    /// Returns whether its creator has certainly ended: it belongs to this user, it still exists, and no process has it
    /// open.
    pub fn is_abandoned(&self) -> bool {
        self.is_own() && self.is_open() == Some(false) && self.is_there()
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Returns whether a descriptor of a process refers to a file without opening it.
fn only_names(process: &Path, descriptor: &OsStr) -> bool {
    let info = fs::read_to_string(process.join("fdinfo").join(descriptor)).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & OFlags::PATH.bits() != 0)
}

/// Returns whether the creator of a file has certainly ended: the file is this user's, and no process has it open.
pub fn is_abandoned(path: &Path) -> bool {
    Pinned::at(path).is_some_and(|file| file.is_abandoned())
}

/// Returns whether a process visible to this user has a file open; `None` if unknown.
pub fn is_open(path: &Path) -> Option<bool> {
    Pinned::at(path)?.is_open()
}
