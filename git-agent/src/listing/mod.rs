//! Sessions as shown to users and scripts: one row each, one session in detail, and the origin of a line.

pub mod calls;
pub mod detail;
pub mod group;
pub mod list;
pub mod live;
pub mod mcp;
pub mod review;
pub mod row;
pub mod urgency;
pub mod wait;
pub mod waits;
pub mod watch;
pub mod why;
