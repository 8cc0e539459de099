//! A session's worktree: the work in it, its environment, and how it is cleaned and restored.
//!
//! | file | owns |
//! |---|---|
//! | `work`, `base`, `commit` | the work, committed or not, its base, and committing it |
//! | `environment`, `setup` | the variables and the setup command of a turn |
//! | `presence`, `hold` | the commands and sessions that use it now |
//! | `enter` | the user's shell, editor or command |
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
