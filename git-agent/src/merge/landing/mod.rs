//! Landing a merge: the journal, the move of the branch, recovery after a crash, and undo.

pub mod approve;
pub mod journal;
pub mod land;
pub mod move_session;
pub mod recover;
pub mod undo;
