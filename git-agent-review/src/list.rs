//! `git agent review list`: verdicts with what was said of them, comments and what became of them.

use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Result, shell_word};
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::verdicts::{self, Judgement};
use git_agent::model::review::authorship::Claim;
use git_agent::model::review::path::to_text;
use git_agent::model::review::{Place, Review, Side};
use git_agent::model::session::Ulid;
use git_agent::output::human::count;
use git_agent::output::review::threads::Look;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Format, Ui, cannot_write, json, porcelain};
use git_agent::review::anchors::{self, Placed, Spot};
use git_agent::review::prompt::{self, Sent};
use git_agent::review::{records, state};
use git_agent::selection;
use git_agent::session::worktree::work::{self, Keep, Work};
use git_agent::store::list::{Listed, Scope};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    choice: Choice,
    /// Only open comments whose code is still there
    #[arg(long)]
    open: bool,
    /// Only resolved comments
    #[arg(long)]
    resolved: bool,
    /// Only open comments whose code has changed since
    #[arg(long)]
    outdated: bool,
    /// Everything, resolved or not
    #[arg(short, long, conflicts_with_all = ["open", "resolved", "outdated"])]
    everything: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// A comment thread, for machines.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The comment that opens it.
    pub id: String,
    /// The session's id.
    pub session: String,
    /// The session's name.
    pub name: String,
    /// `open`, `outdated` or `resolved`.
    pub state: &'static str,
    /// The file, as it is now; of outdated ones, as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `old` or `new`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// The first line, as it is now; absent for whole files and what is outdated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The last line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<u32>,
    /// The event of the transcript it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The turn of that event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The commit that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The code it was about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub code: Vec<String>,
    /// The turn it was sent in; 0 while that waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_turn: Option<u32>,
    /// Who resolved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    /// The comments, the first opening the thread.
    pub comments: Vec<Said>,
}

/// One comment, for machines.
#[derive(Debug, Serialize)]
pub struct Said {
    /// Its id.
    pub id: String,
    /// Who, as claimed.
    pub author: String,
    /// What that is worth: `claimed` or `verified`; absent for what this clone wrote.
    #[serde(rename = "standing", skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Whose ref it came from.
    pub writer: String,
    /// When.
    pub time: String,
    /// The text.
    pub text: String,
    /// How much it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<&'static str>,
    /// Whether it was edited.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
}

/// A verdict, for machines.
#[derive(Debug, Serialize)]
struct Judged {
    /// The session's id.
    session: String,
    /// The session's name.
    name: String,
    #[serde(flatten)]
    judgement: Judgement,
}

/// Runs the verb.
pub fn run(env: &Env, args: &List) -> Result<u8> {
    let mut options = args.output.options();
    options.pager = true;
    in_repo::run(env, options, |context, ui| {
        let reviews = records::load(context)?;
        for problem in reviews.problems.iter().take(5) {
            ui.warning(format!(
                "cannot read a note of '{}': {}",
                problem.name, problem.what
            ));
        }
        let (mut shown, mut others, mut decided) = (0, 0, 0);
        let (mut rows, mut verdicts) = (Vec::new(), Vec::new());
        let (chosen, all) = chosen(context, args)?;
        for listed in chosen {
            let Some(review) = reviews.sessions.get(&listed.session.sid) else {
                continue;
            };
            let work = work::look(context, &listed, Keep::Nothing).ok();
            let judgements = match args.wants_verdicts(&listed, all) {
                true => judgements(context, &listed, review, work.as_ref()),
                false => Vec::new(),
            };
            decided += judgements.len();
            let placed = placed(context, work.as_ref(), review)?;
            let wanted: Vec<&Placed<'_>> =
                placed.iter().filter(|placed| args.wants(placed)).collect();
            shown += wanted.len();
            others += placed.len() - wanted.len();
            match ui.format() {
                Format::Human => write_human(context, ui, &listed, &judgements, &wanted)?,
                _ => {
                    let judged = |judgement| Judged {
                        session: listed.session.sid.to_string(),
                        name: listed.session.name.clone(),
                        judgement,
                    };
                    verdicts.extend(judgements.into_iter().map(judged));
                    let sent = prompt::sent(context, &listed)?;
                    rows.extend(wanted.iter().map(|placed| row(&listed, placed, &sent)));
                }
            }
        }
        match ui.format() {
            Format::Json => write_json(ui, &rows, &verdicts)?,
            Format::Porcelain { nul } => {
                for row in &rows {
                    porcelain::write_record(&mut ui.out(), nul, record(row))
                        .context(cannot_write)?;
                }
            }
            Format::Human if shown + others + decided == 0 => ui.narrate("no comments"),
            Format::Human if others == 0 => {}
            Format::Human if shown == 0 => {
                let others = count(others as u64, "other");
                ui.narrate(format!("no {} comments, but {others}", args.wanted()));
                let names = args.choice.selection().names;
                let names: Vec<String> = (names.iter())
                    .map(|name| format!(" {}", shell_word(name)))
                    .collect();
                ui.hint(format!(
                    "git agent review list --everything{}",
                    names.concat()
                ));
            }
            Format::Human => {}
        }
        Ok(0)
    })
}

impl List {
    /// Returns which comments are asked for, in a word.
    fn wanted(&self) -> &'static str {
        match (self.open, self.resolved, self.outdated) {
            (false, true, false) => "resolved",
            (false, false, true) => "outdated",
            (_, false, false) => "open",
            _ => "such",
        }
    }

    /// Returns whether the verdicts on a session are asked for. Among all sessions, those that are over would only be in the
    /// way.
    fn wants_verdicts(&self, listed: &Listed, all: bool) -> bool {
        let comments_only = self.open || self.resolved || self.outdated;
        let over = all && listed.session.status.is_closed();
        !comments_only && (self.everything || !over)
    }

    fn wants(&self, placed: &Placed<'_>) -> bool {
        let state = placed.state();
        let none = !self.open && !self.resolved && !self.outdated;
        match state {
            "resolved" => self.everything || self.resolved,
            "outdated" => self.everything || none || self.outdated,
            _ => self.everything || none || self.open,
        }
    }
}

/// Returns the sessions that are meant, and whether that is all of them.
fn chosen(context: &Context<'_>, args: &List) -> Result<(Vec<Listed>, bool)> {
    let selection = args.choice.selection();
    if !selection.is_empty() && !selection.all {
        return Ok((selection::select(context, &selection)?, false));
    }
    if !selection.all
        && let Ok(here) = selection::select(context, &selection)
    {
        return Ok((here, false));
    }
    Ok((selection::list(context, Scope::All)?.sessions, true))
}

/// Finds where the threads of a session hang; where its work is not here, everything on code is outdated.
fn placed<'r>(
    context: &Context<'_>,
    work: Option<&Work>,
    review: &'r Review,
) -> Result<Vec<Placed<'r>>> {
    match work {
        Some(work) => anchors::place_all(context, work, review),
        None => Ok(review
            .threads
            .iter()
            .filter(|thread| thread.is_visible())
            .map(|thread| Placed {
                thread,
                spot: match &thread.at {
                    None => Spot::Session,
                    Some(Place::Event { event, .. }) => Spot::Event(*event),
                    Some(Place::Code(_)) => Spot::Outdated,
                },
            })
            .collect()),
    }
}

/// Returns the verdicts on a session, seen from its work where that is here.
fn judgements(
    context: &Context<'_>,
    listed: &Listed,
    review: &Review,
    work: Option<&Work>,
) -> Vec<Judgement> {
    let session = &listed.session;
    let files = work.map(|work| state::files_of(context.repo, session, review, work));
    let files = files
        .as_ref()
        .map(|(tip, tree)| (tip.as_str(), tree.as_str()));
    verdicts::on(review, listed, files)
}

/// Writes comments and verdicts into one object.
fn write_json(ui: &Ui, rows: &[Row], verdicts: &[Judged]) -> Result<()> {
    let mut out = ui.out();
    let mut list = json::List::begin(&mut out, "comments", ui.table_width().is_some())?;
    for row in rows {
        list.item(row)?;
    }
    list.next("verdicts")?;
    for judged in verdicts {
        list.item(judged)?;
    }
    list.end()
}

fn write_human(
    context: &Context<'_>,
    ui: &Ui,
    listed: &Listed,
    judgements: &[Judgement],
    wanted: &[&Placed<'_>],
) -> Result<()> {
    if wanted.is_empty() && judgements.is_empty() {
        return Ok(());
    }
    let look = Look {
        palette: ui.palette(),
        now: context.env.now(),
    };
    let name = one_line(&listed.session.name).to_string();
    writeln!(ui.out(), "{}", ui.palette().paint(Slot::Header, name)).context(cannot_write)?;
    if !judgements.is_empty() {
        writeln!(ui.out(), "{}", look.verdicts(judgements)).context(cannot_write)?;
    }
    for placed in wanted {
        let text = look.block(placed, Some(&Look::place(placed)));
        writeln!(ui.out(), "{text}").context(cannot_write)?;
    }
    Ok(())
}

/// Returns a thread for machines.
pub fn row(listed: &Listed, placed: &Placed<'_>, sent: &BTreeMap<Ulid, Sent>) -> Row {
    let thread = placed.thread;
    let first = thread.comments.first();
    let mut row = Row {
        id: first
            .map(|comment| comment.id.to_string())
            .unwrap_or_default(),
        session: listed.session.sid.to_string(),
        name: listed.session.name.clone(),
        state: placed.state(),
        path: None,
        side: None,
        line: None,
        end: None,
        event: None,
        turn: None,
        commit: None,
        code: Vec::new(),
        sent_turn: first
            .and_then(|comment| sent.get(&comment.id))
            .map(|sent| sent.turn),
        resolved_by: thread.resolved_by.as_ref().map(ToString::to_string),
        comments: thread
            .comments
            .iter()
            .filter(|comment| !comment.deleted)
            .map(|comment| Said {
                id: comment.id.to_string(),
                author: comment.who.name.clone(),
                claim: comment.claim,
                writer: comment.writer.to_string(),
                time: git_agent::listing::row::timestamp(comment.ts),
                text: comment.body.clone(),
                severity: comment.severity.map(|severity| severity.as_str()),
                edited: comment.edited.is_some(),
            })
            .collect(),
    };
    if let Some(Place::Code(code)) = &thread.at {
        row.path.clone_from(&code.path);
        row.side = Some(code.side);
        row.commit = Some(code.commit.clone());
        row.code.clone_from(&code.text);
    }
    if let Some(Place::Event { turn, .. }) = &thread.at {
        row.turn = *turn;
    }
    match &placed.spot {
        Spot::Event(event) => row.event = Some(event.to_string()),
        Spot::File { path, .. } => row.path = Some(to_text(path)),
        Spot::Lines {
            path, first, last, ..
        } => {
            row.path = Some(to_text(path));
            row.line = Some(*first);
            row.end = (first != last).then_some(*last);
        }
        Spot::Session | Spot::Outdated => {}
    }
    row
}

/// Returns a thread's record: id, session, state, side, lines, how many comments, path.
fn record(row: &Row) -> Vec<String> {
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    let side = row.side.map(|side| match side {
        Side::Old => "old",
        Side::New => "new",
    });
    vec![
        row.id.clone(),
        row.session.clone(),
        row.state.to_owned(),
        side.unwrap_or_default().to_owned(),
        number(row.line),
        number(row.end.or(row.line)),
        row.comments.len().to_string(),
        row.path.clone().unwrap_or_default(),
    ]
}
