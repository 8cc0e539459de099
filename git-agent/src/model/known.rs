//! A fact that may be absent, undeterminable or known: how every listing tells the three apart.

use serde::{Serialize, Serializer};

/// What was found out about something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Finding<T> {
    /// There is nothing to tell: the key is absent.
    #[default]
    Nothing,
    /// There is something, but it could not be determined: null.
    Unknown,
    /// This.
    Known(T),
}

impl<T> Finding<T> {
    /// Returns whether there is nothing to tell.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Finding::Nothing)
    }

    /// Returns what is known.
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

/// Review comments by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Comments {
    /// Not resolved.
    pub open: u64,
    /// Resolved.
    pub resolved: u64,
}
