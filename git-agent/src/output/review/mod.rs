//! The output of reviews, as text and for programs.
//!
//! | file | owns |
//! |---|---|
//! | `diff_view` | git's diff with the comments in their places |
//! | `early_diff` | the same diff, begun before the whole worktree was read |
//! | `weave` | comments between the lines of git's diff |
//! | `emphasis` | safe escapes and changes within a line |
//! | `diff_files` | changed files for programs |
//! | `left_out` | files that are neither shown nor judged |
//! | `threads` | comment threads and verdicts as blocks of text |
//! | `report` | findings in the forms that other tools read |
//! | `findings` | findings of a review by an agent |
//! | `overview`, `comparison`, `list`, `verdicts` | the tables, lists and messages of the verbs with these names |

pub mod comparison;
pub mod diff_files;
pub mod diff_view;
mod early_diff;
pub mod emphasis;
pub mod findings;
pub mod left_out;
pub mod list;
pub mod overview;
pub mod report;
pub mod threads;
pub mod verdicts;
pub mod weave;
