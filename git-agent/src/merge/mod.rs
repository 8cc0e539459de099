//! Merging sessions into a branch: planned, built in memory, tested, landed, undone.
//!
//! | file | owns |
//! |---|---|
//! | `run` | one merge from plan to landing |
//! | `candidates`, `coverage` | which sessions can merge, and what their approvals cover |
//! | `build`, `testing`, `bisect` | the merged result, its tests, and which session breaks them |
//! | `landing` | moving the branch, its journal, recovery and undo |
//! | `conflicts`, `resolve` | conflicts seen before they happen, and resolved |
//! | `update`, `update_sessions`, `apply`, `pick`, `queue` | other ways for work to move |
//! | `return_to_agent` | a failed test goes back to the agent |

pub mod apply;
mod batch;
pub mod bisect;
pub mod build;
pub mod candidates;
pub mod conflicts;
pub mod coverage;
pub mod hooks;
pub mod landing;
pub mod pick;
pub mod queue;
pub mod resolve;
pub mod return_to_agent;
pub mod run;
pub mod testing;
pub mod update;
pub mod update_sessions;
