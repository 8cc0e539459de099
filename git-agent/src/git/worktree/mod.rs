//! Worktrees as git registers them: added, listed, found again after a move, removed. The truth is what git says; there
//! is no second registry.

mod add;
mod again;
mod branch;
mod finish;
mod hook;
mod list;
mod place;
mod remove;
#[cfg(test)]
mod tests;

pub use add::{AddOptions, Added, Way, add};
pub use again::{Again, Remains, is_initializing, remains, sweep};
pub use finish::finish;
pub use hook::Hook;
pub use list::{Worktree, admin_dir_of, heads, list};
pub use remove::{
    Finding, ProvenSafe, inspect, is_stale, leads_nowhere, moved_from, prune_missing, put_back,
    remove, remove_after, repair, search_moved, shares_repository,
};
