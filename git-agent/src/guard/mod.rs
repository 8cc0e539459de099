//! Keeps an agent on its own branch and, where the kernel can hold that, in its own room.
//!
//! [`level`] chooses between the two. At level `cell` the agent gets a git directory of its own ([`cell`]) and may write
//! only the paths of its [`room`]. At level `refs` hooks that only its environment enables refuse to move other refs, and
//! refs are compared afterwards. That prevents accidents; it is not a sandbox. The hook can refuse only changes that git reports to
//! `reference-transaction`. It does not see `git branch -C`, `-m` on reftable or outside the branch's own worktree,
//! symbolic refs before git 2.46, other git libraries, files written by hand, a push into a repository that sets
//! `core.hooksPath` itself, `git -c core.hooksPath=…` or `-c hook.reference-transaction.enabled=false`. [`watch`] finds
//! those changes afterwards. Other repositories are not affected: the hooks are included only if `gitdir` matches.

pub mod cell;
pub mod command_log;
pub mod environment;
pub mod hook;
pub mod hooks;
pub mod level;
pub mod log;
pub mod policy;
pub mod push;
pub mod refusals;
pub mod room;
pub mod test_cell;
pub mod vendor_settings;
pub mod watch;

pub use environment::Guard;
pub use policy::Own;

/// The refs that may be moved, in the format of [`Own`]; empty for none.
pub const OWN_VARIABLE: &str = "GIT_AGENT_GUARD";
/// The git directory of the session's own worktree.
pub const DIR_VARIABLE: &str = "GIT_AGENT_GUARD_DIR";
/// The git directory of the guarded repository.
pub const COMMON_VARIABLE: &str = "GIT_AGENT_GUARD_COMMON";
/// The log of refused changes.
pub const LOG_VARIABLE: &str = "GIT_AGENT_GUARD_LOG";
/// The user's own `core.hooksPath`, if one is set outside the repository's configuration.
pub const HOOKS_VARIABLE: &str = "GIT_AGENT_GUARD_HOOKS";
/// The user's own `GIT_CONFIG_GLOBAL`, if it was set.
pub const GLOBAL_VARIABLE: &str = "GIT_AGENT_GUARD_GLOBAL";
