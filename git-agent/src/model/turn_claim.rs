//! What an agent says about a turn that ended, and the kinds of failure that are told apart.

use crate::model::session::Exit;

/// What the agent claims about a turn that ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claim {
    /// Whether it says that all is well.
    pub ok: bool,
    /// Whether the turn was cancelled.
    pub cancelled: bool,
    /// Why not, when not. The supervisor records it; the driver does not.
    pub trouble: Option<Trouble>,
    /// The last thing it said.
    pub final_text: String,
    /// How its process ended, when it did.
    pub exit: Option<Exit>,
}

impl Claim {
    /// Returns the claim of a turn that failed.
    pub fn failed(trouble: Trouble) -> Self {
        Claim {
            trouble: Some(trouble),
            ..Claim::default()
        }
    }
}

/// Why a turn failed, told apart by what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Which kind.
    pub kind: TroubleKind,
    /// What the agent said about it.
    pub text: String,
    /// When the provider says to try again, in seconds.
    pub retry_after: Option<u64>,
}

/// The kinds of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleKind {
    /// The program is not installed.
    NotInstalled,
    /// Not logged in, or a bad key.
    Auth,
    /// Too many requests.
    RateLimit,
    /// The model's service failed.
    Model,
    /// The conversation is too long for the model.
    Context,
    /// The agent's process died.
    Crash,
    /// The agent's stream made no sense.
    Protocol,
    /// Anything else.
    Other,
}

impl TroubleKind {
    /// Returns the word used in records.
    pub fn as_str(self) -> &'static str {
        match self {
            TroubleKind::NotInstalled => "not-installed",
            TroubleKind::Auth => "auth",
            TroubleKind::RateLimit => "rate-limit",
            TroubleKind::Model => "model",
            TroubleKind::Context => "context",
            TroubleKind::Crash => "crash",
            TroubleKind::Protocol => "protocol",
            TroubleKind::Other => "other",
        }
    }
}
