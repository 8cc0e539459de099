//! Landlock: which files a process and all its children may open, signal and connect to.
//!
//! The kernel takes a list of permissions, not of prohibitions. "Everything but these" is written as rules for all
//! siblings on the way to each closed path, so a file that appears beside them later is closed too. Listing a directory is
//! allowed everywhere: only the contents of closed files are secret, not their names.

#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::error::{Context, Error, Result};
use crate::process::sandbox::{Room, is_within, machine, real};

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// The rights of the first version: all up to the making of symbolic links.
const FIRST: u64 = (1 << 13) - 1;
/// The rights that make sense for a file.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 1 << 1;
const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
const SCOPE_SIGNALS: u64 = 1 << 1;

const RULE_PATH: libc::c_int = 1;

/// The versions that brought a right.
const WITH_REFER: u32 = 2;
const WITH_TRUNCATE: u32 = 3;
const WITH_PORTS: u32 = 4;
const WITH_IOCTL: u32 = 5;
pub(super) const WITH_SCOPES: u32 = 6;
/// The version that decides about sockets with a path.
pub(super) const SOCKETS: u32 = 9;

/// Devices that every program may use.
const DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];

#[repr(C)]
struct RulesetAttributes {
    files: u64,
    network: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathAttributes {
    allowed: u64,
    parent: i32,
}

struct Ruleset {
    descriptor: OwnedFd,
    handled: u64,
}

impl Ruleset {
    fn new(version: u32, offline: bool) -> Result<Self> {
        let mut handled = FIRST;
        for (since, right) in [
            (WITH_REFER, REFER),
            (WITH_TRUNCATE, TRUNCATE),
            (WITH_IOCTL, IOCTL_DEV),
        ] {
            if version >= since {
                handled |= right;
            }
        }
        let scoped = if version >= WITH_SCOPES {
            SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS
        } else {
            0
        };
        let attributes = RulesetAttributes {
            files: handled,
            network: if offline { BIND_TCP | CONNECT_TCP } else { 0 },
            scoped,
        };
        // An older kernel accepts only the fields that it knows.
        let fields = match version {
            0..WITH_PORTS => 1,
            WITH_PORTS..WITH_SCOPES => 2,
            _ => 3,
        };
        let flags: libc::c_uint = 0;
        // SAFETY: the kernel reads `fields` values of 8 bytes from a struct of three, which outlives the call.
        let made = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const attributes,
                fields * size_of::<u64>(),
                flags,
            )
        };
        let made = i32::try_from(made).unwrap_or(-1);
        if made < 0 {
            let cause = std::io::Error::last_os_error();
            return Err(Error::fatal("cannot make Landlock rules").because(cause));
        }
        // SAFETY: the kernel has just opened it for us, and nothing else knows it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(made) };
        Ok(Ruleset {
            descriptor,
            handled,
        })
    }

    /// Allows something for a file, or for a directory and all below it. A path that is gone needs no rule.
    fn allow(&self, path: &Path, rights: u64) -> Result<()> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let Ok(opened) = rustix::fs::open(path, flags, Mode::empty()) else {
            return Ok(());
        };
        let kind = rustix::fs::fstat(&opened).map(|stat| stat.st_mode & libc::S_IFMT);
        let mut rights = rights & self.handled;
        if kind != Ok(libc::S_IFDIR) {
            rights &= OF_FILES;
        }
        if rights == 0 || kind == Ok(libc::S_IFLNK) {
            return Ok(());
        }
        let attributes = PathAttributes {
            allowed: rights,
            parent: opened.as_raw_fd(),
        };
        self.add(RULE_PATH, (&raw const attributes).cast())
            .context(|| format!("cannot allow '{}'", path.display()))
    }

    fn add(&self, kind: libc::c_int, attributes: *const libc::c_void) -> std::io::Result<()> {
        let flags: libc::c_uint = 0;
        // SAFETY: the caller passes the struct that belongs to the kind, alive for the call.
        let done = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.descriptor.as_raw_fd(),
                kind,
                attributes,
                flags,
            )
        };
        match done {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    fn enforce(self) -> Result<()> {
        let flags: libc::c_uint = 0;
        // SAFETY: the call takes a descriptor and a number, and changes only this process's rights.
        let done = unsafe {
            libc::syscall(
                libc::SYS_landlock_restrict_self,
                self.descriptor.as_raw_fd(),
                flags,
            )
        };
        match done {
            0 => Ok(()),
            _ => Err(Error::fatal("cannot enter the Landlock rules")
                .because(std::io::Error::last_os_error())),
        }
    }
}

/// Asks the kernel for its version of Landlock: 0 without, or where it is turned off.
pub(super) fn version() -> u32 {
    let (nothing, size, flags): (*const libc::c_void, usize, libc::c_uint) =
        (std::ptr::null(), 0, 1);
    // SAFETY: with this flag the kernel reads no memory and only returns a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, size, flags) };
    u32::try_from(version).unwrap_or(0)
}

/// Restricts this process, and all that it starts, to a room.
pub(super) fn restrict(room: &Room) -> Result<()> {
    let version = machine::landlock_version();
    // A network namespace keeps its loopback.
    let offline = room.offline && !room.namespaces && version >= WITH_PORTS;
    let rules = Ruleset::new(version, offline)?;
    let (all, read) = (
        rules.handled & !(MAKE_CHAR | MAKE_BLOCK),
        EXECUTE | READ_FILE,
    );
    rules.allow(Path::new("/"), READ_DIR)?;
    let mut closed = real(&room.closed);
    closed.push("/dev".into());
    let closed: BTreeSet<PathBuf> = closed.into_iter().collect();
    for path in around(&closed) {
        rules.allow(&path, read)?;
    }
    for device in DEVICES {
        rules.allow(Path::new(device), all)?;
    }
    for path in &room.readable {
        rules.allow(path, read)?;
    }
    for path in room.writable.iter().chain(&room.temporary) {
        rules.allow(path, all)?;
    }
    rules.enforce()
}

/// Returns the largest parts of the file system that contain none of the closed paths.
fn around(closed: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut open = Vec::new();
    let mut split = vec![PathBuf::from("/")];
    let all: Vec<PathBuf> = closed.iter().cloned().collect();
    while let Some(directory) = split.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            // A link leads elsewhere, where it is decided.
            let link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if link || is_within(&path, &all) {
                continue;
            }
            if closed.iter().any(|closed| closed.starts_with(&path)) {
                split.push(path)
            } else {
                open.push(path)
            }
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_closed_paths_is_open() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path().canonicalize().expect("there");
        for path in ["home/.ssh", "home/src", "other"] {
            fs::create_dir_all(top.join(path)).expect("made");
        }
        fs::write(top.join("home/.netrc"), "x").expect("written");
        let closed = ["home/.ssh", "home/.netrc"].map(|name| top.join(name));
        let open = around(&closed.clone().into());
        let within = |path: &Path| open.iter().any(|root| path.starts_with(root));
        assert!(within(&top.join("home/src")) && within(&top.join("other")));
        assert!(within(Path::new("/usr/bin")));
        for path in closed {
            assert!(!within(&path), "{}", path.display());
        }
    }
}
