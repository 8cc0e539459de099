//! Worktrees as git registers them: added, listed, found again after a move, removed. git's own records are the only
//! registry.

mod add;
mod branch;
pub mod checkout;
mod finish;
mod hook;
pub mod include;
mod list;
mod mend;
mod place;
mod recreate;
mod remove;
pub mod temporary;
#[cfg(test)]
mod tests;
pub mod unfinished;

pub use add::{AddOptions, Added, Way, add};
pub use finish::finish;
pub use hook::Hook;
pub use list::{Worktree, admin_dir_of, heads, list};
pub use mend::{lost_record, rebuild_index, register_again};
pub use recreate::{Again, Remains, is_initializing, remains, sweep};
pub use remove::{
    Finding, ProvenSafe, inspect, is_stale, leads_nowhere, moved_from, prune_missing, put_back,
    remove, remove_after, repair, search_moved, shares_repository,
};
