//! One session in detail, as lines of label and text.

use std::io::Write;
use std::time::Duration;

use crate::context::inherited_variables;
use crate::env::Env;
use crate::error::{Context as _, Result};
use crate::listing::detail::Detail;
use crate::listing::row::{Changes, Summary};
use crate::listing::urgency;
use crate::model::event::Event;
use crate::model::known::Finding;
use crate::model::review::authorship;
use crate::model::session::State;
use crate::output::moment::Clock;
use crate::output::terminal::sanitize::{block, one_line};
use crate::output::terminal::style::Slot;
use crate::output::transcript::{self, Writer};
use crate::output::{Ui, cannot_write, human, sessions};

/// Lines of label and text, the text clean already.
struct Sheet<'u> {
    ui: &'u Ui,
}

impl Sheet<'_> {
    fn line(&self, label: &str, text: impl std::fmt::Display) -> Result<()> {
        let text = text.to_string();
        if text.is_empty() {
            return writeln!(self.ui.out()).context(cannot_write);
        }
        let label = format!("{label:<10}");
        let label = self.ui.palette().paint(Slot::Dim, label);
        writeln!(self.ui.out(), "  {label}{text}").context(cannot_write)
    }

    /// Writes foreign text that may have several lines.
    fn block(&self, label: &str, text: &str) -> Result<()> {
        let safe = block(text).to_text();
        for (index, line) in safe.trim_end().lines().enumerate() {
            self.line(if index == 0 { label } else { "" }, line.trim_end())?;
        }
        Ok(())
    }

    fn maybe(&self, label: &str, text: Option<&str>) -> Result<()> {
        match text {
            Some(text) => self.line(label, one_line(text)),
            None => Ok(()),
        }
    }
}

/// Writes everything about a session, for a person.
pub fn write(env: &Env, ui: &Ui, detail: &Detail) -> Result<()> {
    let now = env.now();
    let clock = Clock::local(env);
    let row = &detail.summary;
    let sheet = Sheet { ui };
    let palette = ui.palette();
    let state = palette.paint(Slot::of_state(row.state), row.state);
    let name = palette.paint(Slot::Header, one_line(&row.name).to_text());
    writeln!(ui.out(), "{name}  {state}").context(cannot_write)?;

    sheet.block("task", &row.task)?;
    if let Some(reason) = why(detail) {
        let label = match row.state {
            State::Merged => "landed",
            _ => "because",
        };
        sheet.line(label, one_line(&reason))?;
    }
    sheet.maybe("waits", detail.waits.as_deref())?;
    for prompt in &detail.waiting_prompts {
        sheet.line("waits", one_line(prompt))?;
    }
    sheet.line("agent", one_line(&sessions::agent(row)))?;
    if let Some(names) = &detail.variables {
        sheet.line("variables", inherited_variables::IN_WORDS)?;
        if !names.is_empty() {
            let names = names.join(", ");
            sheet.line("", format!("and {}", one_line(&names)))?;
        }
    }
    sheet.maybe("role", row.role.as_deref())?;
    let guard = row.guard.as_deref().filter(|level| *level != "refs");
    let refused = row.refused.map_or_else(String::new, |count| {
        format!(", refused {}", human::count(u64::from(count), "path"))
    });
    sheet.maybe(
        "guard",
        guard.map(|level| format!("{level}{refused}")).as_deref(),
    )?;
    sheet.maybe("group", row.group.as_deref())?;
    if let Some(branch) = &row.branch {
        let mut text = one_line(branch).to_string();
        if let Some(parent) = &row.parent {
            text += &format!(" from {}", one_line(parent));
        }
        if let (Finding::Known(ahead), Finding::Known(behind)) = (&row.ahead, &row.behind) {
            text += &format!(", {ahead} ahead, {behind} behind");
        }
        sheet.line("branch", text)?;
    }
    sheet.maybe("part", detail.part.as_deref())?;
    sheet.maybe("base", detail.base.as_deref())?;
    for contained in detail
        .based_on
        .iter()
        .flat_map(|based_on| &based_on.sessions)
    {
        let tip = contained.tip.get(..12).unwrap_or(&contained.tip);
        sheet.line(
            "contains",
            format!("{} at {tip}", one_line(&contained.name)),
        )?;
    }
    sheet.maybe("worktree", row.worktree.as_deref())?;
    if let Some(text) = changes(&row.changes) {
        sheet.line("changes", text)?;
    }
    if let Some(files) = row.unshared {
        let files = human::count(files, "file");
        sheet.line("missing", format!("{} ({files})", urgency::UNSHARED))?;
    }
    if let Some(text) = review(row) {
        sheet.line("review", text)?;
    }
    for judgement in detail.verdicts.known().into_iter().flatten() {
        sheet.line("verdict", sessions::verdict(judgement, now))?;
        sheet.block("", &judgement.message)?;
    }
    if row.turns > 0 {
        let worked = Duration::from_secs(row.elapsed_seconds.unwrap_or(0));
        let turns = human::count(row.turns.into(), "turn");
        sheet.line("worked", format!("{} in {turns}", human::duration(worked)))?;
    }
    if let Some(progress) = row.progress {
        sheet.line(
            "plan",
            format!("{} of {} done", progress.done, progress.total),
        )?;
    }
    if !row.usage.is_empty() {
        sheet.line("used", transcript::used(&row.usage))?;
    }
    if let Some(last) = detail.snapshots.first() {
        let count = human::count(detail.snapshots.len() as u64, "snapshot");
        let (reason, ago) = (one_line(&last.reason), human::ago(now, last.at));
        sheet.line("kept", format!("{count}, the last {reason}, {ago}"))?;
    }
    if let Some(pid) = row.pid {
        sheet.line("process", pid)?;
    }
    if let Some(port) = detail.port {
        sheet.line("port", port)?;
    }
    let mut author = if row.mine {
        one_line(&row.author).to_string()
    } else {
        one_line(&authorship::person(&row.session.author)).to_string()
    };
    if let Some(standing) = &detail.signature {
        author += &format!(" ({})", one_line(&standing.words()));
    }
    sheet.line("author", author)?;
    sheet.maybe("from", row.remote.as_deref())?;
    for (label, at) in [("made", row.created), ("changed", row.updated)] {
        sheet.line(
            label,
            format!("{} ({})", clock.full(at), human::ago(now, at)),
        )?;
    }
    sheet.line("id", &row.id)?;
    request(ui, &sheet, detail)?;
    if !detail.events.is_empty() {
        writeln!(ui.out()).context(cannot_write)?;
        let mut writer = Writer::new(ui, clock, now);
        let mut told: Vec<Event> = Vec::new();
        for event in &detail.events {
            let earlier = told.last_mut();
            if !earlier.is_some_and(|earlier| earlier.body.take_more(&event.body)) {
                told.push(event.clone());
            }
        }
        writer.introduce(
            &row.name,
            sessions::agent(row),
            row.session.local.worktree.clone(),
        );
        for event in &told {
            writer.event(&row.name, event)?;
        }
        writer.finish()?;
    }
    if ui.table_width().is_some() && detail.request.is_none() {
        for command in urgency::commands(std::slice::from_ref(row)) {
            ui.hint(command);
        }
    }
    Ok(())
}

/// Returns why a session is in its state, and how its agent ended.
fn why(detail: &Detail) -> Option<String> {
    if let Some(waits) = &detail.summary.waits {
        return Some(waits.clone());
    }
    let exit = detail.summary.exit.as_ref()?;
    let ended = match (exit.code, exit.signal) {
        (Some(code @ 1..), _) => format!("exit {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => String::new(),
    };
    match (exit.reason.as_str(), ended.as_str()) {
        ("", "") => None,
        (reason, "") => Some(reason.to_owned()),
        (reason, ended) if reason.contains(&ended.replace("exit ", "exit code ")) => {
            Some(reason.to_owned())
        }
        ("", ended) => Some(ended.to_owned()),
        (reason, ended) => Some(format!("{reason} ({ended})")),
    }
}

fn changes(found: &Finding<Changes>) -> Option<String> {
    match found {
        Finding::Nothing => None,
        Finding::Unknown => Some("cannot be determined".to_owned()),
        Finding::Known(changes) => {
            let mut text = human::count(changes.files, "file");
            text += &format!(", +{} -{}", changes.added, changes.deleted);
            if changes.uncommitted > 0 {
                text += &format!(", {} not committed", changes.uncommitted);
            }
            Some(text)
        }
    }
}

/// Says what reviewers said, and how to read it.
fn review(row: &Summary) -> Option<String> {
    let mut words = Vec::new();
    if let Finding::Known(comments) = &row.comments {
        words.push(format!("{} open", human::count(comments.open, "comment")));
        words.push(format!("{} resolved", comments.resolved));
    }
    if let Finding::Known(verdict) = &row.verdict {
        words.push(match verdict.as_str() {
            "stale" => "approved, but changed since".to_owned(),
            verdict => verdict.to_owned(),
        });
    }
    let name = one_line(&row.name);
    (!words.is_empty()).then(|| format!("{} (git agent review list {name})", words.join(", ")))
}

/// Shows what the session asks, and what to type.
fn request(ui: &Ui, sheet: &Sheet<'_>, detail: &Detail) -> Result<()> {
    let Some(request) = &detail.request else {
        return Ok(());
    };
    writeln!(ui.out()).context(cannot_write)?;
    sheet.block("asks", &request.title)?;
    if !request.detail.is_empty() {
        sheet.block("", &request.detail)?;
    }
    let name = one_line(&detail.summary.name).to_text();
    for (index, option) in request.options.iter().enumerate() {
        let (number, label) = (index + 1, one_line(&option.label));
        sheet.line("", format!("{number}. {label}"))?;
        sheet.line("", format!("   git agent answer {name} {number}"))?;
    }
    if request.options.is_empty() {
        sheet.line("", format!("git agent answer {name} \"<answer>\""))?;
    }
    Ok(())
}
