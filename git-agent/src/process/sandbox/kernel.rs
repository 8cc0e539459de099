//! System calls of the sandbox that no safe library offers: fork, mount attributes, and the filter.

#![allow(unsafe_code)]

use std::path::Path;

use rustix::fs::{AtFlags, CWD};
use rustix::path::Arg as _;

use crate::error::{Context, Error, Result};

/// One instruction of a filter, in the kernel's layout.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Instruction {
    pub code: u16,
    pub then: u8,
    pub other: u8,
    pub value: u32,
}

impl Instruction {
    pub(super) fn new(code: u16, value: u32, (then, other): (u8, u8)) -> Self {
        Instruction {
            code,
            then,
            other,
            value,
        }
    }
}

#[repr(C)]
struct Program {
    length: libc::c_ushort,
    first: *const Instruction,
}

/// Puts this process under a filter. It must have given up the right to gain privileges.
pub(super) fn install_filter(instructions: &[Instruction]) -> Result<()> {
    let length = libc::c_ushort::try_from(instructions.len())
        .context(|| "the filter for system calls is too long".into())?;
    let program = Program {
        length,
        first: instructions.as_ptr(),
    };
    let (mode, flags): (libc::c_uint, libc::c_uint) = (libc::SECCOMP_SET_MODE_FILTER, 0);
    // SAFETY: the kernel copies `length` instructions from a slice of that length, which outlives the call.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    match done {
        0 => Ok(()),
        _ => {
            Err(Error::fatal("cannot filter system calls").because(std::io::Error::last_os_error()))
        }
    }
}

/// The two results of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fork {
    /// This is the new process.
    Child,
    /// This is the old one, and the new one has this pid.
    Parent(rustix::process::Pid),
}

/// Splits this process in two.
pub(super) fn fork() -> Result<Fork> {
    // SAFETY: the shim has one thread, so no lock of another thread can stay taken in the child.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => Ok(Fork::Child),
        pid => rustix::process::Pid::from_raw(pid.max(0))
            .map(Fork::Parent)
            .ok_or_else(|| Error::fatal("cannot fork").because(std::io::Error::last_os_error())),
    }
}

/// Lets a signal be ignored, or do again what it does by default.
pub(super) fn set_ignored(signal: i32, ignored: bool) {
    let action = if ignored {
        libc::SIG_IGN
    } else {
        libc::SIG_DFL
    };
    // SAFETY: both actions are the kernel's own; no handler of ours runs.
    unsafe { libc::signal(signal, action) };
}

/// Starts the loopback of a new network namespace.
pub(super) fn raise_loopback() -> std::io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let socket = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: all bytes of the struct may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the kernel reads a request of this type, which outlives the call.
    let done = unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw mut request) };
    match done {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Makes a mount read-only or writable; `deep` includes the mounts below it.
pub(super) fn set_read_only(path: &Path, read_only: bool, deep: bool) -> std::io::Result<()> {
    let attribute: u64 = 1;
    let attributes = libc::mount_attr {
        attr_set: if read_only { attribute } else { 0 },
        attr_clr: if read_only { 0 } else { attribute },
        propagation: 0,
        userns_fd: 0,
    };
    let flags: libc::c_uint = if deep { 0x8000 } else { 0 } | AtFlags::SYMLINK_NOFOLLOW.bits();
    path.into_with_c_str(|path| {
        // SAFETY: the path ends with a zero byte, and the kernel reads the struct by the size that is passed.
        let done = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                std::os::fd::AsRawFd::as_raw_fd(&CWD),
                path.as_ptr(),
                flags,
                &raw const attributes,
                size_of::<libc::mount_attr>(),
            )
        };
        match done {
            0 => Ok(()),
            _ => Err(
                rustix::io::Errno::from_io_error(&std::io::Error::last_os_error())
                    .unwrap_or(rustix::io::Errno::IO),
            ),
        }
    })
    .map_err(std::io::Error::from)
}
