//! The catalogue of agents: built in, configured, and installed on this machine; and whether a model
//! can be reached.

pub(crate) mod builtin;
pub mod installed;
pub mod places;
pub mod reachable;
pub mod registry;
pub mod spec;
pub mod template;
