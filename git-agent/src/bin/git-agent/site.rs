//! What every verb begins with: the repository, its settings, and where the answer goes.

pub use git_agent::invoke::in_repo::run;
