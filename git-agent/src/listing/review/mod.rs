//! Reviews as shown to users and scripts: the overview, the threads, the verdicts, and versions side by side.

pub mod columns;
pub mod comparison;
pub mod overview;
pub mod reviews;
pub mod verdicts;
