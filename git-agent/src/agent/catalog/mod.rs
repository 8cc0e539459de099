//! The catalogue of agents: built in, configured, and installed on this machine.

pub(crate) mod builtin;
pub mod installed;
pub mod places;
pub mod registry;
pub mod spec;
pub mod template;
