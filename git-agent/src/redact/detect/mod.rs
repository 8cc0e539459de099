//! Detectors: each finds one kind of secret in a text.

pub(crate) mod colors;
pub(crate) mod context;
pub(crate) mod encoded;
pub(crate) mod entropy;
pub(crate) mod headers;
pub(crate) mod judge;
pub(crate) mod known;
pub(crate) mod names;
pub(crate) mod pem;
pub(crate) mod rules;
pub(crate) mod url;
pub(crate) mod words;
pub(crate) mod wrapped;
