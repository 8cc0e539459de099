//! Reviews of a session's work: comments and their anchors, verdicts, and the prompt that goes back to the agent.
//!
//! | file | owns |
//! |---|---|
//! | `records` | reading and writing review records in git notes |
//! | `anchors` | the lines of a comment in the current work |
//! | `verdict` | giving a verdict, and which verdicts count |
//! | `state` | a session's state and verdict for its current work |
//! | `approvers` | sessions whose approval counts |
//! | `comment` | commenting, replying, resolving, reopening, deleting, editing |
//! | `edit` | comments typed into a form in the editor |
//! | `send` | sending a review back to the agent |
//! | `prompt` | comments as a prompt, and which were sent |
//! | `draft` | typed text that could not be used |
//! | `ai` | a review by an agent |
//! | `diff_text` | the text of a diff: its outline, the form to comment in, typed paths |
//! | `diff_scope`, `last_seen` | which part of the work is shown, and the part that was shown last |
//! | `shown` | changes and threads as values, for a screen |
//! | `git_notes` | reviews as plain git shows them |
//! | `moved_meanwhile` | refs and verdicts that changed while foreign code ran |

pub mod ai;
pub mod anchors;
pub mod approvers;
pub mod comment;
pub mod diff_scope;
pub mod diff_text;
pub mod draft;
pub mod edit;
pub mod git_notes;
pub mod last_seen;
pub mod moved_meanwhile;
pub mod prompt;
pub mod records;
pub mod send;
pub mod shown;
pub mod state;
pub mod verdict;
