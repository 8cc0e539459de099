//! Inherited descriptors that this process must not pass on.

#![allow(unsafe_code)]

use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// Marks every descriptor except the standard ones as close-on-exec. This program opens all its own that way, so only
/// inherited ones change.
pub(super) fn keep_all() {
    for number in open_ones() {
        // SAFETY: The kernel has just listed the descriptor as open in this process, and one call borrows it to read or
        // set a flag. If another thread closes it meanwhile, the call fails or marks a newer descriptor of this
        // program, which is marked already. Nothing is read, written or closed through it.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)) {
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
}

/// Returns all descriptors except the standard ones.
fn open_ones() -> Vec<RawFd> {
    let Ok(listing) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    listing
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect()
}
