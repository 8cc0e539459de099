//! A doorbell at a path: any process can ring it to wake the one process that listens.
//!
//! It is a FIFO. A user has about 128 inotify instances but any number of FIFOs, so thousands of processes can listen
//! at once, and each is woken only for its own reason.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mknodat, open};
use rustix::io::Errno;

use crate::error::Result;
use crate::process::wait::every_second;

/// A doorbell that this process listens to, removed on drop.
#[derive(Debug)]
pub struct Doorbell {
    descriptor: OwnedFd,
    path: Option<PathBuf>,
}

impl Doorbell {
    /// Starts to listen. On a file system without FIFOs, the bell rings by itself once a second.
    pub fn listen(path: &Path) -> Result<Self> {
        if let Some(descriptor) = make(path) {
            return Ok(Doorbell {
                descriptor,
                path: Some(path.to_owned()),
            });
        }
        Ok(Doorbell {
            descriptor: every_second()?,
            path: None,
        })
    }

    /// Returns whether other processes can ring it; otherwise a timer does.
    pub(crate) fn can_be_rung(&self) -> bool {
        self.path.is_some()
    }

    /// Stops the ringing. Returns whether it rang.
    pub fn silence(&self) -> bool {
        let mut rang = false;
        while rustix::io::read(&self.descriptor, &mut [0u8; 64]).is_ok_and(|count| count > 0) {
            rang = true;
        }
        rang
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // If the file stays, the next listener uses it.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Rings a doorbell. It is not an error if no process listens.
pub fn ring(path: &Path) {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Some(descriptor) = open(path, flags, Mode::empty()).ok().filter(is_fifo) else {
        return;
    };
    // A full FIFO is a ringing bell.
    let _ = rustix::io::write(&descriptor, b"!");
}

fn make(path: &Path) -> Option<OwnedFd> {
    match mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(_) => return None,
    }
    // Opened for writing too: without a writer, a FIFO reads as ended.
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok().filter(is_fifo)
}

fn is_fifo(descriptor: &OwnedFd) -> bool {
    fstat(descriptor).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::wait::Poll;

    fn rings(bell: &Doorbell) -> bool {
        let mut poll = Poll::new();
        poll.read((), bell);
        let now = Some(std::time::Instant::now());
        !poll.wait(now).expect("waits").is_empty()
    }

    #[test]
    fn whoever_knows_the_path_can_ring() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("bell");
        ring(&path);
        let bell = Doorbell::listen(&path).expect("listens");
        assert!(!rings(&bell) && !bell.silence());
        (0..70_000).for_each(|_| ring(&path));
        assert!(rings(&bell) && bell.silence());
        assert!(!rings(&bell) && !bell.silence());
        drop(bell);
        assert!(!path.exists());
        // The next listener uses the FIFO that a killed process left.
        make(&path).expect("makes one");
        let bell = Doorbell::listen(&path).expect("listens");
        ring(&path);
        assert!(bell.silence());
    }

    #[test]
    fn what_is_not_a_bell_is_neither_written_nor_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "text").expect("writes");
        std::os::unix::fs::symlink(&file, &link).expect("links");
        for path in [&file, &link] {
            ring(path);
            let bell = Doorbell::listen(path).expect("listens");
            assert!(!bell.can_be_rung());
            drop(bell);
        }
        assert_eq!(std::fs::read(&file).expect("there"), b"text");
        assert!(link.exists());
    }
}
