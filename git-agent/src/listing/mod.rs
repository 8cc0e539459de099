//! Sessions as shown to users and scripts: one row each, one session in detail, and the origin of a line.

pub mod comparison;
pub mod detail;
pub mod list;
pub mod live;
pub mod overview;
pub mod review_columns;
pub mod reviews;
pub mod row;
pub mod verdicts;
pub mod wait;
pub mod watch;
pub mod why;
