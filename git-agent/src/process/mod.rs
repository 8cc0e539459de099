//! Processes as the supervisor needs them: who is alive, who runs below us, how one is started, limited, read and ended.
//!
//! Nothing here knows what a session is. Everything is Linux: pidfds, `/proc`, flock, inotify; and nothing here wakes
//! up while there is nothing to do.
//!
//! | file | owns |
//! |---|---|
//! | `identity` | one process over time: pid, start time and boot; signals that cannot hit a successor of the pid |
//! | `lock` | locks that a crash releases, and who holds them |
//! | `slots` | at most N at a time, in order of priority and arrival |
//! | `tree` | the processes below us or marked as ours, and ending them all |
//! | `doorbell` | waking another process that listens at a path |
//! | `news` | the end of other processes, and a moment, as something to wait on |
//! | `wait` | waiting for descriptors, signals, files and moments in one place |
//! | `resident` | giving memory back before a long wait |
//! | `lines` | a child's output as bounded lines |
//! | `limits` | which mechanism limits memory and CPU here |
//! | `spawn`, `shim` | starting an agent's program: our half, and the half that runs just before it |
//! | `inherited` | descriptors that we were given and must not pass on |
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
pub mod shim;
pub mod slots;
pub mod spawn;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod wait;
