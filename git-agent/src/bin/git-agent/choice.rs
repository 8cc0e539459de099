//! The options by which a verb is told which sessions are meant.

use clap::Args;
use git_agent::session::State;
use git_agent::session::select::Selection;

/// Which sessions
#[derive(Debug, Clone, Args)]
pub struct Choice {
    /// Sessions: names, ids, or ends of ids (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    pub names: Vec<String>,
    /// Every session of this clone
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// The sessions of a group
    #[arg(long, value_name = "GROUP", conflicts_with = "names")]
    pub group: Option<String>,
    /// The sessions in a state (can be repeated)
    #[arg(long, value_name = "STATE", conflicts_with = "names")]
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
}

impl Choice {
    /// Returns what was said.
    pub fn selection(&self) -> Selection {
        let mut states = self.state.clone();
        for (chosen, state) in [
            (self.running, State::Running),
            (self.waiting, State::Waiting),
            (self.ready, State::Ready),
            (self.failed, State::Failed),
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
