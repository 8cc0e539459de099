//! Reviewing a session's work: comments and where they are anchored, verdicts, and what goes back to the agent.
//!
//! | file | owns |
//! |---|---|
//! | `records` | reading and writing review records in git notes |
//! | `anchors` | which lines a comment is about, now |
//! | `verdict` | giving a verdict, and which verdicts count |
//! | `state` | a session's state and verdict, given its work as it is now |
//! | `approvers` | sessions whose approval counts |
//! | `send` | comments become a prompt |
//! | `ai` | a review by an agent |
//! | `diff_text` | the text of a diff: its outline, the form to comment in, typed paths |
//! | `diff_scope`, `last_seen` | which part of the work is shown, and what was shown last |
//! | `git_notes` | reviews as plain git shows them |
//! | `moved_meanwhile` | refs and verdicts that changed while foreign code ran |

pub mod ai;
pub mod anchors;
pub mod approvers;
pub mod diff_scope;
pub mod diff_text;
pub mod git_notes;
pub mod last_seen;
pub mod moved_meanwhile;
pub mod records;
pub mod send;
pub mod state;
pub mod verdict;
