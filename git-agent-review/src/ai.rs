//! `git agent review ai`: an agent reviews the work, and its findings become comments.

use std::time::Duration;

use clap::Args;
use git_agent::config::parse_duration;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::review::Severity;
use git_agent::model::review::findings::MOST;
use git_agent::output::review::findings;
use git_agent::output::review::report::ReportFormat;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui};
use git_agent::review::ai::{self, About, Reviewed, Reviewer};
use git_agent::selection;

#[derive(Debug, Args)]
pub struct Ai {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Only uncommitted changes; without a session, those of this checkout
    #[arg(long)]
    uncommitted: bool,
    /// The agent that reviews (default: agent.default)
    #[arg(short, long, value_name = "AGENT")]
    agent: Option<String>,
    /// The model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Take agent, model and limits from a role
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// The time limit, such as 10m
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// Report for another tool: sarif, github or gitlab
    #[arg(long, value_name = "FORMAT")]
    format: Option<ReportFormat>,
    /// Exit with 1 from this severity on, or never (default: major)
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<String>,
    /// Only report; do not write comments
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// A shell command as the agent
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "not a duration (try 90s, 15m, 2h)".to_owned())
}

/// Runs the verb.
pub fn run(env: &Env, args: &Ai) -> Result<u8> {
    let limit = match args.fail_on.as_deref() {
        None => Some(Severity::Major),
        Some("never") => None,
        Some(word) => Some(word.parse()?),
    };
    in_repo::run(env, args.output.options(), |context, ui| {
        let here = selection::select_one(context, args.session.as_deref());
        let (name, about) = match &here {
            Ok(listed) => {
                let about = About::session(context, listed, args.uncommitted)?;
                (Some(listed.session.name.as_str()), about)
            }
            Err(_) if args.session.is_none() && args.uncommitted => {
                (None, About::checkout(context)?)
            }
            Err(_) => return here.map(|_| 0),
        };
        let report = args.format.is_some() || ui.format() != Format::Human;
        if about.is_empty() {
            ui.narrate("nothing to review");
            // A tool that reads the report needs one even if it is empty.
            if report {
                findings::write(ui, args.format, "", &[])?;
            }
            return Ok(0);
        }
        let reviewed = review(context, ui, args, &about)?;
        if let Some(name) = name.filter(|_| reviewed.outdated) {
            ui.warning(format!(
                "the work of '{}' changed during the review",
                one_line(name)
            ));
            let name = shell_word(name);
            ui.hint(format!("git agent review diff --since-review {name}"));
        }
        let Some(found) = &reviewed.findings else {
            return Err(findings::unreadable(ui, &reviewed.answered, report)?);
        };
        if found.len() == MOST {
            ui.warning(format!("only the first {MOST} findings are used"));
        }
        findings::write(ui, args.format, &reviewed.answered.session.agent, found)?;
        if let Some(name) = name.filter(|_| !report && !found.is_empty() && !args.dry_run) {
            ui.hint(format!("git agent review diff {}", shell_word(name)));
        }
        let bad = limit.is_some_and(|limit| found.iter().any(|finding| finding.severity >= limit));
        Ok(u8::from(bad))
    })
}

fn review(context: &Context<'_>, ui: &Ui, args: &Ai, about: &About<'_>) -> Result<Reviewed> {
    let reviewer = Reviewer {
        agent: args.agent.as_deref(),
        model: args.model.as_deref(),
        role: args.role.as_deref(),
        command: &args.command,
    };
    ui.progress("reviewing …");
    let mut meanwhile = Vec::new();
    let mut tell = |words| meanwhile.push(words);
    let comments = !args.dry_run;
    let reviewed = ai::review(context, about, &reviewer, args.timeout, comments, &mut tell);
    ui.clear_progress();
    for words in &meanwhile {
        ui.warning(one_line(words).to_string());
    }
    reviewed
}
