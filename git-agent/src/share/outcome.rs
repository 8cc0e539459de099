//! The result for one ref in a push or a fetch.

use std::fmt;

use serde::Serialize;

use crate::error::Error;
use crate::signature::SignatureStatus;

/// What happened to a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    New,
    /// Fast-forwarded.
    Updated,
    /// Replaced: purged by a push, or rewritten at the remote; the old version is then kept here.
    Rewritten,
    /// Its owner archived the session; the archive has all of it.
    Folded,
    /// Deleted at the remote, or here because the remote no longer has it; the last version is then kept.
    Deleted,
    /// The remote no longer has it, but the copy stays until it is pruned.
    Gone,
    /// Not pushed, or not accepted.
    Refused,
    /// The remote has everything that may be shared.
    Unchanged,
}

impl What {
    /// Returns the word shown to the user.
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

/// Why a ref was refused, if the user can act on it. As the source of an error it tells the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It contains a secret.
    Secret,
    /// Another clone wrote it.
    OtherWriter,
    /// The remote hides such refs from pushes at this address.
    Hidden,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Secret => "it contains a secret",
            Cause::OtherWriter => "another clone wrote it",
            Cause::Hidden => "the remote hides it",
        })
    }
}

impl std::error::Error for Cause {}

/// Why a ref was not pushed or not accepted.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The reason in words.
    pub text: String,
    /// Its kind, if the user can act on it.
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

/// One ref that changed or was refused.
#[derive(Debug, Clone, Serialize)]
pub struct Change {
    /// Its name at the remote.
    #[serde(rename = "ref")]
    pub name: String,
    /// What happened to it.
    pub what: What,
    /// The name of the session, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The claimed author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The judgement of its signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<SignatureStatus>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The kind of reason, if the user can act on it.
    #[serde(skip)]
    pub cause: Option<Cause>,
    /// Why its code was not pushed with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_code: Option<String>,
    /// How many files of the session are uncommitted and were not shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncommitted: Option<u64>,
    /// Whether it was left unsigned although signing is on, because other writers have added to it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_signature: bool,
    /// The ref that keeps the old version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Change {
    /// Returns a change without details.
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
