//! Parses an agent's output: gathers pieces into events of a readable size, and classifies failures.

pub(crate) mod asked;
pub(crate) mod bounded_json;
pub(crate) mod exit;
pub(crate) mod failure;
pub(crate) mod output;
pub(crate) mod raw_message;
pub(crate) mod split;
pub(crate) mod text;
pub(crate) mod tools;
pub mod usage;
