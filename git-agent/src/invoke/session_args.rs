//! The options that select sessions.

use crate::model::session::State;
use crate::selection::Selection;
use clap::Args;

/// Which sessions
#[derive(Debug, Clone, Args)]
pub struct Choice {
    /// Sessions: names or their beginnings, ids, @3 of the last list, '-' the last (default: the session of this worktree)
    #[arg(value_name = "SESSION")]
    pub names: Vec<String>,
    /// Every session of this clone; for 'list', also closed ones and those of teammates
    #[arg(short, long, conflicts_with = "names")]
    pub all: bool,
    /// The sessions of a group
    #[arg(long, value_name = "GROUP", conflicts_with = "names")]
    pub group: Option<String>,
    /// The sessions in this state (can be repeated); each state is also an option of its own
    #[arg(
        long,
        value_name = "STATE",
        value_delimiter = ',',
        conflicts_with = "names"
    )]
    pub state: Vec<State>,
    /// Short for --state running
    #[arg(long, conflicts_with = "names")]
    pub running: bool,
    /// Short for --state waiting
    #[arg(long, conflicts_with = "names")]
    pub waiting: bool,
    /// Short for --state ready
    #[arg(long, conflicts_with = "names")]
    pub ready: bool,
    /// Short for --state failed
    #[arg(long, conflicts_with = "names")]
    pub failed: bool,
    /// Short for --state blocked
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub blocked: bool,
    /// Short for --state draft
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub draft: bool,
    /// Short for --state queued
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub queued: bool,
    /// Short for --state preparing
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub preparing: bool,
    /// Short for --state approved
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub approved: bool,
    /// Short for --state merged
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub merged: bool,
    /// Short for --state stopped
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub stopped: bool,
    /// Short for --state interrupted
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub interrupted: bool,
    /// Short for --state stuck
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub stuck: bool,
    /// Short for --state changes-requested
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub changes_requested: bool,
    /// Short for --state rejected
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub rejected: bool,
    /// Short for --state discarded
    #[arg(long, conflicts_with = "names", hide_short_help = true)]
    pub discarded: bool,
}

impl Choice {
    /// Returns the selection.
    pub fn selection(&self) -> Selection {
        let mut states = self.state.clone();
        for (chosen, state) in [
            (self.running, State::Running),
            (self.waiting, State::Waiting),
            (self.ready, State::Ready),
            (self.failed, State::Failed),
            (self.blocked, State::Blocked),
            (self.draft, State::Draft),
            (self.queued, State::Queued),
            (self.preparing, State::Preparing),
            (self.approved, State::Approved),
            (self.merged, State::Merged),
            (self.stopped, State::Stopped),
            (self.interrupted, State::Interrupted),
            (self.stuck, State::Stuck),
            (self.changes_requested, State::ChangesRequested),
            (self.rejected, State::Rejected),
            (self.discarded, State::Discarded),
        ] {
            if chosen {
                states.push(state);
            }
        }
        Selection {
            names: self.names.clone(),
            all: self.all,
            group: self.group.clone(),
            states,
        }
    }
}
