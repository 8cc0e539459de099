//! What keeps an agent on its own branch: hooks that only its environment brings in, and a comparison of refs afterwards.
//!
//! The guard stops accidents; it is no wall. The hook refuses what git lets a `reference-transaction` hook refuse. It
//! never sees `git branch -C`, `-m` on reftable or away from the branch's own worktree, symbolic refs before git 2.46, other git
//! libraries, files written by hand, a push into a repository that sets `core.hooksPath` itself, nor `git -c core.hooksPath=…` and `-c hook.reference-transaction.enabled=false`. For those there is
//! [`watch`]. Nothing outside the session's repository is touched: its hooks are included only where `gitdir` matches.

pub mod command_log;
pub mod environment;
pub mod hook;
pub mod hooks;
pub mod log;
pub mod policy;
pub mod push;
pub mod watch;

pub use environment::Guard;
pub use policy::Own;

/// Says which refs may be moved, as [`Own`] writes it. Empty: none.
pub const OWN_VARIABLE: &str = "GIT_AGENT_GUARD";
/// Says where the session's own worktree has its git directory.
pub const DIR_VARIABLE: &str = "GIT_AGENT_GUARD_DIR";
/// Says which repository is guarded.
pub const COMMON_VARIABLE: &str = "GIT_AGENT_GUARD_COMMON";
/// Says where hooks note what they refused.
pub const LOG_VARIABLE: &str = "GIT_AGENT_GUARD_LOG";
/// Holds the user's own `core.hooksPath`, if there is one outside the repository's configuration.
pub const HOOKS_VARIABLE: &str = "GIT_AGENT_GUARD_HOOKS";
/// Holds the user's own `GIT_CONFIG_GLOBAL`, if it was set.
pub const GLOBAL_VARIABLE: &str = "GIT_AGENT_GUARD_GLOBAL";
