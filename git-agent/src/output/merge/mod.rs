//! Merges as answers: plans and results, the queue, conflicts and their resolutions.

pub mod conflicts;
pub mod queue;
pub mod report;
pub mod resolution;
