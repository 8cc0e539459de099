//! Reading an agent's output: pieces become events of a readable size, and failures are told apart.

pub(crate) mod bounded_json;
pub(crate) mod exit;
pub(crate) mod failure;
pub(crate) mod output;
pub(crate) mod raw_message;
pub(crate) mod split;
pub(crate) mod text;
pub(crate) mod tools;
pub mod usage;
