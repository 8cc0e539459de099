//! A session's worktree: the work in it, its environment, and how it is cleaned and restored.
//!
//! | file | owns |
//! |---|---|
//! | `work`, `base`, `commit` | the work: committed or not, since when, and committing it |
//! | `environment`, `setup` | what runs there, and with which variables |
//! | `presence`, `hold` | who uses it right now |
//! | `enter` | a person's shell, editor or command |
//! | `snapshot` | snapshots that the user asks for |
//! | `clean`, `restore`, `finish_restore`, `ignored_files` | removing it without loss, and bringing it back |

pub mod base;
pub mod clean;
pub mod commit;
pub mod enter;
pub mod environment;
pub mod finish_restore;
pub mod hold;
pub mod ignored_files;
pub mod presence;
pub mod restore;
pub mod setup;
pub mod snapshot;
pub mod work;
