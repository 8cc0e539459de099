//! The values of a merge: styles, strategies, reasons to leave a session out, and test results. The room `merge` does
//! the work.

pub mod message;
pub mod plan;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, shell_word};
use crate::model::session::{SessionId, State};

/// The form in which a session's work enters the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// A merge commit, always.
    #[default]
    NoFf,
    /// One commit with all changes.
    Squash,
    /// The session's commits, rebased onto the target.
    Rebase,
    /// The session's commits unchanged; refused unless the target can be fast-forwarded.
    FfOnly,
}

impl Style {
    /// The words of `agent.mergeStyle`.
    pub const WORDS: [&'static str; 4] = ["no-ff", "squash", "rebase", "ff-only"];

    /// Returns the word of the setting.
    pub fn as_str(self) -> &'static str {
        match self {
            Style::NoFf => "no-ff",
            Style::Squash => "squash",
            Style::Rebase => "rebase",
            Style::FfOnly => "ff-only",
        }
    }
}

impl FromStr for Style {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Style::NoFf, Style::Squash, Style::Rebase, Style::FfOnly]
            .into_iter()
            .find(|style| style.as_str() == text)
            .ok_or_else(|| {
                Error::usage(format!(
                    "'{text}' is not one of {}",
                    Style::WORDS.join(", ")
                ))
            })
    }
}

/// The condition for merging a session's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// A reviewer approved exactly the merged work.
    #[default]
    OrchestratorReview,
    /// The tests pass on the merged result.
    Auto,
    /// A person runs the last step: the merge prepares a branch, and the target does not move.
    Manual,
}

impl Strategy {
    /// The words of `agent.mergeStrategy`.
    pub const WORDS: [&'static str; 3] = ["orchestrator-review", "auto", "manual"];

    /// Returns the word of the setting.
    pub fn as_str(self) -> &'static str {
        match self {
            Strategy::OrchestratorReview => "orchestrator-review",
            Strategy::Auto => "auto",
            Strategy::Manual => "manual",
        }
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [
            Strategy::OrchestratorReview,
            Strategy::Auto,
            Strategy::Manual,
        ]
        .into_iter()
        .find(|strategy| strategy.as_str() == text)
        .ok_or_else(|| {
            Error::usage(format!(
                "'{text}' is not one of {}",
                Strategy::WORDS.join(", ")
            ))
        })
    }
}

/// A step of a merge: it was made, or it was refused for a reason that is not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt<T, R = Why> {
    /// The result of the step.
    Made(T),
    /// The reason against it.
    Refused(R),
}

/// The reason why a session is left out of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The agent is working.
    AtWork(State),
    /// Sessions in this state cannot be merged.
    State(State),
    /// The work has no approval.
    NotApproved,
    /// The only approvals lack a signature, and the user requires one.
    NotVerified(String),
    /// The only approvals came from sessions that are not named as approvers.
    NotByPerson(String),
    /// The work changed after the approval.
    Stale(String),
    /// The approval covers only the commits after a base, and the target lacks commits before that base.
    Unseen {
        /// The target branch.
        into: String,
        /// The base of the approval.
        from: String,
        /// How many commits before the base the target lacks; 0 if unknown.
        commits: u64,
    },
    /// A reviewer asked for changes.
    ChangesRequested,
    /// A reviewer rejected the work.
    Rejected,
    /// The target already contains all of the work.
    Nothing,
    /// The work shares no history with the target.
    Unrelated,
    /// The session was created from another branch.
    OtherParent(String),
    /// The session resolves a conflict of another session, and is merged with that one.
    Resolves(String),
    /// The worktree is not on the session's branch.
    OffBranch,
    /// The work is missing, for this reason.
    Lost(String),
    /// The session builds on one that is left out.
    Needs(String),
    /// The work conflicts in these files.
    Conflict(Vec<String>),
    /// The target has moved, so that it cannot be fast-forwarded.
    NotFastForward,
    /// The work has a path that git refuses to check out.
    BadPath(String),
    /// The last commit lacks a good signature, and the user requires one.
    Unsigned,
    /// The work adds conflict markers at these places.
    Markers(Vec<String>),
    /// A hook refused it.
    Hook(String),
    /// The tests fail with this work. Holds the path of their log.
    Tests(String),
    /// The tests time out with this work. Holds the path of their log.
    Late(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::AtWork(state) => write!(f, "it is at work ({state})"),
            Why::State(state) => write!(f, "it is {state}"),
            Why::NotApproved => f.write_str("it is not approved"),
            Why::NotVerified(who) => write!(
                f,
                "the approval by {who} has no signature that is known here, and 'agent.sign' is set"
            ),
            Why::NotByPerson(who) => write!(
                f,
                "the approval by {who} was given inside a session, which 'agent.approvers' does not name"
            ),
            Why::Stale(at) => write!(f, "it changed after it was approved at {at}"),
            Why::Unseen { from, commits, .. } => {
                write!(f, "it is approved from {from} on, ")?;
                match commits {
                    0 => f.write_str("which is not in the target"),
                    1 => f.write_str("but not the commit before"),
                    _ => write!(f, "but not the {commits} commits before"),
                }
            }
            Why::ChangesRequested => f.write_str("changes are requested"),
            Why::Rejected => f.write_str("it is rejected"),
            Why::Nothing => f.write_str("it has nothing that the target lacks"),
            Why::Unrelated => f.write_str("it shares no history with the target"),
            Why::OtherParent(parent) => write!(f, "it was made from '{parent}'"),
            Why::Resolves(name) => write!(f, "it resolves a conflict of '{name}'"),
            Why::OffBranch => f.write_str("its worktree is not on its branch"),
            Why::Lost(what) => f.write_str(what),
            Why::Needs(name) => write!(f, "it builds on '{name}', which does not go in"),
            Why::Conflict(paths) => match paths.as_slice() {
                [] => f.write_str("it conflicts"),
                [one] => write!(f, "conflict in '{one}'"),
                [one, rest @ ..] => write!(f, "conflict in '{one}' and {} more", rest.len()),
            },
            Why::BadPath(path) => write!(f, "git refuses to check out '{path}'"),
            Why::NotFastForward => {
                f.write_str("the target has moved, so it cannot be fast-forwarded")
            }
            Why::Unsigned => f.write_str(
                "its last commit has no good signature, and 'merge.verifySignatures' is set",
            ),
            Why::Markers(places) => write!(
                f,
                "it adds conflict markers at {}",
                places.first().map_or("", String::as_str)
            ),
            Why::Hook(said) => write!(f, "a hook refused it: {said}"),
            Why::Tests(log) => write!(f, "the tests fail with it; log: {log}"),
            Why::Late(log) => write!(
                f,
                "the tests time out with it ('agent.testTimeout'); log: {log}"
            ),
        }
    }
}

impl Why {
    /// Returns the word for machine formats.
    pub fn as_str(&self) -> &'static str {
        match self {
            Why::AtWork(_) => "at-work",
            Why::State(_) => "state",
            Why::NotApproved => "not-approved",
            Why::NotVerified(_) => "not-verified",
            Why::NotByPerson(_) => "not-by-person",
            Why::Stale(_) => "stale",
            Why::Unseen { .. } => "unseen",
            Why::ChangesRequested => "changes-requested",
            Why::Rejected => "rejected",
            Why::Nothing => "nothing",
            Why::Unrelated => "unrelated",
            Why::OtherParent(_) => "other-parent",
            Why::Resolves(_) => "resolves",
            Why::OffBranch => "off-branch",
            Why::Lost(_) => "lost",
            Why::Needs(_) => "needs",
            Why::Conflict(_) => "conflict",
            Why::BadPath(_) => "bad-path",
            Why::NotFastForward => "not-fast-forward",
            Why::Unsigned => "unsigned",
            Why::Markers(_) => "markers",
            Why::Hook(_) => "hook",
            Why::Tests(_) => "tests",
            Why::Late(_) => "late",
        }
    }

    /// Returns the next step as a command, if there is one.
    pub fn hint(&self, name: &str) -> Option<String> {
        let name = shell_word(name);
        Some(match self {
            Why::AtWork(_) => format!("git agent wait {name}"),
            Why::NotApproved | Why::NotVerified(_) | Why::NotByPerson(_) => {
                format!("git agent review diff {name}    then approve it")
            }
            Why::Stale(_) => format!("git agent review diff --since-review {name}"),
            Why::Unseen { into, .. } => {
                format!("git agent review diff {name} --into {}", shell_word(into))
            }
            Why::Tests(_) | Why::Late(_) => {
                format!("git agent merge --return {name}    send it the test log")
            }
            Why::ChangesRequested | Why::Rejected => format!("git agent review list {name}"),
            Why::Conflict(_) => format!("git agent merge resolve {name}"),
            Why::NotFastForward => format!("git agent update {name}"),
            Why::OtherParent(parent) => {
                format!("git agent merge --into {} {name}", shell_word(parent))
            }
            Why::Resolves(name) => {
                format!("git agent merge resolve --auto {}", shell_word(name))
            }
            Why::OffBranch | Why::BadPath(_) => format!("git agent shell {name}"),
            _ => return None,
        })
    }
}

/// A session that is left out of a merge, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The session's id.
    pub sid: SessionId,
    /// The session's name.
    pub name: String,
    /// The reason.
    pub why: Why,
}

/// The test result of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Tested {
    /// The tests passed on exactly this tree.
    Passed,
    /// No tests are configured.
    #[default]
    None,
    /// The user skipped the tests.
    Skipped,
}

impl Tested {
    /// Returns the word for machine formats.
    pub fn as_str(self) -> &'static str {
        match self {
            Tested::Passed => "passed",
            Tested::None => "none",
            Tested::Skipped => "skipped",
        }
    }
}
