//! The options by which a verb is told which sessions are meant, shared by all programs.

pub use git_agent::invoke::session_args::Choice;
