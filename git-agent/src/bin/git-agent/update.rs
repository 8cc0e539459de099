//! `git agent update`: updates sessions from their parent branch.

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::merge::resolve::auto;
use git_agent::merge::update::{How, UpdateOutcome};
use git_agent::merge::update_sessions::{self, Options, Reporter};
use git_agent::model::session::Session;
use git_agent::output::Ui;
use git_agent::output::merge::resolution;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::selection;

use crate::update_view::{self, Row};

#[derive(Debug, Args)]
pub struct Update {
    #[command(flatten)]
    choice: Choice,
    /// The branch to update from (default: the parent of each session)
    #[arg(long, value_name = "BRANCH")]
    from: Option<String>,
    /// Merge the branch into the session's branch (default: agent.updateStyle, then this)
    #[arg(long, overrides_with = "rebase")]
    merge: bool,
    /// Rebase the session's commits onto the branch
    #[arg(long, overrides_with = "merge")]
    rebase: bool,
    /// Let an agent resolve conflicts
    #[arg(long)]
    auto: bool,
    /// The agent that resolves (default: the session's own)
    #[arg(long, value_name = "AGENT", requires = "auto")]
    agent: Option<String>,
    /// Accept the agent's resolution without a question
    #[arg(short, long, requires = "auto")]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Shows the progress of each session.
struct Report<'u> {
    ui: &'u Ui,
    yes: bool,
    rows: Vec<Row>,
    failed: bool,
}

impl Reporter for Report<'_> {
    fn tell(&mut self, text: String) {
        self.ui.narrate(text);
    }

    fn updated(&mut self, session: &Session, outcome: UpdateOutcome) {
        let row = update_view::row(session, outcome);
        self.failed |= !row.conflicts.is_empty();
        self.rows.push(row);
    }

    fn failed(&mut self, session: &Session, error: Error) {
        self.failed = true;
        let name = one_line(&session.name).to_string();
        self.ui.error(format!("{name}: {}", error.message()));
    }

    fn has_agreed(&self) -> bool {
        self.yes
    }

    fn may_ask(&self) -> bool {
        self.ui.may_ask()
    }

    fn takes(&mut self, diff: &[u8]) -> Result<bool> {
        resolution::show(self.ui, diff)?;
        self.ui.confirm("accept this resolution?")
    }
}

/// Runs the verb. Exit code 1 means that a session could not be brought up to date.
pub fn run(env: &Env, args: &Update) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let chosen = selection::select(context, &args.choice.selection())?;
        let auto = auto::Options::new(context, args.agent.as_deref(), None, false);
        let options = Options {
            from: args.from.clone(),
            how: match (args.merge, args.rebase) {
                (true, _) => Some(How::Merge),
                (_, true) => Some(How::Rebase),
                _ => None,
            },
            auto: args.auto.then_some(auto),
        };
        let mut report = Report {
            ui,
            yes: args.yes,
            rows: Vec::new(),
            failed: false,
        };
        update_sessions::update(context, &chosen, &options, &mut report)?;
        update_view::write(ui, &report.rows)?;
        Ok(u8::from(report.failed))
    })
}
