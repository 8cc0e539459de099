//! An agent's own conversation: kept with the session, copied for a fork, handed to the agent's own interface.

pub mod attach;
pub mod copy;
pub mod keep;
pub(crate) mod places;
