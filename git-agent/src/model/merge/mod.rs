//! Merging: which sessions go into a branch, in what order, why not, and what came of it. Pure values; the files beside
//! this one do the work.

pub mod message;
pub mod plan;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, shell_word};
use crate::model::session::{SessionId, State};

/// How a session's work becomes part of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// A merge commit, always.
    #[default]
    NoFf,
    /// One commit with all of it.
    Squash,
    /// Its commits, made again on top of the target.
    Rebase,
    /// Its commits as they are; refused unless the target is where they began.
    FfOnly,
}

impl Style {
    /// The words of `agent.mergeStyle`.
    pub const WORDS: [&'static str; 4] = ["no-ff", "squash", "rebase", "ff-only"];

    /// Returns the word for it.
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

/// What it takes for a session's work to land.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// A reviewer approved exactly what lands.
    #[default]
    OrchestratorReview,
    /// The tests pass on the merged result.
    Auto,
    /// A person takes the last step: a branch is prepared, and the target stays.
    Manual,
}

impl Strategy {
    /// The words of `agent.mergeStrategy`.
    pub const WORDS: [&'static str; 3] = ["orchestrator-review", "auto", "manual"];

    /// Returns the word for it.
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

/// Why a session's work does not go in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Its agent works.
    AtWork(State),
    /// It is in a state from which nothing lands.
    State(State),
    /// Nobody approved it.
    NotApproved,
    /// The only approvals are of people who did not sign them, and the user wants signatures.
    NotVerified(String),
    /// The only approvals were given inside sessions that are not named as approvers.
    NotByPerson(String),
    /// It changed after it was approved.
    Stale(String),
    /// It was approved from a commit on, and what the target lacks before that was not.
    Unseen {
        /// The branch that it would have gone into.
        into: String,
        /// What the approval was judged against.
        from: String,
        /// How many commits before that the target lacks; none where nobody knows.
        commits: u64,
    },
    /// A reviewer asked for changes.
    ChangesRequested,
    /// A reviewer said no.
    Rejected,
    /// It made nothing that the target lacks.
    Nothing,
    /// It shares no history with the target.
    Unrelated,
    /// It was made from another branch.
    OtherParent(String),
    /// It resolves a conflict of another session, and lands with that one.
    Resolves(String),
    /// Its worktree is not on its branch.
    OffBranch,
    /// Its work cannot be found.
    Lost(String),
    /// What it builds on does not go in.
    Needs(String),
    /// It does not merge.
    Conflict(Vec<String>),
    /// The target went on, so that it cannot be fast-forwarded.
    NotFastForward,
    /// It has a path that git refuses to check out.
    BadPath(String),
    /// Its last commit bears no good signature, and the user wants one.
    Unsigned,
    /// It adds marks of a conflict.
    Markers(Vec<String>),
    /// A hook refused it.
    Hook(String),
    /// With it the tests fail; the log is kept there.
    Tests(String),
    /// The tests do not end in time with it; here is their log.
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
            Why::NotFastForward => f.write_str("the target went on: no fast-forward is possible"),
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
                "the tests do not end in time with it ('agent.testTimeout'); log: {log}"
            ),
        }
    }
}

impl Why {
    /// Returns the word for machines.
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

    /// Returns what to do about it, if there is anything to type.
    pub fn hint(&self, name: &str) -> Option<String> {
        let name = shell_word(name);
        Some(match self {
            Why::AtWork(_) => format!("git agent wait {name}"),
            Why::NotApproved | Why::NotVerified(_) | Why::NotByPerson(_) | Why::Stale(_) => {
                format!("git agent review diff {name} && git agent review approve {name}")
            }
            Why::Unseen { into, .. } => {
                let into = shell_word(into);
                format!(
                    "git agent review diff {name} --into {into} && git agent review approve {name} --into {into}"
                )
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

/// A session that does not go in, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Which.
    pub sid: SessionId,
    /// Its name.
    pub name: String,
    /// Why.
    pub why: Why,
}

/// Whether the merged result was tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Tested {
    /// The tests passed on exactly this tree.
    Passed,
    /// Nobody configured tests.
    #[default]
    None,
    /// A person asked for no tests.
    Skipped,
}

impl Tested {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Tested::Passed => "passed",
            Tested::None => "none",
            Tested::Skipped => "skipped",
        }
    }
}
