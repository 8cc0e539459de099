//! Validates, joins, signs and purges records.

pub(crate) mod authorship;
pub mod join;
pub mod purge;
pub mod sign_tip;
pub mod validate;
