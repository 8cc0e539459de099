//! What may be typed after `git agent`.

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};

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
    New(Box<crate::new::New>),
    #[command(visible_alias = "status")]
    List(crate::list::List),
    Show(crate::show::Show),
    Log(crate::log::Log),
    Wait(crate::wait::Wait),
    Path(crate::enter::Path),
    Exec(crate::enter::Exec),
    Shell(crate::enter::Shell),
    Open(crate::enter::Open),
    Run(crate::enter::Run),
    Send(crate::send::Send),
    Answer(crate::answer::Answer),
    Stop(crate::stop::Stop),
    Restart(crate::restart::Restart),
    /// Go on with sessions that do not run
    Resume(crate::restart::Restart),
    Attach(crate::attach::Attach),
    Commit(crate::commit::Commit),
    Fork(crate::fork::Fork),
    Update(crate::update::Update),
    Why(crate::why::Why),
    Push(crate::push::Push),
    Fetch(crate::fetch::Fetch),
    Forget(crate::forget::Forget),
    Purge(crate::forget::Purge),
    Snapshot(crate::restore::Snapshot),
    Restore(crate::restore::Restore),
    /// Go back to an earlier state of a session's worktree; what is there now is kept
    Rewind(crate::restore::Restore),
    Recreate(crate::restore::Recreate),
    Clean(crate::clean::Clean),
    Doctor(crate::doctor::Doctor),
    Config(crate::config::Config),
    Trust(crate::trust::Trust),
    Completion(crate::completion::Completion),
    Install(crate::install::Install),
    Demo(crate::demo::Demo),
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
