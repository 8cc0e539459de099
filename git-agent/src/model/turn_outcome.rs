//! Decides the outcome of a turn from the agent's report and from the worktree. An exit code of 0 alone does not prove
//! any work.

use crate::model::session::{Exit, State};
use crate::model::turn_claim::{TroubleKind, TurnClaim};

/// The facts about a finished turn.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The agent's own report.
    pub claim: &'a TurnClaim,
    /// Whether the worktree or the branch changed during the turn; `None` if unknown.
    pub changed: Option<bool>,
    /// The reason for a stop that the user asked for.
    pub stopped: Option<&'a str>,
    /// The limit that ended the turn, in words.
    pub over_limit: Option<&'a str>,
    /// Whether the session is read-only, so that no change is expected.
    pub read_only: bool,
    /// The change that a read-only session made nevertheless, in words.
    pub broken: Option<&'a str>,
}

/// The session's state after a turn.
#[derive(Debug, PartialEq, Eq)]
pub struct TurnOutcome {
    /// The new state.
    pub state: State,
    /// The reason, in words; may be empty.
    pub reason: String,
    /// How the process ended.
    pub exit: Exit,
}

/// Decides the state of a session after a turn.
pub fn judge(facts: &Facts<'_>) -> TurnOutcome {
    let claim = facts.claim;
    let mut exit = claim.exit.clone().unwrap_or_default();
    let (state, reason) = decide(facts, &exit);
    exit.reason.clone_from(&reason);
    TurnOutcome {
        state,
        reason,
        exit,
    }
}

/// The reason of a failure that a login or another key can put right.
pub const NOT_LOGGED_IN: &str = "not logged in, or a bad key";

/// Returns whether a recorded reason says that the agent is not logged in.
pub fn is_about_login(reason: &str) -> bool {
    reason.starts_with(NOT_LOGGED_IN)
}

fn decide(facts: &Facts<'_>, exit: &Exit) -> (State, String) {
    let claim = facts.claim;
    if let Some(limit) = facts.over_limit {
        return (State::Failed, limit.to_owned());
    }
    if let Some(reason) = facts.stopped {
        return (State::Stopped, reason.to_owned());
    }
    if let Some(broken) = facts.broken {
        return (State::Failed, broken.to_owned());
    }
    if let Some(trouble) = &claim.trouble {
        let what = match trouble.kind {
            TroubleKind::NotInstalled => "not installed",
            TroubleKind::Auth => NOT_LOGGED_IN,
            TroubleKind::RateLimit => "rate limit",
            TroubleKind::Model => "the model's service failed",
            TroubleKind::Context => "the conversation is too long for the model",
            TroubleKind::Crash => "the agent crashed",
            TroubleKind::Protocol => "could not read the agent's output",
            TroubleKind::Other => "the agent failed",
        };
        let text = first_line(&trouble.text);
        let reason = match trouble.kind {
            _ if text.is_empty() => what.to_owned(),
            // The text says so itself.
            TroubleKind::NotInstalled => text.to_owned(),
            TroubleKind::Crash if text.starts_with("exit code ") => text.to_owned(),
            _ => format!("{what}: {text}"),
        };
        return (State::Failed, reason);
    }
    if claim.cancelled {
        return (State::Stopped, "cancelled".to_owned());
    }
    if let Some(signal) = exit.signal {
        return (
            State::Failed,
            format!("the agent was ended by signal {signal}"),
        );
    }
    if let Some(code) = exit.code.filter(|code| *code != 0) {
        return (State::Failed, format!("the agent exited with {code}"));
    }
    if !claim.ok {
        return (State::Failed, "the agent did not finish".to_owned());
    }
    let silent = claim.final_text.trim().is_empty();
    match facts.changed {
        Some(false) if silent && !facts.read_only => (
            State::Failed,
            "the agent changed nothing and said nothing".to_owned(),
        ),
        Some(false) if !facts.read_only => (State::Ready, "no changes".to_owned()),
        _ => (State::Ready, String::new()),
    }
}

fn first_line(text: &str) -> &str {
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::turn_claim::Trouble;

    fn state(claim: TurnClaim, changed: Option<bool>) -> State {
        let facts = Facts {
            claim: &claim,
            changed,
            stopped: None,
            over_limit: None,
            read_only: false,
            broken: None,
        };
        judge(&facts).state
    }

    #[test]
    fn exit_zero_is_not_enough() {
        let claim = TurnClaim {
            ok: true,
            ..TurnClaim::default()
        };
        assert_eq!(state(claim.clone(), Some(false)), State::Failed);
        assert_eq!(state(claim.clone(), Some(true)), State::Ready);
        assert_eq!(state(claim.clone(), None), State::Ready);
        let talked = TurnClaim {
            final_text: "nothing to do".into(),
            ..claim.clone()
        };
        assert_eq!(state(talked, Some(false)), State::Ready);
        let failed = TurnClaim {
            exit: Some(Exit {
                code: Some(3),
                ..Exit::default()
            }),
            ..claim.clone()
        };
        assert_eq!(state(failed, Some(true)), State::Failed);
        let trouble = Trouble {
            kind: TroubleKind::Auth,
            text: "401\nmore".into(),
            retry_after: None,
        };
        let refused = TurnClaim {
            trouble: Some(trouble),
            ..claim
        };
        let facts = Facts {
            claim: &refused,
            changed: Some(true),
            stopped: None,
            over_limit: None,
            read_only: false,
            broken: None,
        };
        assert_eq!(judge(&facts).reason, "not logged in, or a bad key: 401");
    }
}
