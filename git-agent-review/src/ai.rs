//! `git agent review ai`: an agent reviews, and what it finds becomes comments of its own.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use git_agent::config::parse_duration;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result, shell_word};
use git_agent::git::snapshot::scan::Hidden;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::review::findings::{self, Finding};
use git_agent::model::review::{Action, Place, Severity, Side};
use git_agent::output::human::count;
use git_agent::output::review::report::{self, Form};
use git_agent::output::terminal::sanitize::{block, one_line};
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Format, Ui, cannot_write, json, porcelain};
use git_agent::review::ai::{self, Answered, Reviewer, Subject};
use git_agent::review::anchors::{self, Pointed};
use git_agent::review::diff_scope::{self, Scope};
use git_agent::review::{git_notes, records};
use git_agent::selection;
use git_agent::session::worktree::work::{self, Keep, Work};
use git_agent::store::list::Listed;
use serde::Serialize;

#[derive(Debug, Args)]
pub struct Ai {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Only what is not committed; without a session, in this checkout
    #[arg(long)]
    uncommitted: bool,
    /// The agent that reviews (default: agent.default)
    #[arg(short, long, value_name = "AGENT")]
    agent: Option<String>,
    /// Its model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Take agent, model and limits from a role
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// How long it may take, such as 10m
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// Report for another tool: sarif, github or gitlab
    #[arg(long, value_name = "FORMAT")]
    format: Option<Form>,
    /// Exit with 1 from this severity on, or never (default: major)
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<String>,
    /// Only report; write no comments
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// A shell command as the agent
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A finding, for machines.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<u32>,
    severity: &'static str,
    message: String,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "a time span such as 90s, 15m or 2h".to_owned())
}

/// Runs the verb.
pub fn run(env: &Env, args: &Ai) -> Result<u8> {
    let limit = match args.fail_on.as_deref() {
        None => Some(Severity::Major),
        Some("never") => None,
        Some(word) => Some(word.parse()?),
    };
    in_repo::run(env, args.output.options(), |context, ui| {
        let (subject, about) = subject(context, args)?;
        if subject.old == subject.new {
            ui.narrate("there is nothing to review");
            // Whoever reads the report wants one all the same.
            if args.format.is_some() || ui.format() != Format::Human {
                write(ui, args, "", &[], None)?;
            }
            return Ok(0);
        }
        let reviewer = Reviewer {
            agent: args.agent.as_deref(),
            model: args.model.as_deref(),
            role: args.role.as_deref(),
            command: &args.command,
        };
        ui.progress("an agent reviews …");
        let mut meanwhile = Vec::new();
        let mut tell = |words| meanwhile.push(words);
        let answered = ai::ask(context, &subject, &reviewer, args.timeout, &mut tell);
        ui.clear_progress();
        for words in &meanwhile {
            ui.warning(one_line(words).to_string());
        }
        let answered = answered?;
        if let Some((listed, before)) = &about {
            let now = work::look(context, listed, Keep::Nothing)?;
            if (now.tree, now.tip) != (before.tree, before.tip) {
                let name = one_line(&listed.session.name);
                ui.warning(format!(
                    "the work of '{name}' has changed while it was reviewed"
                ));
                ui.hint(format!(
                    "git agent review diff --since-review {}",
                    shell_word(&listed.session.name)
                ));
            }
        }
        let Some(found) = findings::parse(&answered.text) else {
            let report = args.format.is_some() || ui.format() != Format::Human;
            return Err(unreadable(ui, &answered, report)?);
        };
        if found.len() == findings::MOST {
            ui.warning(format!("no more than {} findings are taken", found.len()));
        }
        if let Some((listed, work)) = about.as_ref().filter(|_| !args.dry_run) {
            comment(context, listed, work, &answered, &found)?;
            git_notes::refresh(context)?;
        }
        write(
            ui,
            args,
            &answered.session.agent,
            &found,
            about.as_ref().map(|(listed, _)| listed),
        )?;
        let bad = limit.is_some_and(|limit| found.iter().any(|finding| finding.severity >= limit));
        Ok(u8::from(bad))
    })
}

/// Works out what is reviewed: a session's work, or what is not committed in this checkout.
fn subject(context: &Context<'_>, args: &Ai) -> Result<(Subject, Option<(Listed, Work)>)> {
    let here = selection::select_one(context, args.session.as_deref());
    let listed = match (here, args.session.is_none() && args.uncommitted) {
        (Ok(listed), _) => listed,
        (Err(_), true) => return Ok((checkout(context)?, None)),
        (Err(error), false) => return Err(error),
    };
    let work = work::look(context, &listed, Keep::Snapshot)?;
    let scope = if args.uncommitted {
        Scope::Uncommitted
    } else {
        Scope::Branch
    };
    let compared = diff_scope::compared(context, &listed, &work, scope)?;
    let subject = Subject {
        name: listed.session.name.clone(),
        tip: work.tip,
        old: compared.old,
        new: compared.new,
        attributes: context.repo.tree_of(work.base)?,
        task: listed.session.task.clone(),
    };
    Ok((subject, Some((listed, work))))
}

fn checkout(context: &Context<'_>) -> Result<Subject> {
    let at = context.repo.checkout()?;
    let seen = context.repo.capture_stored(&at, Hidden::Look)?;
    let tip = seen
        .head
        .ok_or_else(|| Error::fatal("this branch has no commit yet"))?;
    Ok(Subject {
        name: "checkout".to_owned(),
        tip,
        old: context.repo.tree_of(tip)?,
        new: seen.tree,
        attributes: context.repo.tree_of(tip)?,
        task: String::new(),
    })
}

/// Shows an answer that holds no findings that can be read. It is no part of a report.
fn unreadable(ui: &Ui, answered: &Answered, report: bool) -> Result<Error> {
    let text = block(&answered.text).to_text();
    match report {
        true => text.lines().for_each(|line| ui.narrate(line)),
        false => writeln!(ui.out(), "{}", text.trim_end()).context(cannot_write)?,
    }
    Ok(
        Error::fatal("the agent's answer, shown above, holds no findings that can be read").hint(
            format!("git agent log {}", shell_word(&answered.session.name)),
        ),
    )
}

/// Writes findings down as comments by the agent. One that points at nothing is about the file, or the session.
fn comment(
    context: &Context<'_>,
    listed: &Listed,
    work: &Work,
    answered: &Answered,
    found: &[Finding],
) -> Result<()> {
    let mut actions = Vec::new();
    for finding in found {
        let (at, lost) = place(context, listed, work, finding);
        let mut body: String = finding.message.trim().to_owned();
        if let Some(lost) = lost {
            body = format!("{lost}: {body}");
        }
        if body.is_empty() {
            continue;
        }
        actions.push(Action::Comment {
            target: None,
            of: None,
            at,
            body: git_agent::model::session::fold::shorten(&body, records::LONGEST / 4),
            severity: Some(finding.severity),
        });
    }
    if !actions.is_empty() {
        records::write(
            context,
            listed.session.sid,
            work.tip,
            &answered.who,
            actions,
        )?;
    }
    Ok(())
}

fn place(
    context: &Context<'_>,
    listed: &Listed,
    work: &Work,
    finding: &Finding,
) -> (Option<Place>, Option<String>) {
    let Some(file) = &finding.file else {
        return (None, None);
    };
    let path = file.trim_start_matches("./").as_bytes().to_vec();
    let point = |lines: Option<(u32, u32)>| {
        let at = Pointed {
            path: path.clone(),
            lines,
            side: Side::New,
        };
        anchors::point(context, &listed.session, work, &at)
            .ok()
            .map(Place::Code)
    };
    let lines = finding.line.map(|line| (line, finding.end.unwrap_or(line)));
    if let Some(place) = point(lines) {
        return (Some(place), None);
    }
    let lost = match finding.line {
        Some(line) => format!("{file}:{line}"),
        None => file.clone(),
    };
    (point(None), Some(lost))
}

fn write(
    ui: &Ui,
    args: &Ai,
    agent: &str,
    found: &[Finding],
    listed: Option<&Listed>,
) -> Result<()> {
    if let Some(form) = args.format {
        let text = report::render(form, agent, found);
        return ui.out().write_all(text.as_bytes()).context(cannot_write);
    }
    let row = |finding: &Finding| Row {
        file: finding.file.clone(),
        line: finding.line,
        end: finding.end,
        severity: finding.severity.as_str(),
        message: finding.message.clone(),
    };
    match ui.format() {
        Format::Json => json::write_list(ui, "findings", found.iter().map(row))?,
        Format::Porcelain { nul } => {
            for finding in found {
                let number = |number: Option<u32>| {
                    number.map(|number| number.to_string()).unwrap_or_default()
                };
                let fields = [
                    finding.severity.as_str().to_owned(),
                    number(finding.line),
                    number(finding.end),
                    finding.file.clone().unwrap_or_default(),
                    finding.message.clone(),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields).context(cannot_write)?;
            }
        }
        Format::Human => {
            for finding in found {
                let place = match (&finding.file, finding.line) {
                    (Some(file), Some(line)) => format!("{file}:{line}: "),
                    (Some(file), None) => format!("{file}: "),
                    _ => String::new(),
                };
                let slot = match finding.severity {
                    Severity::Blocker | Severity::Major => Slot::Bad,
                    _ => Slot::Waiting,
                };
                let severity = ui.palette().paint(slot, finding.severity.as_str());
                let message = block(&finding.message).to_text().replace('\n', "\n    ");
                writeln!(ui.out(), "{}{severity}: {message}", one_line(&place))
                    .context(cannot_write)?;
            }
            ui.narrate(count(found.len() as u64, "finding"));
            if let Some(listed) = listed.filter(|_| !found.is_empty() && !args.dry_run) {
                ui.hint(format!(
                    "git agent review diff {}",
                    shell_word(&listed.session.name)
                ));
            }
        }
    }
    Ok(())
}
