//! `git agent update`: brings sessions up to date with the branch they go to.

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result, shell_word};
use git_agent::invoke::OutputArgs;
use git_agent::invoke::in_repo;
use git_agent::invoke::session_args::Choice;
use git_agent::merge::resolve::{Case, auto};
use git_agent::merge::update::{self, How, Outcome};
use git_agent::model::session::Session;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, human, json, porcelain, resolution};
use git_agent::selection;
use git_agent::session::caller::{self, Act};
use serde::Serialize;

#[derive(Debug, Args)]
pub struct Update {
    #[command(flatten)]
    choice: Choice,
    /// The branch to take from (default: the parent of each session)
    #[arg(long, value_name = "BRANCH")]
    from: Option<String>,
    /// By a merge commit on the session's branch (default: agent.updateStyle, then this)
    #[arg(long, overrides_with = "rebase")]
    merge: bool,
    /// By making the session's commits again on top
    #[arg(long, overrides_with = "merge")]
    rebase: bool,
    /// Let an agent resolve conflicts
    #[arg(long)]
    auto: bool,
    /// The agent that resolves (default: the session's own)
    #[arg(long, value_name = "AGENT", requires = "auto")]
    agent: Option<String>,
    /// Take what the agent resolved without being asked
    #[arg(short, long, requires = "auto")]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct Row {
    id: String,
    name: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commits: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<String>,
}

/// Runs the verb. Exit code 1 means that a session could not be brought up to date.
pub fn run(env: &Env, args: &Update) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let chosen = selection::select(context, &args.choice.selection())?;
        caller::permit(
            context,
            Act::Update,
            chosen.iter().map(|listed| &listed.session),
        )?;
        let alone = chosen.len() == 1;
        let mut rows = Vec::new();
        let mut failed = false;
        for listed in &chosen {
            let session = &listed.session;
            if !listed.is_mine() || (!alone && session.status.is_closed()) {
                continue;
            }
            match update_one(context, ui, args, session) {
                Ok(row) => {
                    failed |= !row.conflicts.is_empty();
                    rows.push(row);
                }
                Err(error) if alone => return Err(error),
                Err(error) => {
                    failed = true;
                    let name = one_line(&session.name).to_string();
                    ui.error(format!("{name}: {}", error.message()));
                }
            }
        }
        write(ui, &rows)?;
        Ok(u8::from(failed))
    })
}

fn update_one(context: &Context<'_>, ui: &Ui, args: &Update, session: &Session) -> Result<Row> {
    let from = match &args.from {
        Some(from) => from.as_str(),
        None => update::parent_of(session)?,
    };
    let how = match (args.merge, args.rebase) {
        (true, _) => How::Merge,
        (_, true) => How::Rebase,
        _ => How::configured(context)?,
    };
    let mut outcome = update::update(context, session, from, how)?;
    if args.auto && matches!(outcome, Outcome::Conflict(_) | Outcome::Uncommitted(_)) {
        outcome = resolve(context, ui, args, session, from)?;
    }
    Ok(row(session, outcome))
}

fn row(session: &Session, outcome: Outcome) -> Row {
    let mut row = Row {
        id: session.sid.to_string(),
        name: session.name.clone(),
        result: "current",
        before: None,
        after: None,
        commits: None,
        conflicts: Vec::new(),
    };
    match outcome {
        Outcome::Current => {}
        Outcome::Updated {
            before,
            after,
            commits,
        } => {
            row.result = "updated";
            row.before = Some(before.to_string());
            row.after = Some(after.to_string());
            row.commits = Some(commits);
        }
        Outcome::Conflict(paths) => {
            row.result = "conflict";
            row.conflicts = paths;
        }
        Outcome::Uncommitted(paths) => {
            row.result = "uncommitted-conflict";
            row.conflicts = paths;
        }
    }
    row
}

/// Lets an agent resolve the conflict; the resolution is the update.
fn resolve(
    context: &Context<'_>,
    ui: &Ui,
    args: &Update,
    session: &Session,
    from: &str,
) -> Result<Outcome> {
    let Some(case) = Case::open(context, session, from)? else {
        // What stood in the way was not committed; it is now.
        return update::update(context, session, from, How::Merge);
    };
    if !args.yes && !ui.may_ask() {
        return Err(
            Error::fatal("cannot ask about the resolution without a terminal")
                .hint("pass --yes to take it without being asked"),
        );
    }
    let options = auto::Options {
        agent: args.agent.clone(),
        test: context.config.string("agent.test"),
        timeout: None,
    };
    let resolution = auto::resolve(context, &case, &options, &mut |text| ui.narrate(text))?;
    if !args.yes {
        resolution::show(ui, &context.repo.resolution_diff(resolution.commit)?)?;
        if !ui.confirm("take this resolution?")? {
            auto::refuse(context, &resolution)?;
            return Ok(Outcome::Conflict(case.paths()));
        }
    }
    auto::accept(context, &case, &resolution)?;
    let (_, commits) = context.repo.ahead_behind(case.place.tip, case.theirs)?;
    Ok(Outcome::Updated {
        before: case.place.tip,
        after: resolution.commit,
        commits,
    })
}

fn write(ui: &Ui, rows: &[Row]) -> Result<()> {
    match ui.format() {
        Format::Json => return json::write_list(ui, "updates", rows),
        Format::Porcelain { nul } => {
            for row in rows {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let commits = row.commits.map(|commits| commits.to_string());
                let fields = [
                    row.id.clone(),
                    row.result.to_owned(),
                    row.name.clone(),
                    text(&row.before),
                    text(&row.after),
                    commits.unwrap_or_default(),
                    row.conflicts.join(" "),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields)?;
            }
            return Ok(());
        }
        Format::Human => {}
    }
    for row in rows {
        let name = one_line(&row.name).to_string();
        match row.result {
            "updated" => {
                let commits = human::count(row.commits.unwrap_or(0), "commit");
                ui.narrate(format!("{name}: took over {commits}"));
            }
            "current" => ui.narrate(format!("{name}: up to date")),
            result => {
                let paths = row.conflicts.join(", ");
                match result {
                    "conflict" => ui.error(format!("{name}: conflict in {paths}")),
                    _ => ui.error(format!("{name}: uncommitted work conflicts in {paths}")),
                }
                ui.hint(format!(
                    "let an agent resolve it: git agent update --auto {}",
                    shell_word(&row.name)
                ));
                ui.hint(format!(
                    "or by hand: git agent merge resolve {}",
                    shell_word(&row.name)
                ));
            }
        }
    }
    Ok(())
}
