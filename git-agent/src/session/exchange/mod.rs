//! What sessions give each other: artifacts, which are files with a name, and messages.
//!
//! A session's own supervisor is its only writer while it runs. A command inside the session therefore leaves a request
//! in the session's inbox, where it survives a crash, and the supervisor records it.

pub mod artifacts;
pub mod messages;
pub mod waits;
