//! The text of a diff as reviewers read and type it.
//!
//! | file | owns |
//! |---|---|
//! | `outline` | headings and hunks of git's diff, and which file a heading is about |
//! | `form` | the whole diff as a form to type comments into, and reading it back |
//! | `pathspec` | typed paths, relative to the top of the worktree |

pub mod form;
pub mod outline;
pub mod pathspec;
