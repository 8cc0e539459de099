//! Comparisons around a turn: what an agent may not change is found, put back and told.

pub mod dead_turns;
pub mod forged_refs;
pub mod read_only;
pub mod reflogs;
pub mod turn;
