//! The command line of `git agent`: its verbs and their one-line help.

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
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start a session: a task, an agent, a branch and a worktree of its own
    New(Later<Box<crate::new::New>>),
    /// Start a task in parts: several agents, each with a branch of its own, in the order of a plan
    Start(Later<Box<crate::start::Start>>),
    /// List sessions: state, agent, progress, changes, last activity
    #[command(visible_alias = "status")]
    List(Later<crate::list::List>),
    /// Show everything about a session
    Show(Later<crate::show::Show>),
    /// Show the transcripts of sessions
    Log(Later<crate::log::Log>),
    /// Wait until sessions are ready, or in another state
    Wait(Later<crate::wait::Wait>),
    /// Print the path of a session's worktree
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
    /// Answer the question of a session
    Answer(Later<crate::answer::Answer>),
    /// Stop sessions and everything they started
    Stop(Later<crate::stop::Stop>),
    /// End a session's running turn, if any, and continue its conversation
    Restart(Later<crate::restart::Restart>),
    /// Continue sessions that are not running
    Resume(Later<crate::restart::Restart>),
    /// Open the agent's own interface on a session's conversation
    Attach(Later<crate::attach::Attach>),
    /// Give files to other sessions, and read theirs
    Artifact(Later<crate::artifact::Artifact>),
    /// Send a message to a session, or list the messages of one
    Message(Later<crate::message::Message>),
    /// Serve messages, artifacts and sessions to an agent, as an MCP server on standard input and output
    Mcp(Later<crate::mcp::Mcp>),
    /// Commit a session's work on its branch
    Commit(Later<crate::commit::Commit>),
    /// Start a new session from an existing conversation and its work
    Fork(Later<crate::fork::Fork>),
    /// Update sessions from their parent branch; uncommitted work is kept
    Update(Later<crate::update::Update>),
    /// Explain a line or a commit: its commit, its session and the prompt
    Why(Later<crate::why::Why>),
    /// Share sessions, transcripts and reviews with everyone who can read a remote
    Push(Later<crate::push::Push>),
    /// Fetch the sessions, transcripts and reviews that teammates share
    Fetch(Later<crate::fetch::Fetch>),
    /// Delete sessions; a copy is kept here for 30 days
    Forget(Later<crate::forget::Forget>),
    /// Remove a leaked secret from your own records, here and on remotes
    Purge(Later<crate::purge::Purge>),
    /// Take a snapshot of a session's worktree, or list them
    Snapshot(Later<crate::snapshot::Snapshot>),
    /// Restore a session's worktree, including uncommitted and untracked files
    Restore(Later<crate::restore::Restore>),
    /// Return a session's worktree to an earlier state; the current files are kept in a snapshot
    Rewind(Later<crate::restore::Restore>),
    /// Create a session's worktree again from its branch
    Recreate(Later<crate::restore::Recreate>),
    /// Remove worktrees of sessions that are merged or closed, and merged branches
    Clean(Later<crate::clean::Clean>),
    /// Give up sessions: end them, remove their worktrees and branches; 'restore' brings them back
    Discard(Later<crate::discard::Discard>),
    /// Find and repair problems, such as the remains of a crash
    Doctor(Later<crate::doctor::Doctor>),
    /// Show and change settings; list agents and roles
    Config(Later<crate::config::Config>),
    /// Trust the team's file .gitagents to choose the commands that run
    Trust(Later<crate::trust::Trust>),
    /// Print the completion script of a shell
    Completion(Later<crate::completion::Completion>),
    /// Install the programs, their manual and completion under a prefix
    Install(Later<crate::install::Install>),
    /// Show two agents at work in a temporary repository
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
