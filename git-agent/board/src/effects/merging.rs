//! Jobs that merge: planned, shown, asked once, and carried out exactly as shown.

use git_agent::error::{Error, Result};
use git_agent::merge::landing::journal::MergeLock;
use git_agent::merge::landing::{recover, undo as undoing};
use git_agent::merge::resolve::auto::{self, Consent};
use git_agent::merge::resolve::{self as resolving, ByAgent};
use git_agent::merge::run::{self, MergeAnswer, MergeOutcome, MergePlan, MergeRequest, Told};
use git_agent::merge::update::{self as updating, UpdateOutcome};
use git_agent::merge::update_sessions::{self, Options, Reporter};
use git_agent::merge::{bisect::TestColour, pick as picking};
use git_agent::model::session::Session;
use git_agent::output::human;
use git_agent::selection;

use crate::app::Tone;
use crate::app::effect::Message;
use crate::effects::sessions::these;
use crate::effects::{Work, words};
use crate::text;

/// Returns a plan as lines.
fn plan_lines(plan: &MergePlan) -> Vec<(Tone, String)> {
    let mut lines = Vec::new();
    for (at, candidate) in plan.candidates.iter().enumerate() {
        let name = text::line(&candidate.session.name);
        let committed = if candidate.work.is_committed() {
            ""
        } else {
            ", uncommitted work is committed"
        };
        let how = plan.style.as_str();
        lines.push((
            Tone::Good,
            format!("{}. {name}  ({how}{committed})", at + 1),
        ));
        if let Some(who) = &candidate.claimed {
            lines.push((
                Tone::Bad,
                format!(
                    "   approved only by {}, which anyone can forge",
                    text::line(who)
                ),
            ));
        }
    }
    for left in &plan.left {
        let (name, why) = (text::line(&left.name), text::line(left.why.to_string()));
        lines.push((Tone::Bad, format!("– {name} stays out: {why}")));
    }
    match &plan.test {
        Some(test) => lines.push((
            Tone::Plain,
            format!("then tested with: {}", text::line(test)),
        )),
        None => lines.push((
            Tone::Plain,
            "the result is not tested: agent.test is not set".to_owned(),
        )),
    }
    lines
}

fn tell(work: &Work<'_, '_>, told: &Told<'_>) {
    match told {
        Told::Testing(names) => work.progress(format!("testing {}", names.join(", "))),
        Told::Tested { colour, .. } => work.progress(match colour {
            TestColour::Green => "the tests pass",
            _ => "the tests fail",
        }),
        Told::Again | Told::Changed => work.progress("something changed meanwhile: planning again"),
        Told::Landed(branch) => work.progress(format!("'{branch}' moved")),
        Told::Recovered(_) | Told::Meanwhile(_) => {}
    }
}

/// Shows a plan and asks.
fn agree(work: &Work<'_, '_>, plan: &MergePlan) -> MergeAnswer {
    // Nothing to agree to: the outcome says why.
    if plan.candidates.is_empty() {
        return MergeAnswer::Unasked;
    }
    let branch = text::line(&plan.target.branch);
    let many = human::count(plan.candidates.len() as u64, "session");
    let title = format!("merge {many} into '{branch}'?");
    if work.out.ask(title, plan_lines(plan), "merge") {
        MergeAnswer::Yes
    } else {
        MergeAnswer::No
    }
}

/// Returns the end of a merge in words.
fn ended(work: &Work<'_, '_>, request: &MergeRequest, outcome: Option<&MergeOutcome>) -> Message {
    let Some(outcome) = outcome else {
        return work.plain("nothing was merged");
    };
    let landed = outcome.landed.iter();
    let names: Vec<&str> = landed.map(|part| part.name.as_str()).collect();
    let merged = names.join(", ");
    let branch = &outcome.branch;
    let is_asked = !request.names.is_empty();
    if let Some(left) = outcome
        .left
        .first()
        .filter(|_| is_asked || names.is_empty())
    {
        let why = format!("'{}' was not merged: {}", left.name, left.why);
        return if names.is_empty() {
            work.bad(why)
        } else {
            work.bad(format!("merged {merged} into '{branch}'; {why}"))
        };
    }
    if let Some(trouble) = outcome.troubles.first() {
        return work.bad(trouble.clone());
    }
    match &outcome.prepared {
        Some(prepared) => work.done(format!(
            "'{branch}' did not move; the result is on '{prepared}'"
        )),
        None if names.is_empty() => work.plain(format!("nothing to merge into '{branch}'")),
        None => work.done(format!("merged {merged} into '{branch}': u undoes it")),
    }
}

pub fn merge(work: &Work<'_, '_>, ids: Vec<String>) -> Result<Message> {
    let request = MergeRequest {
        names: ids,
        ..MergeRequest::default()
    };
    let listen = &mut |told: Told<'_>| tell(work, &told);
    let consent = &mut |plan: &MergePlan| Ok(agree(work, plan));
    let outcome = run::merge(work.context, &request, listen, consent)?;
    Ok(ended(work, &request, outcome.as_ref()))
}

pub fn pick(work: &Work<'_, '_>, id: String) -> Result<Message> {
    let request = MergeRequest {
        names: vec![id],
        ..MergeRequest::default()
    };
    let mut message = work.plain("nothing was merged");
    let listen = &mut |told: Told<'_>| tell(work, &told);
    let consent = &mut |plan: &MergePlan| Ok(agree(work, plan));
    let picked = picking::pick(work.context, &request, listen, consent, &mut |outcome| {
        message = ended(work, &request, outcome);
        Ok(())
    })?;
    if !picked.merged {
        return Ok(message);
    }
    let many = human::count(picked.closed.len() as u64, "other version");
    Ok(work.done(format!("merged; closed {many}, which restore brings back")))
}

pub fn undo(work: &Work<'_, '_>) -> Result<Message> {
    let lock = MergeLock::take(work.context)?;
    recover::recover(work.context, &lock)?;
    let what = undoing::last(work.context, &lock)?;
    let sentence = text::line(what.describe());
    if !work.out.ask(
        "undo the last merge?",
        vec![(Tone::Plain, sentence.clone())],
        "undo",
    ) {
        return Ok(work.plain("nothing was undone"));
    }
    undoing::undo(work.context, &lock, &what)?;
    Ok(work.done(format!("undone: {sentence}")))
}

pub fn resolve(work: &Work<'_, '_>, id: &str) -> Result<Message> {
    let session = selection::select_mine(work.context, Some(id))?.session;
    let target = updating::parent_of(&session)?.to_owned();
    let options = auto::Options::new(work.context, None, None, false);
    let name = text::line(&session.name);
    let mut ask = |diff: &[u8]| {
        let lines = diff
            .split(|byte| *byte == b'\n')
            .take(2000)
            .map(diff_line)
            .collect();
        Ok(work.out.ask(
            format!("take this resolution into '{name}'?"),
            lines,
            "take it",
        ))
    };
    let consent = Consent::Ask(&mut ask);
    let mut progress = |words: String| work.progress(words);
    let ended = resolving::by_agent(
        work.context,
        &session,
        &target,
        &options,
        consent,
        &mut progress,
    )?;
    Ok(match ended {
        ByAgent::NoConflict => work.plain(format!("'{name}' has no conflict with '{target}'")),
        ByAgent::Refused => work.plain(format!("'{name}' stays as it was")),
        ByAgent::Taken(_) => work.done(format!("'{name}' now has the resolution: review it again")),
    })
}

fn diff_line(line: &[u8]) -> (Tone, String) {
    let tone = match line.first() {
        Some(b'+') => Tone::Good,
        Some(b'-') => Tone::Bad,
        _ => Tone::Plain,
    };
    (tone, text::code(line))
}

struct Report<'w, 'c, 'a> {
    work: &'w Work<'c, 'a>,
    said: Vec<String>,
    failed: Option<String>,
}

impl Reporter for Report<'_, '_, '_> {
    fn tell(&mut self, text: String) {
        self.work.progress(text);
    }

    fn updated(&mut self, session: &Session, outcome: UpdateOutcome) {
        let name = &session.name;
        match outcome {
            UpdateOutcome::Conflict(paths) | UpdateOutcome::Uncommitted(paths) => {
                let first = paths.first().cloned().unwrap_or_default();
                self.failed = Some(format!(
                    "'{name}' conflicts in {first}: R lets an agent resolve it"
                ));
            }
            _ => self.said.push(name.clone()),
        }
    }

    fn failed(&mut self, session: &Session, error: Error) {
        self.failed = Some(format!("'{}': {}", session.name, words(&error)));
    }

    fn has_agreed(&self) -> bool {
        false
    }

    fn may_ask(&self) -> bool {
        true
    }

    fn takes(&mut self, diff: &[u8]) -> Result<bool> {
        let lines = diff
            .split(|byte| *byte == b'\n')
            .take(2000)
            .map(diff_line)
            .collect();
        Ok(self.work.out.ask("take this resolution?", lines, "take it"))
    }
}

pub fn update(work: &Work<'_, '_>, ids: Vec<String>) -> Result<Message> {
    let chosen = selection::select(work.context, &these(ids))?;
    let mut report = Report {
        work,
        said: Vec::new(),
        failed: None,
    };
    let options = Options {
        from: None,
        how: None,
        auto: None,
    };
    update_sessions::update(work.context, &chosen, &options, &mut report)?;
    Ok(match report.failed {
        Some(words) => work.bad(words),
        None => work.done(format!("up to date: {}", report.said.join(", "))),
    })
}
