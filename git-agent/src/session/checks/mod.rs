//! Checks around a turn: forbidden changes of an agent are found, undone and reported.

pub mod dead_turns;
pub mod forged_refs;
pub mod read_only;
pub mod reflogs;
pub mod turn;
