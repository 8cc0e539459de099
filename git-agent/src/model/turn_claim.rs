//! An agent's own report on a finished turn, and the kinds of failure.

use crate::model::session::Exit;

/// The agent's own report on a finished turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnClaim {
    /// Whether it reports success.
    pub ok: bool,
    /// Whether the turn was cancelled.
    pub cancelled: bool,
    /// The failure, if there is one. The supervisor records it, not the driver.
    pub trouble: Option<Trouble>,
    /// Its last message.
    pub final_text: String,
    /// How its process ended, if it did.
    pub exit: Option<Exit>,
}

impl TurnClaim {
    /// Returns the report of a failed turn.
    pub fn failed(trouble: Trouble) -> Self {
        TurnClaim {
            trouble: Some(trouble),
            ..TurnClaim::default()
        }
    }
}

/// The failure of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The kind of failure, which decides the remedy.
    pub kind: TroubleKind,
    /// The agent's own words.
    pub text: String,
    /// The provider's waiting time before a retry, in seconds.
    pub retry_after: Option<u64>,
}

/// The kinds of failure, one for each remedy.
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
    /// The agent's output could not be parsed.
    Protocol,
    /// Anything else.
    Other,
}
