//! Processes: their identity, their descendants, and how to start, limit, read and end them.
//!
//! Nothing here knows about sessions. Everything is Linux: pidfds, `/proc`, flock, inotify. An idle process never wakes
//! up.
//!
//! | file | owns |
//! |---|---|
//! | `identity` | one process over time: pid, start time and boot; signals that cannot reach a later process with the
//! same pid |
//! | `lock` | locks that a crash releases, and their holders |
//! | `slots` | at most N at a time, in order of priority and arrival |
//! | `tree` | the processes below us or marked as ours, and ending them all |
//! | `doorbell` | waking another process that listens at a path |
//! | `news` | the end of other processes, and a deadline, as one descriptor to wait on |
//! | `wait` | waiting for descriptors, signals, files and deadlines in one place |
//! | `resident` | freeing memory before a long wait |
//! | `lines` | a child's output as bounded lines |
//! | `limits` | the mechanism that limits memory and CPU on this machine |
//! | `spawn`, `shim` | starting an agent's program: our half, and the half in the new process |
//! | `sandbox` | the room of a program: files, processes and sockets that it can reach |
//! | `inherited` | inherited descriptors that must not be passed on |
//! | `files` | files that processes have open |
//! | `detach` | starting our own program so that it outlives the terminal |

pub mod detach;
pub mod files;
pub mod identity;
mod inherited;
pub mod limits;
pub mod lines;
pub mod lock;
mod resident;
pub mod sandbox;
pub mod shim;
pub mod slots;
pub mod spawn;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod wait;
