//! Text that a person gives, read as all programs read it.

pub use git_agent::invoke::text_input::read;
