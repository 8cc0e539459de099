//! A fact that is absent, unknown or known, as listings show it.

use serde::{Serialize, Serializer};

/// A fact of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Finding<T> {
    /// Nothing to report: the key is absent.
    #[default]
    Nothing,
    /// The fact could not be determined: null.
    Unknown,
    /// The fact.
    Known(T),
}

impl<T> Finding<T> {
    /// Returns whether there is nothing to report.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Finding::Nothing)
    }

    /// Returns the fact if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Finding::Known(value) => Some(value),
            _ => None,
        }
    }
}

impl<T: Serialize> Serialize for Finding<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.known().serialize(serializer)
    }
}

/// The numbers of open and resolved review comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Comments {
    /// Unresolved comments.
    pub open: u64,
    /// Resolved comments.
    pub resolved: u64,
}
