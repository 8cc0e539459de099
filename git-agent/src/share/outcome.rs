//! What became of one ref in a push or a fetch.

use std::fmt;

use serde::Serialize;

use crate::error::Error;
use crate::signature::Standing;

/// What became of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// It was not there before.
    New,
    /// It has grown.
    Updated,
    /// It is not what it was: purged by a push, or changed at the remote, and then the old version is kept here.
    Rewritten,
    /// Its owner folded the session: it is in an archive now, whole.
    Folded,
    /// It is gone: deleted at the remote, or here because the remote has it no longer; then the last version is kept.
    Deleted,
    /// The remote has it no longer, but the copy stays until it is pruned.
    Gone,
    /// It did not go, or was not taken.
    Refused,
    /// The remote has all of it that may go.
    Unchanged,
}

impl What {
    /// Returns the word shown to people.
    pub fn as_str(self) -> &'static str {
        match self {
            What::New => "new",
            What::Updated => "updated",
            What::Rewritten => "rewritten",
            What::Folded => "folded",
            What::Deleted => "deleted",
            What::Gone => "gone",
            What::Refused => "refused",
            What::Unchanged => "unchanged",
        }
    }
}

/// Why a ref did not go, where something can be done about it. As a cause of an error it says what the error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It holds a secret.
    Secret,
    /// Another clone wrote it.
    OtherWriter,
    /// The remote hides such refs from pushes at this address.
    Hidden,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Secret => "it holds a secret",
            Cause::OtherWriter => "another clone wrote it",
            Cause::Hidden => "the remote hides it",
        })
    }
}

impl std::error::Error for Cause {}

/// Why a ref may not go, or was not taken.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The reason in words.
    pub text: String,
    /// Its kind, where something can be done about it.
    pub cause: Option<Cause>,
}

impl Refusal {
    /// Returns a reason of a known kind.
    pub(super) fn of(cause: Cause, text: String) -> Self {
        Refusal {
            text,
            cause: Some(cause),
        }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Refusal { text, cause: None }
    }
}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        Refusal {
            text: error.message().to_owned(),
            cause: error.cause().copied(),
        }
    }
}

/// One ref that is not as it was, or should not have been.
#[derive(Debug, Clone, Serialize)]
pub struct Change {
    /// Its name at the remote.
    #[serde(rename = "ref")]
    pub name: String,
    /// What became of it.
    pub what: What,
    /// The name of the session, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Who wrote it, as claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// What its signature says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Standing>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The kind of reason, where something can be done about it.
    #[serde(skip)]
    pub cause: Option<Cause>,
    /// Why its code did not go along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_code: Option<String>,
    /// How many files of the session are not committed, and did not go along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncommitted: Option<u64>,
    /// Whether it was not signed although that is wanted, because others wrote in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_signature: bool,
    /// Where the old version is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Change {
    /// Returns a change of which nothing more is known.
    pub(super) fn new(name: impl ToString, what: What) -> Self {
        Change {
            name: name.to_string(),
            what,
            session: None,
            author: None,
            signature: None,
            reason: None,
            cause: None,
            without_code: None,
            uncommitted: None,
            without_signature: false,
            kept: None,
        }
    }
}
