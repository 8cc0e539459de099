//! What may be typed after `git agent`.

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};
use git_agent::invoke::Later;

const AFTER_HELP: &str = "A command that is not listed here runs the program 'git-agent-<command>', \
                          as 'git agent review' and 'git agent merge' do.";

/// Runs many coding agents at once, each on its own branch in its own worktree
#[derive(Debug, Parser)]
#[command(
    name = "git-agent",
    bin_name = "git agent",
    version = concat!("version ", env!("CARGO_PKG_VERSION")),
    arg_required_else_help = true,
    subcommand_required = true,
    subcommand_value_name = "command",
    after_help = AFTER_HELP
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start a session: a task, an agent, a branch and a worktree of its own
    New(Later<Box<crate::new::New>>),
    /// List sessions: state, agent, progress, changes, last activity
    #[command(visible_alias = "status")]
    List(Later<crate::list::List>),
    /// Show everything about a session
    Show(Later<crate::show::Show>),
    /// Show what was said and done, of all sessions or some
    Log(Later<crate::log::Log>),
    /// Wait until sessions are ready, or in another state
    Wait(Later<crate::wait::Wait>),
    /// Print where a session's worktree is
    Path(Later<crate::enter::Path>),
    /// Run a command in a session's worktree, with its environment
    Exec(Later<crate::enter::Exec>),
    /// Open a shell in a session's worktree, with its environment
    Shell(Later<crate::enter::Shell>),
    /// Open a session's worktree in an editor
    Open(Later<crate::enter::Open>),
    /// Run the project's program (agent.run) in a session's worktree
    Run(Later<crate::enter::Run>),
    /// Send a further prompt to a session
    Send(Later<crate::send::Send>),
    /// Answer what a session asks
    Answer(Later<crate::answer::Answer>),
    /// Stop sessions and everything they started
    Stop(Later<crate::stop::Stop>),
    /// End a session's turn, if one runs, and go on with the same conversation
    Restart(Later<crate::restart::Restart>),
    /// Go on with sessions that do not run
    Resume(Later<crate::restart::Restart>),
    /// Open the agent's own interface on a session's conversation
    Attach(Later<crate::attach::Attach>),
    /// Commit a session's work on its branch
    Commit(Later<crate::commit::Commit>),
    /// Start a new session from an existing conversation and its work
    Fork(Later<crate::fork::Fork>),
    /// Bring sessions up to date with the branch they go to; uncommitted work stays as it is
    Update(Later<crate::update::Update>),
    /// Tell why a line or a commit is there: its commit, its session, and what the agent was asked
    Why(Later<crate::why::Why>),
    /// Share sessions, transcripts and reviews with everyone who can read a remote
    Push(Later<crate::push::Push>),
    /// Take in the sessions, transcripts and reviews that others share
    Fetch(Later<crate::fetch::Fetch>),
    /// Delete sessions; what is deleted here is kept for 30 days
    Forget(Later<crate::forget::Forget>),
    /// Take a leaked secret out of one's own records, here and at remotes
    Purge(Later<crate::purge::Purge>),
    /// Take a snapshot of a session's worktree, or list them
    Snapshot(Later<crate::snapshot::Snapshot>),
    /// Bring a session's worktree back, uncommitted and untracked files included
    Restore(Later<crate::restore::Restore>),
    /// Go back to an earlier state of a session's worktree; what is there now is kept
    Rewind(Later<crate::restore::Restore>),
    /// Make a session's worktree anew from its branch
    Recreate(Later<crate::restore::Recreate>),
    /// Remove worktrees of sessions that are merged or closed, and merged branches
    Clean(Later<crate::clean::Clean>),
    /// Find what a crash left behind, and repair it
    Doctor(Later<crate::doctor::Doctor>),
    /// Show and change settings; list agents and roles
    Config(Later<crate::config::Config>),
    /// Let the team's file .gitagents decide what runs
    Trust(Later<crate::trust::Trust>),
    /// Print what makes a shell complete 'git agent'
    Completion(Later<crate::completion::Completion>),
    /// Install the programs, their manual and completion under a prefix
    Install(Later<crate::install::Install>),
    /// Show two agents at work, in a repository that is thrown away
    Demo(Later<crate::demo::Demo>),
    /// A program of its own.
    #[command(external_subcommand)]
    External(Vec<OsString>),
}

/// Returns the names of the verbs above, for suggestions.
pub fn verbs() -> Vec<String> {
    let command = Cli::command();
    let names = command.get_subcommands().flat_map(|verb| {
        let aliases = verb.get_visible_aliases().map(str::to_owned);
        std::iter::once(verb.get_name().to_owned()).chain(aliases)
    });
    names.collect()
}
