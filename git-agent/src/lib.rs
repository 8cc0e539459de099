//! git-agent: many coding agents at once, each on its own branch in its own worktree, every word kept in git.
//!
//! # Map
//!
//! | module | owns |
//! |---|---|
//! | `error`, `env`, `fault`, `cores` | leaves: failures as values; the outside world as a value; places where tests make a write fail; work on all cores |
//! | `process` | processes as a supervisor needs them; knows nothing of sessions |
//! | `session`, `transcript`, `review`, `provenance` | meaning: what a session, an event, a review and a commit's origin are. Pure |
//! | `git` | the only door to git: the only module that starts `git` or names a git library |
//! | `store` | the bytes of every record under `refs/agents/`, written with compare-and-swap |
//! | `guard` | what keeps an agent on its own branch: hooks its environment brings in, and refs compared afterwards |
//! | `merge` | what agents made on its way into a branch: planned, built in memory, tested, landed, undone |
//! | `doctor` | what can be wrong with our part of a repository, and putting it right |
//! | `share` | giving refs to a remote, and taking in those of others after a check |
//! | `redact` | the only way from foreign text to an object |
//! | `install`, `demo` | putting the programs and their manual in place; showing what they do |
//! | `output` | the only writer to stdout and stderr |
//! | `invoke` | the `main` shared by the three binaries |
//!
//! A module imports only from those above it in this order: leaves, meaning, git, store and redact, use cases,
//! output, invoke, the binaries. `tests/suite/source.rs` holds the law.

pub mod agent;
pub mod config;
pub mod context;
mod cores;
pub mod demo;
pub mod doctor;
pub mod env;
pub mod error;
pub mod fault;
pub mod git;
pub mod guard;
pub mod install;
pub mod invoke;
pub mod listing;
pub mod merge;
pub mod model;
pub mod output;
pub mod process;
pub mod redact;
pub mod review;
pub mod selection;
pub mod session;
pub mod share;
pub mod signature;
pub mod store;
