//! Prints transcripts for users: prompts, answers and state changes with their time, and tool calls in one line with their
//! output indented and cut.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde_json::Value;

use crate::env::Millis;
use crate::error::{Context, Result};
use crate::model::event::{Body, Event, PlanEntry};
use crate::model::event_words::{OutputStream, Sender, StepStatus};
use crate::model::session::{Exit, State, Usage};
use crate::output::moment::Clock;
use crate::output::table::cut_within;
use crate::output::terminal::sanitize;
use crate::output::terminal::style::Slot;
use crate::output::{Ui, cannot_write, human};

/// Maximum number of lines of a tool's output, without `--full`.
const OUTPUT_LINES: usize = 6;
/// Maximum width of one line of a tool's output, and of its arguments, without `--full`.
const OUTPUT_CELLS: usize = 400;
const INPUT_CELLS: usize = 120;

/// Writes events in order.
#[derive(Debug)]
pub struct Writer<'u> {
    ui: &'u Ui,
    clock: Clock,
    full: bool,
    /// Width of the column with the session's name; 0 for a single session.
    names: usize,
    day: String,
    /// Reported usage of each session that is not shown yet.
    used: BTreeMap<String, Usage>,
    /// Sessions whose merge was just shown, so that the change of state need not repeat it.
    merged: BTreeSet<String>,
}

/// One line of an event: its colour and its escaped text.
type Line = (Option<Slot>, String);

impl<'u> Writer<'u> {
    /// Returns a writer. It prints the date of events that are not of today.
    pub fn new(ui: &'u Ui, clock: Clock, now: Millis) -> Self {
        Writer {
            ui,
            day: clock.day(now),
            clock,
            full: false,
            names: 0,
            used: BTreeMap::new(),
            merged: BTreeSet::new(),
        }
    }

    /// Shows every kind of event, with the whole output of tools.
    #[must_use]
    pub fn full(mut self, full: bool) -> Self {
        self.full = full;
        self
    }

    /// Adds a column with the session's name, wide enough for these names.
    #[must_use]
    pub fn with_names<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let widths = names
            .into_iter()
            .map(|name| sanitize::width(&sanitize::one_line(name).to_text()));
        self.names = widths.max().unwrap_or(0);
        if self.ui.table_width().is_some() {
            self.names = self.names.min(24);
        }
        self
    }

    /// Returns whether an event is shown, or adds to a later one.
    pub fn shows(&self, event: &Event) -> bool {
        self.full || is_worth_showing(&event.body) || matches!(event.body, Body::Usage { .. })
    }

    /// Writes an event of a session.
    pub fn event(&mut self, name: &str, event: &Event) -> Result<()> {
        if !self.shows(event) {
            return Ok(());
        }
        if let Body::Usage { usage } = &event.body
            && !self.full
        {
            // Some agents report usage after every request; show it once per turn.
            self.used.entry(name.to_owned()).or_default().update(usage);
            return Ok(());
        }
        let mut lines = if self.is_said(name, &event.body) {
            Vec::new()
        } else {
            self.lines(&event.body)
        };
        if let Body::Status { to, .. } = &event.body
            && !to.is_working()
            && let Some(usage) = self.used.remove(name)
        {
            let words = format!("used so far: {}", used(&usage));
            lines.splice(0..0, one(Some(Slot::Dim), "-- ", &words));
        }
        let palette = self.ui.palette();
        let mut out = Vec::new();
        let day = self.clock.day(event.ts);
        if day != self.day {
            writeln!(out, "{}", palette.paint(Slot::Dim, format!("-- {day} --")))
                .context(cannot_write)?;
            self.day = day;
        }
        let time = self.clock.time(event.ts);
        let width = self.names;
        let name = match width {
            0 => String::new(),
            width => {
                let clean = sanitize::one_line(name).to_text();
                // Names of one group differ at the end, so cut the middle; a program gets the whole name.
                let cut = match self.ui.table_width() {
                    Some(_) if sanitize::width(&clean) > width => cut_within(&clean, width),
                    _ => clean.as_ref().into(),
                };
                let padding = width.saturating_sub(sanitize::width(&cut));
                format!("{cut}{:padding$} ", "")
            }
        };
        let blank = " ".repeat(time.len() + 1 + sanitize::width(&name));
        for (index, (slot, line)) in lines.into_iter().enumerate() {
            let written = match index {
                0 => write!(
                    out,
                    "{} {}",
                    palette.paint(Slot::Dim, &time),
                    palette.paint(Slot::Place, &name)
                ),
                _ => write!(out, "{blank}"),
            };
            written.context(cannot_write)?;
            let line = line.trim_end();
            match slot {
                Some(slot) => writeln!(out, "{}", palette.paint(slot, line)),
                None => writeln!(out, "{line}"),
            }
            .context(cannot_write)?;
        }
        self.ui.out().write_all(&out).context(cannot_write)
    }

    /// Returns whether an event only repeats the one before: the state `merged` after the merge itself.
    fn is_said(&mut self, name: &str, body: &Body) -> bool {
        match body {
            Body::Merged { .. } => {
                self.merged.insert(name.to_owned());
                false
            }
            Body::Status {
                to: State::Merged, ..
            } => self.merged.remove(name),
            _ => false,
        }
    }

    fn lines(&self, body: &Body) -> Vec<Line> {
        match body {
            Body::Created { session } => {
                let field = |key: &str| session.get(key).and_then(Value::as_str).unwrap_or("");
                let text = match field("branch") {
                    "" => format!("session with agent {}", field("agent")),
                    branch => format!("session with agent {} on {branch}", field("agent")),
                };
                one(Some(Slot::Dim), "-- ", &text)
            }
            Body::Set { key, value } => one(
                Some(Slot::Dim),
                "-- ",
                &format!("{key} = {}", inline(value)),
            ),
            Body::Vendor { session } => {
                one(Some(Slot::Dim), "-- ", &format!("conversation {session}"))
            }
            Body::Prompt { text, from } => {
                let mut lines = block(Some(Slot::Prompt), "> ", text);
                if !matches!(from, Sender::Unnamed | Sender::User) {
                    lines.insert(0, line(Some(Slot::Prompt), "> ", &format!("[{from}]")));
                }
                lines
            }
            Body::Assistant { text } => block(None, "", text),
            Body::Reasoning { text } => block(Some(Slot::Dim), "~ ", text),
            Body::ToolCall { name, input, .. } => self.tool_call(name, input),
            Body::ToolResult { ok, output, .. } => self.tool_result(*ok, output),
            Body::Edit { path, change } => one(Some(Slot::Tool), "* ", &format!("{change} {path}")),
            Body::Plan { entries } => plan(entries),
            Body::Permission { title, options, .. } => {
                let mut lines = block(Some(Slot::Waiting), "? ", title);
                for (number, option) in options.iter().enumerate() {
                    let text = format!("{}. {} ({})", number + 1, option.label, option.id);
                    lines.push(line(None, "    ", &text));
                }
                lines
            }
            Body::Answer { choice, by, .. } => {
                one(Some(Slot::Prompt), "> ", &format!("{choice} [{by}]"))
            }
            Body::Status {
                to, reason, exit, ..
            } => status(*to, reason, exit.as_ref()),
            Body::Usage { usage } => one(Some(Slot::Dim), "-- ", &used(usage)),
            Body::Snapshot { commit, .. } => {
                one(Some(Slot::Dim), "-- ", &format!("snapshot {commit}"))
            }
            Body::Output { stream, text } => {
                let slot = (*stream == OutputStream::Stderr).then_some(Slot::Waiting);
                block(slot, "", text)
            }
            Body::Error { kind, text } => {
                let text = match kind.as_str() {
                    "" | "other" => text.clone(),
                    kind => format!("{kind}: {text}"),
                };
                block(Some(Slot::Bad), "! ", &text)
            }
            Body::Notice { text } => block(Some(Slot::Dim), "-- ", text),
            Body::Submit { commit } => one(
                Some(Slot::Good),
                "-- ",
                &format!("offered {commit} for review"),
            ),
            Body::Merged { into, commit } => one(
                Some(Slot::Good),
                "-- ",
                &format!("merged into {into} as {commit}"),
            ),
            Body::Raw { driver, data } => one(
                Some(Slot::Dim),
                "-- ",
                &format!("{driver}: {}", inline(data)),
            ),
            Body::Unknown(fields) => {
                let text = inline(&Value::Object(fields.clone()));
                one(Some(Slot::Dim), "-- ", &format!("{}: {text}", body.kind()))
            }
        }
    }

    fn tool_call(&self, name: &str, input: &Value) -> Vec<Line> {
        let arguments = arguments(input);
        if self.full {
            let mut lines = one(Some(Slot::Tool), "* ", name);
            lines.extend(block(None, "    ", &arguments));
            return lines;
        }
        let name = sanitize::one_line(name).to_text().into_owned();
        let arguments = sanitize::one_line(&arguments)
            .max_width(INPUT_CELLS)
            .to_string();
        vec![(Some(Slot::Tool), format!("* {name} {arguments}"))]
    }

    fn tool_result(&self, ok: bool, output: &str) -> Vec<Line> {
        let text = output.trim_end();
        let mut lines: Vec<Line> = if self.full {
            block(None, "    ", text)
        } else {
            text.lines()
                .take(OUTPUT_LINES)
                .map(|line| {
                    let cut = sanitize::one_line(line).max_width(OUTPUT_CELLS);
                    (Some(Slot::Dim), format!("    {cut}"))
                })
                .collect()
        };
        let left = text.lines().count().saturating_sub(lines.len());
        if left > 0 && !self.full {
            let words = human::count(left as u64, "more line");
            lines.push((Some(Slot::Dim), format!("    … {words}")));
        }
        if !ok {
            lines.push((Some(Slot::Bad), "    failed".to_owned()));
        }
        if lines.is_empty() || text.is_empty() && ok {
            lines = vec![(Some(Slot::Dim), "    ok".to_owned())];
        }
        lines
    }
}

/// Returns whether an event is shown without `--full`.
pub fn is_worth_showing(body: &Body) -> bool {
    !matches!(
        body,
        Body::Set { .. }
            | Body::Vendor { .. }
            | Body::Usage { .. }
            | Body::Snapshot { .. }
            | Body::Raw { .. }
    )
}

fn line(slot: Option<Slot>, mark: &str, text: &str) -> Line {
    (slot, format!("{mark}{}", sanitize::one_line(text)))
}

fn one(slot: Option<Slot>, mark: &str, text: &str) -> Vec<Line> {
    vec![line(slot, mark, text)]
}

/// Returns the lines of a text, each with a mark before it. An empty text yields one empty line.
fn block(slot: Option<Slot>, mark: &str, text: &str) -> Vec<Line> {
    let safe = sanitize::block(text).to_text();
    let mut lines: Vec<Line> = safe
        .trim_end()
        .lines()
        .map(|line| (slot, format!("{mark}{line}")))
        .collect();
    if lines.is_empty() {
        lines.push((slot, mark.to_owned()));
    }
    lines
}

fn plan(entries: &[PlanEntry]) -> Vec<Line> {
    let done = entries
        .iter()
        .filter(|entry| entry.status == StepStatus::Completed)
        .count();
    let head = format!("plan {done}/{}", entries.len());
    let mut lines = one(Some(Slot::Running), "= ", &head);
    lines.extend(entries.iter().map(|entry| match entry.status {
        StepStatus::Completed => line(Some(Slot::Dim), "    [x] ", &entry.text),
        StepStatus::InProgress => line(Some(Slot::Running), "    [>] ", &entry.text),
        _ => line(None, "    [ ] ", &entry.text),
    }));
    lines
}

fn status(to: State, reason: &str, exit: Option<&Exit>) -> Vec<Line> {
    let reason = match exit {
        Some(exit) if reason.is_empty() => exit.reason.as_str(),
        _ => reason,
    };
    let ended = match exit {
        Some(Exit {
            code: Some(code @ 1..),
            ..
        }) => format!(" (exit {code})"),
        Some(Exit {
            signal: Some(signal),
            ..
        }) => format!(" (signal {signal})"),
        _ => String::new(),
    };
    let text = match reason {
        // Older versions recorded the state as its own reason.
        reason if reason.is_empty() || reason == to.as_str() => format!("{to}{ended}"),
        reason => format!("{to}: {reason}{ended}"),
    };
    one(Some(Slot::of_state(to)), "-- ", &text)
}

/// Returns tokens and cost in a few words.
pub fn used(usage: &Usage) -> String {
    let mut words = Vec::new();
    if let Some(tokens) = usage.input_tokens {
        words.push(format!("{} tokens in", human::compact(tokens)));
    }
    if let Some(tokens) = usage.output_tokens {
        words.push(format!("{} tokens out", human::compact(tokens)));
    }
    if let Some(cost) = usage.cost_usd {
        words.push(format!("${cost:.2}"));
    }
    words.join(", ")
}

/// Returns a tool's main argument, or else all of its arguments.
fn arguments(input: &Value) -> String {
    const TELLING: [&str; 9] = [
        "command",
        "file_path",
        "path",
        "filePath",
        "pattern",
        "query",
        "url",
        "title",
        "description",
    ];
    let Value::Object(fields) = input else {
        return inline(input);
    };
    let telling = TELLING.iter().find_map(|key| match fields.get(*key)? {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            Some(words?.join(" "))
        }
        _ => None,
    });
    telling.unwrap_or_else(|| {
        if fields.is_empty() {
            String::new()
        } else {
            inline(input)
        }
    })
}

fn inline(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
