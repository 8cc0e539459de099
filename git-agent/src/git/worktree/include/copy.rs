//! Copies single untracked files into a new worktree, never through a symlink and never over an existing file.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use gix::bstr::{BStr, ByteSlice};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use crate::git::worktree::checkout::Directories;
use crate::git::worktree::include::Reason;

/// The result of copying one file.
pub(crate) enum CopyOutcome {
    Copied { bytes: u64, shared: bool },
    LeftOut(Reason),
}

pub(crate) struct Copier {
    from: OwnedFd,
    to: Directories,
    /// Whether blocks can be shared between the two places; unknown until tried.
    shares: Option<bool>,
    probe: (std::path::PathBuf, std::path::PathBuf),
}

impl Copier {
    pub(crate) fn new(from: &Path, to: &Path) -> io::Result<Self> {
        Ok(Copier {
            from: rustix::fs::open(
                from,
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )?,
            to: Directories::new(to)?,
            shares: None,
            probe: (from.to_owned(), to.to_owned()),
        })
    }

    /// Returns whether the file system shares blocks between both places, by trying once.
    pub(crate) fn can_share(&mut self) -> bool {
        if let Some(known) = self.shares {
            return known;
        }
        let (from, to) = &self.probe;
        let name = format!(".share-{}", std::process::id());
        let target = to.join(name);
        let shared =
            File::open(from.join(crate::git::worktree::include::FILE_NAME)).is_ok_and(|original| {
                let copy = File::options().write(true).create_new(true).open(&target);
                copy.is_ok_and(|copy| {
                    let shared = share(&original, &copy);
                    let _ = std::fs::remove_file(&target);
                    shared
                })
            });
        self.shares = Some(shared);
        shared
    }

    /// Creates a directory with the permissions of the original.
    pub(crate) fn directory(&mut self, path: &BStr) -> io::Result<()> {
        let stat = rustix::fs::statat(&self.from, path.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)?;
        let (parent, name) = self.to.enter(path)?;
        // The owner must be able to fill it.
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777) | Mode::RWXU;
        match rustix::fs::mkdirat(parent, name, mode) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Copies one file or symlink; with `must_share`, skips files whose blocks cannot be shared.
    pub(crate) fn copy(&mut self, path: &BStr, must_share: bool) -> io::Result<CopyOutcome> {
        let name = path.as_bytes();
        let Ok(stat) = rustix::fs::statat(&self.from, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(CopyOutcome::LeftOut(Reason::Unreadable));
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => self.copy_symlink(path),
            FileType::RegularFile => self.copy_file(path, must_share),
            _ => Ok(CopyOutcome::LeftOut(Reason::Special)),
        }
    }

    fn copy_symlink(&mut self, path: &BStr) -> io::Result<CopyOutcome> {
        let Ok(target) = rustix::fs::readlinkat(&self.from, path.as_bytes(), Vec::new()) else {
            return Ok(CopyOutcome::LeftOut(Reason::Unreadable));
        };
        let made = self
            .to
            .enter(path)
            .and_then(|(parent, name)| Ok(rustix::fs::symlinkat(&target, parent, name)?));
        in_the_way(made.map(|()| CopyOutcome::Copied {
            bytes: target.as_bytes().len() as u64,
            shared: false,
        }))
    }

    fn copy_file(&mut self, path: &BStr, must_share: bool) -> io::Result<CopyOutcome> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(original) = rustix::fs::openat(&self.from, path.as_bytes(), flags, Mode::empty())
        else {
            return Ok(CopyOutcome::LeftOut(Reason::Unreadable));
        };
        let original = File::from(original);
        let stat = rustix::fs::fstat(&original)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Ok(CopyOutcome::LeftOut(Reason::Special));
        }
        // Closed to others until it has the permissions of the original: these files often contain secrets.
        let created = self.to.enter(path).and_then(|(parent, name)| {
            Ok(rustix::fs::openat(
                parent,
                name,
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::RUSR | Mode::WUSR,
            )?)
        });
        let copy = match created {
            Ok(copy) => File::from(copy),
            Err(error) => return in_the_way(Err(error)),
        };
        match fill(&original, &copy, &stat, must_share) {
            Ok(Some((bytes, shared))) => Ok(CopyOutcome::Copied { bytes, shared }),
            other => {
                let (parent, name) = self.to.enter(path)?;
                rustix::fs::unlinkat(parent, name, AtFlags::empty())?;
                other.map(|_| {
                    CopyOutcome::LeftOut(Reason::Large {
                        files: 1,
                        bytes: u64::try_from(stat.st_size).unwrap_or(0),
                    })
                })
            }
        }
    }
}

/// Fills a new file; returns `None` if its blocks must be shared and cannot be.
fn fill(
    mut original: &File,
    mut copy: &File,
    stat: &rustix::fs::Stat,
    must_share: bool,
) -> io::Result<Option<(u64, bool)>> {
    let shared = share(original, copy);
    let bytes = if shared {
        u64::try_from(stat.st_size).unwrap_or(0)
    } else if must_share && stat.st_size > 0 {
        return Ok(None);
    } else {
        io::copy(&mut original, &mut copy)?
    };
    rustix::fs::fchmod(copy, Mode::from_raw_mode(stat.st_mode & 0o777))?;
    // Build tools compare times, so a copy gets the times of its original.
    rustix::fs::futimens(
        copy,
        &Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
        },
    )?;
    Ok(Some((bytes, shared)))
}

#[allow(
    clippy::cast_possible_wrap,
    clippy::unnecessary_cast,
    reason = "the fields' types differ between platforms"
)]
fn time(seconds: i64, nanoseconds: impl Into<u64>) -> Timespec {
    Timespec {
        tv_sec: seconds as _,
        tv_nsec: nanoseconds.into() as _,
    }
}

#[cfg(target_os = "linux")]
fn share(original: &File, copy: &File) -> bool {
    rustix::fs::ioctl_ficlone(copy, original).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn share(_original: &File, _copy: &File) -> bool {
    false
}

fn in_the_way(made: io::Result<CopyOutcome>) -> io::Result<CopyOutcome> {
    match made {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory
            ) || error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) =>
        {
            Ok(CopyOutcome::LeftOut(Reason::Exists))
        }
        other => other,
    }
}
