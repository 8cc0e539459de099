//! Creates the files of a plan with several threads, each with its own directory handles, so that no path follows a
//! symlink. Symlinks come last.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gix::bstr::{BStr, ByteSlice};
use gix::objs::FindExt;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};

use crate::error::Error;
use crate::git::worktree::checkout::Refusal;
use crate::git::worktree::checkout::plan::{CheckoutEntry, CheckoutPlan, Kind, StatData};
use crate::git::worktree::checkout::source::Source;

/// How many entries a thread takes at a time: enough to stay within a directory, few enough that all threads end
/// together.
const CHUNK: usize = 64;

/// The created files.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// The metadata of every entry, in the plan's order.
    pub(crate) stats: Vec<StatData>,
    /// The number of files that were copied from the source instead of written from objects.
    pub(crate) copied: usize,
}

/// Creates every entry of `plan` in `destination`.
pub(crate) fn make(
    repo: &gix::ThreadSafeRepository,
    plan: &CheckoutPlan,
    destination: &Path,
    source: Option<&Source>,
    interrupt: &AtomicBool,
) -> Result<Made, Refusal> {
    let threads = crate::cores::count()
        .clamp(2, 8)
        .min(plan.entries.len() / CHUNK + 1);
    let next = AtomicUsize::new(0);
    let copied = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let done = Mutex::new((vec![StatData::default(); plan.entries.len()], None));
    let work = || {
        let result = (|| {
            let mut worker = Worker::new(repo, destination, source)?;
            let mut stats = Vec::with_capacity(CHUNK);
            while !failed.load(Ordering::Relaxed) {
                let start = next.fetch_add(CHUNK, Ordering::Relaxed);
                if start >= plan.entries.len() {
                    break;
                }
                let end = plan.entries.len().min(start + CHUNK);
                stats.clear();
                for entry in &plan.entries[start..end] {
                    if interrupt.load(Ordering::Relaxed) {
                        return Err(Refusal::Failed(Error::fatal("interrupted")));
                    }
                    stats.push(if entry.kind == Kind::Symlink {
                        StatData::default()
                    } else {
                        worker.file(plan.path(entry), entry)?
                    });
                }
                let mut done = done.lock().unwrap_or_else(|poison| poison.into_inner());
                done.0[start..end].copy_from_slice(&stats);
            }
            copied.fetch_add(worker.copied, Ordering::Relaxed);
            Ok(())
        })();
        if let Err(refusal) = result {
            failed.store(true, Ordering::Relaxed);
            let mut done = done.lock().unwrap_or_else(|poison| poison.into_inner());
            done.1.get_or_insert(refusal);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let (mut stats, failure) = done
        .into_inner()
        .unwrap_or_else(|poison| poison.into_inner());
    if let Some(refusal) = failure {
        return Err(refusal);
    }

    if plan.entries.iter().any(|entry| entry.kind == Kind::Symlink) {
        let mut worker = Worker::new(repo, destination, None)?;
        for (entry, stat) in plan.entries.iter().zip(&mut stats) {
            if entry.kind == Kind::Symlink {
                *stat = worker.symlink(plan.path(entry), entry)?;
            }
        }
    }
    Ok(Made {
        stats,
        copied: copied.into_inner(),
    })
}

/// Handles of the directories from the worktree's root down to the last created file.
pub(in crate::git) struct Directories {
    root: OwnedFd,
    open: Vec<(Vec<u8>, OwnedFd)>,
}

impl Directories {
    /// Opens the root.
    pub(in crate::git) fn new(root: &Path) -> io::Result<Self> {
        Ok(Directories {
            root: rustix::fs::open(root, directory_flags(), Mode::empty())?,
            open: Vec::new(),
        })
    }

    /// Splits a path into its directory, created and opened if necessary, and its last component.
    pub(in crate::git) fn enter<'p>(
        &mut self,
        path: &'p BStr,
    ) -> io::Result<(BorrowedFd<'_>, &'p [u8])> {
        let path = path.as_bytes();
        let (directory, name) = match path.rfind_byte(b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&[][..], path),
        };
        let mut wanted = directory
            .split(|byte| *byte == b'/')
            .filter(|component| !component.is_empty());
        let mut kept = 0;
        let mut missing = None;
        for component in wanted.by_ref() {
            if self
                .open
                .get(kept)
                .is_some_and(|(open, _)| open == component)
            {
                kept += 1;
            } else {
                missing = Some(component);
                break;
            }
        }
        self.open.truncate(kept);
        for component in missing.into_iter().chain(wanted) {
            let parent = self.current();
            match rustix::fs::mkdirat(parent, component, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let opened = rustix::fs::openat(parent, component, directory_flags(), Mode::empty())?;
            self.open.push((component.to_vec(), opened));
        }
        Ok((self.current(), name))
    }

    fn current(&self) -> BorrowedFd<'_> {
        self.open
            .last()
            .map_or(self.root.as_fd(), |(_, open)| open.as_fd())
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

struct Worker<'a> {
    repo: gix::Repository,
    directories: Directories,
    source: Option<&'a Source>,
    times: Timestamps,
    buffer: Vec<u8>,
    copied: usize,
}

impl<'a> Worker<'a> {
    fn new(
        repo: &gix::ThreadSafeRepository,
        destination: &Path,
        source: Option<&'a Source>,
    ) -> Result<Self, Refusal> {
        Ok(Worker {
            repo: repo.to_thread_local(),
            directories: Directories::new(destination)
                .map_err(|error| failure(destination.display(), error))?,
            source,
            times: just_past(),
            buffer: Vec::new(),
            copied: 0,
        })
    }

    fn file(&mut self, path: &BStr, entry: &CheckoutEntry) -> Result<StatData, Refusal> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.file_through(path, entry, &mut buffer);
        self.buffer = buffer;
        result
    }

    fn file_through(
        &mut self,
        path: &BStr,
        entry: &CheckoutEntry,
        buffer: &mut Vec<u8>,
    ) -> Result<StatData, Refusal> {
        let mode = match entry.kind {
            Kind::Executable => 0o777,
            Kind::File | Kind::Symlink => 0o666,
        };
        let failed = |error| failure(path, error);
        let original = match (self.source, &entry.copyable) {
            (Some(source), Some(stat)) => source.open(path, stat).map(|open| (source, open)),
            _ => None,
        };
        if let Some((source, original)) = original {
            if source.prefers_copy(&original) {
                let file = self.create(path, mode).map_err(failed)?;
                if source.copy(&original, &self.repo, entry, &file) {
                    self.copied += 1;
                } else {
                    rewrite(&file, blob(&self.repo, entry, buffer)?).map_err(failed)?;
                }
                return self.finish(&file).map_err(failed);
            }
            if source.read(&original, &self.repo, entry, buffer) {
                self.copied += 1;
                return self.write(path, mode, buffer).map_err(failed);
            }
        }
        let content = blob(&self.repo, entry, buffer)?;
        self.write(path, mode, content).map_err(failed)
    }

    fn write(&mut self, path: &BStr, mode: u32, content: &[u8]) -> io::Result<StatData> {
        let mut file = self.create(path, mode)?;
        file.write_all(content)?;
        self.finish(&file)
    }

    fn create(&mut self, path: &BStr, mode: u32) -> io::Result<File> {
        let (directory, name) = self.directories.enter(path)?;
        Ok(File::from(rustix::fs::openat(
            directory,
            name,
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::from_raw_mode(mode),
        )?))
    }

    fn finish(&self, file: &File) -> io::Result<StatData> {
        rustix::fs::futimens(file, &self.times)?;
        Ok(StatData::from_stat(&rustix::fs::fstat(file)?))
    }

    fn symlink(&mut self, path: &BStr, entry: &CheckoutEntry) -> Result<StatData, Refusal> {
        let target = blob(&self.repo, entry, &mut self.buffer)?;
        let (directory, name) = self
            .directories
            .enter(path)
            .map_err(|error| failure(path, error))?;
        (|| {
            rustix::fs::symlinkat(target, directory, name)?;
            rustix::fs::utimensat(directory, name, &self.times, AtFlags::SYMLINK_NOFOLLOW)?;
            rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        })()
        .map(|stat| StatData::from_stat(&stat))
        .map_err(|error| failure(path, error.into()))
    }
}

/// Returns the entry's content. It need not be in the buffer: the empty blob, for one, never is.
fn blob<'b>(
    repo: &gix::Repository,
    entry: &CheckoutEntry,
    buffer: &'b mut Vec<u8>,
) -> Result<&'b [u8], Refusal> {
    repo.objects
        .find_blob(&entry.id, buffer)
        .map(|blob| blob.data)
        .map_err(|_| Refusal::Git("an object of the tree is missing"))
}

/// Replaces the content of a file after an untrusted copy.
fn rewrite(mut file: &File, content: &[u8]) -> io::Result<()> {
    use std::io::Seek;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(content)
}

/// Returns a time shortly before the checkout began.
///
/// If a file has the modification second of the index, git treats it as possibly modified and compares its content at
/// the next status. Backdating every file avoids that, and hides nothing: any later change sets a later time. It is two
/// seconds, because the clock of files lags behind the one that is read here.
fn just_past() -> Timestamps {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let past = Timespec {
        tv_sec: now.tv_sec - 2,
        tv_nsec: now.tv_nsec,
    };
    Timestamps {
        last_access: past,
        last_modification: past,
    }
}

fn failure(path: impl std::fmt::Display, error: io::Error) -> Refusal {
    match error.kind() {
        // Names that collide on this file system, or an object that is not a valid link: git has the better message.
        io::ErrorKind::AlreadyExists
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::NotFound
        | io::ErrorKind::InvalidFilename => {
            Refusal::Git("names in the tree collide on this filesystem")
        }
        _ => Refusal::Failed(Error::fatal(format!("cannot write '{path}'")).because(error)),
    }
}
