//! `git agent review approve`, `request-changes` and `reject`: verdicts on exactly the work as it is.
//!
//! Sessions that were named are judged as they are. Those that a filter found are shown first, and only what was shown
//! is judged: one that changed meanwhile is left alone.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result, shell_word};
use git_agent::git::ObjectId;
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::review::Verdict;
use git_agent::model::session::State;
use git_agent::output::human::count;
use git_agent::output::review::left_out;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, cannot_write, json, porcelain};
use git_agent::review::state::Regard;
use git_agent::review::{git_notes, last_seen, records, send, verdict};
use git_agent::selection;
use git_agent::session::worktree::work::{self, Keep, Work};
use git_agent::store::list::Listed;
use serde::Serialize;

use crate::{draft, into};

#[derive(Debug, Args)]
pub struct Judge {
    #[command(flatten)]
    choice: Choice,
    /// Judge what a merge into this branch would bring (default: into what it was made from)
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Say why
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Read why from a file ('-' is standard input)
    #[arg(short = 'F', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Do not ask before judging sessions that were not named
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// A session to judge, and its work if that was shown.
struct Case {
    listed: Listed,
    seen: Option<Work>,
}

/// A verdict, for machines.
#[derive(Debug, Serialize)]
struct Row {
    /// The session's id.
    session: String,
    /// The session's name.
    name: String,
    verdict: &'static str,
    /// The commit that was judged.
    commit: String,
    /// All files that were judged, uncommitted ones included.
    tree: String,
    /// The commit it was judged against.
    base: String,
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
        let cases = draft::keeping(context, "message", &why, || {
            cases(context, ui, args, verdict)
        })?;
        // What was named is judged together or not at all, as far as that can be told before.
        let several = cases.len() > 1;
        for case in (cases.iter()).filter(|case| several && case.seen.is_none()) {
            draft::keeping(context, "message", &why, || {
                verdict::require(context, &case.listed, verdict)
            })?;
        }
        let mut judged = Vec::new();
        let mut failure = None;
        for case in &cases {
            let given = draft::keeping(context, "message", &why, || {
                give(context, ui, case, verdict, &why)
            });
            match given {
                Ok(work) => judged.push((&case.listed, work)),
                // What a filter found is judged as far as it goes.
                Err(error) if case.seen.is_some() => ui.error(error.message()),
                Err(error) if judged.is_empty() => return Err(error),
                // What was decided before it is told all the same.
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let unheard = match judged.first() {
            Some((listed, _)) => verdict::unheard(context, listed.session.sid)?,
            None => None,
        };
        match unheard {
            Some(who) => warn_unheard(ui, &who, &judged),
            None => next_steps(context, ui, verdict, &judged),
        }
        let rows: Vec<Row> = (judged.iter())
            .map(|(listed, work)| row(listed, verdict, work))
            .collect();
        write(ui, &rows)?;
        git_notes::refresh(context)?;
        match failure {
            Some(error) => Err(error),
            None => Ok(u8::from(judged.len() < cases.len())),
        }
    })
}

/// Tells machines what was decided.
fn write(ui: &Ui, rows: &[Row]) -> Result<()> {
    match ui.format() {
        Format::Human => Ok(()),
        Format::Json => json::write_list(ui, "verdicts", rows),
        Format::Porcelain { nul } => rows.iter().try_for_each(|row| {
            let fields = [&row.session, row.verdict, &row.commit, &row.tree, &row.base];
            porcelain::write_record(&mut ui.out(), nul, fields).context(cannot_write)
        }),
    }
}

/// Returns the sessions to judge: those that were named, or those that were found, shown and agreed to.
fn cases(context: &Context<'_>, ui: &Ui, args: &Judge, verdict: Verdict) -> Result<Vec<Case>> {
    let selection = args.choice.selection();
    let chosen = (selection::select(context, &selection)?.into_iter())
        .map(|listed| into::towards(context, listed, args.into.as_deref()))
        .collect::<Result<Vec<_>>>()?;
    let named = !selection.names.is_empty() || selection.is_empty();
    if named {
        let named = chosen.into_iter().map(|listed| Case { listed, seen: None });
        return Ok(named.collect());
    }
    let reviews = records::load(context)?;
    let mut cases = Vec::new();
    for listed in chosen {
        if listed.session.resolves().is_some() {
            continue;
        }
        let name = one_line(&listed.session.name).to_string();
        let review = reviews.of(listed.session.sid);
        let work = match work::look(context, &listed, Keep::Nothing) {
            Ok(work) => work,
            Err(_) if !waits(listed.session.status, verdict) => continue,
            Err(error) => {
                ui.warning(format!("'{name}' is left out: {}", error.message()));
                continue;
            }
        };
        let regard = Regard::of_work(context.repo, &listed.session, &review, &work);
        if !waits(regard.state, verdict) {
            continue;
        }
        let open = review.threads.iter().filter(|thread| thread.is_open());
        let line = shown(context, &listed, &work, open.count() as u64)?;
        writeln!(ui.out(), "{line}").context(cannot_write)?;
        cases.push(Case {
            listed,
            seen: Some(work),
        });
    }
    if cases.is_empty() {
        return Err(
            Error::negative("none of these sessions waits for this verdict")
                .hint("git agent review"),
        );
    }
    let verb = match verdict {
        Verdict::Approve => "approve",
        Verdict::RequestChanges => "request changes to",
        Verdict::Reject => "reject",
    };
    let many = count(cases.len() as u64, "session");
    if !args.yes && !ui.confirm(&format!("{verb} {many} as shown?"))? {
        return Err(Error::negative("nothing was decided"));
    }
    Ok(cases)
}

/// Returns whether a session that nobody named is one for a verdict: only what is ready is approved.
fn waits(state: State, verdict: Verdict) -> bool {
    match verdict {
        Verdict::Approve => state == State::Ready,
        Verdict::RequestChanges | Verdict::Reject => {
            matches!(
                state,
                State::Ready | State::Approved | State::ChangesRequested
            )
        }
    }
}

/// Returns what a session is about to be judged on, in one line.
fn shown(context: &Context<'_>, listed: &Listed, work: &Work, open: u64) -> Result<String> {
    let base = context.repo.tree_of(work.base)?;
    let counts = context.repo.numstat(base, work.tree)?;
    let sum = |part: fn((u64, u64)) -> u64| -> u64 {
        counts
            .iter()
            .filter_map(|counted| counted.lines)
            .map(part)
            .sum()
    };
    let tip = work.tip.to_string();
    let mut line = format!(
        "{} at {}: {}, +{} -{}",
        one_line(&listed.session.name),
        &tip[..12],
        count(counts.len() as u64, "file"),
        sum(|(added, _)| added),
        sum(|(_, deleted)| deleted),
    );
    if !work.is_committed() {
        line += ", not all committed";
    }
    if open > 0 {
        line += &format!(", {}", count(open, "open comment"));
    }
    Ok(line)
}

/// Returns a verdict for machines.
fn row(listed: &Listed, verdict: Verdict, work: &Work) -> Row {
    Row {
        session: listed.session.sid.to_string(),
        name: listed.session.name.clone(),
        verdict: verdict.as_str(),
        commit: work.tip.to_string(),
        tree: work.tree.to_string(),
        base: work.base.to_string(),
    }
}

fn give(context: &Context<'_>, ui: &Ui, case: &Case, verdict: Verdict, why: &str) -> Result<Work> {
    let listed = &case.listed;
    let work = verdict::give(context, listed, verdict, why, case.seen.as_ref())?;
    let unseen = match case.seen {
        Some(_) => None,
        None => unseen(context, listed, &work)?,
    };
    last_seen::remember(context, listed.session.sid, &work)?;
    left_out::warn(context, ui, &work);
    let name = one_line(&listed.session.name).to_string();
    let tip = work.tip.to_string();
    let rest = match work.is_committed() {
        true => "",
        false => " with what is not committed",
    };
    let word = match verdict {
        Verdict::Approve => "approved",
        Verdict::RequestChanges => "requested changes to",
        Verdict::Reject => "rejected",
    };
    ui.narrate(format!("{word} '{name}' at {}{rest}", &tip[..12]));
    if let Some((before, files)) = unseen {
        let files = count(files, "file");
        ui.warning(format!(
            "'{name}' has changed since it was last shown: {files}"
        ));
        ui.hint(format!("git diff {before} {}", work.tree));
    }
    Ok(work)
}

/// Returns the files as they were when the work was last shown, and how many are not like that any more.
fn unseen(context: &Context<'_>, listed: &Listed, work: &Work) -> Result<Option<(ObjectId, u64)>> {
    let Some(seen) = last_seen::last(context, listed.session.sid)? else {
        return Ok(None);
    };
    let since = last_seen::since(context, &seen, work)?;
    let files = context.repo.numstat(since.tree, work.tree)?.len() as u64;
    Ok((files > 0).then_some((since.tree, files)))
}

/// Says that approvals given here let nothing land.
fn warn_unheard(ui: &Ui, who: &str, judged: &[(&Listed, Work)]) {
    let who = one_line(who);
    ui.warning(format!(
        "this is recorded as by '{who}' and does not count: it was given inside a session"
    ));
    let names = judged
        .iter()
        .map(|(listed, _)| shell_word(&listed.session.name));
    let names = names.collect::<Vec<_>>().join(" ");
    ui.hint(format!(
        "a person approves outside of sessions: git agent review approve {names}"
    ));
}

/// Says what to type next.
fn next_steps(context: &Context<'_>, ui: &Ui, verdict: Verdict, judged: &[(&Listed, Work)]) {
    let name = |listed: &Listed| shell_word(&listed.session.name);
    let own = || {
        judged
            .iter()
            .map(|(listed, _)| *listed)
            .filter(|listed| listed.is_mine())
    };
    // Only its author lands or cleans up a session, and has to hear of it.
    if verdict != Verdict::RequestChanges && own().count() < judged.len() {
        ui.hint("git agent push");
    }
    match verdict {
        Verdict::Approve => {
            let mut targets: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            // What changed nothing has nothing to land.
            let changed = |work: &Work| work.tip != work.base || !work.is_committed();
            let landing = (judged.iter())
                .filter(|(listed, work)| listed.is_mine() && changed(work))
                .map(|(listed, _)| *listed);
            for listed in landing {
                let into = listed.session.parent.as_deref().unwrap_or("BRANCH");
                targets.entry(into).or_default().push(name(listed));
            }
            for (into, names) in targets {
                let (into, names) = (shell_word(into), names.join(" "));
                ui.hint(format!("git agent merge --into {into} {names}"));
            }
        }
        Verdict::RequestChanges => {
            for (listed, work) in judged {
                ui.hint(changes_next(context, listed, work));
            }
        }
        Verdict::Reject if own().next().is_none() => {}
        Verdict::Reject => {
            let names: Vec<String> = own().map(name).collect();
            ui.hint(format!("git agent clean {}", names.join(" ")));
        }
    }
}

/// Returns how whoever is to make the changes gets to know of them.
fn changes_next(context: &Context<'_>, listed: &Listed, work: &Work) -> String {
    send::next_step(context, listed, work).unwrap_or_else(|| send::comment_on(&listed.session.name))
}
