//! Sessions as people and scripts see them: one row each, one in detail, and why a line exists.

pub mod detail;
pub mod list;
pub mod review_columns;
pub mod row;
pub mod verdicts;
pub mod wait;
pub mod watch;
pub mod why;
