//! `git agent review approve`, `request-changes` and `reject`: verdicts on the exact current work.
//!
//! A session named on the command line is judged as it is. Sessions found by a filter are shown first; one that changes
//! after it was shown gets no verdict.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result};
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::merge::candidates;
use git_agent::model::review::Verdict;
use git_agent::model::session::Session;
use git_agent::output::human::count;
use git_agent::output::review::{left_out, verdicts};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Ui, cannot_write};
use git_agent::review::verdict::{self, Cases, Decision, VerdictReporter, Waiting};
use git_agent::selection;

use crate::draft;

#[derive(Debug, Args)]
pub struct Judge {
    #[command(flatten)]
    choice: Choice,
    /// Judge the changes that a merge into this branch would bring (default: the session's parent)
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// The reason
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Read the reason from a file ('-' is standard input)
    #[arg(short = 'F', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Do not ask before a verdict on sessions that a filter found
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs a verb.
pub fn run(env: &Env, args: &Judge, verdict: Verdict) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let why = match (&args.message, &args.file) {
            (None, None) => String::new(),
            (message, file) => {
                draft::read(context, "message", message.as_deref(), file.as_deref())?
            }
        };
        let chosen = draft::keeping(context, "message", &why, || chosen(context, args))?;
        let mut reporter = Narrator {
            context,
            ui,
            verdict,
            yes: args.yes,
        };
        let decided = verdict::decide(context, chosen, verdict, &why, &mut reporter)?;
        match &decided.unheard {
            Some(who) => verdicts::warn_unheard(ui, who, &decided.decisions),
            None => verdicts::next_steps(context, ui, verdict, &decided.decisions),
        }
        verdicts::write(ui, verdict, &decided.decisions)?;
        match decided.failure {
            Some(error) => Err(error),
            None => Ok(u8::from(decided.incomplete)),
        }
    })
}

/// Returns the sessions that were named or found.
fn chosen(context: &Context<'_>, args: &Judge) -> Result<Cases> {
    let selection = args.choice.selection();
    let chosen = (selection::select(context, &selection)?.into_iter())
        .map(|listed| candidates::towards(context, listed, args.into.as_deref()))
        .collect::<Result<Vec<_>>>()?;
    let named = !selection.names.is_empty() || selection.is_empty();
    Ok(if named {
        Cases::Named(chosen)
    } else {
        Cases::Found(chosen)
    })
}

/// Shows the sessions and asks.
struct Narrator<'a> {
    context: &'a Context<'a>,
    ui: &'a Ui,
    verdict: Verdict,
    /// Whether no question is wanted.
    yes: bool,
}

impl VerdictReporter for Narrator<'_> {
    fn left_out(&mut self, session: &Session, why: &Error) {
        let name = one_line(&session.name);
        self.ui
            .warning(format!("'{name}' is left out: {}", why.message()));
    }

    fn show(&mut self, waiting: &Waiting) -> Result<()> {
        let line = verdicts::waiting(waiting);
        writeln!(self.ui.out(), "{line}").context(cannot_write)
    }

    fn agrees(&mut self, sessions: usize) -> Result<bool> {
        let verb = match self.verdict {
            Verdict::Approve => "approve",
            Verdict::RequestChanges => "request changes to",
            Verdict::Reject => "reject",
        };
        let many = count(sessions as u64, "session");
        Ok(self.yes || self.ui.confirm(&format!("{verb} {many} as shown?"))?)
    }

    fn decided(&mut self, decision: &Decision) {
        left_out::warn(self.context, self.ui, &decision.work);
        verdicts::narrate(self.ui, self.verdict, decision);
    }

    fn failed(&mut self, error: &Error) {
        self.ui.error(error.message());
    }
}
