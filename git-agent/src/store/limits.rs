//! Size limits. Writers keep to them, and readers check them before reading.

/// The record of one event, in bytes.
pub const EVENT: usize = 256 << 10;
/// The size of one commit's `events.jsonl` that writers aim at.
pub const CHUNK: usize = 1 << 20;
/// The size of one commit's `events.jsonl` that readers accept.
pub const EVENTS: u64 = 8 << 20;
/// The size of `state.json`.
pub const STATE: u64 = 64 << 10;
/// The length of a name in a state: of the session, its author, its agent.
pub const NAME: usize = 256;
/// The size of one attachment.
pub const ATTACHMENT: usize = 5 << 20;
/// The attachments of one commit.
pub const ATTACHMENTS: usize = 56;
/// The size of a log commit's tree and its `att` tree: 64 entries with room for long names.
pub const TREE: u64 = 16 << 10;
/// The commits of one session's log.
pub const CHAIN: usize = 100_000;
/// The size of all events of one session.
pub const SESSION: u64 = 256 << 20;
/// The size of the notes on one object that readers accept.
pub const NOTE: u64 = 1 << 20;
/// The size of the notes on one object that writers keep to, so that two diverged versions always fit together.
pub const NOTE_WRITE: usize = 512 << 10;
/// The size of one note record.
pub const NOTE_LINE: usize = 64 << 10;
/// The size of one tree in a notes tree: other programs never open directories.
pub const NOTES_TREE: u64 = 16 << 20;
/// The tree entries of one notes ref that are read.
pub const NOTES: usize = 1_000_000;
/// The size of all notes of one ref.
pub const NOTES_BYTES: usize = 32 << 20;
/// The problems with notes that are listed; a hostile ref can have a million.
pub const NOTE_PROBLEMS: usize = 1_000;
/// The session refs that are read.
pub const SESSIONS: usize = 20_000;
/// The size of one archive commit's `sessions.jsonl`: 199 states of the largest size.
pub const ARCHIVE: u64 = 16 << 20;
/// The commits of one archive.
pub const ARCHIVE_CHAIN: usize = 1_000;
/// The shared refs of one remote that are read.
pub const REMOTE_REFS: usize = 10_000;
/// The files that a session's code may change.
pub const FILES: u64 = 1_000_000;
