//! Plans carried out: the sources of a plan, the view of it before anything runs, and the sessions of its parts.
//!
//! No agent runs a plan. Each part is a session with a supervisor of its own, which waits at the gate; nothing depends on
//! a model that remembers.

pub mod planner;
pub mod source;
pub mod start;
