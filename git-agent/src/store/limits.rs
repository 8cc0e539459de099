//! How large things may get. Writers keep to these, and readers check them before reading.

/// One event's record.
pub const EVENT: usize = 256 << 10;
/// One commit's `events.jsonl`: what writers aim at.
pub const CHUNK: usize = 1 << 20;
/// One commit's `events.jsonl`: what readers accept.
pub const EVENTS: u64 = 8 << 20;
/// `state.json`.
pub const STATE: u64 = 64 << 10;
/// A name in a state: of the session, its author, its agent.
pub const NAME: usize = 256;
/// One attachment.
pub const ATTACHMENT: usize = 5 << 20;
/// Attachments of one commit.
pub const ATTACHMENTS: usize = 56;
/// A log commit's tree and its `att` tree, in bytes: 64 entries with room for long names.
pub const TREE: u64 = 16 << 10;
/// Commits of one session's log.
pub const CHAIN: usize = 100_000;
/// All of one session's events together.
pub const SESSION: u64 = 256 << 20;
/// The notes on one object: what readers accept.
pub const NOTE: u64 = 1 << 20;
/// The notes on one object: what writers keep to, so that two diverged versions always fit together.
pub const NOTE_WRITE: usize = 512 << 10;
/// One note record.
pub const NOTE_LINE: usize = 64 << 10;
/// One tree of a notes tree, in bytes: other programs never open directories.
pub const NOTES_TREE: u64 = 16 << 20;
/// Tree entries of one notes ref that are looked at.
pub const NOTES: usize = 1_000_000;
/// All notes of one ref together.
pub const NOTES_BYTES: usize = 32 << 20;
/// Things wrong with notes that are listed; a hostile ref can have a million.
pub const NOTE_PROBLEMS: usize = 1_000;
/// Session refs that are looked at.
pub const SESSIONS: usize = 20_000;
/// One archive commit's `sessions.jsonl`: 199 states of the largest size.
pub const ARCHIVE: u64 = 16 << 20;
/// Commits of one archive.
pub const ARCHIVE_CHAIN: usize = 1_000;
/// Shared refs of one remote that are looked at.
pub const REMOTE_REFS: usize = 10_000;
/// Files that the code of a session changes.
pub const FILES: u64 = 1_000_000;
