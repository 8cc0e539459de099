//! Descriptors that this process was given and must not pass on.

#![allow(unsafe_code)]

use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// Keeps every descriptor besides the standard ones from the programs started later. Everything opened by this program
/// is kept from them anyway, so these are those it was given by whoever started it.
pub(super) fn keep_all() {
    for number in open_ones() {
        // SAFETY: The kernel has just listed it as open in this process, and it is borrowed for one call that reads or
        // sets a flag of it. Should another thread close it in between, the call fails, or marks a newer descriptor of
        // this program, which is marked already. Nothing is read, written or closed through it.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)) {
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
}

/// Returns the descriptors besides the standard ones.
fn open_ones() -> Vec<RawFd> {
    let Ok(listing) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    listing
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect()
}
