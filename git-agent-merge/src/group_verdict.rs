//! Verdicts on the sessions of a group, given on the way to its merge.

use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::error::{Context as _, Error, Result, shell_word};
use git_agent::merge::candidates;
use git_agent::model::review::Verdict;
use git_agent::model::session::Session;
use git_agent::output::human::count;
use git_agent::output::review::{left_out, verdicts};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Ui, cannot_write};
use git_agent::review::verdict::{self, Cases, Decision, VerdictReporter, Waiting};
use git_agent::selection::{self, Selection};

/// The verdict on a group, or on a part of it.
#[derive(Debug, Clone, Args)]
pub struct VerdictArgs {
    /// Approve the sessions of the group as they are shown, then merge them
    #[arg(long, requires = "group", conflicts_with_all = ["reject", "request_changes", "dry_run"])]
    pub approve: bool,
    /// Reject a part of the group; nothing is merged
    #[arg(
        long,
        value_name = "PART",
        requires = "group",
        conflicts_with = "request_changes"
    )]
    pub reject: Option<String>,
    /// Request changes to a part of the group; nothing is merged
    #[arg(long, value_name = "PART", requires = "group")]
    pub request_changes: Option<String>,
    /// The reason for the verdict
    #[arg(short, long, value_name = "TEXT")]
    pub message: Option<String>,
}

impl VerdictArgs {
    /// Returns the verdict on one part, if that was asked for.
    pub fn of_part(&self) -> Option<(Verdict, &str)> {
        match (&self.reject, &self.request_changes) {
            (Some(part), _) => Some((Verdict::Reject, part)),
            (_, Some(part)) => Some((Verdict::RequestChanges, part)),
            _ => None,
        }
    }
}

/// Gives a verdict on the group, or on one part. Returns whether every session got it.
pub fn decide(
    context: &Context<'_>,
    ui: &Ui,
    group: &str,
    args: &VerdictArgs,
    yes: bool,
) -> Result<bool> {
    let selection = Selection {
        group: Some(group.to_owned()),
        ..Selection::default()
    };
    let mut sessions = selection::select(context, &selection)?;
    let (verdict, part) = match args.of_part() {
        Some((verdict, part)) => (verdict, Some(part)),
        None => (Verdict::Approve, None),
    };
    if let Some(part) = part {
        sessions.retain(|listed| {
            let session = &listed.session;
            session.name == part || session.settings.part.as_deref() == Some(part)
        });
        if sessions.is_empty() {
            return Err(
                Error::fatal(format!("group '{group}' has no part '{part}'"))
                    .hint(format!("git agent status {}", shell_word(group))),
            );
        }
    }
    let sessions = sessions
        .into_iter()
        .map(|listed| candidates::towards(context, listed, None))
        .collect::<Result<Vec<_>>>()?;
    let cases = match part {
        Some(_) => Cases::Named(sessions),
        None => Cases::Found(sessions),
    };
    let why = args.message.clone().unwrap_or_default();
    let mut reporter = Narrator {
        context,
        ui,
        verdict,
        yes,
    };
    let decided = verdict::decide(context, cases, verdict, &why, &mut reporter)?;
    if let Some(who) = &decided.unheard {
        verdicts::warn_unheard(ui, who, &decided.decisions);
    }
    match decided.failure {
        Some(error) => Err(error),
        None => Ok(!decided.incomplete),
    }
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
        let many = count(sessions as u64, "session");
        Ok(self.yes
            || self
                .ui
                .confirm(&format!("approve and merge {many} as shown?"))?)
    }

    fn decided(&mut self, decision: &Decision) {
        left_out::warn(self.context, self.ui, &decision.work);
        verdicts::narrate(self.ui, self.verdict, decision);
    }

    fn failed(&mut self, error: &Error) {
        self.ui.error(error.message());
    }
}
