//! Copies unmodified files from another worktree, with the proof that each file needs.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use gix::bstr::{BStr, ByteSlice};
use gix::index::decode;
use rustix::fs::{Mode, OFlags};

use crate::git::worktree::checkout::plan::{CheckoutEntry, StatData};

/// Larger files are copied by the kernel, which shares their blocks where the file system supports it.
const LARGE: u32 = 256 * 1024;

/// A worktree whose files may be copied.
#[derive(Debug)]
pub(crate) struct Source {
    root: OwnedFd,
    pub(crate) index: gix::index::File,
}

/// An open file of the source, with its metadata from the index.
#[derive(Debug)]
pub(crate) struct Original {
    file: File,
    stat: StatData,
}

impl Source {
    /// Opens a worktree by its root and index; returns `None` if either is unreadable.
    pub(crate) fn open_worktree(root: &Path, index: &Path, hash: gix::hash::Kind) -> Option<Self> {
        let index = gix::index::File::at(index, hash, true, decode::Options::default()).ok()?;
        if index.is_sparse() {
            return None;
        }
        let root = rustix::fs::open(
            root,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        Some(Source { root, index })
    }

    /// Opens a file that the index describes. Whether the description still holds is checked after reading.
    pub(crate) fn open(&self, path: &BStr, stat: &StatData) -> Option<Original> {
        let file = rustix::fs::openat(
            &self.root,
            path.as_bytes(),
            // Without NONBLOCK, a FIFO in place of the file would block forever.
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        Some(Original {
            file: File::from(file),
            stat: *stat,
        })
    }

    /// Fills `buffer` with a file's content and returns whether it is the entry's blob.
    ///
    /// One check of the metadata after the read is enough: any change before or during it leaves a later time.
    pub(crate) fn read(
        &self,
        original: &Original,
        repo: &gix::Repository,
        entry: &CheckoutEntry,
        buffer: &mut Vec<u8>,
    ) -> bool {
        let size = original.stat.size as usize;
        read_exactly(&original.file, size, buffer).is_ok_and(|complete| complete)
            && original.is_unchanged()
            && original.has_size_of(repo, entry)
    }

    /// Copies a large file without reading it, and returns whether `target` now contains the entry's blob.
    pub(crate) fn copy(
        &self,
        original: &Original,
        repo: &gix::Repository,
        entry: &CheckoutEntry,
        target: &File,
    ) -> bool {
        // Checked before as well, to avoid a useless copy.
        original.is_unchanged()
            && copy_range(&original.file, target, u64::from(original.stat.size)).is_ok()
            && original.is_unchanged()
            && original.has_size_of(repo, entry)
    }

    /// Returns whether the kernel should copy this file, instead of a copy through memory.
    pub(crate) fn prefers_copy(&self, original: &Original) -> bool {
        original.stat.size > LARGE
    }
}

impl Original {
    fn is_unchanged(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
                && stat.st_size == i64::from(self.stat.size)
                && StatData::from_stat(&stat).same_file(&self.stat)
        })
    }

    /// Returns whether the blob is as large as the file: a file that was converted under earlier settings is not the
    /// blob.
    fn has_size_of(&self, repo: &gix::Repository, entry: &CheckoutEntry) -> bool {
        repo.try_find_header(entry.id)
            .ok()
            .flatten()
            .is_some_and(|header| header.size() == u64::from(self.stat.size))
    }
}

/// Reads a file of `size` bytes and returns whether it has exactly that size.
fn read_exactly(file: &File, size: usize, buffer: &mut Vec<u8>) -> std::io::Result<bool> {
    buffer.resize(size + 1, 0);
    let mut filled = 0;
    // A regular file returns everything at once; only a signal or an odd file system causes a second round.
    while filled < size {
        match rustix::io::read(file, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    buffer.truncate(filled);
    Ok(filled == size)
}

/// Copies `length` bytes from the start of one file to another, sharing blocks where possible.
fn copy_range(from: &File, to: &File, length: u64) -> std::io::Result<()> {
    let mut offset = 0;
    while offset < length {
        let wanted = usize::try_from(length - offset).unwrap_or(usize::MAX);
        let mut read_at = offset;
        let done = rustix::fs::copy_file_range(
            from.as_fd(),
            Some(&mut read_at),
            to.as_fd(),
            None,
            wanted,
        )?;
        if done == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        offset += done as u64;
    }
    Ok(())
}
