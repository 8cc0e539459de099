//! Records that come from elsewhere or are written again: validated, joined, signed, purged.

pub(crate) mod authorship;
pub mod join;
pub mod purge;
pub mod sign_tip;
pub mod validate;
